"""The frontier of docs/fairness.md: `python -m docs.figures.fairness [--seeds 3]`.

Rankers are learned from labels to a large utility less a multiple of the pairwise disparity, by the
exact gradient and as published for PL-Rank: exposures, and with them the slope of the disparity,
from sampled rankings, and PL-Rank's gradient. Both are measured exactly, on test queries.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
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
PRICES = (0.0, 3.0, 30.0, 300.0)
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


def frontier(name: str, world: Collection, seeds: int, steps: int) -> list[dict[str, Any]]:
    """NDCG@5 and disparity on test queries, of both ways at every price."""
    settings = Settings(steps=steps, hidden=(32,), learning_rate=0.01)
    shared: dict[str, Any] = {"weights": "dcg", "scorer": "mlp", "settings": settings}
    test = world.test
    merit = test.known_labels.astype(np.float64) / world.highest_grade
    points = []
    for price in PRICES:
        ways = {
            "exact": Recipe(
                "labels", "utility", fairness="disparity", fairness_weight=price, **shared
            ),
            "PL-Rank, 100 samples": Recipe("labels", published(price, 100), **shared),
        }
        for way, recipe in ways.items():
            for seed in range(seeds):
                ranker = learn(
                    world.train, method=recipe, seed=seed, validation=(world.validation, None)
                )
                scores = ranker.scores(test)
                omega = exposure(scores, WEIGHTS, test.offsets)
                shares = np.full(test.queries, 1 / test.queries)
                unfair = document_measures(omega, merit, WEIGHTS, test, shares)[0]
                ndcg = float(np.nanmean(expected_ndcg(scores, test.known_labels, test.offsets, 5)))
                points.append({"data": name, "way": way, "price": price, "seed": seed,
                               "ndcg": ndcg, "disparity": unfair})  # fmt: skip
                print(points[-1], flush=True)
    return points


def main() -> None:
    """Learn, and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--collections", nargs="+", default=["synthetic:small", "MQ2008/Fold1"])
    asked = parser.parse_args()
    points = []
    for name in asked.collections:
        world = synthetic("small", seed=0) if name == "synthetic:small" else load(name)
        points += frontier("/".join(Path(name).parts[-2:]), world, asked.seeds, asked.steps)
    draw(points)


def draw(points: list[dict[str, Any]]) -> None:
    """Means over seeds as a table, and the chart."""
    means = []
    for key in dict.fromkeys((p["data"], p["price"], p["way"]) for p in points):
        own = [p for p in points if (p["data"], p["price"], p["way"]) == key]
        ndcg, unfair = (float(np.mean([p[name] for p in own])) for name in ("ndcg", "disparity"))
        means.append(dict(zip(("data", "price", "way"), key, strict=True))
                     | {"ndcg": ndcg, "disparity": unfair})  # fmt: skip
        print(f"| {key[0]} | {key[1]:g} | {key[2]} | {ndcg:.4f} | {unfair:.6f} |")
    chart = alt.Chart(alt.Data(values=means), width=330, height=260)
    lines = chart.mark_line(point=True).encode(
        x=alt.X("disparity:Q", title="pairwise disparity on test queries (lower is fairer)",
                scale=alt.Scale(zero=False, nice=True)),
        y=alt.Y("ndcg:Q", title="NDCG@5", scale=alt.Scale(zero=False)),
        color=alt.Color("way:N", title="gradient"),
        order=alt.Order("price:Q"),
    )  # fmt: skip
    drawn = lines.facet(alt.Column("data:N", title=None)).resolve_scale(x="independent",
                                                                       y="independent")  # fmt: skip
    drawn.configure_view(strokeOpacity=0).configure(background="white").save(
        HERE / "fairness-frontier.svg"
    )


if __name__ == "__main__":
    main()
