"""From a log to counts, as Ibis expressions: one grouped pass that counts and checks at once.

No engine is named here: `engines` runs the expressions, `counting` puts the parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saferank.counts.hashing import Hash, knows_text
from saferank.errors import require
from saferank.logs.schema import BEYOND, Log

KEYS = ("query_id", "doc_id", "place")
JUDGE_COLUMNS = ("judge_impressions", "judge_clicks")
INVERSE = "inverse"
"""The sum of 1 / propensity over impressions, which adds up where propensities do not."""
_UNIT = 2**24
_CLUSTER_SEED = 21
"""Of the hash of users: one for all logs, as counts are added."""


def tally(log: Log) -> Any:
    """Rows, impressions and clicks of each (query, document, place): one pass over the log.

    Where the log has sessions, rows that repeat session, query, document and rank are one
    impression, clicked if any of them was; `rows` tells how many there were. Where rows tell their
    part, `judge_impressions` and `judge_clicks` are those to judge by: columns of their own, as
    another key would double the groups.
    """
    if log.summed:
        return _settled(_tally_summed(log))
    return _settled(_tally_sessions(log) if log.has_sessions else _tally_rows(log))


def _tally_rows(log: Log) -> Any:
    table = log.table
    grouped = table.group_by(*KEYS)
    return grouped.agg(
        impressions=table.count(),
        clicks=table.count(where=table.clicked),
        **_judge_counts(table),
        **_inverse(table),
    )


def _inverse(table: Any, impressions: Any = 1) -> dict[str, Any]:
    """The sum of inverse propensities, where they are recorded.

    It is summed in whole units of 2^-24: sums of floats would depend on the order of the rows.
    """
    if "propensity" not in table.columns:
        return {}
    units = (impressions * float(_UNIT) / table.propensity.cast("float64")).round()
    whole = units.cast("decimal(38, 0)").coalesce(0)
    return {INVERSE: whole.sum().cast("float64") / float(_UNIT)}


def propensity(table: Any) -> Any:
    """The harmonic mean of a group's propensities; null where nothing was shown.

    1 / propensity of what was shown adds up to the sessions in expectation, so the harmonic mean is
    how often production shows the document there, also where its policy changed.
    """
    mean = table.impressions.cast("float64") / table[INVERSE].nullif(0)
    return mean.clip(upper=1)


def _judge_counts(table: Any) -> dict[str, Any]:
    """Impressions and clicks to judge by, of rows that tell their part."""
    if "judged" not in table.columns:
        return {}
    return {
        "judge_impressions": table.count(where=table.judged),
        "judge_clicks": table.count(where=table.judged & table.clicked),
    }


def _tally_summed(log: Log) -> Any:
    table = log.table
    sums = {name: table[name] for name in ("impressions", "clicks")}
    if "judged" in table.columns:
        sums |= {f"judge_{name}": table.judged.ifelse(table[name], 0) for name in sums}
    return table.group_by(*KEYS).agg(
        rows=table.count(),
        **{name: total(column) for name, column in sums.items()},
        **_inverse(table, table.impressions),
    )


def _tally_sessions(log: Log) -> Any:
    """First what each session saw at each rank, then how often.

    The smallest and the largest document id at a rank of a session differ exactly if it shows two
    documents there: no second grouping and no window is needed to find such rows.
    """
    import ibis

    table = log.table
    seen = table.group_by("session_id", "query_id", "place").agg(
        rows=table.count(),
        doc_id=table.doc_id.min(),
        other=table.doc_id.max(),
        clicked=table.count(where=table.clicked) > 0,
        **{name: table[name].min() for name in ("propensity", "unit") if name in table.columns},
    )
    two = (seen.place > BEYOND) & (seen.doc_id != seen.other)
    place = two.ifelse(ibis.literal(log.conflict, seen.place.type()), seen.place)
    own = seen.unit if log.has_users else seen.session_id
    part = {} if log.hashed is None else {"judged": log.hashed.chooses(own)}
    recorded = ["propensity"] if "propensity" in seen.columns else []
    shown = seen.select("query_id", "doc_id", "rows", "clicked", *recorded, place=place, **part)
    return shown.group_by(*KEYS).agg(
        rows=total(shown.rows),
        impressions=shown.count(),
        clicks=shown.count(where=shown.clicked),
        **_judge_counts(shown),
        **_inverse(shown),
    )


def sessions(log: Log, engine: str = "duckdb") -> Any:
    """Different sessions of each query that saw at least one row that is kept; those to judge by.

    They are `sessions` and, where the log is split by them, `judge_sessions`. Where the log has
    users, `cluster` is a hash of the query's user, or null where several share it.
    """
    kept = log.kept(log.table)
    pairs = kept.select("query_id", "session_id").distinct()
    if log.has_users:
        pairs = kept.group_by("query_id", "session_id").agg(unit=kept.unit.min())
    more = {}
    if log.hashed is not None:
        own = pairs.unit if log.has_users else pairs.session_id
        more["judge_sessions"] = pairs.count(where=log.hashed.chooses(own))
    if log.has_users and knows_text(engine):
        more |= {"first": pairs.unit.min(), "last": pairs.unit.max()}
    each = pairs.group_by("query_id").agg(sessions=pairs.count(), **more)
    if "first" in more:
        digest = Hash(1.0, _CLUSTER_SEED, engine).digest(each["first"].cast("string"))
        alone = (each["first"] == each["last"]).ifelse(digest.substr(0, 16), None)
        each = each.mutate(cluster=alone).drop("first", "last")
    return _of_queries(each)


def added_sessions(tables: Sequence[Any]) -> Any:
    """Sessions of each query, added over tables of counts that say them on every row.

    Tables that are in parts (`judged`) say them for each part, and then they come with
    `judge_sessions`. `uneven` counts the tables that say different numbers, or none.
    """
    import ibis

    parted = all("judged" in table.columns for table in tables)
    clustered = all("cluster" in table.columns for table in tables)
    keys = ["query_id", *(["judged"] if parted else [])]
    said = [
        table.group_by(keys).agg(
            sessions=table.sessions.max(),
            **_said_cluster(table, clustered),
            uneven=(table.sessions.min() != table.sessions.max())
            | (table.sessions.count() < table.count()),
        )
        for table in tables
    ]
    each = ibis.union(*said) if len(said) > 1 else said[0]
    part = {}
    if parted:
        part["judge_sessions"] = total(each.judged.ifelse(each.sessions, 0))
    return _of_queries(
        each.group_by("query_id").agg(
            sessions=total(each.sessions),
            **part,
            **_said_cluster(each, clustered),
            uneven=each.count(where=each.uneven),
        )
    )


def _said_cluster(table: Any, clustered: bool) -> dict[str, Any]:
    """The user of a query, where all rows say the same one."""
    if not clustered:
        return {}
    column = table.cluster
    same = (column.min() == column.max()) & (column.count() == table.count())
    return {"cluster": same.ifelse(column.min(), None)}


def check_sessions(by_query: Any) -> None:
    """Refuse counts that say different numbers of sessions for one query (and part)."""
    if "uneven" in by_query.columns:
        uneven = by_query.count(where=by_query.uneven > 0).to_pyarrow().as_py()
        rule = "the same in all rows of a query"
        require(uneven == 0, "sessions", rule, f"different ones in {uneven} of the queries")


def _of_queries(counted: Any) -> Any:
    numbers = {name: "int64" for name in counted.columns if name.endswith("sessions")}
    return counted.cast({"query_id": _id_type(counted.query_id), **numbers})


def total(column: Any) -> Any:
    """A sum as a 64-bit integer in every engine: DuckDB's is wider and would become a float."""
    return column.sum().cast("decimal(38, 0)").cast("int64")


def _settled(tallied: Any) -> Any:
    """The same column types from every engine, and `rows` in every form."""
    if "rows" not in tallied.columns:
        tallied = tallied.mutate(rows=tallied.impressions)
    types = {
        "query_id": _id_type(tallied.query_id),
        "doc_id": _id_type(tallied.doc_id),
        "place": "int64",
        "rows": "int64",
        "impressions": "int64",
        "clicks": "int64",
        **{name: "int64" for name in JUDGE_COLUMNS if name in tallied.columns},
        **({INVERSE: "float64"} if INVERSE in tallied.columns else {}),
    }
    return tallied.select(*types).cast(types)


def _id_type(column: Any) -> str:
    kind = column.type()
    if kind.is_string():
        return "string"
    return "uint64" if kind.is_unsigned_integer() and kind.nbytes == 8 else "int64"
