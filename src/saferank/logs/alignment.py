"""Counts by ids onto the flat documents of items: a join in DuckDB, then arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saferank import flat
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.flat import Ints
from saferank.logs.count_table import CountTable
from saferank.logs.counting import EngineChoice
from saferank.logs.counts import MOST_CELLS, Counts, check_ranks
from saferank.logs.engines import DuckDB, opened
from saferank.logs.schema import BEYOND, read_log
from saferank.logs.tally import added_sessions, check_sessions, total
from saferank.scratch import scratch_folder


@dataclass(frozen=True)
class Alignment:
    """What of the counts has items, and what of the items was shown."""

    documents: int
    """Query-document pairs of the items."""
    shown: int
    """Those that were shown at least once."""
    queries: int
    shown_queries: int
    impressions: int
    """Impressions of documents that the items have."""
    unknown_documents: int = 0
    """Query-document pairs of the counts that the items do not have: left out."""
    unknown_impressions: int = 0
    unknown_clicks: int = 0
    example: str = ""
    """One of the unknown documents."""
    beyond: int = 0
    """Impressions at ranks below the cut, left out."""

    @property
    def support(self) -> float:
        """Share of the items' documents that were ever shown."""
        return self.shown / self.documents if self.documents else 0.0

    def record(self) -> dict[str, Any]:
        """The report for JSON."""
        return {**asdict(self), "support": self.support}

    def sentences(self) -> list[str]:
        """What a user should know, one sentence each."""
        told = [
            f"{self.shown:,} of {self.documents:,} items were shown ({self.support:.1%}), of "
            f"{self.shown_queries:,} of {self.queries:,} queries."
        ]
        if self.unknown_documents:
            told.append(
                f"{self.unknown_documents:,} documents of the log have no item and are left out "
                f"({self.unknown_impressions:,} impressions, {self.unknown_clicks:,} clicks; for "
                f"example {self.example})."
            )
        if self.beyond:
            told.append(f"{self.beyond:,} impressions lie beyond the cut and are left out.")
        return told


def align(
    counts: CountTable,
    items: RankingData,
    *,
    ranks: int | None = None,
    skip_bad: bool = False,
    engine: EngineChoice | None = None,
) -> tuple[Counts, Alignment]:
    """Counts on the items' documents, and what did not match.

    Documents of the counts that the items do not have are refused, or left out with `skip_bad`;
    sessions in which they were shown remain sessions of their query. `ranks` is K; by default as
    many as the counts say or the largest rank. Rows of the same document and rank add up. Ids are
    compared as text where one side has strings and the other numbers.
    """
    with _tables(counts, items, engine or EngineChoice()) as tables:
        top = tables.top(ranks)
        unknown = tables.unknown(top)
        if unknown["unknown_documents"] and not skip_bad:
            raise InputError(
                f"the items must have every document of the counts; they lack "
                f"{unknown['unknown_documents']:,}, for example {unknown['example']}; --skip-bad "
                f"(skip_bad=True in Python) leaves them out."
            )
        aligned = tables.arrays(top)
        return aligned, _alignment(aligned, unknown, tables.beyond(top))


def read_counts(path: str | Path, *, ranks: int | None = None) -> Counts:
    """Counts of a file on their own: the documents are those that it has, ordered by their ids."""
    table = CountTable.open(path)
    with _tables(table, None, EngineChoice()) as tables:
        return tables.arrays(tables.top(ranks))


@dataclass(frozen=True, eq=False)
class _Tables:
    """The counts and the ids of the items in one DuckDB."""

    items: RankingData
    said: int
    """K as the counts say it."""
    counts: Any
    queries: Any
    documents: Any

    @property
    def joined(self) -> Any:
        """The counts with the place of their query and document; null where there is none."""
        found = self.counts.left_join(self.queries, self.counts.query_id == self.queries.query_key)
        return found.left_join(
            self.documents,
            [
                found.query == self.documents.of_query,
                found.doc_id == self.documents.doc_key,
            ],
        )

    def top(self, ranks: int | None) -> int:
        """K: the one that is asked for, or as many as the counts say or have."""
        if ranks is None:
            ranks = max(self.said, self.counts["rank"].max().to_pyarrow().as_py() or 1)
        require(ranks >= 1, "ranks", "at least 1", ranks)
        check_ranks(ranks)
        cells = self.items.documents * ranks
        require(cells <= MOST_CELLS, "documents x ranks", f"at most {MOST_CELLS}", cells)
        return int(ranks)

    def beyond(self, top: int) -> int:
        far = self.counts.filter(self.counts["rank"] > top)
        return int(total(far.impressions).to_pyarrow().as_py() or 0)

    def unknown(self, top: int) -> dict[str, Any]:
        """Documents without an item, what they count, and one of them."""
        joined = self.joined
        lost = joined.filter(joined.document.isnull(), joined["rank"] <= top)
        pairs = lost.group_by("query_id", "doc_id").agg(
            impressions=total(lost.impressions), clicks=total(lost.clicks)
        )
        told = pairs.agg(
            unknown_documents=pairs.count(),
            unknown_impressions=total(pairs.impressions).coalesce(0),
            unknown_clicks=total(pairs.clicks).coalesce(0),
        )
        found = told.to_pyarrow().to_pylist()[0]
        if not found["unknown_documents"]:
            return {**found, "example": ""}
        one = pairs.order_by("query_id", "doc_id").limit(1).to_pyarrow().to_pylist()[0]
        return {**found, "example": f"query {one['query_id']!r}, document {one['doc_id']!r}"}

    def arrays(self, top: int) -> Counts:
        joined, items = self.joined, self.items
        known = joined.filter(joined.document.notnull(), joined["rank"] <= top)
        cells = known.group_by("document", "rank").agg(
            impressions=total(known.impressions), clicks=total(known.clicks)
        )
        found = cells.to_pyarrow()
        place = np.asarray(found["document"]), np.asarray(found["rank"]) - 1
        shape = (items.documents, top)
        impressions, clicks = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        impressions[place] = np.asarray(found["impressions"])
        clicks[place] = np.asarray(found["clicks"])
        return Counts(items.offsets, impressions, clicks, self.sessions(items.queries, top))

    def sessions(self, queries: int, top: int) -> Ints:
        """Sessions of each query: said, or else impressions of all documents at its top rank."""
        counts = self.counts.filter(self.counts["rank"] <= top)
        if "sessions" in counts.columns:
            each = self.counts.group_by("query_id").agg(sessions=self.counts.sessions.max())
        else:
            by_rank = counts.group_by("query_id", "rank").agg(n=total(counts.impressions))
            each = by_rank.group_by("query_id").agg(sessions=by_rank.n.max())
        known = each.inner_join(self.queries, each.query_id == self.queries.query_key)
        found = known.select("query", "sessions").to_pyarrow()
        sessions = np.zeros(queries, np.int64)
        sessions[np.asarray(found["query"])] = np.asarray(found["sessions"])
        return sessions


def _alignment(counts: Counts, unknown: dict[str, Any], beyond: int) -> Alignment:
    shown = np.any(counts.impressions > 0, axis=1).astype(np.int64)
    return Alignment(
        documents=counts.documents,
        shown=int(shown.sum()),
        queries=counts.queries,
        shown_queries=int(np.count_nonzero(flat.query_sums(shown, counts.offsets))),
        impressions=int(counts.impressions.sum()),
        beyond=beyond,
        **unknown,
    )


@contextlib.contextmanager
def _tables(
    counts: CountTable, items: RankingData | None, engine: EngineChoice
) -> Iterator[_Tables]:
    """The tables of counts and items, or of the counts alone: items are then what they count."""
    with (
        scratch_folder(engine.spill) as spill,
        opened("duckdb", memory=engine.memory, spill=spill) as running,
    ):
        assert isinstance(running, DuckDB)
        table = running.table("counts", counts.source)
        _check_rows(table)
        items = _counted_items(table) if items is None else items
        query_ids, doc_ids = items.ids()
        places = pa.array(np.arange(items.queries))
        known = pa.table({"query_key": pa.array(query_ids), "query": places})
        of_query = flat.query_of(items.offsets)
        pairs = pa.table(
            {
                "of_query": of_query,
                "doc_key": pa.array(doc_ids),
                "document": np.arange(items.documents),
            }
        )
        table, queries = _same_kind(table, "query_id", running.table("queries", known))
        table, documents = _same_kind(table, "doc_id", running.table("documents", pairs))
        _check_twice(documents)
        yield _Tables(items, counts.ranks_said, table, queries, documents)


def _counted_items(table: Any) -> RankingData:
    """Every document of a table of counts, without features."""
    keys = ("query_id", "doc_id")
    pairs = table.select(*keys).distinct().order_by(*keys).to_pyarrow()
    query, doc = (
        pairs[key].to_numpy().astype(str if pa.types.is_string(pairs[key].type) else np.int64)
        for key in keys
    )
    names, first = np.unique(query, return_index=True)
    offsets = np.append(first, len(query)).astype(np.int64)
    features = np.zeros((len(query), 0), dtype=np.float32)
    return RankingData(features, offsets, query_ids=names, doc_ids=doc)


def _check_rows(table: Any) -> None:
    """Counts may come from elsewhere: every row must keep the rules of a summed log."""
    log = read_log(table, sessions=False)
    bad = log.source.filter(log.source.place < BEYOND).limit(1).to_pyarrow().to_pylist()
    if bad:
        place = bad[0].pop("place")
        raise InputError(f"{log.rules[-place - 1]} in counts; got {bad[0]}.")
    if "sessions" in table.columns:
        check_sessions(added_sessions([table]))


def _same_kind(counts: Any, name: str, keys: Any) -> tuple[Any, Any]:
    """Both sides' ids as they are, or both as text when only one of them is text."""
    key = "query_key" if name == "query_id" else "doc_key"
    if counts[name].type().is_string() == keys[key].type().is_string():
        return counts, keys
    return counts.cast({name: "string"}), keys.cast({key: "string"})


def _check_twice(documents: Any) -> None:
    twice = documents.group_by("of_query", "doc_key").agg(n=documents.count())
    found = twice.filter(twice.n > 1).limit(1).to_pyarrow().to_pylist()
    if found:
        raise InputError(
            f"`doc_ids` must differ within a query; got {found[0]['doc_key']!r} twice."
        )
