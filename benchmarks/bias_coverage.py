"""How often the intervals that `saferank bias` prints hold the truth: by simulation.

`python -m benchmarks.bias_coverage` prints the table of docs/clicks.md; `--logs 20` is quicker.
The worlds look like a company's: 300 queries of very different traffic, 20 documents each, of which
production shows ten, sorted by a score with a little noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks import (
    ClickModel,
    FittedBias,
    fit_position_bias,
    fit_trust_bias,
    simulate,
    trust_bias,
)
from saferank.clicks.bias import canonical
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError

RANKS = 10
_ALPHA = [0.45, 0.33, 0.26, 0.21, 0.17, 0.145, 0.125, 0.11, 0.1, 0.09]
_BETA = [0.06, 0.03, 0.02, 0.015, 0.012, 0.01, 0.009, 0.008, 0.007, 0.006]
MODELS = {
    "shop, trust": ClickModel(np.array(_ALPHA), np.array(_BETA)),
    "shop, position": ClickModel(np.array(_ALPHA), np.zeros(RANKS)),
    "the paper's": trust_bias(RANKS),
}
FITS = {"trust": fit_trust_bias, "position": fit_position_bias}


@dataclass(frozen=True)
class Setting:
    """A world, its users, how many sessions, and how a click model is fitted to them."""

    users: str
    kind: str
    sessions: int
    noise: float = 0.1
    """Of production's score, in units of the score's own spread."""
    queries: int = 300
    method: str = "harvest"
    features: bool = False


SETTINGS = [
    Setting("shop, position", "position", 10_000),
    Setting("shop, position", "position", 100_000, noise=0.03),
    Setting("shop, position", "position", 100_000),
    Setting("shop, position", "position", 100_000, queries=20),
    Setting("shop, trust", "trust", 30_000),
    Setting("shop, trust", "trust", 100_000, noise=0.03),
    Setting("shop, trust", "trust", 100_000),
    Setting("shop, trust", "trust", 1_000_000),
    Setting("shop, trust", "trust", 100_000, queries=20),
    Setting("the paper's", "trust", 100_000),
    Setting("shop, trust", "trust", 1_000_000, method="em"),
    Setting("shop, trust", "trust", 100_000, method="em", features=True),
]


class World:
    """Queries whose relevance is a logistic function of features; the first are asked most."""

    def __init__(self, queries: int, noise: float, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        size = 20 * queries
        x = rng.normal(size=(size, 2))
        logit = -2 + 1.2 * x[:, 0] + 0.5 * x[:, 1]
        labels = 1 / (1 + np.exp(-logit))
        self.data = RankingData(x, np.arange(queries + 1) * 20, labels=labels)
        self.scores = (0.7 * logit + 0.8 * rng.normal(size=size)) / noise
        self.traffic = 1 / np.arange(1.0, queries + 1)

    def log(self, users: ClickModel, sessions: int, seed: int) -> Counts:
        """Counts of one log."""
        return simulate(
            self.data, self.scores, users, sessions, seed,
            weights=self.traffic, highest_grade=1, judge=0, progress=False,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Coverage:
    """Of many logs: how many were refused, and how often each rank's intervals held the truth."""

    logs: int
    refused: int
    misfits: int
    slope: Floats
    intercept: Floats
    level: Floats
    width: float
    """Median of the upper over the lower end of the slopes' intervals."""


def coverage(setting: Setting, logs: int) -> Coverage:
    """Simulate logs, fit each, and look where the truth lies."""
    world, users = World(setting.queries, setting.noise), MODELS[setting.users]
    truth = canonical(users)
    held: list[list[Floats]] = []
    widths, misfits = [], 0
    for fit in _fits(world, setting, logs):
        sure = fit.uncertainty
        true = (truth.slope, truth.intercept, truth.level(fit.level_at))
        held.append(
            [
                (low <= value) & (value <= high)
                for value, (low, high) in zip(
                    true, (sure.slope.T, sure.intercept.T, sure.level.T), strict=True
                )
            ]
        )
        widths.append(np.median(sure.slope[1:, 1] / sure.slope[1:, 0]))
        misfits += fit.misfit.found
    share = np.mean(held, axis=0)[:, 1:] if held else np.full((3, RANKS - 1), np.nan)
    width = float(np.median(widths)) if widths else np.nan
    return Coverage(logs, logs - len(held), misfits, *share, width)


def _fits(world: World, setting: Setting, logs: int) -> Iterator[FittedBias]:
    features = world.data.features if setting.features else None
    for seed in range(logs):
        counts = world.log(MODELS[setting.users], setting.sessions, seed)
        try:
            yield FITS[setting.kind](
                counts, method=setting.method, features=features, seed=seed, progress=False
            )  # type: ignore[call-arg]
        except InputError:
            continue


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--only", type=int, nargs="*", help="rows of the table, from 1")
    chosen = parser.parse_args()
    print(
        "| users | fit | method | queries | sessions | noise | refused | misfit | slope | ranks "
        "| click rate | ranks | intercept | width |"
    )
    print("| --- " * 14 + "|")
    for row, setting in enumerate(SETTINGS, start=1):
        if chosen.only and row not in chosen.only:
            continue
        found = coverage(setting, chosen.logs)
        method = setting.method + (", features" if setting.features else "")
        parts = [
            setting.users, setting.kind, method, setting.queries, f"{setting.sessions:,}",
            setting.noise, f"{found.refused}", f"{found.misfits}",
            f"{found.slope.mean():.1%}", f"{found.slope.min():.0%}-{found.slope.max():.0%}",
            f"{found.level.mean():.1%}", f"{found.level.min():.0%}-{found.level.max():.0%}",
            f"{found.intercept.mean():.1%}" if setting.kind == "trust" else "",
            f"x{found.width:.2f}",
        ]  # fmt: skip
        print("| " + " | ".join(map(str, parts)) + " |", flush=True)


if __name__ == "__main__":
    main()
