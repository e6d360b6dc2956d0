"""Conditions such as `device=mobile` or `day>=2026-01-31`: parsed here, never evaluated as code."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from saferank.errors import InputError

_FORM = re.compile(r"^\s*(?P<column>[^=!<>]+?)\s*(?P<sign>==|!=|<=|>=|=|<|>)\s*(?P<value>.*?)\s*$")
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """A column compared with a value."""

    column: str
    sign: str
    value: str

    def of(self, table: Any) -> Any:
        """The condition as an Ibis expression on `table`; the value takes the column's type."""
        if self.column not in table.columns:
            raise InputError(
                f"`where` must name a column of the log ({', '.join(table.columns)}); "
                f"got {self.column!r}."
            )
        column = table[self.column]
        return _SIGNS[self.sign](column, _literal(self.value, column.type(), self.column))


def parse(text: str) -> Condition:
    """A condition from its text.

    >>> parse("day >= 2026-01-31")
    Condition(column='day', sign='>=', value='2026-01-31')
    """
    match = _FORM.match(text)
    if match is None:
        raise InputError(
            f"`where` must be like 'device=mobile' or 'day>=2026-01-31'; got {text!r}."
        )
    return Condition(match["column"], match["sign"], _unquoted(match["value"]))


def filtered(table: Any, conditions: Sequence[str]) -> Any:
    """The rows of an Ibis table that meet every condition."""
    parsed = [parse(text).of(table) for text in conditions]
    return table.filter(parsed) if parsed else table


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _literal(text: str, kind: Any, column: str) -> Any:
    """The text as an Ibis literal of a column's type."""
    import ibis

    try:
        if kind.is_boolean():
            return ibis.literal({"true": True, "false": False, "1": True, "0": False}[text.lower()])
        if kind.is_integer():
            return ibis.literal(int(text))
        if kind.is_numeric():
            return ibis.literal(float(text))
        if kind.is_timestamp():
            return ibis.literal(datetime.fromisoformat(text), type=kind)
        if kind.is_date():
            return ibis.literal(date.fromisoformat(text))
    except (ValueError, KeyError, TypeError, OverflowError) as error:  # too large among them
        raise InputError(
            f"`where` must compare `{column}` with a value of its type ({kind}); got {text!r}."
        ) from error
    if kind.is_string():
        return ibis.literal(text)
    raise InputError(f"`where` cannot compare `{column}`: its type is {kind}.")
