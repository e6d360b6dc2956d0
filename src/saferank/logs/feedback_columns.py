"""Feedback of other kinds than clicks: from the log's columns to whether an impression counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saferank.counts.feedback import CLICKS, Feedback
from saferank.counts.hashing import Hash, knows_text
from saferank.errors import InputError, require

_DIGITS = 8
_RANGE = 16.0**_DIGITS

Check = tuple[Any, str]
"""A condition that a bad row meets, and the rule as a sentence."""


@dataclass(frozen=True)
class FeedbackColumns:
    """What is counted, and by which chance values become whole or nothing."""

    feedback: Feedback
    seed: int = 0
    engine: str = "duckdb"

    @classmethod
    def of(cls, feedback: str | Feedback, seed: int) -> FeedbackColumns | None:
        """None for the log's clicks."""
        what = feedback if isinstance(feedback, Feedback) else Feedback(feedback)
        return None if what == CLICKS else cls(what, seed)

    def check(self, columns: tuple[str, ...], names: Mapping[str, str]) -> None:
        """Refuse a log that lacks the columns, or the ids that values are drawn by."""
        for kind in self.feedback.kinds:
            name = names.get(kind, kind)
            rule = f"of the log's columns (yours: --column {kind}=NAME)"
            require(name in columns, "feedback", rule, name)
        if self.feedback.drawn and names["session_id"] not in columns:
            raise InputError(
                f"the log must have a `session_id` to count {self.feedback.text}: by it an "
                f"impression counts in full ({self.feedback.unit:g}) or not at all."
            )
        if self.feedback.drawn and not knows_text(self.engine):
            raise InputError(
                f"`feedback` must be one 0/1 column on the engine {self.engine}, which has no MD5 "
                f"that saferank knows; got {self.feedback.text!r}."
            )

    def columns(self, table: Any, names: Mapping[str, str]) -> dict[str, Any]:
        """The kinds' columns under names that no other column has, and the id to draw by."""
        own = {_own(kind): table[names.get(kind, kind)] for kind in self.feedback.kinds}
        if self.feedback.drawn:
            own["drawn_by"] = table[names["session_id"]].cast("string")
        return own

    def read(self, source: Any, ids: Mapping[str, Any]) -> tuple[dict[str, Any], list[Check]]:
        """`clicked`, `worth` where values are drawn, and the rules that rows keep."""
        broken: list[Check] = []
        worth: Any = None
        for kind, value in self.feedback.kinds.items():
            column = source[_own(kind)]
            happened, bad = (
                self._amount(column, kind) if self.feedback.amount else _flag(column, kind)
            )
            broken += bad
            own = happened if self.feedback.amount else happened.ifelse(value, 0.0)
            worth = own if worth is None else (worth > own).ifelse(worth, own)
        if not self.feedback.drawn:
            return {"clicked": worth > 0}, broken
        return {"clicked": self._drawn(worth, source.drawn_by, ids), "worth": worth}, broken

    def _amount(self, column: Any, kind: str) -> tuple[Any, list[Check]]:
        numeric = column.type().is_numeric() and not column.type().is_boolean()
        require(numeric, kind, "numbers", str(column.type()))
        finite = column.cast("float64")
        bad = column.isnull() | ~((finite >= 0) & (finite - finite == 0))
        return finite, [(bad, f"`{kind}` must be a number of at least 0")]

    def _drawn(self, worth: Any, session: Any, ids: Mapping[str, Any]) -> Any:
        """Whether each value counts in full: the same for the same session, document and rank.

        Rows that repeat an impression share the draw, so that the largest of their values counts.
        """
        import ibis

        key = ibis.literal("value")
        for part in (session, *(ids[name].cast("string") for name in ("query_id", "doc_id"))):
            key = key + "|" + part
        key = key + "|" + ids["rank"].cast("int64").cast("string")
        share = worth / self.feedback.unit
        drawn = _uniform(Hash(1.0, self.seed, self.engine).digest(key)) < share * _RANGE
        return ibis.cases((worth <= 0, False), (share >= 1, True), else_=drawn)


def _own(kind: str) -> str:
    return f"feedback_{kind}"


def _flag(column: Any, kind: str) -> tuple[Any, list[Check]]:
    missing: Check = (column.isnull(), f"`{kind}` must not be missing")
    if column.type().is_boolean():
        return column, [missing]
    require(column.type().is_numeric(), kind, "0/1 or boolean", str(column.type()))
    return column == 1, [
        missing,
        (column.notin([0, 1]), f"`{kind}` must be 0 or 1 (amounts: --feedback '{kind}<=MOST')"),
    ]


def _uniform(digest: Any) -> Any:
    """The first hexadecimal digits as a number from 0 to 16^8 - 1, in what every engine has."""
    number: Any = None
    for place in range(_DIGITS):
        code = digest.substr(place, 1).ascii_str().cast("float64")
        digit = code - (code > 90).ifelse(87.0, 48.0)
        number = digit if number is None else number * 16.0 + digit
    return number


def worth_facts(running: Any, log: Any, columns: FeedbackColumns | None) -> dict[str, Any]:
    """Of drawn values: their sum over impressions, how many exceed the most, what drawing costs.

    Rows that repeat an impression are one, with the largest of their values, as they are counted.
    """
    if columns is None or not columns.feedback.drawn:
        return {}
    rows = log.kept(log.table)
    keys = ("session_id", "query_id", "doc_id", "rank")
    seen = rows.group_by(*keys).agg(worth=rows.worth.max())
    most = columns.feedback.unit
    share = (seen.worth > most).ifelse(most, seen.worth) / most
    sums = seen.agg(
        impressions=seen.count().cast("float64"),
        shares=share.sum().coalesce(0.0),
        squares=(share * share).sum().coalesce(0.0),
        capped=seen.count(where=seen.worth > most),
    )
    facts = {name: column[0].as_py() for name, column in _columns(running.fetch(sums))}
    shares, squares = facts["shares"], facts["squares"]
    mean = shares / max(facts["impressions"], 1.0)
    drawn = shares * (1 - mean)  # the variance of the draws, and below that of the values
    return {
        "value": shares * most,
        "capped": facts["capped"],
        "kept_information": (squares - shares * mean) / drawn if drawn > 0 else 1.0,
    }


def _columns(table: Any) -> Any:
    return zip(table.column_names, table.columns, strict=True)


def counted_feedback(by_file: Mapping[str, Mapping[bytes, bytes]]) -> Feedback:
    """What counts that are added count; refused unless they all count the same."""
    said = {name: Feedback.of_metadata(metadata) for name, metadata in by_file.items()}
    if len(set(said.values())) > 1:
        first, *rest = said
        other = next(name for name in rest if said[name] != said[first])
        raise InputError(
            f"the counts must count the same to be added; got {said[first].text} in "
            f"{Path(first).name!r} and {said[other].text} in {Path(other).name!r}."
        )
    return next(iter(said.values()), CLICKS)
