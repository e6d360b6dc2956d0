"""Counts by ids onto the flat documents of items: a join in DuckDB, then arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saferank._core import flat
from saferank._core.flat import Ints
from saferank._core.scratch import scratch_folder
from saferank.counts.arrays import MOST_CELLS, Counts, check_ranks
from saferank.counts.count_table import CountTable
from saferank.counts.feedback import CLICKS, Feedback
from saferank.counts.sketch import Sketches
from saferank.counts.split import Split
from saferank.data import RankingData
from saferank.data.ids import check_texts
from saferank.errors import InputError, require
from saferank.logs.aligned import Alignment
from saferank.logs.counting import EngineChoice
from saferank.logs.engines.running import DuckDB, opened
from saferank.logs.log_reading import LogReading
from saferank.logs.parts import Parts
from saferank.logs.plain_alignment import align_plainly
from saferank.logs.schema import BEYOND, read_log
from saferank.logs.stored_parts import SUMS, parts_of
from saferank.logs.tally import INVERSE, JUDGE_COLUMNS, total

_CELLS = 1 << 17
"""Counts that are put in their places together."""


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

    Counts in parts come with their `judge` part. Counts of the form before there were parts are
    split here, by a draw that is the same whenever they are read (share 0.2, seed 0).

    Parameters
    ----------
    counts
        As `count` makes them.
    items
        Whose documents the counts are to be on.
    ranks
        K; by default as many as the counts say, or the largest rank.
    skip_bad
        Leave documents without an item out, instead of refusing them.
    engine
        Which engine joins; by default DuckDB, or none where counts are plain and few.

    Returns
    -------
    tuple of Counts and Alignment
        The counts on the items' documents, and what did not match.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from saferank.logs import count
    >>> rows = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "rank": [1, 2], "click": [0, 1]}
    >>> log = pa.table(rows)
    >>> items = RankingData(np.eye(2), [0, 2], doc_ids=["a", "b"], query_ids=["q"])
    >>> counts, alignment = align(count(log, judge=0), items)
    >>> counts.clicks
    array([[0, 0],
           [0, 1]])
    """
    plain = align_plainly(counts, items, ranks) if engine is None else None
    if plain is not None:
        return plain.counts, _alignment(plain.counts, {}, plain.beyond, plain.split)
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
        beyond = tables.check_complete(aligned, unknown["unknown_impressions"])
        if unknown["unknown_documents"] and not aligned.impressions.any():
            raise InputError(
                f"the items must be those of the log; none of the {unknown['unknown_documents']:,} "
                f"documents that it shows is among them, for example {unknown['example']}."
            )
        return aligned, _alignment(aligned, unknown, beyond, tables.parts.split)


def read_counts(path: str | Path, *, ranks: int | None = None) -> Counts:
    """Counts of a file on their own: the documents are those that it has, ordered by their ids.

    Their parts are as those of `align`.

    Parameters
    ----------
    path
        A file that `count` wrote.
    ranks
        K; by default as many as the counts say, or the largest rank.

    Returns
    -------
    Counts
        In their parts, as those of `align`.

    See Also
    --------
    align : on documents of your own.

    Examples
    --------
    >>> import tempfile
    >>> import saferank as sr
    >>> rows = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "rank": [1, 2], "click": [0, 1]}
    >>> path = Path(tempfile.mkdtemp()) / "counts.parquet"
    >>> table = sr.count(pa.table(rows), output=path, judge=0)
    >>> read_counts(path)
    Counts(1 queries, 2 documents, 2 ranks, 1 sessions, 1 clicks)
    """
    return arrays_of(CountTable.open(path), ranks=ranks)


def arrays_of(counts: CountTable, *, ranks: int | None = None) -> Counts:
    """Counts by ids as arrays, without items."""
    with _tables(counts, None, EngineChoice()) as tables:
        top = tables.top(ranks)
        arrays = tables.arrays(top)
        tables.check_complete(arrays)
        return arrays


@dataclass(frozen=True, eq=False)
class _Tables:
    """The counts and the ids of the items in one DuckDB."""

    engine: DuckDB
    items: RankingData
    said: int
    """K as the counts say it."""
    parts: Parts
    queries: Any
    documents: Any
    sketches: Sketches | None = None
    feedback: Feedback = CLICKS

    @property
    def counts(self) -> Any:
        """The counts, both parts in one row."""
        return self.parts.counts

    @property
    def joined(self) -> Any:
        """The counts with the place of their query and document; null where there is none."""
        with_queries = self.counts.left_join(
            self.queries, self.counts.query_id == self.queries.query_key
        )
        return with_queries.left_join(
            self.documents,
            [
                with_queries.query == self.documents.of_query,
                with_queries.doc_id == self.documents.doc_key,
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

    def check_complete(self, arrays: Counts, left_out: int = 0) -> int:
        """Refuse counts of which rows were lost on the way; impressions beyond the ranks kept.

        Engines believe a file's statistics: where those of a damaged file leave its values out,
        joins pass over its rows.
        """
        far, impressions = self.counts["rank"] > arrays.ranks, self.counts.impressions
        sums = self.counts.agg(whole=total(impressions), beyond=total(far.ifelse(impressions, 0)))
        (row,) = self.engine.fetch(sums).to_pylist()
        whole, beyond = row["whole"] or 0, row["beyond"] or 0
        if whole != int(arrays.impressions.sum()) + left_out + beyond:
            raise InputError("the counts must be a whole file; its statistics leave rows out.")
        return beyond

    def unknown(self, top: int) -> dict[str, Any]:
        """Documents without an item, what they count, and one of them."""
        joined = self.joined
        lost = joined.filter(joined.document.isnull(), joined["rank"] <= top)
        pairs = lost.group_by("query_id", "doc_id").agg(
            impressions=total(lost.impressions), clicks=total(lost.clicks)
        )
        sums = pairs.agg(
            unknown_documents=pairs.count(),
            unknown_impressions=total(pairs.impressions).coalesce(0),
            unknown_clicks=total(pairs.clicks).coalesce(0),
        )
        facts = sums.to_pyarrow().to_pylist()[0]
        if not facts["unknown_documents"]:
            return {**facts, "example": ""}
        example = pairs.order_by("query_id", "doc_id").limit(1).to_pyarrow().to_pylist()[0]
        return {
            **facts,
            "example": f"query {example['query_id']!r}, document {example['doc_id']!r}",
        }

    def arrays(self, top: int) -> Counts:
        joined, items = self.joined, self.items
        matched = joined.filter(joined.document.notnull(), joined["rank"] <= top)
        pairs = ("impressions", "clicks"), JUDGE_COLUMNS
        cells = matched.group_by("document", "rank").agg(
            **{name: total(matched[name]) for pair in pairs for name in pair},
            **({INVERSE: matched[INVERSE].sum()} if INVERSE in matched.columns else {}),
        )
        found, sessions = self._filled(cells, top), self.sessions(top)
        outside, propensity = self.outside(top), found.pop(INVERSE, None)

        def counts_of(pair: tuple[str, ...], sessions: Ints) -> Counts:
            shown, clicked = (found.pop(name) for name in pair)
            rest = None if outside is None else np.stack([outside[name] for name in pair])
            return Counts(
                items.offsets, shown, clicked, sessions, outside=rest, propensity=propensity,
                feedback=self.feedback,
            )  # fmt: skip

        everything, judge = (counts_of(*each) for each in zip(pairs, sessions, strict=True))
        cluster = self.clusters()
        everything, judge = (replace(part, cluster=cluster) for part in (everything, judge))
        if self.sketches is not None:
            everything = replace(everything, sketch=self.sketches.everything)
            judge = replace(judge, sketch=self.sketches.judge)
        return everything if self.parts.split.off else replace(everything, judge=judge)

    def _filled(self, cells: Any, top: int) -> dict[str, Any]:
        """Every column of the cells, documents x ranks, filled some cells at a time.

        Recorded propensities stand under the name of their inverse; 0 where nothing was shown.
        Cells come by document: columns that lie in files are then filled page after page.
        """
        names = [name for name in cells.columns if name not in ("document", "rank")]
        shape = self.items.documents, top
        kinds = {name: np.float64 if name == INVERSE else np.int64 for name in names}
        filled: dict[str, Any] = {name: np.zeros(shape, kinds[name]) for name in names}
        for batch in self.engine.batches(cells.order_by("document"), _CELLS):
            place = np.asarray(batch["document"]), np.asarray(batch["rank"]) - 1
            columns = {name: np.asarray(batch[name]) for name in names}
            if INVERSE in columns:
                shown, inverse = columns["impressions"], columns[INVERSE]
                chance = np.divide(shown, inverse, out=np.zeros(shown.size), where=inverse > 0)
                columns[INVERSE] = np.minimum(chance, 1.0)
            for name, values in columns.items():
                filled[name][place] = values
        return filled

    def outside(self, top: int) -> dict[str, Ints] | None:
        """What was shown and clicked of documents without an item, queries x ranks."""
        joined = self.joined
        lost = joined.filter(
            joined.document.isnull(), joined["query"].notnull(), joined["rank"] <= top
        )
        names = ("impressions", "clicks", *JUDGE_COLUMNS)
        cells = lost.group_by("query", "rank").agg(**{name: total(lost[name]) for name in names})
        table = cells.to_pyarrow()
        if table.num_rows == 0:
            return None
        place = np.asarray(table["query"]), np.asarray(table["rank"]) - 1
        rest = {name: np.zeros((self.items.queries, top), np.int64) for name in names}
        for name, array in rest.items():
            array[place] = np.asarray(table[name])
        return rest

    def clusters(self) -> Ints | None:
        """The user of each query, as a number; none where they are not known."""
        each = self.parts.by_query
        if each is None or "cluster" not in each.columns:
            return None
        matched = each.inner_join(self.queries, each.query_id == self.queries.query_key)
        users = matched.filter(matched.cluster.notnull()).select("query", "cluster").to_pyarrow()
        if users.num_rows == 0:
            return None
        names, number = np.unique(users["cluster"].to_numpy().astype(str), return_inverse=True)
        # queries that several users share, and those without sessions, are on their own
        cluster = names.size + np.arange(self.items.queries)
        cluster[np.asarray(users["query"])] = number
        return cluster

    def sessions(self, top: int) -> tuple[Ints, Ints]:
        """Sessions of each query, and those of them to judge by.

        They are said, or else the impressions of all documents at the top rank of each part.
        """
        each = self.parts.by_query
        if each is None:
            counts = self.counts.filter(self.counts["rank"] <= top)
            by_rank = counts.group_by("query_id", "rank").agg(
                learn=total(counts.impressions - counts.judge_impressions),
                judge=total(counts.judge_impressions),
            )
            tops = by_rank.group_by("query_id").agg(
                learn=by_rank.learn.max(), judge_sessions=by_rank.judge.max()
            )
            each = tops.mutate(sessions=tops.learn + tops.judge_sessions)
        matched = each.inner_join(self.queries, each.query_id == self.queries.query_key)
        table = matched.select("query", "sessions", "judge_sessions").to_pyarrow()
        both = np.zeros((2, self.items.queries), np.int64)
        for array, name in zip(both, ("sessions", "judge_sessions"), strict=True):
            array[np.asarray(table["query"])] = np.asarray(table[name])
        return both[0], both[1]


def _alignment(counts: Counts, unknown: dict[str, Any], beyond: int, split: Split) -> Alignment:
    shown = np.any(counts.impressions > 0, axis=1).astype(np.int64)
    return Alignment(
        documents=counts.documents,
        shown=int(shown.sum()),
        queries=counts.queries,
        shown_queries=int(np.count_nonzero(flat.query_sums(shown, counts.offsets))),
        impressions=int(counts.impressions.sum()),
        beyond=beyond,
        split=split,
        learn_sessions=counts.part("learn").total,
        judge_sessions=counts.part("judge").total,
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
        by_query = pa.table({"query_key": pa.array(query_ids), "query": places})
        of_query = flat.query_of(items.offsets)
        pairs = pa.table(
            {
                "of_query": of_query,
                "doc_key": pa.array(doc_ids),
                "document": np.arange(items.documents),
            }
        )
        parts = parts_of(running, table, counts.split, spill)
        parts, queries = _same_kind(parts, "query_id", running.table("queries", by_query))
        parts, documents = _same_kind(parts, "doc_id", running.table("documents", pairs))
        _check_twice(documents)
        yield _Tables(
            running, items, counts.ranks_said, parts, queries, documents, counts.sketches,
            counts.feedback,
        )  # fmt: skip


def _counted_items(table: Any) -> RankingData:
    """Every document of a table of counts, without features."""
    keys = ("query_id", "doc_id")
    pairs = table.select(*keys).distinct().order_by(*keys).to_pyarrow()
    for key in keys:
        if pa.types.is_string(pairs[key].type):
            check_texts(pairs[key])
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
    # a column `click` beside them would make it a log of rows, whose counts nobody looks at
    reading = LogReading(columns={name: name for name in SUMS}, use_sessions=False)
    log = read_log(table, reading)
    bad = log.source.filter(log.source.place < BEYOND).limit(1).to_pyarrow().to_pylist()
    if bad:
        place = bad[0].pop("place")
        raise InputError(f"{log.rules[-place - 1]} in counts; got {bad[0]}.")


def _same_kind(parts: Parts, name: str, keys: Any) -> tuple[Parts, Any]:
    """Both sides' ids as they are, or both as text when only one of them is text."""
    key = "query_key" if name == "query_id" else "doc_key"
    if parts.counts[name].type().is_string() == keys[key].type().is_string():
        return parts, keys
    text = {name: "string"}
    by_query = parts.by_query
    if by_query is not None and name == "query_id":
        by_query = by_query.cast(text)
    parts = replace(parts, counts=parts.counts.cast(text), by_query=by_query)
    return parts, keys.cast({key: "string"})


def _check_twice(documents: Any) -> None:
    twice = documents.group_by("of_query", "doc_key").agg(n=documents.count())
    repeated = twice.filter(twice.n > 1).limit(1).to_pyarrow().to_pylist()
    if repeated:
        raise InputError(
            f"`doc_ids` must differ within a query; got {repeated[0]['doc_key']!r} twice."
        )
