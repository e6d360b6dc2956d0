"""What stopping costs with few queries: NDCG@5 over seeds by hold-out and by cross-validation.

`python -m benchmarks.few_queries synthetic:small MQ2008/Fold1 [--seeds 10] [--method dr]` prints
the table of docs/methods.md: the collection is the same for all seeds, which choose the training
queries, their clicks, the hold-out and the start.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from saferank._core.seeds import generator
from saferank.clicks import simulate, trust_bias
from saferank.clicks.simulation.stand_in import stand_in_production
from saferank.data import Collection, load, synthetic
from saferank.learning import Settings, learn, stopping
from saferank.metrics import mean
from saferank.plackett_luce import expected_ndcg

USERS = trust_bias()
SIZES = (30, 60, 120)
SESSIONS = 50
"""Per query."""
SETTINGS = Settings(hidden=(32,))
RULES = {"hold-out": 0, "cross-validation": 10**9}
"""Up to how many queries folds are used."""


def _collection(name: str) -> Collection:
    word, _, preset = name.partition(":")
    return synthetic(preset, seed=0) if word == "synthetic" else load(name)


def _ndcg(
    collection: Collection, method: str, scorer: str, queries: int, seed: int, most: int
) -> tuple[float, float]:
    """NDCG@5 on the test queries, and seconds of processor time."""
    chosen = generator(seed, "few queries").permutation(collection.train.queries)[:queries]
    train, test = collection.train.subset(np.sort(chosen)), collection.test
    shown = stand_in_production(train, seed)
    counts = simulate(
        train, shown, USERS, SESSIONS * queries, seed, highest_grade=collection.highest_grade
    )
    stopping.FEW = most
    started = time.process_time()
    ranker = learn(
        train, counts, USERS, method=method, scorer=scorer, production=shown, seed=seed,
        settings=SETTINGS,
    )  # fmt: skip
    seconds = time.process_time() - started
    scores = ranker.scores(test)
    return mean(expected_ndcg(scores, test.known_labels, test.offsets, 5)), seconds


def main() -> None:
    """Print a row per collection, number of queries and rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--method", default="dr")
    parser.add_argument("--scorer", default="mlp")
    given = parser.parse_args()
    header = "| collection | queries | rule | mean | lowest | deviation | seconds | by seed |"
    print(header, "| --- | --- | --- | --- | --- | --- | --- | --- |", sep="\n", flush=True)
    for name in given.collections:
        collection = _collection(name)
        for queries in SIZES:
            for rule, most in RULES.items():
                pairs = [
                    _ndcg(collection, given.method, given.scorer, queries, seed, most)
                    for seed in range(given.seeds)
                ]
                values, seconds = np.array(pairs).T
                each = " ".join(f"{value:.3f}" for value in values)
                print(
                    f"| {name} | {queries} | {rule} | {values.mean():.3f} | {values.min():.3f} | "
                    f"{values.std(ddof=1):.3f} | {seconds.mean():.1f} | {each} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
