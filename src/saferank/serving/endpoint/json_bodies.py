"""JSON straight to arrays: lists of numbers never become Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from saferank._core.flat import Array, Floats
from saferank.errors import InputError, MissingExtraError, require

_NUMBERS: Final = ("features", "production", "production_rank")
"""Fields that are lists of numbers, or of such lists."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A JSON list of numbers, or of lists of as many numbers each; null is NaN."""

    values: Floats


class JsonReader:
    """Reads objects whose fields are known, by simdjson; one at a time, not for several threads.

    >>> reader = JsonReader()
    >>> reader.read(b'{"k": 3, "features": [[1, 2.5], [null, 4]]}', ["k", "features"])["k"]
    3
    """

    def __init__(self) -> None:
        try:
            import simdjson
        except ImportError as error:
            raise MissingExtraError("pysimdjson", "serve") from error
        self._new_parser = simdjson.Parser
        self._array, self._object = simdjson.Array, simdjson.Object
        self._parser = simdjson.Parser()

    def read(self, body: bytes, keys: Sequence[str]) -> dict[str, Any]:
        """The fields of an object; those of numbers as `Numbers`, others as Python has them."""
        try:
            root = self._parse(body)
        except RuntimeError:  # what was read before is still held by somebody
            self._parser = self._new_parser()
            try:
                root = self._parse(body)
            except RuntimeError as error:  # simdjson's other errors: a whole number beyond 64 bits
                raise InputError(f"the body must be JSON; {str(error)[:80]}") from error
        require(isinstance(root, self._object), "body", "a JSON object", type(root).__name__)
        unknown = [key for key in root if key not in keys]
        require(not unknown, "request", f"an object of {', '.join(keys)}", unknown[:1])
        values = {name: root[name] for name in root}
        lists = sum(isinstance(value, self._array) for value in values.values())
        return {name: self._field(body, name, value, lists) for name, value in values.items()}

    def _parse(self, body: bytes) -> Any:
        try:
            return self._parser.parse(body)
        except ValueError as error:
            raise InputError(f"the body must be JSON; {str(error)[:80]}") from error

    def _field(self, body: bytes, name: str, value: Any, lists: int) -> Any:
        if isinstance(value, self._array):
            return self._numbers(body, value, name, lists) if name in _NUMBERS else value.as_list()
        return value.as_dict() if isinstance(value, self._object) else value

    def _numbers(self, body: bytes, array: Any, name: str, lists: int) -> Numbers:
        """A flat buffer where all are numbers and lists are of one length; else slowly.

        `lists` are the fields that are lists.
        """
        rows = len(array)
        require(rows > 0, name, "a list that is not empty", [])
        width = len(array[0]) if isinstance(array[0], self._array) else 0
        try:
            flat = np.frombuffer(array.as_buffer(of_type="d"))
        except (TypeError, ValueError):  # null, or no number at all
            return Numbers(_slowly(array.as_list(), name))
        if not width:
            return Numbers(_slowly(array.as_list(), name) if flat.size != rows else flat)
        # lists within rows would be flattened, too, but need brackets of their own
        flat_rows = flat.size == rows * width and body.count(b"[") == rows + lists
        if flat_rows and _even(array, width):
            return Numbers(flat.reshape(rows, width))
        return Numbers(_slowly(array.as_list(), name))


def _even(array: Any, width: int) -> bool:
    """Whether all are lists of that length; they hold numbers and lists only."""
    try:
        return set(map(len, array)) == {width}
    except TypeError:  # a number among lists
        return False


def _slowly(values: list[Any], name: str) -> Floats:
    """The same of Python's lists, with NaN for null; what is malformed is refused."""
    nested = isinstance(values[0], list)
    width = len(values[0]) if nested else 0
    for value in values:
        listed = isinstance(value, list) and len(value) == width if nested else True
        require(listed, name, f"lists of {width} numbers each", value)
        for number in value if nested else [value]:
            plain = isinstance(number, int | float) and not isinstance(number, bool)
            require(number is None or plain, name, "numbers or null", number)
    array: Array = np.array(values, dtype=np.float64)
    return array
