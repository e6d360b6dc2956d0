"""The forms of a log, and the rules its rows keep: Ibis expressions that name no engine.

A log has one row per shown document (`click`), or is summed (`impressions`, `clicks`). Every
row gets a `place`: its rank if it is kept, `BEYOND` if that lies below the cut, and otherwise minus
the number of the first rule that it breaks. Rows are grouped by their place instead of their rank,
so checking a log costs neither a pass nor a column of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saferank.counts.hashing import Hash
from saferank.errors import InputError, require
from saferank.logs.feedback_columns import Check, FeedbackColumns
from saferank.logs.log_reading import HIGHEST_RANK, LogReading

BEYOND = 0
LEAST_PROPENSITY = 1e-9
MOST = 2**62

_ALWAYS = ("query_id", "doc_id", "rank")
_ROWS = ("click",)
_SUMMED = ("impressions", "clicks")
NAMES = (
    *_ALWAYS, *_ROWS, *_SUMMED, "part", "session_id", "sessions", "propensity", "user_id", "day",
)  # fmt: skip
_DAYS = ("date", "timestamp", "time")
_ALL = LogReading()


@dataclass(frozen=True, eq=False)
class Log:
    """A log in saferank's names and types; `rules` are the sentences of the places from -1 down."""

    table: Any
    """Ibis table: query_id, doc_id, place, clicked or impressions and clicks, session_id?, unit?,
    judged?, propensity?, worth? (the value of an impression, where such are counted).

    `unit` is who is set aside to judge by as a whole: the user, or the session where a row has no
    user; it is there where the log has users.

    `judged` tells whether a row is to judge by, where a row tells it by itself.
    """
    source: Any
    """The user's rows (their columns under saferank's names) with `place`, for examples."""
    rules: tuple[str, ...]
    summed: bool
    has_sessions: bool
    hashed: Hash | None = None
    """Which sessions are to judge by, where the log has ids of sessions."""
    users: Any | None = None
    """The table with `user_id`, where the log has users."""
    dated: Any | None = None
    """The table with `day` as text, where the log has dates."""

    @property
    def conflict(self) -> int:
        """The place of rows that share session, query and rank but not the document."""
        return -len(self.rules)

    @property
    def has_users(self) -> bool:
        """Whether rows tell whose they are, so that users are set aside as a whole."""
        return "unit" in self.table.columns

    @property
    def has_parts(self) -> bool:
        """Whether its rows tell what is to learn from and what to judge by."""
        return self.hashed is not None or "judged" in self.table.columns

    def kept(self, table: Any) -> Any:
        """The rows of a table with places that break no rule and lie above the cut, by `rank`."""
        return table.filter(table.place > BEYOND).rename(rank="place")


def columns_of(
    columns: Mapping[str, str] | None, feedback: FeedbackColumns | None = None
) -> dict[str, str]:
    """The user's name of each column of the schema, and of each kind of feedback.

    >>> columns_of({"rank": "position"})["rank"]
    'position'
    """
    mapping = dict(columns or {})
    named = tuple(dict.fromkeys((*NAMES, *(feedback.feedback.kinds if feedback else ()))))
    unknown = sorted(set(mapping) - set(named))
    require(not unknown, "column", f"one of {', '.join(named)}", ", ".join(unknown))
    return {name: mapping.get(name, name) for name in named}


@dataclass(frozen=True)
class _Form:
    """Which of its columns a log has, and what they are taken for."""

    names: Mapping[str, str]
    summed: bool
    has_ids: bool
    """Whether rows tell their session."""
    has_sessions: bool
    """Whether that is to be used for more than the part of a row."""
    has_users: bool
    recorded: bool
    """Whether propensities were recorded."""

    @classmethod
    def of(cls, table: Any, reading: LogReading, feedback: FeedbackColumns | None) -> _Form:
        """The form of a table; `InputError` where it has none."""
        there, given = table.columns, dict(reading.columns or {})
        names = columns_of(given, feedback)
        summed = feedback is None and _is_summed(there, names, given)
        if feedback is not None:
            _check_rows(there, names)
            feedback.check(there, names)
        ids = not summed and names["session_id"] in there
        return cls(
            names=names,
            summed=summed,
            has_ids=ids,
            has_sessions=reading.use_sessions and ids,
            has_users=not summed and names["user_id"] in there,
            # a column of that name may be something else in a log: taken only where it is named
            recorded=names["propensity"] in there and (summed or "propensity" in given),
        )

    def wanted(self, table: Any, parts: bool, feedback: FeedbackColumns | None) -> list[str]:
        """The columns that are taken as they are, by saferank's names."""
        maybe = ("user_id",) if not self.summed else ("part",) if parts else ()
        return [
            *_ALWAYS,
            *(_SUMMED if self.summed else _ROWS if feedback is None else ()),
            *(["session_id"] if self.has_sessions else []),
            *(["propensity"] if self.recorded else []),
            *(name for name in maybe if self.names[name] in table.columns),
        ]

    def derived(
        self, table: Any, hashed: Hash | None, feedback: FeedbackColumns | None
    ) -> dict[str, Any]:
        """The columns that are computed: kinds of feedback, day, unit, and the part of a row."""
        more = {} if feedback is None else feedback.columns(table, self.names)
        day = day_of(table, self.names["day"])
        if day is not None:
            more["day"] = day
        if self.has_users:
            more["unit"] = unit_of(table, self.names)
        if hashed is not None and not self.has_sessions:
            own = more.get("unit", table[self.names["session_id"]] if self.has_ids else None)
            more["judged"] = hashed.chooses(identity(own, "session_id"))
        return more


def read_log(
    table: Any,
    reading: LogReading = _ALL,
    *,
    hashed: Hash | None = None,
    parts: bool = True,
    feedback: FeedbackColumns | None = None,
) -> Log:
    """A user's Ibis table as a `Log`; `InputError` when columns lack or have unfit types.

    `hashed` tells the part of a row by its session. With `parts=False` counts in parts are taken
    together. `feedback` is what is counted of a row log in place of its clicks, as `reading` says.
    Its conditions and exclusions were applied before.
    """
    reading.check()
    form = _Form.of(table, reading, feedback)
    hashed = hashed if form.has_ids or form.has_users else None
    wanted, more = form.wanted(table, parts, feedback), form.derived(table, hashed, feedback)
    source = table.select(**{name: table[form.names[name]] for name in wanted}, **more)
    if form.summed:
        values, broken = _summed_checks(source, reading.rank_from)
    else:
        values, broken = _row_checks(source, form.has_sessions, reading.rank_from, feedback)
    values |= {name: source[name] for name in ("unit", "judged") if name in more}
    if form.recorded:
        values["propensity"], bad_propensity = _propensity(source, form.summed)
        broken.append(bad_propensity)
    values = _placed(values, broken, reading.top)
    rules = tuple(rule for _, rule in broken)
    if form.has_sessions:
        rules = (*rules, "a session must show one document at a rank")
    return Log(
        table=source.select(**values),
        source=source.mutate(place=values["place"]),
        rules=rules,
        summed=form.summed,
        has_sessions=form.has_sessions,
        hashed=hashed,
        users=source.select(**values, user_id=source.user_id) if "user_id" in wanted else None,
        dated=source.select(**values, day=source.day) if "day" in more else None,
    )


def unit_of(table: Any, names: Mapping[str, str]) -> Any:
    """The user of each row, or its session where it has none."""
    user = table[names["user_id"]]
    kind = user.type()
    if not (kind.is_string() or kind.is_integer()):
        user = user.cast("string")
    if names["session_id"] not in table.columns:
        return user
    session = identity(table[names["session_id"]], "session_id")
    if user.type() != session.type():
        user, session = user.cast("string"), session.cast("string")
    return user.coalesce(session)


def day_of(table: Any, name: str) -> Any | None:
    """The day of each row as text: of the named column, or of the first that looks like a date."""
    kinds = table.schema()
    dates = [c for c, kind in kinds.items() if kind.is_date() or kind.is_timestamp()]
    texts = [c for c in _DAYS if c in kinds and kinds[c].is_string()]
    chosen = next((c for c in (name, *dates, *texts) if c in kinds), None)
    if chosen is None:
        return None
    column = table[chosen]
    if column.type().is_timestamp():
        column = column.date()
    return column.substr(0, 10) if column.type().is_string() else column.cast("string")


def _is_summed(there: tuple[str, ...], names: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Which of the two forms a log has; a mapped column decides when both could be."""
    lacking = {
        False: [name for name in (*_ALWAYS, *_ROWS) if names[name] not in there],
        True: [name for name in (*_ALWAYS, *_SUMMED) if names[name] not in there],
    }
    wants_sums = any(name in given for name in _SUMMED) and "click" not in given
    for summed in (True, False) if wants_sums else (False, True):
        if not lacking[summed]:
            return summed
    missing = min(lacking.values(), key=len)
    raise _lacks(there, names, missing)


def _check_rows(there: tuple[str, ...], names: Mapping[str, str]) -> None:
    """Refuse a log that is not one of rows: only those tell kinds of feedback."""
    missing = [name for name in _ALWAYS if names[name] not in there]
    if missing:
        raise _lacks(there, names, missing)


def _lacks(there: tuple[str, ...], names: Mapping[str, str], missing: list[str]) -> InputError:
    absent = ", ".join(f"`{names[name]}`" for name in missing)
    return InputError(
        f"the log must have columns query_id, doc_id, rank and click (or impressions and clicks); "
        f"it has {', '.join(there)} and lacks {absent}: name yours with --column "
        f"{missing[0]}=NAME (columns={{'{missing[0]}': 'NAME'}} in Python)."
    )


def _row_checks(
    source: Any, has_sessions: bool, rank_from: int, feedback: FeedbackColumns | None
) -> tuple[dict[str, Any], list[Check]]:
    rank, bad_rank = _rank(source.rank, rank_from)
    values = {
        "query_id": identity(source.query_id, "query_id"),
        "doc_id": identity(source.doc_id, "doc_id"),
        "rank": rank,
    }
    clicked, bad_clicks = _clicks(source) if feedback is None else feedback.read(source, values)
    values |= clicked
    broken = [*_missing(source, "query_id", "doc_id"), bad_rank]
    if has_sessions:
        values["session_id"] = identity(source.session_id, "session_id")
        broken += _missing(source, "session_id")
    return values, [*broken, *bad_clicks]


def _clicks(source: Any) -> tuple[dict[str, Any], list[Check]]:
    click = source.click
    boolean = click.type().is_boolean()
    _expect(boolean or click.type().is_numeric(), "click", "0/1 or boolean", click)
    broken = _missing(source, "click")
    if not boolean:
        broken.append((click.notin([0, 1]), "`click` must be 0 or 1"))
    return {"clicked": click if boolean else click == 1}, broken


def _summed_checks(source: Any, rank_from: int) -> tuple[dict[str, Any], list[Check]]:
    rank, bad_rank = _rank(source.rank, rank_from)
    impressions, bad_impressions = _whole(source.impressions, "impressions", 0, MOST)
    clicks, bad_clicks = _whole(source.clicks, "clicks", 0, MOST)
    values = {
        "query_id": identity(source.query_id, "query_id"),
        "doc_id": identity(source.doc_id, "doc_id"),
        "rank": rank,
        "impressions": impressions,
        "clicks": clicks,
    }
    broken = [
        *_missing(source, "query_id", "doc_id"),
        bad_rank,
        (bad_impressions, f"`impressions` must be a whole number of at least 0, at most {MOST}"),
        (bad_clicks, f"`clicks` must be a whole number of at least 0, at most {MOST}"),
        (clicks > impressions, "`clicks` must be at most `impressions`"),
    ]
    if "part" in source.columns:
        part = source.part
        _expect(part.type().is_string(), "part", "learn or judge", part)
        values["judged"] = part == "judge"
        bad_part = part.isnull() | part.notin(["learn", "judge"])
        broken.append((bad_part, "`part` must be learn or judge"))
    return values, broken


def _propensity(source: Any, summed: bool) -> tuple[Any, Check]:
    """Production's probability of a document at its rank: what was shown has one."""
    import ibis

    column = source.propensity
    _expect(column.type().is_numeric(), "propensity", "numbers", column)
    outside = column.isnull() | ~_between(column, LEAST_PROPENSITY, 1)
    value = outside.ifelse(ibis.null(column.type()), column)
    bad = (source.impressions > 0) & outside if summed else outside
    return value, (bad, f"`propensity` must be from {LEAST_PROPENSITY:g} to 1")


RANK_RULE = "`rank` must be a whole number of at least "


def _rank(column: Any, rank_from: int) -> tuple[Any, Check]:
    """Ranks counted from 1, and the rule of the log's own."""
    highest = HIGHEST_RANK - 1 + rank_from
    rank, bad = _whole(column, "rank", rank_from, highest)
    counted = rank if rank_from == 1 else rank.cast("int64") + (1 - rank_from)
    return counted, (bad, f"{RANK_RULE}{rank_from}, at most {highest}")


def _missing(source: Any, *names: str) -> list[Check]:
    return [(source[name].isnull(), f"`{name}` must not be missing") for name in names]


def _placed(values: dict[str, Any], broken: list[Check], top: int | None) -> dict[str, Any]:
    """`place` instead of `rank`; what lies beyond the cut falls into one group of its query."""
    import ibis

    rank, document = values.pop("rank"), values["doc_id"]
    kind = "int64" if rank.type().bounds.upper > HIGHEST_RANK else "int32"
    cases = [(bad, ibis.literal(-number, kind)) for number, (bad, _) in enumerate(broken, start=1)]
    if top is not None:
        beyond = rank > top
        cases.append((beyond, ibis.literal(BEYOND, kind)))
        values["doc_id"] = beyond.ifelse(ibis.null(document.type()), document)
    return {**values, "place": ibis.cases(*cases, else_=rank.cast(kind))}


def identity(column: Any, name: str) -> Any:
    """An id: a string, or a whole number."""
    kind = column.type()
    if kind.is_uuid():
        return column.cast("string")
    if kind.is_decimal() and kind.scale == 0:
        return column.cast("int64")
    _expect(kind.is_string() or kind.is_integer(), name, "strings or whole numbers", column)
    return column


def _whole(column: Any, name: str, low: int, high: int) -> tuple[Any, Any]:
    """A column as whole numbers, and whether a row's value is none in low..high.

    Tables that had a missing value often hold whole numbers as floats or decimals: those that are
    in range are turned into integers and compared with what they were.
    """
    import ibis

    kind = column.type()
    _expect(kind.is_numeric() and not kind.is_boolean(), name, "whole numbers", column)
    if kind.is_integer():
        broken = column.isnull() | (column < low)
        return column, broken | (column > high) if kind.bounds.upper > high else broken
    inside = _between(column, low, high)
    whole = inside.ifelse(column, ibis.null(kind)).cast("int64")
    return whole, column.isnull() | ~inside | (whole != column)


def _between(column: Any, low: float, high: float) -> Any:
    """Whether values lie in low..high, which NaN never does.

    The statistics of a Parquet file leave NaN out, and DuckDB 2.0 believes them: where all other
    values lie inside it takes that for certain, and `isnan` for never. It computes a difference.
    """
    inside = column.between(low, high)
    return inside & (column - column == 0) if column.type().is_floating() else inside


def _expect(holds: bool, name: str, rule: str, column: Any) -> None:
    require(holds, name, rule, str(column.type()))
