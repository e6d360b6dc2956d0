"""A table of items while it is read: what each batch held, checked, and all of it in the end."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saferank._core import storage
from saferank._core.arrow_arrays import from_arrow
from saferank._core.flat import Array, Ints
from saferank.data.features import Feature, FeatureSchema
from saferank.data.frames import is_text, plain_array
from saferank.data.ids import check_texts, from_words
from saferank.data.items.column_readers import floats, is_number, reader_of, singles
from saferank.data.items.table_layout import IDS, LIST, Layout
from saferank.data.matching import values_under
from saferank.data.ranking import Features, RankingData
from saferank.errors import InputError, require


class TableBuilder:
    """Takes the batches of a table and makes ranking data of them."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.rows = layout, 0
        self.ids: dict[str, list[pa.Array]] = {name: [] for name in IDS}
        self.values: dict[str, list[Array]] = {name: [] for name in layout.values}
        self.features, self.capacity = storage.RowStack(), storage.capacity()
        self.readers = [
            reader_of(name, layout.kinds[name], layout.expected.get(own))
            for name, own in layout.features.items()
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""
        for name, own in self.layout.ids.items():
            self.ids[name].append(self._identities(name, batch.column(own)))
        for name, own in self.layout.values.items():
            self.values[name].append(self._numbers(name, batch.column(own)))
        listed = self.layout.listed
        block = self._matrix(batch) if listed is None else self._lists(batch.column(listed))
        taken = (self.rows + block.shape[0]) * block.shape[1] * 4
        limit = self.capacity
        require(taken <= limit, self.layout.table, f"features of at most {limit} bytes", taken)
        self.features.add(block)
        self.rows += batch.num_rows

    def _identities(self, name: str, column: pa.Array) -> pa.Array:
        column = plain_array(column)
        kind = column.type
        if pa.types.is_integer(kind):
            column = column.cast(pa.int64())
        elif not is_text(kind):
            rule = "a column of strings or whole numbers"
            require(False, f"{self.layout.table}: {name}", rule, str(kind))
        if pa.types.is_integer(kind):
            empty = from_arrow(column.is_null())
        else:
            letters = pc.binary_length(column)
            empty = from_arrow(letters.fill_null(0) if letters.null_count else letters) == 0
        if empty.any():
            self._refuse(int(np.argmax(empty)), f"an id in column `{name}`", None)
        return column

    def _numbers(self, name: str, column: pa.Array) -> Array:
        """A column of values, or a refusal where one is missing or not finite."""
        values = floats(column)
        with np.errstate(over="ignore"):
            good = np.isfinite(values.astype(np.float32))
        if name == "label":
            good &= values >= 0
        if not good.all():
            rule = "number, at least 0," if name == "label" else "number"
            row = int(np.argmin(good))
            self._refuse(row, f"a finite {rule} in column `{name}`", float(values[row]))
        return values

    def _matrix(self, batch: pa.RecordBatch) -> Features:
        block = np.empty((batch.num_rows, len(self.readers)), dtype=np.float32)
        owns = self.layout.features.values()
        for place, (own, reader) in enumerate(zip(owns, self.readers, strict=True)):
            block[:, place] = reader.read(batch.column(own), self._refuse)
        return block

    def _lists(self, column: pa.Array) -> Features:
        column = column.cast(pa.large_list(column.type.value_type))
        listed = pc.list_value_length(column)
        lengths = from_arrow(listed.fill_null(-1) if listed.null_count else listed)
        width = self.features.width if self.rows else int(lengths[0])
        ragged = (lengths != width) | (lengths < 0)
        if ragged.any():
            row = int(np.argmax(ragged))
            self._refuse(row, f"a list of {max(width, 0)} features", int(lengths[row]))
        inner = column.flatten()
        good = is_number(inner.type) or pa.types.is_boolean(inner.type)
        require(good, f"{self.layout.table}: {LIST}", "lists of numbers", str(inner.type))
        values = floats(inner)
        rounded = singles(
            values, LIST, lambda place, *details: self._refuse(place // width, *details)
        )
        return rounded.reshape(len(column), width)

    def _refuse(self, row: int, expected: str, got: object) -> NoReturn:
        number = self.rows + row + 1
        raise InputError(f"{self.layout.table}, row {number}: expected {expected}; got {got}.")

    def data(self, *, spelled_ids: bool) -> tuple[RankingData, Ints]:
        """Everything together, grouped by query, and the row of each document."""
        table = self.layout.table
        require(self.rows > 0, table, "a table with at least one row", self.rows)
        query, query_ids = _encoded(self.ids.pop("query_id"), spelled_ids)
        document, doc_ids = _documents(self.ids.pop("doc_id"), spelled_ids)
        self._check_pairs(query, document, query_ids, doc_ids)
        order = np.argsort(query, kind="stable")
        values = {name: np.concatenate(parts)[order] for name, parts in self.values.items()}
        features, schema, dropped = self._settled(self.features.matrix(order))
        data = RankingData(
            features,
            np.concatenate([[0], np.cumsum(np.bincount(query))]),
            labels=values.get("label"),
            query_ids=query_ids,
            doc_ids=document[order] if doc_ids is None else doc_ids[document[order]],
            production=values.get("production_score"),
            schema=schema,
            left_out=(*self.layout.left_out, *dropped),
        )
        return data, order

    def _settled(self, features: Features) -> tuple[Features, FeatureSchema, list[tuple[str, str]]]:
        """Features as they are now known to be, and the columns that are none after all."""
        if self.layout.listed is not None:
            return features, FeatureSchema.numbered(features.shape[1]), []
        described: list[Feature] = []
        dropped: list[tuple[str, str]] = []
        kept: list[int] = []
        for place, (own, reader) in enumerate(
            zip(self.layout.features.values(), self.readers, strict=True)
        ):
            feature = reader.feature()
            if isinstance(feature, str):
                dropped.append((own, feature))
                continue
            kept.append(place)
            described.append(feature)
        self._recode(features, kept)
        if dropped:
            features = storage.take_columns(features, kept)
        return features, FeatureSchema(tuple(described)), dropped

    def _recode(self, features: Features, places: list[int]) -> None:
        """Categories get the numbers that they have now that all of them are known."""
        codes = {place: self.readers[place].codes() for place in places}
        changed = {place: own for place, own in codes.items() if own is not None}
        for _, rows in storage.pieces(features) if changed else ():
            for place, own in changed.items():
                rows[:, place] = values_under(own, rows[:, place])

    def _check_pairs(
        self, query: Ints, document: Ints, query_ids: Array, doc_ids: Array | None
    ) -> None:
        order = np.lexsort((document, query))
        same = np.diff(document[order]) == 0
        same &= np.diff(query[order]) == 0
        again = order[1:][same]
        if again.size:
            row = int(again.min())
            own = document[row] if doc_ids is None else doc_ids[document[row]]
            raise InputError(
                f"{self.layout.table}, row {row + 1}: expected each document of a query once; got "
                f"query {query_ids[query[row]]!s} and document {own!s} again."
            )


def _documents(parts: list[pa.Array], spelled: bool) -> tuple[Ints, Array | None]:
    """A number for each row's document, and the ids of these numbers; None: they are the ids.

    There may be as many documents as rows: a table of the different ones is made of texts only.
    """
    if not pa.types.is_integer(parts[0].type):
        return _encoded(parts, spelled)
    numbers = np.empty(sum(map(len, parts)), dtype=np.int64)
    row = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        numbers[row : row + len(part)] = from_arrow(part)
        row += len(part)
    return numbers, None


def _encoded(parts: list[pa.Array], spelled: bool) -> tuple[Ints, Array]:
    """A number for each row's id, by first appearance, and the different ids."""
    encoded = pa.chunked_array(parts).dictionary_encode()
    codes = np.empty(len(encoded), dtype=np.int64)
    row = 0
    for chunk in encoded.chunks:
        codes[row : row + len(chunk)] = from_arrow(chunk.indices)
        row += len(chunk)
    distinct = encoded.chunk(encoded.num_chunks - 1).dictionary
    if pa.types.is_integer(distinct.type):
        return codes, from_arrow(distinct)
    check_texts(distinct)
    if spelled:
        ids, _ = from_words(np.array([word.encode() for word in distinct.to_pylist()]))
        return codes, ids
    return codes, np.array(distinct.to_pylist(), dtype=np.str_)
