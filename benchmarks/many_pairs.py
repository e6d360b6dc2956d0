"""Items and counts of any number of pairs, written some queries at a time.

`python -m benchmarks.many_pairs FOLDER --pairs 20000000` writes items.parquet (11 GB) and
counts.parquet of 2 10^7 query-document pairs: 100 documents per query, 136 features, production by
some of them, and 20 sessions per query. The first queries are the same for any number of pairs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saferank.clicks import simulate, trust_bias
from saferank.counts.counts_file import save_counts
from saferank.data import RankingData

WIDTH: Final = 136
DOCUMENTS: Final = 100
SESSIONS: Final = 20
"""Of each query."""
_QUERIES: Final = 1000
"""Written together."""
_IDS: Final = [("query_id", pa.int64()), ("doc_id", pa.int64()), ("production_score", pa.float64())]
_SCHEMA: Final = pa.schema([*_IDS, *((f"f{place}", pa.float32()) for place in range(1, WIDTH + 1))])


class Tables(NamedTuple):
    """Where items and counts lie."""

    items: Path
    counts: Path

    @property
    def there(self) -> bool:
        """Whether both were written."""
        return self.items.is_file() and self.counts.is_file()


def tables_of(folder: Path, pairs: int) -> Tables:
    """Names of the tables of so many pairs."""
    return Tables(folder / f"items_{pairs}.parquet", folder / f"counts_{pairs}.parquet")


def generate(folder: Path, pairs: int, seed: int = 0) -> Tables:
    """Write items and counts of so many pairs, unless they are there."""
    tables = tables_of(folder, pairs)
    if tables.there:
        return tables
    folder.mkdir(parents=True, exist_ok=True)
    half, piece = folder / f".items_{pairs}", folder / f".piece_{pairs}"
    counts: pq.ParquetWriter | None = None
    with pq.ParquetWriter(half, _SCHEMA, compression="none", use_dictionary=False) as items:
        for first in range(0, pairs // DOCUMENTS, _QUERIES):
            queries = np.arange(first, min(first + _QUERIES, pairs // DOCUMENTS))
            known, features = _queries(queries, seed)
            assert known.production is not None
            columns = [*_ids(queries), known.production, *features.T]
            items.write_table(pa.table(columns, schema=_SCHEMA))
            counted = simulate(
                known, known.production, trust_bias(), sessions=SESSIONS * queries.size,
                seed=seed + first, highest_grade=4, progress=False,
            )  # fmt: skip
            save_counts(counted, known, piece)
            rows = pq.read_table(piece)
            counts = counts or pq.ParquetWriter(tables.counts, rows.schema, compression="zstd")
            counts.write_table(rows)
    assert counts is not None
    counts.close()
    piece.unlink()
    half.rename(tables.items)
    return tables


def _ids(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Query and document of each row; no two queries share a document."""
    query = np.repeat(queries, DOCUMENTS)
    return query, query * DOCUMENTS + np.tile(np.arange(DOCUMENTS), queries.size)


def _queries(queries: np.ndarray, seed: int) -> tuple[RankingData, np.ndarray]:
    """Some queries with labels and production's scores, and their features."""
    taste = np.random.default_rng(seed).normal(size=(WIDTH, 2)) / np.sqrt(WIDTH)
    rng = np.random.default_rng((seed, int(queries[0])))
    features = rng.standard_normal((queries.size * DOCUMENTS, WIDTH), dtype=np.float32)
    merit, other = (features @ taste).T
    known = RankingData(
        np.zeros((merit.size, 1), np.float32),
        np.arange(0, merit.size + 1, DOCUMENTS),
        labels=np.clip(np.round(1 + merit + 0.5 * rng.normal(size=merit.size)), 0, 4),
        query_ids=queries,
        doc_ids=_ids(queries)[1],
        production=0.5 * merit + other,
    )
    return known, features


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(*generate(given.folder, given.pairs, given.seed))


if __name__ == "__main__":
    main()
