"""How often the bound graded by doubt fails when the true click model is at a corner of the doubt.

`python -m benchmarks.corners [LOGS] [SEED]`: for each of three doubts and each method, LOGS logs
of 3,000 sessions (1,000 unless told), whose true click model goes through the 64 corners of the
set (three alphas, three betas, each at its lowest or highest) in turn; the bound is that of a loss
that is exactly 0, so it fails where it is below 0. Logs are the same for every method.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

import saferank as sr
from saferank.clicks import ClickModel, simulate
from saferank.data import RankingData
from saferank.estimators import Evidence, by_policy
from saferank.evaluation import Contrast
from saferank.evaluation.bias_set import BiasSet
from saferank.evaluation.doubted_loss import DoubtedLoss
from saferank.policies import ProductionPolicy

FITTED = ClickModel([0.5, 0.4, 0.3], [0.25, 0.15, 0.1])
DOUBTS = (0.0, 0.1, 0.2, 0.5)
METHODS = ("normal", "clustered", "bernstein")
QUERIES, DOCUMENTS, SESSIONS = 30, 5, 3000


def corners(doubt: float) -> list[ClickModel]:
    """Every click model whose numbers are all at their lowest or highest, as far as they can be."""
    if doubt == 0:
        return [FITTED]
    bias = BiasSet.around(FITTED, doubt)
    ranks = FITTED.ranks
    models = []
    for choice in itertools.product((False, True), repeat=2 * ranks):
        alpha = np.where(choice[:ranks], bias.alpha_high, bias.alpha_low)
        beta = np.where(choice[ranks:], bias.beta_high, bias.beta_low)
        if (alpha + beta <= 1).all():
            models.append(ClickModel(alpha, beta))
    return models


def bounds(doubt: float, logs: int, seed: int = 0) -> Iterator[tuple[int, dict[str, float]]]:
    """Of each log which corner was true, and each method's bound of a loss that is 0."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, QUERIES * DOCUMENTS).astype(float)
    data = RankingData(
        rng.normal(size=(labels.size, 2)), np.arange(QUERIES + 1) * DOCUMENTS, labels=labels
    )
    scores, w = rng.normal(size=labels.size), FITTED.exposure_weights
    policy = ProductionPolicy.sampled(scores, data.offsets)
    omega0 = policy.exposure(w)
    omega = sr.plackett_luce.exposure(0.8 * labels + rng.normal(size=labels.size), w, data.offsets)
    predicted = np.clip(labels / 4 + 0.1 * rng.normal(size=labels.size), 0, 1)
    propensities, shown = by_policy(policy, FITTED, w), policy.rank_probabilities(FITTED.ranks)
    models = corners(doubt)
    for log in range(logs):
        counts = simulate(
            data, scores, models[log % len(models)], SESSIONS, 10_000 * (seed + 1) + log,
            highest_grade=4, judge=0, progress=False,
        )  # fmt: skip
        # utilities are averaged over the log's own traffic
        traffic = np.repeat(counts.sessions / counts.total, DOCUMENTS)
        kappa = (traffic @ (omega * labels)) / (traffic @ (omega0 * labels))
        evidence = Evidence(counts, FITTED, propensities, predicted, shown=shown)
        contrast = Contrast(omega, omega0, evidence)
        losses = {name: DoubtedLoss(contrast, method=name) for name in METHODS}
        yield (
            log % len(models),
            {
                name: loss.upper(kappa, loss.bias(doubt), loss.weights(kappa, doubt)[0])
                for name, loss in losses.items()
            },
        )


def failures(doubt: float, logs: int, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Of each method the share of logs in which it failed, over all corners and at the worst."""
    found: dict[str, list[tuple[int, bool]]] = {name: [] for name in METHODS}
    for corner, each in bounds(doubt, logs, seed):
        for name, bound in each.items():
            found[name].append((corner, bound < 0))
    result = {}
    for name, cases in found.items():
        by_corner = [
            np.mean([failed for _, failed in group])
            for _, group in itertools.groupby(sorted(cases), key=lambda case: case[0])
        ]
        result[name] = (float(np.mean([failed for _, failed in cases])), float(max(by_corner)))
    return result


def main(logs: int = 1000, seed: int = 1) -> None:
    """Print the table of docs/safety.md."""
    print("| doubt | corners | logs | " + " | ".join(METHODS) + " |")
    print("| --- " * (3 + len(METHODS)) + "|")
    for doubt in DOUBTS:
        found = failures(doubt, logs, seed)
        cells = (f"{100 * mean:.1f} % ({100 * worst:.0f} %)" for mean, worst in found.values())
        print(
            f"| {doubt:.0%} | {len(corners(doubt))} | {logs:,} | " + " | ".join(cells) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
