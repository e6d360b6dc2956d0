"""One training of PRPO, regression and imitation included: its processor time and its NDCG.

`python -m benchmarks.one_training [SEED]` prints one JSON line, with the package that `PYTHONPATH`
names: with that of an older checkout it can be set beside this one's.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

QUERIES, LENGTH, WIDTH = 900, 41, 46
SESSIONS = 10**5


def _labelled(queries: int, seed: int) -> Any:
    """Lists of documents with labels that depend on their features."""
    from saferank.data import RankingData

    rng = np.random.default_rng(seed)
    features = rng.normal(size=(LENGTH * queries, WIDTH)).astype(np.float32)
    taste = np.random.default_rng(0).normal(size=(2, WIDTH)) / np.sqrt(WIDTH)
    relevance = features @ taste[0] + np.abs(features @ taste[1])
    relevance = relevance + 0.5 * rng.normal(size=len(features))
    labels = np.searchsorted(np.quantile(relevance, [0.6, 0.8, 0.9, 0.96]), relevance)
    offsets = LENGTH * np.arange(queries + 1)
    return RankingData(features, offsets, labels.astype(np.float32))


def one_training(seed: int = 0) -> dict[str, Any]:
    """Its processor time, steps after regression and imitation, value, and NDCG of new queries."""
    import saferank as sr

    users, data, test = (
        sr.clicks.trust_bias(),
        _labelled(QUERIES, seed),
        _labelled(300, 1000 + seed),
    )
    shown = data.features[:, :8].sum(axis=1).astype(np.float64) / 4
    counts = sr.clicks.simulate(
        data, shown, users, sessions=SESSIONS, seed=seed, judge=0, progress=False
    )
    given = {"production": shown, "production_kind": "sampled", "seed": seed, "method": "prpo"}
    few = sr.learning.Settings(steps=2)
    sr.learn(data, counts, users, settings=few, **given)  # compiled by now
    start = time.process_time()
    ranker = sr.learn(data, counts, users, **given)
    processor = time.process_time() - start
    ndcg = sr.plackett_luce.expected_ndcg(ranker.scores(test), test.known_labels, test.offsets, 5)
    history = ranker.provenance.history
    return {
        "processor": processor,
        "queries": round(0.85 * QUERIES),
        "steps": history["steps"][-1],
        "value": max(history["values"]),
        "ndcg": sr.metrics.mean(ndcg),
    }


if __name__ == "__main__":
    print(json.dumps(one_training(int(sys.argv[1]) if len(sys.argv) > 1 else 0)))
