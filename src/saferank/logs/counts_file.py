"""Counts on disk: a Parquet table of `query_id, doc_id, rank, impressions, clicks, sessions`.

One row a document and rank at which it was shown; ranks count from 1. `sessions` repeats the number
of sessions of the row's query; a table without it is read too (a query then had as many sessions as
its most shown rank has impressions).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from saferank import flat
from saferank.data import RankingData
from saferank.errors import require
from saferank.files import whole_file
from saferank.logs.count_table import COLUMNS, RANKS_SAID
from saferank.logs.counts import Counts
from saferank.marks import PARQUET_METADATA

_DOCUMENTS_A_GROUP = 1 << 18


def save_counts(counts: Counts, data: RankingData, path: str | Path) -> None:
    """Write counts under the ids of their data; the file is there whole or not at all."""
    import pyarrow.parquet as pq

    same = np.array_equal(counts.offsets, data.offsets)
    require(same, "counts", f"of the documents of {data!r}", repr(counts))
    writer = _Rows(counts, data)
    with (
        whole_file(Path(path)) as temporary,
        pq.ParquetWriter(temporary, writer.schema, compression="zstd") as out,
    ):
        for first in range(0, max(1, counts.documents), _DOCUMENTS_A_GROUP):
            out.write_table(writer.table(first, first + _DOCUMENTS_A_GROUP))


class _Rows:
    """The rows of counts, some documents at a time."""

    def __init__(self, counts: Counts, data: RankingData) -> None:
        import pyarrow as pa

        self.counts = counts
        self.query_ids, self.doc_ids = data.ids()
        self.query = flat.query_of(data.offsets)
        # A query with sessions in which nothing was shown keeps them in a row without impressions.
        shown = flat.query_sums(counts.impressions.sum(axis=1), counts.offsets) > 0
        silent = (counts.sessions > 0) & ~shown & (data.sizes > 0)
        self.extra = np.zeros(counts.documents, dtype=np.bool_)
        self.extra[counts.offsets[:-1][silent]] = True
        kinds = [pa.string() if ids.dtype.kind == "U" else pa.int64() for ids in data.ids()]
        types = [*kinds, pa.int32(), pa.int64(), pa.int64(), pa.int64()]
        fields = list(zip((*COLUMNS, "sessions"), types, strict=True))
        said = {RANKS_SAID.decode(): str(counts.ranks), **PARQUET_METADATA}
        self.schema = pa.schema(fields, metadata=said)

    def table(self, first: int, last: int) -> Any:
        import pyarrow as pa

        impressions = self.counts.impressions[first:last]
        written = impressions > 0
        written[:, 0] |= self.extra[first:last]
        document, rank = np.nonzero(written)
        query = self.query[first:last][document]
        columns = [
            self.query_ids[query],
            self.doc_ids[first:last][document],
            (rank + 1).astype(np.int32),
            impressions[document, rank],
            self.counts.clicks[first:last][document, rank],
            self.counts.sessions[query],
        ]
        return pa.table([pa.array(column) for column in columns], schema=self.schema)
