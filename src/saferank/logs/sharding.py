"""Items and counts cut into shards of whole queries by one pass of an engine over each.

A shard is chosen by a hash of the query's id, so that no query is in two of them. Each is an
ordinary table of items (sorted by query and document) and an ordinary file of their counts, which
every command takes; together with a manifest they are a folder that `learn` takes (`ShardFolder`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from saferank._core.files import atomic_folder, write_json
from saferank._core.marks import NAME, parquet_mark
from saferank._core.progress import track
from saferank._core.scratch import scratch_folder
from saferank.counts.count_table import COLUMNS, KEYS, PARTED, RANKS_SAID, CountTable
from saferank.counts.shard_numbers import check_shards, shard_of
from saferank.data.features import Feature, FeatureSchema
from saferank.data.items.column_readers import is_category
from saferank.data.items.table_layout import IDS, LIST, Layout, Wanted
from saferank.errors import InputError, require
from saferank.logs import sources
from saferank.logs.counting import EngineChoice
from saferank.logs.engines.running import Engine, opened
from saferank.logs.engines.shard_writing import SHARD, write_shards
from saferank.logs.schema import identity
from saferank.logs.shard_folder import (
    HOLDS,
    MANIFEST,
    Manifest,
    ShardFolder,
    ShardRecord,
    counts_name,
    digest_of,
    items_name,
)  # fmt: skip
from saferank.logs.sources import LogName
from saferank.logs.tally import total

_ROWS: Final = 1 << 16
_MOST_CATEGORIES: Final = 100_000
"""Of a feature: the manifest, which every worker reads, has them all."""
_NO_SHARD: Final = -1


@dataclass(frozen=True)
class ShardReport:
    """What is in the shards together, and what was left out."""

    shards: int
    queries: int
    documents: int
    """Query-document pairs."""
    smallest: int
    largest: int
    """Query-document pairs of the smallest shard and of the largest."""
    impressions: int
    clicks: int
    unknown_documents: int
    """Documents of the counts that the items do not have: a shard's counts keep them, and
    `--skip-bad` leaves them out."""
    unknown_impressions: int
    left_out: tuple[tuple[str, str], ...]
    """Columns of the items that are no features, and why."""

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """What a user should know, one sentence each."""
        sentences = [
            f"{self.documents:,} query-document pairs of {self.queries:,} queries are in "
            f"{self.shards} shards of {self.smallest:,} to {self.largest:,} pairs, with "
            f"{self.impressions:,} impressions and {self.clicks:,} clicks."
        ]
        if self.unknown_documents:
            sentences.append(
                f"{self.unknown_documents:,} documents of the counts have no item "
                f"({self.unknown_impressions:,} impressions)."
            )
        if self.left_out:
            listed = "; ".join(f"`{own}` ({why})" for own, why in self.left_out)
            sentences.append(f"Left out: {listed}.")
        return sentences


def shard(
    items: LogName,
    counts: CountTable | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    shards: int = 8,
    engine: str | EngineChoice = "duckdb",
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
) -> ShardReport:
    """Cut items and their counts into a folder of shards, each with whole queries.

    Nothing has to fit into memory: DuckDB works within its limit and spills, Spark where it runs.
    Both write the same rows in the same order.

    Parameters
    ----------
    items
        Parquet files, folders or globs, a table of the engine, or a table in memory.
    counts
        As `count` makes them.
    output
        The folder to write, whole or not at all.
    shards
        How many.
    engine
        "duckdb", "spark", or an `EngineChoice` with memory and spill folder.
    columns
        The items' own names where they differ, as {"query_id": "search term"}; shards have
        saferank's.
    skip_bad
        Let counts have documents without an item, instead of refusing them.

    Returns
    -------
    ShardReport
        What is in the shards.

    Examples
    --------
    >>> import tempfile
    >>> import saferank as sr
    >>> log = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "rank": [1, 2, 1],
    ...                 "click": [0, 1, 1]})
    >>> items = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "price": [3.0, 4.0, 5.0]})
    >>> folder = Path(tempfile.mkdtemp()) / "shards"
    >>> shard(items, sr.count(log, judge=0), folder, shards=1).queries
    2
    """
    check_shards(shards)
    choice = EngineChoice(engine) if isinstance(engine, str) else engine
    table = counts if isinstance(counts, CountTable) else CountTable.open(Path(counts))
    source, target = _find(items), Path(output)
    with (
        atomic_folder(target, holds=HOLDS) as made,
        scratch_folder(choice.spill or target.resolve().parent) as scratch,
        opened(choice.name, memory=choice.memory, spill=scratch) as running,
    ):
        both = _Tables.of(running, source, table, columns or {}, shards)
        unknown = both.unknown()
        if unknown["documents"] and not skip_bad:
            raise InputError(
                f"the items must have every document of the counts; they lack "
                f"{unknown['documents']:,}, for example {unknown['example']}; --skip-bad "
                f"(skip_bad=True in Python) leaves them out."
            )
        features, left_out = both.features()
        ranks = both.ranks(table)
        records = both.only(features).write(scratch, made, ranks)
        manifest = Manifest(both.text, features, ranks, tuple(records))
        write_json(made / MANIFEST, asdict(manifest), "shards")
        ShardFolder(made, manifest)  # checks itself
        totals = both.totals()
    pairs = [record.documents for record in records]
    return ShardReport(
        shards, sum(record.queries for record in records), sum(pairs), min(pairs), max(pairs),
        totals["impressions"], totals["clicks"], unknown["documents"], unknown["impressions"],
        left_out,
    )  # fmt: skip


def _with_types(table: Any) -> Any:
    """Columns of which every value is missing may have no type: they are numbers, all missing."""
    kinds = table.schema().items()
    empty = [name for name, kind in kinds if kind.is_null() or kind.is_unknown()]
    return table.mutate(**{name: table[name].cast("float64") for name in empty})


@dataclass(frozen=True, eq=False)
class _Tables:
    """Items and counts as tables of one engine, with the shard of each row."""

    engine: Engine
    layout: Layout
    items: Any
    counts: Any
    metadata: dict[bytes, bytes]
    """Of the counts: how they were split, what they count, a sample of their sessions."""
    shards: int
    text: bool
    """Whether ids of queries are hashed as text, because they are text on one side."""

    @classmethod
    def of(
        cls,
        running: Engine,
        source: sources.Source,
        counted: CountTable,
        columns: Mapping[str, str],
        shards: int,
    ) -> _Tables:
        """Both tables under saferank's names."""
        read = _with_types(running.read(source))
        layout = Layout.of("items", read.schema().to_pyarrow(), Wanted(columns))
        names = {**layout.ids, **layout.values, **layout.features}
        names |= {} if layout.listed is None else {LIST: layout.listed}
        items = read.select(**{name: read[own] for name, own in names.items()})
        items = items.mutate(**{name: _identity(items[name], name) for name in IDS})
        path = counted.source
        files = sources.Files((str(path),), "parquet") if isinstance(path, Path) else None
        counts = running.bring(path, "saferank_counts") if files is None else running.read(files)
        own = [name for name in (*PARTED, "sessions", "cluster", "propensity")
               if name in counted.schema.names]  # fmt: skip
        counts = counts.select(*own)
        said = {key: value for key, value in (counted.schema.metadata or {}).items()
                if key.startswith(NAME.encode())}  # fmt: skip
        text = any(each.query_id.type().is_string() for each in (items, counts))
        return cls(running, layout, items, counts, said, shards, text)

    def numbered(self, table: Any) -> Any:
        """A table with the shard of each row."""
        ids = table.query_id.cast("string") if self.text else table.query_id
        number = shard_of(ids, self.shards, self.engine.name)
        return table.mutate(**{SHARD: number.coalesce(_NO_SHARD)})

    def unknown(self) -> dict[str, Any]:
        """Documents of the counts without an item, their impressions, and one of them."""
        counts, items = self.counts, self.items.select(*IDS)
        for name in IDS:
            if counts[name].type().is_string() != items[name].type().is_string():
                counts, items = (each.cast({name: "string"}) for each in (counts, items))
        lost = counts.anti_join(items, list(IDS))
        pairs = lost.group_by(*IDS).agg(impressions=total(lost.impressions))
        sums = pairs.agg(documents=pairs.count(), impressions=total(pairs.impressions).coalesce(0))
        facts = dict(self.engine.fetch(sums).to_pylist()[0])
        if not facts["documents"]:
            return facts
        first = self.engine.fetch(pairs.order_by(*IDS).limit(1)).to_pylist()[0]
        example = f"query {first['query_id']!r}, document {first['doc_id']!r}"
        return {**facts, "example": example}

    def totals(self) -> dict[str, int]:
        """Impressions and clicks of the counts."""
        sums = self.counts.agg(
            **{name: total(self.counts[name]).coalesce(0) for name in COLUMNS[len(KEYS) :]}
        )
        return dict(self.engine.fetch(sums).to_pylist()[0])

    def features(self) -> tuple[FeatureSchema | None, tuple[tuple[str, str], ...]]:
        """What the features are, with the categories of all shards, and the columns left out.

        None: they are a list, and have numbers.
        """
        if self.layout.listed is not None:
            return None, self.layout.left_out
        described: list[Feature] = []
        left_out = list(self.layout.left_out)
        rows = int(self.engine.fetch(self.items.count().as_table()).column(0)[0].as_py())
        for name, kind in self.layout.kinds.items():
            if kind != "category":
                described.append(Feature(name, kind))
                continue
            column = self.items.filter(self.items[name] != "")
            texts = int(self.engine.fetch(column[name].nunique().as_table()).column(0)[0].as_py())
            if texts > _MOST_CATEGORIES or not is_category(texts, rows):
                left_out.append((self.layout.features[name], f"text of {texts:,} different values"))
                continue
            counted = column.group_by(text=column[name]).agg(n=column.count())
            by_text = {row["text"]: row["n"] for row in self.engine.fetch(counted).to_pylist()}
            ordered = sorted(by_text, key=lambda text: (-by_text[text], text))
            described.append(Feature(name, "category", tuple(ordered)))
        return FeatureSchema(tuple(described)), tuple(left_out)

    def only(self, features: FeatureSchema | None) -> _Tables:
        """The tables with the columns of the items that are ids, values and features."""
        if features is None:
            return self
        kept = [*IDS, *self.layout.values, *features.names]
        return replace(self, items=self.items.select(*kept))

    def ranks(self, counted: CountTable) -> int:
        """K, as the counts say it or have it."""
        largest = self.engine.fetch(self.counts["rank"].max().as_table()).column(0)[0].as_py()
        return max(int(largest or 1), counted.ranks_said)

    def write(self, scratch: Path, made: Path, ranks: int) -> list[ShardRecord]:
        """Write all shards, and tell what is in each."""
        self._write_items(scratch, made)
        order = [name for name in (*KEYS, "part") if name in self.counts.columns]
        folder = scratch / "counts"
        files = write_shards(self.engine, self.numbered(self.counts), order, folder, "counts")
        self._refuse_no_shard(files, "counts")
        said = {**self.metadata, **{key.encode(): value.encode()
                for key, value in parquet_mark("counts").items()}}  # fmt: skip
        said[RANKS_SAID] = str(ranks).encode()
        some = next(iter(files.values()), None)
        if some is None:
            raise InputError("the counts must have rows; they have none.")
        fields = [pa.field(field.name, field.type) for field in pq.read_schema(some)]
        schema = pa.schema(fields, metadata=said)
        records = []
        for number in track(range(self.shards), "checking shards", total=self.shards):
            _copy(files.get(number), made / counts_name(number), schema)
            records.append(_record(made, number))
        return records

    def _write_items(self, scratch: Path, made: Path) -> None:
        folder = scratch / "items"
        files = write_shards(self.engine, self.numbered(self.items), IDS, folder, "items")
        self._refuse_no_shard(files, "items")
        lacking = set(range(self.shards)).difference(files)
        if lacking:
            rule = "few enough that each has a query"
            require(False, "shards", rule, f"{self.shards}, of which {len(lacking)} would be empty")
        for number, path in files.items():
            shutil.move(path, made / items_name(number))

    def _refuse_no_shard(self, files: Mapping[int, Path], name: str) -> None:
        if _NO_SHARD in files:
            rows = pq.read_metadata(files[_NO_SHARD]).num_rows
            raise InputError(f"`query_id` of the {name} must not be missing; it is in {rows} rows.")


def _find(items: LogName) -> sources.Source:
    """The table that items name."""
    try:
        source = sources.find(items)
    except InputError as error:
        raise InputError(str(error).replace("`log`", "`items`")) from error
    if isinstance(source, sources.Files):
        require(source.format == "parquet", "items", "Parquet to be cut into shards", source.format)
    return source


def _identity(column: Any, name: str) -> Any:
    """An id as the reader of items has it: text, or a whole number of 64 bits."""
    own = identity(column, name)
    return own if own.type().is_string() else own.cast("int64")


def _copy(source: Path | None, target: Path, schema: pa.Schema) -> None:
    """A Parquet file with metadata of its own, some rows at a time; without a source, no rows."""
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        batches = [] if source is None else pq.ParquetFile(source).iter_batches(batch_size=_ROWS)
        for batch in batches:
            writer.write_batch(batch.cast(schema) if batch.schema != schema else batch)


def _record(made: Path, number: int) -> ShardRecord:
    """What is in a shard; its ids are looked at once more, in their order."""
    items, counts = made / items_name(number), made / counts_name(number)
    documents, queries, last = 0, 0, None
    for batch in pq.ParquetFile(items).iter_batches(batch_size=_ROWS, columns=list(IDS)):
        rows = pa.Table.from_batches([batch] if last is None else [last, batch])
        same = [pc.equal(rows[name][1:], rows[name][:-1]) for name in IDS]
        _check_pairs(rows, pc.and_(*same))
        queries += int(last is None) + len(same[0]) - int(pc.sum(same[0]).as_py() or 0)
        documents += batch.num_rows
        last = batch.slice(batch.num_rows - 1)
    return ShardRecord(
        documents=documents,
        queries=queries,
        counts=pq.read_metadata(counts).num_rows,
        items_digest=digest_of(items),
        counts_digest=digest_of(counts),
    )


def _check_pairs(rows: pa.Table, again: Any) -> None:
    """Refuse a document without an id, or one that a query has twice: they stand together."""
    missing = rows["doc_id"].null_count
    require(missing == 0, "doc_id", "there in every row of the items", f"{missing} without")
    at = pc.index(again, True).as_py()
    if at >= 0:
        query, document = (rows[name][at].as_py() for name in IDS)
        raise InputError(
            f"`items` must have each document of a query once; got query {query!s} and document "
            f"{document!s} again."
        )
