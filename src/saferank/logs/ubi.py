"""User Behavior Insights, the event schema of OpenSearch and Elasticsearch, as a log of rows.

Queries have a `query_id` (one showing of one list), `user_query`, `client_id`, `timestamp` and the
ids of what was served (`query_response_hit_ids`); events have a `query_id`, an `action_name`, the
document (`event_attributes.object.object_id`) and maybe its place (`event_attributes.position.
ordinal`). A row of the log is a document of a list, with a 0/1 column for each action.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from saferank._core.files import atomic_file
from saferank._core.marks import parquet_mark
from saferank._core.scratch import scratch_folder
from saferank.errors import InputError, require
from saferank.logs.engines.running import DuckDB, opened
from saferank.logs.sources import Files, LogName, find
from saferank.logs.ubi_fields import ubi_table

SHOWN = ("auto", "hits", "events")
MOST_ACTIONS = 20
_HITS = ("query_response_hit_ids", "query_response_object_ids", "query_response_objects_ids")
_OBJECT = ("event_attributes.object.object_id",)
_ORDINAL = ("event_attributes.position.ordinal.index", "event_attributes.position.ordinal")
_QUERY_FIELDS = ("query_id", "user_query", "client_id", "timestamp")
_OWN = ("query_id", "doc_id", "rank", "session_id", "user_id", "day", "click")
AGREE = 0.9
"""Share of events whose place is that of the served list, below which the lists are doubted."""


@dataclass(frozen=True)
class UbiReport:
    """What queries and events became."""

    lists: int
    """Queries that showed something: the sessions of the log."""
    rows: int
    shown_by: str
    """"hits" (what was served) or "events" (impressions)."""
    events: int
    unlinked: int
    """Events without a query or a document: searches, filters, logins."""
    unmatched: int
    """Events on documents that their list does not have."""
    actions: dict[str, int] = field(default_factory=dict)
    """Rows of the log with each action, by column."""
    placed: int = 0
    """Events that tell their place in the list; `agreeing` of them as the list has it."""
    agreeing: int = 0
    from_zero: int = 0
    """Events whose place is one less than that of the list."""

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """What a user should know, one sentence each."""
        how = "what was served" if self.shown_by == "hits" else "impression events"
        done = ", ".join(f"{count:,} {name}" for name, count in self.actions.items())
        said = [f"{self.lists:,} lists became {self.rows:,} rows by {how}; rows with: {done}."]
        if self.unlinked:
            said.append(
                f"{self.unlinked:,} of {self.events:,} events have no query or no document."
            )
        if self.unmatched:
            said.append(
                f"{self.unmatched:,} events are on documents that their list does not have: left "
                f"out."
            )
        return [*said, *self._places()]

    def _places(self) -> list[str]:
        if not self.placed or self.shown_by == "events":
            return []
        share = max(self.agreeing, self.from_zero) / self.placed
        if share < AGREE:
            return [
                f"Only {share:.0%} of the events have the place of the served list: users saw "
                f"other lists; if impressions are among the events, take --shown events."
            ]
        first = 0 if self.from_zero > self.agreeing else 1
        return [f"Places of events count from {first}, and {share:.0%} agree with the lists."]


def read_ubi(
    queries: LogName,
    events: LogName,
    output: str | os.PathLike[str],
    *,
    click: str = "click",
    shown: str = "auto",
    impression: str = "impression",
    memory: str | None = None,
) -> UbiReport:
    """Write queries and events of User Behavior Insights as a log of rows that `count` reads.

    Parameters
    ----------
    queries, events
        Exports of the two indices: JSON lines (documents, or hits with `_source`) or Parquet.
    output
        The Parquet file to write: query_id (the `user_query`), doc_id, rank from 1, session_id (the
        `query_id`), user_id (the `client_id`), day, click, and a 0/1 column for each other action
        on a shown document.
    click
        The action that is a click.
    shown
        What was shown: "hits" (`query_response_hit_ids`), "events" (those of action `impression`,
        at their ordinal), or "auto": hits where queries have them.
    impression
        The action that says that a document was seen.
    memory
        Limit of the engine, such as "4GB".

    Returns
    -------
    UbiReport
        What became of lists and events.

    Raises
    ------
    InputError
        Where fields are missing, nothing was shown, or no event is a click.

    Examples
    --------
    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> query = {"query_id": "1", "user_query": "tea", "query_response_hit_ids": ["a", "b"]}
    >>> event = {"query_id": "1", "action_name": "click",
    ...          "event_attributes": {"object": {"object_id": "b"}}}
    >>> for name, record in (("queries", query), ("events", event)):
    ...     _ = (folder / f"{name}.ndjson").write_text(json.dumps(record))
    >>> report = read_ubi(folder / "queries.ndjson", folder / "events.ndjson",
    ...                   folder / "log.parquet")
    >>> report.sentences()
    ['1 lists became 2 rows by what was served; rows with: 1 click.']
    """
    require(shown in SHOWN, "shown", f"one of {', '.join(SHOWN)}", shown)
    target = Path(output)
    with (
        scratch_folder(target.parent) as folder,
        opened("duckdb", memory=memory, spill=folder) as engine,
    ):
        assert isinstance(engine, DuckDB)
        asked = ubi_table(engine, _files(queries, "queries"), _QUERY_FIELDS, hits=_HITS)
        done = ubi_table(
            engine, _files(events, "events"), ("query_id", "action_name"), doc_id=_OBJECT,
            ordinal=_ORDINAL,
        )  # fmt: skip
        done = engine.keep(done, "ubi_events", "reading events")
        ubi = _Ubi(engine, asked, done, impression)
        lists, shown_by = ubi.lists(shown)
        log, columns = ubi.log(engine.keep(lists, "ubi_lists", "reading lists"), click)
        with atomic_file(target) as temporary:
            engine.write(
                log, temporary, "writing", compression="zstd", metadata=parquet_mark("log")
            )
        return ubi.report(engine.connection.read_parquet(str(target)), shown_by, columns)


def _files(name: LogName, what: str) -> Files:
    source = find(name)
    if not isinstance(source, Files) or not source.local or source.format == "csv":
        raise InputError(f"`{what}` must be JSON-lines or Parquet files; got {name!r}.")
    return source


@dataclass(frozen=True, eq=False)
class _Ubi:
    """The two tables in one DuckDB."""

    engine: DuckDB
    asked: Any
    """query_id, user_query, client_id, timestamp, hits."""
    done: Any
    """query_id, action_name, doc_id, ordinal."""
    impression: str

    @property
    def linked(self) -> Any:
        """Events on a document of a query."""
        done = self.done
        return done.filter(done.query_id.notnull(), done.doc_id.notnull())

    def lists(self, shown: str) -> tuple[Any, str]:
        """query_id, doc_id and rank of what was shown, and what tells it."""
        hits = self.asked.hits
        listed = self.asked.count(where=hits.notnull()).to_pyarrow().as_py()
        if shown == "hits" or (shown == "auto" and listed):
            require(listed > 0, "queries", f"with `{_HITS[0]}`", "none that has them")
            flat = self.asked.select("query_id", "hits").unnest("hits", offset="place")
            ranks = flat.filter(flat.hits.notnull(), flat.query_id.notnull()).group_by(
                "query_id", doc_id="hits"
            )
            return ranks.agg(rank=(flat.place.min() + 1).cast("int32")), "hits"
        seen = self.linked.filter(self.linked.action_name == self.impression)
        seen = seen.filter(seen.ordinal.notnull())
        some = seen.count().to_pyarrow().as_py()
        if not some:
            raise InputError(
                f"nothing tells what was shown: queries have no `{_HITS[0]}`, and no event is "
                f"{self.impression!r} with a document and an ordinal; name the action with "
                f"--impression."
            )
        ranks = seen.group_by("query_id", "doc_id")
        return ranks.agg(rank=seen.ordinal.min().cast("int32")), "events"

    def log(self, lists: Any, click: str) -> tuple[Any, list[str]]:
        """The rows, and the columns of actions."""
        names = self._actions(lists, click)
        done = self.linked
        acts = {name: done.count(where=done.action_name == action) > 0
                for name, action in names.items()}  # fmt: skip
        flags = done.group_by(acted_on="query_id", acted_doc="doc_id").agg(**acts)
        asked = self.asked.filter(self.asked.query_id.notnull())
        who = asked.group_by(session="query_id").agg(
            query=asked.user_query.min(), user_id=asked.client_id.min(), day=asked.timestamp.min()
        )
        rows = lists.inner_join(who, lists.query_id == who.session)
        rows = rows.left_join(
            flags, [rows.query_id == flags.acted_on, rows.doc_id == flags.acted_doc]
        )
        flagged = {name: rows[name].fill_null(False).cast("int8") for name in names}
        log = rows.select(
            query_id=rows.query, doc_id=rows.doc_id, rank=rows["rank"], session_id=rows.session,
            user_id=rows.user_id, day=_day(rows.day), **flagged,
        )  # fmt: skip
        return log.order_by("session_id", "rank"), list(names)

    def _actions(self, lists: Any, click: str) -> dict[str, str]:
        """Columns of actions on shown documents, the click first; refused where there is none."""
        linked = self.linked
        on_lists = linked.semi_join(lists, ["query_id", "doc_id"])
        matching = on_lists.filter(
            on_lists.action_name.notnull(), on_lists.action_name != self.impression
        )
        counted = matching.group_by("action_name").agg(n=matching.count())
        some = counted.order_by(counted.n.desc(), "action_name").limit(MOST_ACTIONS + 1)
        actions = [row["action_name"] for row in some.to_pyarrow().to_pylist()]
        if click not in actions:
            listed = ", ".join(actions[:6]) or "none"
            raise InputError(
                f"`click` must be an action on a shown document; got {click!r}, and there are: "
                f"{listed}. Name it with --click."
            )
        rest = [name for name in actions[:MOST_ACTIONS] if name != click]
        columns = [name if name not in _OWN else f"action_{name}" for name in rest]
        return {"click": click, **dict(zip(columns, rest, strict=True))}

    def report(self, log: Any, shown_by: str, columns: Sequence[str]) -> UbiReport:
        """What became of lists and events."""
        done, linked = self.done, self.linked
        sums = log.agg(
            lists=log.session_id.nunique(), rows=log.count(),
            **{f"a{number}": log.count(where=log[name] == 1) for number, name in
               enumerate(columns)},
        )  # fmt: skip
        facts = sums.to_pyarrow().to_pylist()[0]
        ranks = log.select(shown_session="session_id", shown_doc="doc_id", shown_rank="rank")
        joined = linked.left_join(
            ranks, [linked.query_id == ranks.shown_session, linked.doc_id == ranks.shown_doc]
        )
        gap = joined.shown_rank - joined.ordinal
        places = joined.agg(
            linked=joined.count(), unmatched=joined.count(where=joined.shown_doc.isnull()),
            placed=joined.count(where=gap.notnull()), agreeing=joined.count(where=gap == 0),
            from_zero=joined.count(where=gap == 1),
        ).to_pyarrow().to_pylist()[0]  # fmt: skip
        events = done.count().to_pyarrow().as_py()
        actions = {name: facts[f"a{number}"] for number, name in enumerate(columns)}
        return UbiReport(
            facts["lists"], facts["rows"], shown_by, events, events - places.pop("linked"),
            places.pop("unmatched"), actions, **places,
        )  # fmt: skip


def _day(moment: Any) -> Any:
    """The day of a timestamp that is a text, as ISO 8601 has it, or milliseconds since 1970."""
    epoch = moment.re_search(r"^\d{9,}$")
    seconds = epoch.ifelse(moment, "0").cast("int64") // 1000
    return epoch.ifelse(seconds.as_timestamp("s").date().cast("string"), moment.substr(0, 10))
