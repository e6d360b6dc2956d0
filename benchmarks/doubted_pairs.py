"""The curve of doubt on many pairs: processor time per pair, and the shares that are certain.

`python -m benchmarks.doubted_pairs 200000 1000000` simulates lists of 100 documents (`many_pairs`)
with four sessions each to judge by, and a ranker that is better than production. Where the
multipliers are chosen by a sample, `--all` chooses them by all documents, for comparison.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.many_pairs import DOCUMENTS, _queries
from saferank.clicks import simulate, trust_bias
from saferank.estimators import Evidence, by_policy
from saferank.evaluation import Contrast, click_weights
from saferank.evaluation.doubt import DoubtCurve, doubt_curve
from saferank.evaluation.doubted_loss import DoubtedLoss
from saferank.plackett_luce import exposure
from saferank.policies import ProductionPolicy

SESSIONS = 4
"""Of each query."""


def contrast(pairs: int, seed: int = 0) -> Contrast:
    """A better ranker than production, and sessions to judge by."""
    queries = np.arange(pairs // DOCUMENTS)
    data, _ = _queries(queries, seed)
    assert data.production is not None
    model, labels = trust_bias(), data.known_labels
    counts = simulate(
        data, data.production, model, SESSIONS * queries.size, seed, highest_grade=4, judge=0,
        progress=False,
    )  # fmt: skip
    policy = ProductionPolicy.sampled(data.production, data.offsets)
    weights = model.exposure_weights
    noise = np.random.default_rng(seed).normal(size=data.documents)
    evidence = Evidence(
        counts, model, by_policy(policy, model, weights),
        np.clip(labels / 4 + 0.15 * noise, 0, 1), shown=policy.rank_probabilities(model.ranks),
    )  # fmt: skip
    better = exposure(1.5 * labels + 0.3 * data.production, weights, data.offsets)
    return Contrast(better, policy.exposure(weights), evidence)


def measure(pairs: int) -> tuple[DoubtCurve, float]:
    """The curve, and microseconds of processor time per pair."""
    loss = DoubtedLoss(contrast(pairs))
    start = time.process_time()
    curve = doubt_curve(loss)
    return curve, (time.process_time() - start) / pairs * 1e6


def main() -> None:
    """Measure each number of pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=int, nargs="+")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    measure(1000)  # compiled before it is measured
    if given.all:
        click_weights.FEW = max(given.pairs)
    for pairs in given.pairs:
        curve, microseconds = measure(pairs)
        shares = " ".join(f"{share:.4f}" for share in curve.shares)
        print(f"{pairs:>10,} pairs: {microseconds:6.1f} us of processor time per pair; {shares}")


if __name__ == "__main__":
    main()
