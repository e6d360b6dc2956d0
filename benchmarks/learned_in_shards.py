"""Is what is learned from shards as good as what is learned from one table of the same items?

    python -m benchmarks.learned_in_shards [--queries 300] [--seeds 3] [--shards 8]

Steps draw other queries from shards, and other queries are held out, so that bits differ: NDCG@5 on
the test queries by their labels stands beside each other, for PRPO from 30,000 sessions.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import saferank as sr
from saferank.counts.counts_file import save_counts

SESSIONS = 30_000
MODEL = sr.clicks.trust_bias()


def main() -> None:
    """Learn both ways and print a line for each world, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=8)
    given = parser.parse_args()
    rows = []
    print(f"{'world':16}{'table':>8}{'shards':>8}")
    for name in ("small", "mslr"):
        for seed in range(given.seeds):
            rows.append(_both(name, given.queries, seed, given.shards))
            print(f"{name:8}{seed:<8}{rows[-1][0]:8.4f}{rows[-1][1]:8.4f}", flush=True)
    table, shards = np.mean(rows, axis=0)
    print(f"{'mean':16}{table:8.4f}{shards:8.4f}")


def _both(name: str, queries: int, seed: int, shards: int) -> tuple[float, float]:
    """NDCG@5 of what is learned from one table, and from shards."""
    world = sr.data.synthetic(name, queries=queries, seed=seed)
    noise = np.random.default_rng(seed).normal(size=world.train.documents)
    shown = 0.3 * world.train.labels + noise
    items = replace(world.train, production=shown)
    counts = sr.clicks.simulate(items, shown, MODEL, sessions=SESSIONS, seed=seed)
    options = {"method": "prpo", "seed": seed, "production_kind": "sampled"}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        sr.data.write_items(items, folder / "items.parquet")
        save_counts(counts, items, folder / "counts.parquet")
        tables = folder / "items.parquet", folder / "counts.parquet"
        sr.logs.shard(*tables, folder / "shards", shards=shards)
        own = sr.learning.read_shards(folder / "shards", ranks=MODEL.ranks)
    alone = sr.learn(items, counts, MODEL, production=shown, **options)
    parted = sr.learn(own, click_model=MODEL, production=own.data.production, **options)
    return _quality(alone, world.test), _quality(parted, world.test)


def _quality(ranker: sr.Ranker, test: sr.data.RankingData) -> float:
    ndcg = sr.metrics.ndcg(ranker.scores(test), test.labels, test.offsets, 5)
    return float(np.nanmean(ndcg))


if __name__ == "__main__":
    main()
