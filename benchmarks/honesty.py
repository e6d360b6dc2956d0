"""Do the numbers on the screen hold? Rankers learned and judged as the command line does it.

`python -m benchmarks.honesty RESULTS.jsonl [--worlds 200]` learns rankers in worlds whose truth is
known, judges each by sessions that taught it nothing and, to show what that buys, another one by
the sessions it was learned from, and prints how often intervals and bounds hold (the table of
docs/safety.md). A run that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks import relevance, simulate, trust_bias
from saferank.clicks.simulation.stand_in import stand_in_production
from saferank.counts import Counts
from saferank.data import Collection, RankingData, synthetic
from saferank.learning import Ranker, Settings, fit_relevance, learn
from saferank.plackett_luce import exposure
from saferank.safety import Assessment, Rule, assess

USERS = trust_bias()
SESSIONS = (300, 3000, 30_000)
METHODS: dict[str, dict[str, Any]] = {
    "dr": {"method": "dr"},
    "safe-dr": {"method": "safe-dr"},
    "prpo": {"method": "prpo"},
    "keep 0.9": {"keep": 0.9},
}
QUERIES = 100
SETTINGS = Settings(steps=100, learning_rate=0.01, min_validation_interval=25, patience=4)
SCORER = "linear"
UNSPLIT = 20
"""Worlds in which rankers are also judged by the sessions that they learned from."""


@dataclass(frozen=True)
class Outcome:
    """One ranker: what was said of it, and the truth on the queries of its log."""

    world: int
    sessions: int
    method: str
    split: bool
    estimate: float | None
    lower: float | None
    upper: float | None
    at_least: float | None
    truth: float
    production: float
    """Production's true utility."""
    ship: bool
    clicks: tuple[float, float, float] | None
    """Lower and upper end and bound of the change of clicks per session, which decides."""
    clicks_truth: float
    clicks_production: float


def outcomes(world: int, sessions: int, *, unsplit: bool = True) -> list[Outcome]:
    """Every method in one world, with sessions to judge by and (`unsplit`) without."""
    collection = synthetic("small", queries=QUERIES, seed=world)
    shown = stand_in_production(collection.train, world)
    counts = simulate(collection.train, shown, USERS, sessions, world)
    found = []
    for split in (True, False) if unsplit and world < UNSPLIT else (True,):
        log = counts if split else counts.part("all")
        rankers = _rankers(collection, shown, log, world)
        for name, ranker in rankers.items():
            found.append(_judge(world, name, ranker, collection, shown, log, split=split))
    return found


def _rankers(collection: Collection, shown: Floats, log: Counts, seed: int) -> dict[str, Ranker]:
    common: dict[str, Any] = {
        "production": shown,
        "seed": seed,
        "settings": SETTINGS,
        "scorer": SCORER,
    }
    behind = fit_relevance(collection.train, log, USERS, **common)
    return {
        name: learn(collection.train, log, USERS, predictor=behind, **common, **options)
        for name, options in METHODS.items()
    }


def _judge(
    world: int, name: str, ranker: Ranker, collection: Collection, shown: Floats, log: Counts,
    *, split: bool,
) -> Outcome:  # fmt: skip
    data, weights = collection.train, USERS.exposure_weights
    items = data if not ranker.adds_production else _with_scores(data, shown)
    found: Assessment = assess(
        ranker,
        items,
        production=shown,
        counts=log,
        click_model=USERS,
        rule=Rule(same_sessions=not split),
    )
    relevant = relevance(data.known_labels, collection.highest_grade)
    after, before = (
        float(exposure(scores, weights, data.offsets) @ relevant) / data.queries
        for scores in (ranker.scores(items), shown)
    )
    seen = [
        float(exposure(scores, USERS.alpha, data.offsets) @ relevant) / data.queries
        for scores in (ranker.scores(items), shown)
    ]
    trusted = float(USERS.beta.sum())  # every list of these worlds fills all ranks
    gap, bound, clicks = found.difference, found.bound, found.clicks
    return Outcome(
        world, log.total, name, split,
        None if gap is None else gap.estimate,
        None if gap is None else gap.lower,
        None if gap is None else gap.upper,
        None if bound is None else bound.lower,
        after - before, before, found.decision.ship,
        None if clicks is None
        else (clicks.difference.lower, clicks.difference.upper, clicks.bound.lower),
        seen[0] - seen[1], seen[1] + trusted,
    )  # fmt: skip


def _with_scores(data: RankingData, shown: Floats) -> RankingData:
    from dataclasses import replace

    return replace(data, production=shown)


def table(results: Iterable[Outcome]) -> list[str]:
    """How often intervals and bounds hold, by sessions, method and split."""
    rows = [
        "| sessions | method | judged by | told | interval holds | bound holds | of clicks: "
        "interval | bound | mean estimate | mean bound | mean truth | shipped | wrongly |",
        "|" + " --- |" * 13,
    ]
    everything = list(results)
    keys = sorted({(one.sessions, not one.split, one.method) for one in everything})
    for sessions, unsplit, method in keys:
        group = [
            one for one in everything
            if (one.sessions, not one.split, one.method) == (sessions, unsplit, method)
        ]  # fmt: skip
        told = [one for one in group if one.estimate is not None]
        if not told:
            rows.append(f"| {sessions:,} | {method} | - | 0 of {len(group)} |" + " |" * 9)
            continue
        inside = np.mean([one.lower <= one.truth <= one.upper for one in told])
        below = np.mean([one.at_least <= one.truth for one in told])
        shipped = np.mean([one.ship for one in group])
        clicks = [
            np.mean([one.clicks[0] <= one.clicks_truth <= one.clicks[1] for one in told]),
            np.mean([one.clicks[2] <= one.clicks_truth for one in told]),
        ]
        wrong = np.mean(
            [one.ship and one.clicks_truth < -0.01 * one.clicks_production for one in group]
        )
        means = [
            np.mean([getattr(one, n) for one in told]) for n in ("estimate", "at_least", "truth")
        ]
        judged = "the same sessions" if unsplit else "other sessions"
        shares = " | ".join(f"{share:.1%}" for share in (inside, below, *clicks))
        rows.append(
            f"| {sessions:,} | {method} | {judged} | {len(told)} of {len(group)} | {shares} | "
            f"{means[0]:+.3f} | {means[1]:+.3f} | {means[2]:+.3f} | {shipped:.0%} | {wrong:.1%} |"
        )
    return rows


def read(path: Path) -> list[Outcome]:
    """Results so far; a line that was cut off by a kill is left out."""
    found = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            found.append(Outcome(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return found


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    done = {(one.world, one.sessions) for one in read(given.results)}
    with given.results.open("a") as out:
        for world in range(given.first, given.first + given.worlds):
            for sessions in SESSIONS:
                if (world, sessions) in done:
                    continue
                for one in outcomes(world, sessions):
                    out.write(json.dumps(asdict(one)) + "\n")
                out.flush()
    print("\n".join(table(read(given.results))))


if __name__ == "__main__":
    main()
