"""Counts as a table by ids, and what was told when they were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from saferank.counts.feedback import CLICKS, Feedback
from saferank.counts.sketch import Sketches
from saferank.counts.split import Split
from saferank.data.damage import refuse_damaged
from saferank.data.frames import is_text
from saferank.errors import InputError, require

KEYS = ("query_id", "doc_id", "rank")
COLUMNS = (*KEYS, "impressions", "clicks")
PARTED = (*KEYS, "part", "impressions", "clicks")
"""Columns of counts in two parts."""
RANKS_SAID = b"saferank.ranks"
"""In the file's metadata: K, where lists were longer than what was ever shown."""


@dataclass(frozen=True)
class BrokenRule:
    """A rule that rows of a log break, how many rows do, and one of them."""

    rule: str
    rows: int
    example: str

    def __str__(self) -> str:
        return f"{self.rule} ({self.rows:,} rows, for example {self.example})"


@dataclass(frozen=True)
class Repeats:
    """Sessions with a document at several ranks, of those that were looked at."""

    sessions: int
    looked_at: int
    example: str

    def __str__(self) -> str:
        return (
            f"{self.sessions:,} of {self.looked_at:,} sessions looked at show a document at "
            f"several ranks (for example {self.example})"
        )


@dataclass(frozen=True)
class CountReport:
    """What counting a log found."""

    rows: int
    """Rows of the log that met the conditions."""
    impressions: int
    clicks: int
    groups: int
    """Different (query, document, rank)."""
    queries: int
    ranks: int
    """The largest rank that is kept."""
    sessions: int | None = None
    """Sessions by `session_id`, or as counts say themselves; none where neither is there."""
    duplicates: int = 0
    """Rows that repeat session, query, document and rank: counted once."""
    beyond: int = 0
    """Rows at ranks below the cut, left out."""
    bad: tuple[BrokenRule, ...] = ()
    """Rules that rows break; those rows are left out."""
    repeats: Repeats | None = None
    """Sessions with a document at several ranks; it is counted at each of them."""
    excluded: int = 0
    """Rows that an exclusion list leaves out; they are not among `rows`."""
    from_zero: bool = False
    """Whether every list begins at rank 0, although ranks were taken to count from 1."""
    recorded: bool = False
    """Whether the log has recorded production's propensities."""
    split: Split | None = None
    """How the counts came in two parts."""
    learn_sessions: int | None = None
    judge_sessions: int | None = None
    """Sessions of the parts, where they are known or were drawn."""
    judge_impressions: int = 0
    judge_queries: int = 0
    """Queries with something to judge by."""
    feedback: Feedback = CLICKS
    """What `clicks` are."""
    value: float | None = None
    """Of values that are drawn: their sum over rows."""
    capped: int = 0
    """Rows with more than the most that counts."""
    kept_information: float = 1.0
    """The share of sessions that would tell as much if values were not drawn."""

    @property
    def bad_rows(self) -> int:
        """Rows that break a rule."""
        return sum(broken.rows for broken in self.bad)

    def of_parts(self, split: Split, totals: Mapping[str, Any]) -> CountReport:
        """The same with what is in the parts."""
        return replace(self, split=split, **totals)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """What a user should know, one sentence each."""
        sentences = [
            f"{self.rows:,} rows became {self.groups:,} counts of {self.queries:,} queries at "
            f"ranks 1 to {self.ranks}: {self.impressions:,} impressions, {self._feedback()}."
        ]
        if self.value is not None:
            sentences.append(
                f"The impressions' {self.feedback.noun}: {self.value:,.8g}. It counts by chance, "
                f"in full ({self.feedback.unit:g}) or not at all: right on average, and as "
                f"uncertain as the values of {self.kept_information:.0%} of the sessions would be."
            )
        if self.capped:
            sentences.append(
                f"{self.capped:,} impressions have more than {self.feedback.unit:g} and count as "
                f"{self.feedback.unit:g}."
            )
        if self.sessions is not None:
            sentences.append(f"Sessions: {self.sessions:,}.")
        if self.split is not None:
            sentences.append(self._parts(self.split))
        if self.recorded:
            sentences.append("Production's propensities are recorded in the log.")
        if self.duplicates:
            sentences.append(
                f"{self.duplicates:,} rows repeat another of their session: counted once."
            )
        if self.repeats:
            sentences.append(f"{self.repeats}: counted at each of them.")
        if self.beyond:
            sentences.append(f"{self.beyond:,} rows lie beyond the cut and are left out.")
        if self.excluded:
            sentences.append(
                f"{self.excluded:,} rows are on the list of exclusions and are left out."
            )
        sentences += [f"Left out: {broken}." for broken in self.bad]
        return sentences

    def _feedback(self) -> str:
        """What was counted, in its own unit."""
        what = self.feedback
        if what.unit == 1 and not what.amount:
            return f"{self.clicks:,} {what.noun}"
        drawn = " as drawn" if what.drawn else ""
        return f"{what.noun} {what.worth(self.clicks):,.8g}{drawn}"

    def _parts(self, split: Split) -> str:
        """What is in the parts: sessions where they are known, else impressions or queries."""
        if split.by == "query":
            judged = self.judge_queries
            return split.sentence(self.queries - judged, judged, "queries")
        if self.learn_sessions is None or self.judge_sessions is None:
            judged = self.judge_impressions
            return split.sentence(self.impressions - judged, judged, "impressions")
        return split.sentence(self.learn_sessions, self.judge_sessions)


@dataclass(frozen=True, eq=False)
class CountTable:
    """Counts by ids: columns query_id, doc_id, rank, part, impressions, clicks and maybe sessions.

    `part` is "learn" or "judge"; counts that were not split have no such column. `sessions` is the
    number of sessions of the row's query in its part, the same on each of those rows. `propensity`
    is production's probability of the document at that rank, where the log has recorded it.

    >>> table = CountTable.of_arrow(pa.table({"query_id": ["a"], "doc_id": [1], "rank": [1],
    ...                                       "impressions": [3], "clicks": [2]}))
    >>> table
    CountTable(1 counts)
    """

    source: pa.Table | Path
    """The counts in memory, or the Parquet file that has them."""
    report: CountReport | None = None
    """What the count left out and mended, where it was kept."""

    @classmethod
    def open(cls, path: str | Path) -> CountTable:
        """The counts of a Parquet file, as `saferank count` writes it; only its footer is read."""
        path = Path(path)
        require(path.is_file(), "counts", "a Parquet file that exists", str(path))
        with refuse_damaged(path):
            _check_columns(pq.read_schema(path), str(path))
        return cls(path)

    @classmethod
    def of_arrow(cls, table: pa.Table, report: CountReport | None = None) -> CountTable:
        """Counts that are in memory."""
        _check_columns(table.schema, "counts")
        return cls(table, report)

    @property
    def rows(self) -> int:
        """Number of (query, document, rank, part)."""
        if isinstance(self.source, Path):
            return int(pq.read_metadata(self.source).num_rows)
        return int(self.source.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Columns and metadata."""
        source = self.source
        return pq.read_schema(source) if isinstance(source, Path) else source.schema

    @property
    def has_sessions(self) -> bool:
        """Whether sessions of each query are known apart from its impressions."""
        return "sessions" in self.schema.names

    @property
    def has_parts(self) -> bool:
        """Whether the counts are in two parts."""
        return "part" in self.schema.names

    @property
    def split(self) -> Split | None:
        """How the parts came about; none for counts of the form before there were any."""
        schema = self.schema
        return Split.of_metadata(schema.metadata, "part" in schema.names)

    @property
    def sketches(self) -> Sketches | None:
        """Samples of the sessions' ids, where the log had them."""
        return Sketches.of_metadata(self.schema.metadata)

    @property
    def feedback(self) -> Feedback:
        """What is counted: clicks unless the file says otherwise."""
        return Feedback.of_metadata(self.schema.metadata)

    @property
    def ranks_said(self) -> int:
        """K as the counts say it, or 0."""
        said = (self.schema.metadata or {}).get(RANKS_SAID, b"0")
        require(said.isdigit() and len(said) <= 9, "ranks of the counts", "a number", said)
        return int(said)

    def to_arrow(self, columns: Iterable[str] | None = None) -> pa.Table:
        """All of the counts in memory."""
        names = None if columns is None else list(columns)
        if isinstance(self.source, Path):
            with refuse_damaged(self.source):
                return pq.ParquetFile(self.source).read(columns=names)
        return self.source if names is None else self.source.select(names)

    def __repr__(self) -> str:
        return f"CountTable({self.rows:,} counts)"


def _check_columns(schema: pa.Schema, name: str) -> None:
    lacking = [column for column in COLUMNS if column not in schema.names]
    if lacking:
        raise InputError(
            f"`{name}` must have the columns {', '.join(COLUMNS)}; it lacks {', '.join(lacking)}."
        )
    for column in (*COLUMNS, "part", "sessions", "propensity"):
        times = schema.names.count(column)
        require(times <= 1, f"{column} of {name}", "one column", f"{times} columns")
    numbers = [c for c in (*COLUMNS[2:], "sessions") if c in schema.names]
    for column in numbers:
        kind = schema.field(column).type
        require(pa.types.is_integer(kind), f"{column} of {name}", "whole numbers", str(kind))
    if "part" in schema.names:
        kind = schema.field("part").type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        require(is_text(kind), f"part of {name}", "learn or judge", str(kind))
