"""The whole pipeline on an embedded collection: production, clicks, learning, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.charts import save_chart
from saferank._core.progress import track
from saferank.clicks import ClickModel, relevance, simulate, trust_bias
from saferank.counts import Counts
from saferank.data import Collection, RankingData, synthetic
from saferank.learning import Ranker, Settings, learn
from saferank.metrics import mean, ndcg
from saferank.plackett_luce import expected_ndcg, exposure, rank_probabilities
from saferank.report import write_page
from saferank.safety import Assessment, assess
from saferank.safety.assessment import TrueChange

K = 5
LEARNED = ("ips", "dr", "safe-dr", "prpo")
RANKER = "prpo"
"""The ranker that is kept, and its folder."""
CHARTS = ("rankers.html", "rankers.png")


@dataclass(frozen=True)
class Line:
    """How one ranker does on the test queries."""

    ranker: str
    expected: float
    """NDCG@5 of the stochastic policy, exact."""
    sorted: float
    """NDCG@5 of the ranking sorted by score."""
    kept: float
    """True utility as a share of production's."""
    estimated: float | None = None
    """Change of clicks on the training queries, as a share of production's: by the sessions to
    judge by, with `lower` and `upper` of its interval and the bound `at_least`; and in `truth`."""
    lower: float | None = None
    upper: float | None = None
    at_least: float | None = None
    truth: float | None = None


@dataclass(frozen=True)
class Demo:
    """What the demo made."""

    collection: Collection
    sessions: int
    lines: list[Line]
    verdict: str
    page: Path

    def chart(self) -> Any:
        """NDCG@5 of each ranker, beside production's."""
        import altair as alt

        rows = [
            {"ranker": line.ranker, "NDCG@5": value, "policy": policy}
            for line in self.lines
            for policy, value in (("expected", line.expected), ("sorted", line.sorted))
        ]
        order = [line.ranker for line in self.lines]
        base = alt.Chart({"values": rows})
        points = base.mark_point(filled=True, size=110).encode(
            x=alt.X("NDCG@5:Q", scale=alt.Scale(zero=False)),
            y=alt.Y("ranker:N", sort=order, title=None),
            color=alt.Color("policy:N", scale=alt.Scale(range=["#0072B2", "#D55E00"])),
            shape="policy:N",
            tooltip=["ranker:N", "policy:N", alt.Tooltip("NDCG@5:Q", format=".3f")],
        )
        line = base.mark_rule(strokeDash=[4, 3], color="#777").encode(x="NDCG@5:Q")
        production = line.transform_filter(
            "datum.ranker == 'production' && datum.policy == 'expected'"
        )
        title = f"After {self.sessions:,} sessions; dashed: production"
        return (production + points).properties(width=420, height=220, title=title)


def run_demo(folder: Path, *, queries: int = 400, sessions: int = 100_000, seed: int = 0) -> Demo:
    """Make a collection, a production ranker and clicks; learn from them; draw what came of it."""
    collection = synthetic("small", queries=queries, seed=seed)
    train, validation_part = collection.train, collection.validation
    few = train.subset(np.arange(max(2, round(0.03 * train.queries))))
    quick = Settings(steps=1500, patience=6)
    production = learn(few, method="skyline", seed=seed, settings=quick)
    click_model = trust_bias(K)
    counts = _clicks(train, production, click_model, sessions, seed)
    held_counts = _clicks(
        validation_part, production, click_model, max(1, round(0.15 * sessions)), seed
    )
    rankers = {"production": production}
    for method in track((*LEARNED, "skyline"), "Learning", total=len(LEARNED) + 1):
        evidence = (None, None) if method == "skyline" else (counts, click_model)
        rankers[method] = learn(
            train,
            *evidence,
            method=method,
            production=production,
            validation=(validation_part, held_counts),
            seed=seed,
            settings=quick,
        )
    shown = production.scores(collection.test)
    judged = {
        name: _judged(rankers[name], collection, production, counts, click_model)
        for name in LEARNED
    }
    lines = [
        _line(name, ranker, collection, shown, judged.get(name)) for name, ranker in rankers.items()
    ]
    chosen, assessment = rankers[RANKER], judged[RANKER]
    chosen.save(folder / RANKER)
    assessment.save(folder / RANKER)
    page = write_page(folder / RANKER / "report.html", assessment, chosen.provenance, RANKER)
    demo = Demo(collection, sessions, lines, assessment.decision.sentence, page)
    for name in CHARTS:
        save_chart(demo.chart(), folder / name)
    return demo


def _clicks(
    data: RankingData, production: Ranker, click_model: ClickModel, sessions: int, seed: int
) -> Counts:
    return simulate(data, production.scores(data), click_model, sessions=sessions, seed=seed + 1)


def _judged(
    ranker: Ranker,
    collection: Collection,
    production: Ranker,
    counts: Counts,
    click_model: ClickModel,
) -> Assessment:
    """What the sessions to judge by say of a ranker, with the truth beside it."""
    train = collection.train
    assessment = assess(
        ranker, train, production=production, counts=counts, click_model=click_model
    )
    chances = click_model.probability(relevance(train.known_labels, collection.highest_grade))
    after, before = (
        float((rank_probabilities(policy.scores(train), K, train.offsets) * chances).sum())
        / train.queries
        for policy in (ranker, production)
    )
    return replace(assessment, truth=TrueChange(after - before, before))


def _line(
    name: str, ranker: Ranker, collection: Collection, shown: Any, assessment: Assessment | None
) -> Line:
    test = collection.test
    scores = ranker.scores(test)
    about = (test.known_labels, test.offsets, K)
    kept = _utility(scores, collection) / _utility(shown, collection)
    line = Line(name, mean(expected_ndcg(scores, *about)), mean(ndcg(scores, *about)), kept)
    if assessment is None or assessment.clicks is None or assessment.truth is None:
        return line
    clicks = assessment.clicks
    gap = clicks.difference
    return replace(
        line,
        estimated=clicks.share(gap.estimate),
        lower=clicks.share(gap.lower),
        upper=clicks.share(gap.upper),
        at_least=clicks.share(clicks.bound.lower),
        truth=assessment.truth.share,
    )


def _utility(scores: Any, collection: Collection) -> float:
    test: RankingData = collection.test
    omega = exposure(scores, trust_bias(K).exposure_weights, test.offsets)
    return float(omega @ relevance(test.known_labels, collection.highest_grade))
