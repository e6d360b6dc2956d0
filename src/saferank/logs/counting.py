"""A click log to counts: find it, check and count it on an engine, write the result whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saferank._core.files import atomic_file
from saferank._core.scratch import scratch_folder
from saferank.counts.arrays import check_ranks
from saferank.counts.count_table import BrokenRule, CountReport, CountTable
from saferank.counts.feedback import CLICKS, Feedback
from saferank.counts.feedback import KEY as FEEDBACK
from saferank.counts.hashing import Hash
from saferank.counts.sketch import KEY, Sketch, Sketches, merged
from saferank.counts.split import JUDGE_SHARE, SPLIT, Split, check_seed, check_share
from saferank.errors import InputError, require
from saferank.logs import conditions, examples, rank_origin, sources
from saferank.logs.drawn_parts import draw
from saferank.logs.engines.running import DuckDB, Engine, opened
from saferank.logs.exclusions import ExclusionList, Exclusions
from saferank.logs.feedback_columns import FeedbackColumns, counted_feedback, worth_facts
from saferank.logs.log_reading import LogReading
from saferank.logs.parts import Parts
from saferank.logs.repeats import find_repeats
from saferank.logs.said_sessions import check_enough_sessions
from saferank.logs.schema import BEYOND, RANK_RULE, Log, columns_of, identity, read_log, unit_of
from saferank.logs.settled_split import metadata_of, settle_split
from saferank.logs.sketching import sketch_of
from saferank.logs.sources import LogName
from saferank.logs.tally import (
    INVERSE,
    added_sessions,
    check_sessions,
    sessions,
    tally,
    total,
)

FROM_ZERO = (
    "the log's ranks count from 0: every list begins there; give --rank-from 0 (rank_from=0 in "
    "Python)."
)
TWICE = 0.2
"""Share of sessions in common from which counts are taken to be of the same log."""
_KEPT = 1  # stands for all ranks where only their sum is asked for


@dataclass(frozen=True)
class EngineChoice:
    """Which engine counts, how much memory it may take, and where it spills what does not fit.

    Examples
    --------
    >>> EngineChoice("duckdb", memory="4GB").name
    'duckdb'
    """

    name: str = "duckdb"
    """"duckdb", "spark", or a URL of Ibis."""
    memory: str | None = None
    """What it may take, such as "4GB"; None: the engine's own limit."""
    spill: Path | None = None
    """Folder for what does not fit; None: the engine's own."""
    hive: str | None = None
    """Whose values count where folders and files have the same column: "folders" or "columns"."""


def count(
    log: LogName,
    *,
    output: str | os.PathLike[str] | None = None,
    engine: str | EngineChoice = "duckdb",
    columns: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    top: int | None = None,
    skip_bad: bool = False,
    use_sessions: bool = True,
    rank_from: int = 1,
    exclude: ExclusionList | None = None,
    judge: float = JUDGE_SHARE,
    seed: int = 0,
    feedback: str | Feedback = CLICKS,
) -> CountTable:
    """Count impressions and clicks of each (query, document, rank) of a click log, in two parts.

    Parameters
    ----------
    log
        Parquet, CSV or JSON-lines files, folders, globs, hive partitions, an engine's table, or a
        table in memory (pandas, Polars, Arrow).
    output
        A Parquet file to write; without it the counts stay in memory.
    engine
        "duckdb", "spark", a URL of Ibis, or an `EngineChoice` with memory and spill folder.
    columns
        The log's names where they differ, as {"rank": "position"}; {"propensity": NAME} takes
        production's probability of showing the document at that rank from the log.
    where
        Conditions such as "device=mobile" or "day>=2026-01-31"; all must hold.
    top
        The last rank to keep; what lies beyond is reported.
    skip_bad
        Leave bad rows out and report them, instead of refusing the log.
    use_sessions
        With a `session_id`, count repeated rows once, refuse two documents at one rank of a
        session, and count sessions; `False` takes the part of a row from it, and is cheaper.
    rank_from
        The log's first rank, 0 or 1; counts always have ranks from 1.
    exclude
        Rows to leave out, such as those of robots: a CSV or Parquet file or a table whose columns
        are named as the log's and hold the values whose rows are left out.
    judge
        Share of sessions that are set aside to judge by, chosen by a hash of `session_id`; 0 turns
        it off. A log without sessions is split by whole queries, one that is already summed by
        drawing; counts that are in parts keep them.
    seed
        Of that hash.
    feedback
        What is counted in place of clicks: a 0/1 column ("purchase"), columns with a value each
        ("cart=1,purchase=5"; the largest of an impression counts), or a column of amounts with the
        most that counts ("revenue<=200"). A value counts as the highest one with its share of it as
        probability, else as nothing, so that what holds for clicks holds for it.

    Returns
    -------
    CountTable
        One row per query, document, rank and part.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "rank": [1, 2], "click": [0, 1]}
    >>> log = pa.table(rows)
    >>> count(log, judge=0).to_arrow(["doc_id", "clicks"]).sort_by("doc_id")["clicks"].to_pylist()
    [0, 1]
    """
    check_share(judge)
    check_seed(seed)
    reading = LogReading(columns, where, top, use_sessions, rank_from, exclude, feedback)
    path = None if output is None else Path(output)
    with count_rows(log, reading, engine, output=path, judge=judge, seed=seed) as result:
        if result.report.from_zero:
            raise InputError(FROM_ZERO)
        if result.report.bad and not skip_bad:
            raise InputError(_refusal(result.report))
        if result.report.groups == 0:
            raise InputError(
                f"the log must have rows to count; {_why_empty(result.report, where)}."
            )
        check_ranks(result.report.ranks)
        return result.table(path)


@dataclass(frozen=True, eq=False)
class Counted:
    """A log that was counted: its tally in scratch files, and what there is to tell."""

    report: CountReport
    engine: Engine
    local: DuckDB
    tallied: Any
    by_query: Any | None
    log: Log
    split: Split
    folder: Path
    sketches: Sketches | None = None

    def parts(self) -> Parts:
        """The counts in two parts: as the pass told, by whole queries, or drawn now."""
        kept, split = self.log.kept(self.tallied), self.split
        if split.off or self.log.has_parts:
            return Parts(split, kept, self.by_query)
        if split.by == "query":
            return Parts.by_whole_queries(split, kept)
        return draw(self.local, kept, self.by_query, split, self.folder)

    def table(self, output: Path | None) -> CountTable:
        """The counts in a file that is written whole or not at all, or in memory."""
        parts = self.parts()
        report = self.report.of_parts(self.split, parts.totals())
        said = {SPLIT: self.split.to_text()}
        if report.feedback != CLICKS:
            said[FEEDBACK] = report.feedback.text
        if self.sketches is not None:
            said[KEY] = self.sketches.to_text()
        if output is None:
            table = parts.table().to_pyarrow().replace_schema_metadata(said)
            return CountTable.of_arrow(table, report)
        with atomic_file(output) as temporary:
            self.local.write(parts.table(), temporary, "writing", compression="zstd", metadata=said)
        return CountTable(output, report)


@contextlib.contextmanager
def count_rows(
    log: LogName,
    reading: LogReading,
    engine: str | EngineChoice = "duckdb",
    *,
    output: Path | None = None,
    judge: float = 0,
    seed: int = 0,
) -> Iterator[Counted]:
    """Run the one pass over the log; the result lives as long as the block."""
    choice = EngineChoice(engine) if isinstance(engine, str) else engine
    wanted = FeedbackColumns.of(reading.feedback, seed)
    source, names = sources.find(log), columns_of(reading.columns, wanted)
    if output is not None:
        sources.check_output(source, output)
    excluded = None if reading.exclude is None else Exclusions.read(reading.exclude)
    _check_columns(source, names, reading, excluded)
    with (
        scratch_folder(choice.spill or (output and output.parent)) as folder,
        opened(choice.name, memory=choice.memory, spill=folder) as running,
        _local(running, choice, folder) as local,
    ):
        if isinstance(source, sources.Files):
            source = sources.settle_hive(source, choice.hive, lambda f: running.read(f).columns)
        table = conditions.filtered(running.read(source), reading.where)
        before = None
        if excluded is not None:
            before, table = table.count(), excluded.without(table, names, running)
        read = read_log(
            table,
            reading,
            hashed=Hash(judge, seed, running.name) if judge else None,
            parts=bool(judge),
            feedback=None if wanted is None else replace(wanted, engine=running.name),
        )
        split = settle_split(read, source, names["part"], judge, seed)
        tallied = _brought(running, local, tally(read), folder / "tally.parquet")
        by_query = None
        some = bool(reading.where) or excluded is not None
        of_queries = _sessions_of(read, running, source, reading.columns, some)
        if of_queries is not None:
            by_query = _brought(running, local, of_queries, folder / "sessions.parquet")
            check_sessions(by_query)
            if read.summed:
                check_enough_sessions(read.kept(tallied), by_query)
        report = _report(running, tallied, by_query, read)
        report = replace(report, feedback=_feedback(wanted, read, source))
        report = _with_facts(report, running, read, wanted, before)
        sketches = _sketches(running, table, names, read, source, report)
        yield Counted(report, running, local, tallied, by_query, read, split, folder, sketches)


def _feedback(wanted: FeedbackColumns | None, log: Log, source: sources.Source) -> Feedback:
    """What is counted: as asked for, or as counts say of themselves."""
    if wanted is not None:
        return wanted.feedback
    return counted_feedback(metadata_of(source)) if log.summed else CLICKS


def _with_facts(
    report: CountReport, running: Engine, log: Log, wanted: FeedbackColumns | None, before: Any
) -> CountReport:
    """The report with what takes a look of its own: values, exclusions, repeats."""
    report = replace(report, **worth_facts(running, log, wanted))
    if before is not None:
        report = replace(report, excluded=_number(running, before) - report.rows)
    if log.has_sessions and report.sessions:
        report = replace(report, repeats=find_repeats(running, log, report.sessions))
    return report


def _check_columns(
    source: sources.Source,
    names: Mapping[str, str],
    reading: LogReading,
    excluded: Exclusions | None,
) -> None:
    """Refuse local files without a column that is asked for, before an engine is started."""
    if not (isinstance(source, sources.Files) and source.local):
        return
    named = {conditions.parse(text).column for text in reading.where}
    named |= set() if excluded is None else excluded.columns(names)
    unless_named = {"part", "sessions", "propensity"} - set(reading.columns or {})
    sources.check_columns(source, {*names.values()} - unless_named | named)


def _sketches(
    running: Engine,
    table: Any,
    names: Mapping[str, str],
    log: Log,
    source: sources.Source,
    report: CountReport,
) -> Sketches | None:
    """A sample of the sessions of a log, or those of the counts that are added."""
    if not log.summed:
        name = names["session_id"]
        if name not in table.columns:
            return None
        about = report.sessions or report.rows // max(report.ranks, 1)
        ids = {"session_id": identity(table[name], "session_id")}
        if log.has_users:
            ids["unit"] = unit_of(table, names)
        return sketch_of(running, table.select(**ids), log.hashed, about)
    by_file = {name: Sketches.of_metadata(said) for name, said in metadata_of(source).items()}
    _check_twice(by_file)
    return merged(by_file.values()) if by_file else None


def _check_twice(by_file: Mapping[str, Sketches | None]) -> None:
    """Refuse to add counts of the same sessions."""
    seen: list[tuple[str, Sketch]] = []
    for name, sketches in by_file.items():
        if sketches is None:
            continue
        for other, before in seen:
            for part, whole, one, two in (
                (sketches.everything, before, name, other),
                (before, sketches.everything, other, name),
            ):
                share = part.shared(whole)
                if share is not None and share > TWICE:
                    raise InputError(
                        f"the counts must be of different sessions to be added; {share:.0%} of "
                        f"those of {Path(one).name!r} are in {Path(two).name!r}, too."
                    )
        seen.append((name, sketches.everything))


def _sessions_of(
    log: Log,
    running: Engine,
    source: sources.Source,
    columns: Mapping[str, str] | None,
    some: bool,
) -> Any | None:
    """Sessions of queries: those of `session_id`, or what counts say of themselves, file by file.

    Counts of only some of the rows do not know how many of their sessions are left.
    """
    if log.has_sessions:
        return sessions(log, running.name)
    names = columns_of(columns)
    if not log.summed or some:
        return None
    parts = [source]
    if isinstance(source, sources.Files):
        parts = [replace(source, paths=(path,)) for path in source.paths]
    tables = [running.read(part) for part in parts]
    there = {names["sessions"] in table.columns for table in tables}
    if there == {False}:
        return None
    require(there == {True}, "sessions", "a column of all of the counts, or of none", "some")
    parted = any(names["part"] in table.columns for table in tables)
    return added_sessions([_said_sessions(table, names, parted) for table in tables])


def _said_sessions(table: Any, names: Mapping[str, str], parted: bool) -> Any:
    """What counts say of sessions, row by row, and of which part."""
    import ibis

    columns = {name: table[names[name]] for name in ("query_id", "sessions")}
    if "cluster" in table.columns:
        columns["cluster"] = table.cluster
    if parted:
        there = names["part"] in table.columns
        columns["judged"] = table[names["part"]] == "judge" if there else ibis.literal(False)
    return table.select(**columns)


@contextlib.contextmanager
def _local(running: Engine, choice: EngineChoice, folder: Path) -> Iterator[DuckDB]:
    """DuckDB in this process for what is left after the pass: the tally, not the log."""
    if isinstance(running, DuckDB):
        yield running
        return
    with opened("duckdb", memory=choice.memory, spill=folder) as local:
        assert isinstance(local, DuckDB)
        yield local


def _brought(running: Engine, local: DuckDB, expression: Any, path: Path) -> Any:
    """The result of an expression as a table of the local DuckDB, through files from elsewhere."""
    title = f"counting ({path.stem})"
    if running is local:
        return local.keep(expression, path.stem, title)
    return local.connection.read_parquet(running.write(expression, path, title))


def _report(running: Engine, tallied: Any, by_query: Any | None, log: Log) -> CountReport:
    group = (tallied.place > BEYOND).ifelse(_KEPT, tallied.place)
    groups = tallied.group_by(group=group).agg(
        rows=total(tallied.rows),
        impressions=total(tallied.impressions),
        clicks=total(tallied.clicks),
        groups=tallied.count(),
        queries=tallied.query_id.nunique(),
        ranks=tallied.place.max(),
    )
    by_group = {row["group"]: row for row in groups.to_pyarrow().to_pylist()}
    kept = by_group.get(_KEPT, dict.fromkeys(groups.columns, 0))
    bad = tuple(
        BrokenRule(
            log.rules[-place - 1], row["rows"], examples.example(running, log, place, tallied)
        )
        for place, row in sorted(by_group.items(), reverse=True)
        if place < BEYOND
    )
    ranks_broken = any(broken.rule.startswith(RANK_RULE) for broken in bad)
    return CountReport(
        rows=sum(row["rows"] for row in by_group.values()),
        impressions=kept["impressions"],
        clicks=kept["clicks"],
        groups=kept["groups"],
        queries=kept["queries"],
        ranks=kept["ranks"],
        sessions=None if by_query is None else _all_sessions(by_query),
        duplicates=kept["rows"] - kept["impressions"] if log.has_sessions else 0,
        beyond=by_group.get(BEYOND, {"rows": 0})["rows"],
        bad=bad,
        from_zero=ranks_broken and rank_origin.counts_from_zero(running, log),
        recorded=INVERSE in tallied.columns,
    )


def _number(running: Engine, count: Any) -> int:
    return int(running.fetch(count.as_table()).column(0)[0].as_py())


def _all_sessions(by_query: Any) -> int:
    return int(total(by_query.sessions).to_pyarrow().as_py() or 0)


def _refusal(report: CountReport) -> str:
    broken = "; ".join(str(rule) for rule in report.bad)
    return (
        f"{report.bad_rows:,} of {report.rows:,} rows of the log break a rule: {broken}; "
        f"--skip-bad (skip_bad=True in Python) leaves such rows out."
    )


def _why_empty(report: CountReport, where: Sequence[str]) -> str:
    if report.rows:
        return f"none of its {report.rows:,} rows is kept"
    return f"none meets {' and '.join(where)}" if where else "it has none"
