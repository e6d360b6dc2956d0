"""Ranking data as a table of items that `read_items` reads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from saferank._core import flat
from saferank._core.files import atomic_file
from saferank._core.marks import parquet_mark
from saferank.data.features import Feature
from saferank.data.items.table_layout import LIST
from saferank.data.items.tables import kind_of
from saferank.data.letor.writing import write_letor
from saferank.data.ranking import Features, RankingData

OTHER: Final = "(other)"
"""What is written for a category whose text is not known."""
_ROWS: Final = 1 << 14


def write_items(data: RankingData, path: str | Path) -> None:
    """Write items as Parquet, CSV or LETOR text, by the end of the name.

    Named features get a column each, categories as their texts, missing values as nulls; features
    without names go to the list column `features`, in CSV to the columns `1`, `2` and so on. LETOR
    text has no production scores, names, categories or missing values.

    Parameters
    ----------
    data
        The items.
    path
        A name that ends with .parquet, .csv or .txt.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from saferank.data import read_items, synthetic
    >>> items, path = synthetic(queries=20).train, Path(tempfile.mkdtemp()) / "items.parquet"
    >>> write_items(items, path)
    >>> read_items(path).documents == items.documents
    True
    """
    target = Path(path)
    kind = kind_of(target)
    if kind == "letor":
        write_letor(data, target)
        return
    batches = _batches(data, listed=kind == "parquet" and data.feature_names is None)
    with atomic_file(target) as temporary:
        if kind == "parquet":
            _write_parquet(temporary, batches)
        else:
            _write_csv(temporary, batches, "gzip" if target.suffix == ".gz" else None)


def _write_parquet(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with pq.ParquetWriter(path, first.schema.with_metadata(parquet_mark("items"))) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(path: Path, batches: Iterator[pa.RecordBatch], compression: str | None) -> None:
    first = next(batches)
    with (
        pa.output_stream(path, compression=compression) as stream,
        pyarrow.csv.CSVWriter(stream, first.schema) as writer,
    ):
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _batches(data: RankingData, *, listed: bool) -> Iterator[pa.RecordBatch]:
    query_ids, doc_ids = data.ids()
    query = flat.query_of(data.offsets)
    for start in range(0, max(data.documents, 1), _ROWS):
        rows = slice(start, start + _ROWS)
        columns = {"query_id": pa.array(query_ids[query[rows]]), "doc_id": pa.array(doc_ids[rows])}
        if data.labels is not None:
            columns["label"] = pa.array(data.labels[rows])
        if data.production is not None:
            columns["production_score"] = pa.array(data.production[rows])
        features = data.features[rows]
        if listed:
            cuts = np.arange(features.shape[0] + 1) * data.width
            columns[LIST] = pa.LargeListArray.from_arrays(cuts, features.reshape(-1))
        else:
            columns.update(
                (feature.name, _column(features[:, place], feature))
                for place, feature in enumerate(data.schema.features)
            )
        yield pa.RecordBatch.from_pydict(columns)


def _column(values: Features, feature: Feature) -> pa.Array:
    """A feature in the type that is read as its kind."""
    missing = np.isnan(values)
    if feature.kind == "category":
        texts = pa.array([*feature.categories, OTHER], pa.large_string())
        return texts.take(pa.array(np.where(missing, 0, values).astype(np.int64), mask=missing))
    if feature.kind == "boolean":
        return pa.array(values == 1, mask=missing)
    if feature.kind == "date":
        seconds = np.round(np.where(missing, 0, values).astype(np.float64) * 86_400)
        return pa.array(seconds.astype("datetime64[s]"), mask=missing)
    numbers = np.ascontiguousarray(values)
    return pa.array(numbers, mask=missing) if missing.any() else pa.array(numbers)
