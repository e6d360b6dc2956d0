"""The frontier of docs/fairness.md: `python -m docs.figures.fairness [--seeds 5]`.

Rankers are learned from labels to a large utility less a multiple of the pairwise disparity, by the
exact gradient and as published for PL-Rank: exposures, and with them the slope of the disparity,
from sampled rankings, and PL-Rank's gradient. Both are measured exactly, on test queries, and
compared seed by seed at equal NDCG. Points are kept as they come (`--points`); a run that was
stopped goes on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.seeds import derive
from saferank.data import Collection, load, synthetic
from saferank.evaluation.fair_exposure import document_measures
from saferank.learning import Recipe, Settings, learn
from saferank.metrics import dcg_weights
from saferank.objectives import Context, Objective
from saferank.objectives.fairness import Units, disparity, ideal_exposure
from saferank.objectives.goals import QueryBlock, RewardRisk, Risk, RiskPenalised, ValueGradient
from saferank.objectives.in_exposures import Queries
from saferank.objectives.objective_table import OBJECTIVES
from saferank.plackett_luce import GRADIENTS, expected_ndcg, exposure, sample

HERE = Path(__file__).parent
PRICES = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0)
EXACT, PUBLISHED = "exact", "PL-Rank, 100 samples"
WEIGHTS = dcg_weights(5)


@dataclass(frozen=True)
class PublishedGoal(RiskPenalised):
    """Utility less a multiple of the disparity, with exposures and gradient from samples."""

    given: Queries
    price: float
    samples: int

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of some queries."""
        judged = self.value_and_gradient(scores, place, None)
        return RewardRisk(judged.reward, judged.risk)

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        del risk
        seed = derive(self.given.seed, place.queries.tobytes().hex(), scores.tobytes().hex())
        drawn = sample(scores, WEIGHTS.size, self.samples, seed, place.offsets)
        omega = np.zeros(scores.size)
        np.add.at(omega, drawn[drawn >= 0], np.broadcast_to(WEIGHTS, drawn.shape)[drawn >= 0])
        omega /= self.samples
        gain = self.given.terms.gain[place.positions]
        ideal = ideal_exposure(gain, WEIGHTS, place.offsets)
        units = Units(gain, np.ones_like(gain), ideal, place.offsets)
        fair, share = disparity(omega, units), self.given.share[place.queries]
        slope = flat.repeat_per_document(share, place.offsets) * (gain - self.price * fair.slope)
        gradient = GRADIENTS["pl-rank"](
            scores, WEIGHTS, place.offsets, slope, samples=self.samples, seed=seed
        )
        worth = flat.query_sums(omega * gain, place.offsets) - self.price * fair.value
        return ValueGradient(share * worth, np.zeros(share.size), gradient)


def published(price: float, samples: int) -> Any:
    """The published objective, as a part of a recipe."""

    def build(context: Context) -> Objective:
        base = OBJECTIVES["utility"].build(context)

        def goal(_: Objective, queries: Queries) -> PublishedGoal:
            return PublishedGoal(len(queries), queries, price, samples)

        return Objective(base.reward, goal=goal)

    return build


Point = dict[str, Any]


def recipe_of(way: str, price: float, settings: Settings) -> Recipe:
    """Labels to a ranker, at a price of the disparity."""
    shared: dict[str, Any] = {"weights": "dcg", "scorer": "mlp", "settings": settings}
    if way == EXACT:
        return Recipe("labels", "utility", fairness="disparity", fairness_weight=price, **shared)
    return Recipe("labels", published(price, 100), **shared)


def measure(world: Collection, recipe: Recipe, seed: int) -> tuple[float, float]:
    """NDCG@5 and disparity of what is learned, on test queries."""
    test = world.test
    ranker = learn(world.train, method=recipe, seed=seed, validation=(world.validation, None))
    scores = ranker.scores(test)
    merit = test.known_labels.astype(np.float64) / world.highest_grade
    omega = exposure(scores, WEIGHTS, test.offsets)
    shares = np.full(test.queries, 1 / test.queries)
    unfair = document_measures(omega, merit, WEIGHTS, test, shares)[0]
    ndcg = float(np.nanmean(expected_ndcg(scores, test.known_labels, test.offsets, 5)))
    return ndcg, float(unfair)


def run(names: list[str], seeds: int, steps: int, kept: Path) -> list[Point]:
    """Points of every collection, seed, way and price: what has none yet is learned."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.is_file() else []
    points = [json.loads(line) for line in lines]
    known = {(p["data"], p["seed"], p["way"], p["price"]) for p in points}
    settings = Settings(steps=steps, hidden=(32,), learning_rate=0.01)
    for name in names:
        world = synthetic("small", seed=0) if name == "synthetic:small" else load(name)
        data = "/".join(Path(name).parts[-2:])
        for seed, price, way in product(range(seeds), PRICES, (EXACT, PUBLISHED)):
            if (data, seed, way, price) in known:
                continue
            ndcg, unfair = measure(world, recipe_of(way, price, settings), seed)
            points.append({"data": data, "seed": seed, "way": way, "price": price,
                           "ndcg": ndcg, "disparity": unfair})  # fmt: skip
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(points[-1]) + "\n")
    return points


def least_disparity(points: list[Point], level: float) -> float:
    """The least disparity at an NDCG of at least `level`, mixing two of the rankers if need be.

    A mixture has the mixed NDCG, and at most the mixed disparity, which is convex in exposures.
    """
    above = [(p["ndcg"], p["disparity"]) for p in points if p["ndcg"] >= level]
    below = [(p["ndcg"], p["disparity"]) for p in points if p["ndcg"] < level]
    mixed = [
        low[1] + (level - low[0]) / (high[0] - low[0]) * (high[1] - low[1])
        for high, low in product(above, below)
    ]
    return min([disparity for _, disparity in above] + mixed)


def compare(points: list[Point]) -> None:
    """Print how much less disparity the exact gradient has at equal NDCG: mean, standard error."""
    for data in dict.fromkeys(p["data"] for p in points):
        own = [p for p in points if p["data"] == data]
        seeds = sorted({p["seed"] for p in own})
        ways = {
            (seed, way): [p for p in own if (p["seed"], p["way"]) == (seed, way)]
            for seed, way in product(seeds, (EXACT, PUBLISHED))
        }
        low = max(min(p["ndcg"] for p in some) for some in ways.values())
        high = min(max(p["ndcg"] for p in some) for some in ways.values())
        for level in np.linspace(low, high, 5):
            least = {key: least_disparity(some, level) for key, some in ways.items()}
            shares = [least[seed, EXACT] / least[seed, PUBLISHED] - 1 for seed in seeds]
            print(f"| {data} | NDCG {level:.3f} | {np.mean(shares):+.1%} ± {_error(shares):.1%} |")


def _error(values: list[float]) -> float:
    """Standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def main() -> None:
    """Learn, compare, and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--collections", nargs="+", default=["synthetic:small", "MQ2008/Fold1"])
    parser.add_argument("--points", type=Path, default=Path("fairness-points.jsonl"))
    asked = parser.parse_args()
    points = run(asked.collections, asked.seeds, asked.steps, asked.points)
    draw(points)
    compare(points)


def draw(points: list[Point]) -> None:
    """Means over seeds as a table with standard errors, and the chart."""
    means = []
    for data, price, way in dict.fromkeys((p["data"], p["price"], p["way"]) for p in points):
        own = [p for p in points if (p["data"], p["price"], p["way"]) == (data, price, way)]
        row = {"data": data, "price": price, "way": way}
        for name in ("ndcg", "disparity"):
            values = [p[name] for p in own]
            mean, error = float(np.mean(values)), _error(values)
            row |= {name: mean, f"{name}_low": mean - error, f"{name}_high": mean + error}
        means.append(row)
        print(f"| {data} | {price:g} | {way} | {row['ndcg']:.3f} ± {_spread(row, 'ndcg'):.3f} "
              f"| {row['disparity']:.5f} ± {_spread(row, 'disparity'):.5f} |")  # fmt: skip
    chart = alt.Chart(alt.Data(values=means), width=330, height=260)
    x = alt.X("disparity:Q", title="pairwise disparity on test queries (lower is fairer)",
              scale=alt.Scale(zero=False, nice=True))  # fmt: skip
    y = alt.Y("ndcg:Q", title="NDCG@5", scale=alt.Scale(zero=False))
    colour = alt.Color("way:N", title="gradient")
    lines = chart.mark_line(point=True).encode(x=x, y=y, color=colour, order="price:Q")
    upright = chart.mark_rule().encode(x=x, y=alt.Y("ndcg_low:Q", title="NDCG@5"),
                                       y2="ndcg_high:Q", color=colour)  # fmt: skip
    level = chart.mark_rule().encode(x="disparity_low:Q", x2="disparity_high:Q", y=y, color=colour)
    drawn = alt.layer(lines, upright, level).facet(alt.Column("data:N", title=None))
    drawn.resolve_scale(x="independent", y="independent").configure_view(strokeOpacity=0).configure(
        background="white"
    ).save(HERE / "fairness-frontier.svg")


def _spread(row: Point, name: str) -> float:
    return float(row[f"{name}_high"] - row[name])


if __name__ == "__main__":
    main()
