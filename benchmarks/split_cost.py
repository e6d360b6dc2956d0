"""What setting sessions aside costs: NDCG@5 with 80 % of the sessions to learn from, and with all.

`python -m benchmarks.split_cost synthetic:small MQ2008/Fold1 ... [--seeds 5]` prints the table of
docs/safety.md.
"""

from __future__ import annotations

import argparse

import numpy as np

from saferank.clicks import simulate, trust_bias
from saferank.clicks.simulation.stand_in import stand_in_production
from saferank.data import Collection, load, synthetic
from saferank.learning import learn
from saferank.metrics import mean
from saferank.plackett_luce import expected_ndcg

USERS = trust_bias()
SESSIONS = (1000, 10_000, 100_000)
METHODS = ("dr", "prpo")


def _collection(name: str) -> Collection:
    word, _, preset = name.partition(":")
    return synthetic(preset, seed=0) if word == "synthetic" else load(name)


def _ndcg(collection: Collection, method: str, sessions: int, seed: int) -> tuple[float, float]:
    """With 80 % of the sessions, and with all of them."""
    train, test = collection.train, collection.test
    shown = stand_in_production(train, seed)
    counts = simulate(train, shown, USERS, sessions, seed, highest_grade=collection.highest_grade)
    values = []
    for log in (counts, counts.part("all")):
        ranker = learn(train, log, USERS, method=method, production=shown, seed=seed)
        labels = test.known_labels
        values.append(mean(expected_ndcg(ranker.scores(test), labels, test.offsets, 5)))
    return values[0], values[1]


def main() -> None:
    """Print a row per collection, method and number of sessions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    print("| collection | method | sessions | 80 % to learn from | all | difference |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in given.collections:
        collection = _collection(name)
        for method in METHODS:
            for sessions in SESSIONS:
                pairs = np.array(
                    [_ndcg(collection, method, sessions, seed) for seed in range(given.seeds)]
                )
                gap = pairs[:, 0] - pairs[:, 1]
                error = gap.std(ddof=1) / np.sqrt(gap.size)
                some, every = pairs.mean(axis=0)
                print(
                    f"| {name} | {method} | {sessions:,} | {some:.3f} | {every:.3f} | "
                    f"{gap.mean():+.3f} ± {error:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
