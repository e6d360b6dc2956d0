"""Counts on disk: a Parquet table of `query_id, doc_id, rank, part, impressions, clicks, sessions`.

One row for each document, rank at which it was shown, and part ("learn" or "judge"; without the
column there are no parts); ranks count from 1. `sessions` repeats the number of sessions of the
row's query in its part; a table without it is read too (a query then had as many sessions as its
most shown rank has impressions). `propensity`, where it is there, is production's probability of
the document at that rank as the log has recorded it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.files import atomic_file
from saferank._core.flat import Ints
from saferank._core.marks import parquet_mark
from saferank.counts.arrays import Counts
from saferank.counts.count_table import KEYS, RANKS_SAID
from saferank.counts.feedback import CLICKS
from saferank.counts.feedback import KEY as FEEDBACK
from saferank.counts.sketch import KEY, Sketches
from saferank.counts.split import GIVEN, OFF, SPLIT, Split
from saferank.data import RankingData
from saferank.errors import require

_DOCUMENTS_A_GROUP = 1 << 18


def save_counts(
    counts: Counts, data: RankingData, path: str | Path, *, split: Split | None = None
) -> None:
    """Write counts under the ids of their data; the file is there whole or not at all.

    `split` tells how their parts came about, where that is known.
    """
    import pyarrow.parquet as pq

    same = np.array_equal(counts.offsets, data.offsets)
    require(same, "counts", f"of the documents of {data!r}", repr(counts))
    off = counts.judge is None
    split = split or (OFF if off else GIVEN)
    require(split.off == off, "split", f"as {counts!r} is", split.describe())
    writer = _Rows(counts, data, split)
    with (
        atomic_file(Path(path)) as temporary,
        pq.ParquetWriter(temporary, writer.schema, compression="zstd") as out,
    ):
        for first in range(0, max(1, counts.documents), _DOCUMENTS_A_GROUP):
            out.write_table(writer.table(first, first + _DOCUMENTS_A_GROUP))


class _Rows:
    """The rows of counts, some documents at a time."""

    def __init__(self, counts: Counts, data: RankingData, split: Split) -> None:
        import pyarrow as pa

        self.parts = {"learn": counts.part("learn")}
        if counts.judge is not None:
            self.parts["judge"] = counts.judge
        self.query_ids, self.doc_ids = data.ids()
        self.query = flat.query_of(data.offsets)
        self.silent = {name: _silent(part, data) for name, part in self.parts.items()}
        ids = [pa.string() if ids.dtype.kind == "U" else pa.int64() for ids in data.ids()]
        kinds = dict(zip(KEYS, [*ids, pa.int32()], strict=True))
        if not split.off:
            kinds["part"] = pa.string()
        kinds |= dict.fromkeys(("impressions", "clicks", "sessions"), pa.int64())
        self.recorded = counts.propensity
        if self.recorded is not None:
            kinds["propensity"] = pa.float64()
        said = {
            RANKS_SAID.decode(): str(counts.ranks),
            SPLIT: split.to_text(),
            **parquet_mark("counts"),
        }
        if counts.feedback != CLICKS:
            said[FEEDBACK] = counts.feedback.text
        if counts.sketch is not None:
            judge = None if counts.judge is None else counts.judge.sketch
            said[KEY] = Sketches(counts.sketch, judge).to_text()
        self.schema = pa.schema(list(kinds.items()), metadata=said)

    def table(self, first: int, last: int) -> Any:
        """The rows of some documents, ordered by document, rank and part."""
        import pyarrow as pa

        pieces = [self._part(name, first, last) for name in sorted(self.parts)]
        columns = {name: np.concatenate([p[name] for p in pieces]) for name in self.schema.names}
        order = np.lexsort([np.concatenate([p[name] for p in pieces]) for name in ("rank", "at")])
        arrays = [pa.array(columns[name][order]) for name in self.schema.names]
        return pa.table(arrays, schema=self.schema)

    def _part(self, name: str, first: int, last: int) -> dict[str, Any]:
        part = self.parts[name]
        impressions = part.impressions[first:last]
        written = impressions > 0
        written[:, 0] |= self.silent[name][first:last]
        document, rank = np.nonzero(written)
        query = self.query[first:last][document]
        return {
            "at": document,
            "query_id": self.query_ids[query],
            "doc_id": self.doc_ids[first:last][document],
            "rank": (rank + 1).astype(np.int32),
            "part": np.full(document.size, name),
            "impressions": impressions[document, rank],
            "clicks": part.clicks[first:last][document, rank],
            "sessions": part.sessions[query],
            **self._propensity(first, last, document, rank),
        }

    def _propensity(self, first: int, last: int, document: Ints, rank: Ints) -> dict[str, Any]:
        if self.recorded is None:
            return {}
        return {"propensity": self.recorded[first:last][document, rank]}


def _silent(counts: Counts, data: RankingData) -> npt.NDArray[np.bool_]:
    """Documents that get a row without impressions: one of each query whose sessions show none."""
    shown = flat.query_sums(counts.impressions.sum(axis=1), counts.offsets) > 0
    silent = (counts.sessions > 0) & ~shown & (data.sizes > 0)
    extra = np.zeros(counts.documents, dtype=np.bool_)
    extra[counts.offsets[:-1][silent]] = True
    return extra
