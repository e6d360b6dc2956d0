"""Whether explored policies ever lose more than certified: `python -m benchmarks.explored_costs`.

For each way to explore, a million relevances (independent, sparse, and those that hurt most) and
ways of looking are drawn, on queries of different sizes whose production sorts or samples. Counted
is how often a query had less than the promise; told is the smallest room that was left.
"""

from __future__ import annotations

import argparse

import numpy as np

from saferank._core.flat import Floats
from saferank.data import RankingData
from saferank.policies import ProductionPolicy
from saferank.safety.exploring import Aim, explore
from saferank.safety.promise import Promise

RANKS = 10


def shop(seed: int) -> RankingData:
    """Queries of 3 to 40 documents."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(3, 41, 40))])
    size = int(offsets[-1])
    return RankingData(np.zeros((size, 1)), offsets, production=2 * rng.normal(size=size))


def rooms(before: Floats, after: Floats, promise: Promise, draws: int, seed: int) -> Floats:
    """What is left of the promise for drawn relevances and ways of looking, as shares of Z."""
    rng = np.random.default_rng(seed)
    size, ranks = before.shape
    looks = np.sort(rng.random((draws, ranks)) ** rng.choice([0.3, 1, 5, 50], (draws, 1)))[:, ::-1]
    first = rng.random(draws) < 0.3  # "in the first j"
    looks[first] = np.arange(ranks) < rng.integers(1, ranks + 1, (int(first.sum()), 1))
    old, new = looks @ before.T, looks @ after.T
    relevance = rng.random((draws, size)) ** rng.choice([0.2, 1, 5], (draws, 1))
    sparse = rng.random(draws) < 0.3
    relevance[sparse] = rng.random((int(sparse.sum()), size)) < 0.1
    worst = rng.random(draws) < 0.3
    relevance[worst] = (promise.keep * old > new)[worst]
    total = looks[:, : min(ranks, size)].sum(axis=1)
    kept = (relevance * new).sum(axis=1) - promise.keep * (relevance * old).sum(axis=1)
    left: Floats = (kept + promise.slack * total) / np.maximum(total, 1e-300)
    return left


def main() -> None:
    """Print one line per way and production."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10**6)
    asked = parser.parse_args()
    promise, data = Promise(0.9, 0.01), shop(0)
    print("| production | way | draws | broken | least room left |\n" + "| --- " * 5 + "|")
    for kind in ("sorted", "sampled"):
        make = ProductionPolicy.sorted if kind == "sorted" else ProductionPolicy.sampled
        production = make(data.production, data.offsets)  # type: ignore[arg-type]
        plan = explore(data, production, k=RANKS, sessions=1e5, promise=promise, aim=Aim(depth=20))
        for name in [one.name for one in plan.outlooks[1:]]:
            chosen = explore(data, production, k=RANKS, sessions=1e5, promise=promise,
                             aim=Aim(depth=20), choose=name)  # fmt: skip
            after = chosen.policy(data.production, data).propensities(data)
            before = production.rank_probabilities(RANKS)
            broken, least = 0, np.inf
            each = -(-asked.draws // data.queries)
            for query, (a, b) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
                left = rooms(before[a:b], after[a:b], promise, each, query)
                broken += int(np.count_nonzero(left < -1e-8))
                least = min(least, float(left.min()))
            print(f"| {kind} | {name} | {each * data.queries:,} | {broken} | {least:.1e} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
