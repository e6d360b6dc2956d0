"""Records from JSON that is not to be trusted: a dataclass is built of values of its own types."""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from saferank.errors import InputError

T = TypeVar("T")


def from_dict(kind: type[T], record: object, name: str) -> T:
    """The dataclass of a JSON object, every value checked against the annotation of its field.

    Whole numbers stand for floats but never booleans for numbers; NaN and infinity are refused;
    lists become the tuples that the dataclass has.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     tags: tuple[str, ...] = ()
    >>> from_dict(Point, {"x": 1, "tags": ["a"]}, "point")
    Point(x=1.0, tags=('a',))
    >>> from_dict(Point, {"x": "1"}, "point")
    Traceback (most recent call last):
    saferank.errors.InputError: `point.x` must be a number; got '1'.
    """
    if not isinstance(record, dict):
        raise _refusal(name, "an object", record)
    parts = {part.name: part for part in fields(typing.cast(Any, kind))}
    for key in record:
        if key not in parts:
            raise _refusal(name, f"an object of {', '.join(parts)}", key)
    for part in parts.values():
        if part.name not in record and part.default is MISSING and part.default_factory is MISSING:
            raise InputError(f"`{name}` must have a value for `{part.name}`.")
    hints = _hints(typing.cast(Any, kind))
    return kind(**{k: convert(hints[k], v, f"{name}.{k}") for k, v in record.items()})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def convert(hint: Any, value: object, name: str) -> Any:
    """A JSON value as its annotation has it, or `InputError` that says what was expected."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        rest = [item for item in inner if item is not type(None)]
        return None if value is None and len(rest) < len(inner) else convert(rest[0], value, name)
    if origin is typing.Literal:
        if not isinstance(value, str | int) or value not in inner:
            raise _refusal(name, f"one of {', '.join(map(repr, inner))}", value)
        return value
    if origin in (list, tuple):
        if not isinstance(value, list):
            raise _refusal(name, "a list", value)
        return origin(convert(inner[0], item, f"{name}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _refusal(name, "an object", value)
        return {key: convert(inner[1], item, f"{name}.{key:.20}") for key, item in value.items()}
    if is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value, name)
    return _plain(hint, value, name)


def _plain(hint: type, value: object, name: str) -> Any:
    rule, fits = _PLAIN[hint]
    if not fits(value):
        raise _refusal(name, rule, value)
    return hint(value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


_PLAIN: dict[type, tuple[str, Callable[[object], bool]]] = {
    int: ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    float: ("a number", _is_number),
    bool: ("true or false", lambda v: isinstance(v, bool)),
    str: ("a text", lambda v: isinstance(v, str)),
}


def _refusal(name: str, rule: str, value: object) -> InputError:
    shown = repr(value)
    return InputError(f"`{name}` must be {rule}; got {shown if len(shown) < 60 else shown[:57]}.")
