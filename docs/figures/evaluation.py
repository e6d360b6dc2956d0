"""The table of docs/evaluation.md: bias, error and coverage of estimators of clicks.

`python docs/figures/evaluation.py [LOGS]` prints it, from so many simulated logs per world.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import saferank as sr
from saferank.clicks import Users, relevance
from saferank.errors import InputError
from saferank.estimators.rank_form import CLICK_ESTIMATORS, interpolation
from saferank.evaluation import evaluate_clicks
from saferank.policies import ProductionPolicy

SESSIONS = 5000
TRUST, POSITION = sr.clicks.trust_bias(), sr.clicks.position_bias()
WORLDS: dict[str, tuple[Users, sr.clicks.ClickModel, bool]] = {
    "position bias": (POSITION, POSITION, False),
    "trust bias": (TRUST, TRUST, False),
    "trust bias, taken for position bias": (TRUST, POSITION, False),
    "cascade": (sr.clicks.cascade(), POSITION, False),
    "fixed ranking, position bias": (POSITION, POSITION, True),
    "fixed ranking, trust bias": (TRUST, TRUST, True),
}
"""Who clicks, the click model that is taken, and whether production always shows the same."""
ESTIMATORS: dict[str, tuple[Any, str]] = {
    "ipm": (CLICK_ESTIMATORS["ipm"], "none"),
    "ipm, normalised": (CLICK_ESTIMATORS["ipm"], "normalised"),
    "ipm, control by rank": (CLICK_ESTIMATORS["ipm"], "by-rank"),
    "ipm-dr": (CLICK_ESTIMATORS["ipm-dr"], "none"),
    "interpol, window 1": (interpolation(1), "by-rank"),
    "cips": (CLICK_ESTIMATORS["cips"], "none"),
    "cdr": (CLICK_ESTIMATORS["cdr"], "none"),
    "rips": ("rips", "by-rank"),
    "cascade-dr": ("cascade-dr", "by-rank"),
}


def _log(
    items: sr.data.RankingData, production: Any, users: Users, seed: int, fixed: bool, folder: str
) -> Path:
    path = Path(folder) / "log.parquet"
    sr.clicks.simulate_rows(
        items, production, users, SESSIONS, seed, path, deterministic=fixed, highest_grade=4
    )
    return path


def rows(logs: int, folder: str) -> Iterator[str]:
    """One line per world and estimator."""
    items = sr.data.synthetic("small", queries=80, seed=2).train
    true = relevance(items.known_labels, 4)
    rng = np.random.default_rng(0)
    production = 1.5 * true + rng.normal(size=items.documents)
    new = production + 1.5 * true
    for world, (users, click_model, fixed) in WORLDS.items():
        options = {"deterministic": fixed, "judge": 0.0, "highest_grade": 4}
        many = sr.clicks.simulate(items, new, users, 2_000_000, 99, **options)
        truth = many.clicks.sum() / many.total
        shown = ProductionPolicy.sorted if fixed else ProductionPolicy.sampled
        policy = shown(production, items.offsets)
        found: dict[str, list[tuple[float, bool]]] = {name: [] for name in ESTIMATORS}
        refused = dict.fromkeys(ESTIMATORS, False)
        for seed in range(logs):
            log = _log(items, production, users, seed, fixed, folder)
            counts, _ = sr.logs.align(sr.count(log, judge=0), items)
            for name, (estimator, control) in ESTIMATORS.items():
                try:
                    result = evaluate_clicks(
                        new, items, counts, policy, estimator=estimator, control=control,
                        click_model=click_model, predictions=0.3 + 0.4 * true,
                        deployed="sorted" if fixed else "sampled", log=log,
                    )  # fmt: skip
                except InputError:
                    refused[name] = True
                    continue
                gap = result.interval("normal", of="new")
                found[name].append((gap.estimate, gap.lower <= truth <= gap.upper))
        for name, values in found.items():
            yield _row(world, name, values, refused[name], truth)


def _row(
    world: str, name: str, values: list[tuple[float, bool]], refused: bool, truth: float
) -> str:
    if refused:
        return f"| {world} | {name} | refused | | |"
    estimates, held = (np.array(column) for column in zip(*values, strict=True))
    bias, error = estimates.mean() / truth - 1, np.sqrt(np.mean((estimates / truth - 1) ** 2))
    return f"| {world} | {name} | {bias:+.1%} | {error:.1%} | {held.mean():.0%} |"


if __name__ == "__main__":
    print("| world | estimator | bias | error (RMSE) | 95 % interval holds |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as place:
        for line in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 100, place):
            print(line, flush=True)
