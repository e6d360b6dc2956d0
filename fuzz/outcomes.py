"""What may become of an input."""

from __future__ import annotations

import re
import traceback

from saferank.errors import SaferankError

LONGEST = 300


class WrongNumbersError(AssertionError):
    """An input was accepted, but the numbers are not those that it holds."""


def ensure(holds: bool, what: str) -> None:
    """Raise `WrongNumbersError` unless a law holds for an accepted input."""
    if not holds:
        raise WrongNumbersError(what)


def refusal_fault(error: SaferankError) -> str | None:
    """What is wrong with a refusal's message, if anything."""
    text = str(error)
    if len(text) > LONGEST:
        return f"a message of {len(text)} characters"
    if not text.isprintable() or not text.strip():
        return "a message of several lines, or none"
    return None


def signature(text: str) -> str:
    """A message without what differs between inputs: numbers and quoted words."""
    return re.sub(r"\d+|'[^']*'|`[^`]*`|\"[^\"]*\"", "?", text)[:100]


def trace(error: BaseException) -> str:
    """Kind and place of an exception: where it was raised, and the last place inside saferank."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/saferank/" in frame.filename]
    places = [*own[-1:], *frames[-1:]]
    where = " <- ".join(f"{frame.filename.rsplit('/', 2)[-1]}:{frame.lineno}" for frame in places)
    return f"{type(error).__name__} at {where}: {str(error)[:200]}"
