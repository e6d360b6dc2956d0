"""Items and counts of a shop as tests of shards need them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import saferank as sr


class Tables(NamedTuple):
    """Paths of items and of their counts."""

    items: Path
    counts: Path


def write_tables(folder: Path, *, queries: int = 60, text: bool = True, seed: int = 0) -> Tables:
    """Shuffled items with features of every kind and gaps, and counts in two parts."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, queries)
    query = np.repeat(np.arange(queries), sizes)
    document = np.concatenate([rng.permutation(50)[:size] for size in sizes])
    rows = query.size
    price = rng.lognormal(size=rows)
    price[rng.random(rows) < 0.1] = np.nan
    brand = rng.choice(["acme", "Zeta", "éclair", "", None], rows)
    ids = np.array([f"query {q}" for q in query]) if text else 10**12 + query
    items = pa.table({
        "query_id": ids,
        "sku": document,
        "price": price,
        "brand": pa.array(brand, pa.string()),
        "since": pa.array(pd.to_datetime("2026-01-01") + pd.to_timedelta(document, "D")).cast(
            pa.timestamp("us")),
        "new": rng.random(rows) < 0.5,
        "url": [f"https://shop.example/{row}" for row in range(rows)],
        "production_score": rng.normal(size=rows),
    }).take(rng.permutation(rows))  # fmt: skip
    shown = rng.permutation(rows)[: rows // 2]
    log = pa.table({
        "session_id": rng.integers(0, 400, 2000),
        "query_id": ids[rng.choice(shown, 2000)],
        "doc_id": np.zeros(2000, np.int64),
        "rank": np.ones(2000, np.int64),
        "click": rng.integers(0, 2, 2000),
    }).to_pandas()  # fmt: skip
    first = pd.Series(document, index=ids).groupby(level=0).first()
    log["doc_id"] = first[log.query_id].to_numpy()
    tables = Tables(folder / "items.parquet", folder / "counts.parquet")
    pq.write_table(items, tables.items)
    sr.logs.count(log.drop_duplicates(["session_id", "query_id"]), output=tables.counts)
    return tables
