"""The errors of saferank, each also the builtin that a caller would expect."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 300
"""Characters of a message at most: inputs may be long, and are never echoed whole."""


def shorten(text: str, most: int = LONGEST) -> str:
    r"""A text on one line, its middle left out where it is longer than `most`.

    What would move the cursor or turn the line around is shown as `?`.

    >>> shorten("one\ntwo"), shorten("a\u202eb"), shorten("0123456789" * 3, most=13)
    ('one two', 'a?b', '01234 … 56789')
    """
    if len(text) > most:
        kept = (most - 3) // 2
        text = f"{text[:kept]} … {text[-kept:]}"
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else "?"


class SaferankError(Exception):
    """Anything that saferank raises on purpose."""

    exit_code = 2
    """What the command line ends with."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shorten(str(message)))


class InputError(SaferankError, ValueError):
    """The caller's data or options break a rule; the message is one sentence that says which."""


class InputWarning(UserWarning):
    """The input can be used, but not all of it as the caller may think; one sentence says what."""


class EngineError(SaferankError, RuntimeError):
    """The machine or an engine failed, not the input: a full disk, no Java, a lost connection."""

    exit_code = 1


class MissingExtraError(SaferankError, ImportError):
    """An optional part is not installed; the message says how to install it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"`{package}` is not installed; install it with: pip install 'saferank[{extra}]'."
        )


def require(holds: bool, name: str, rule: str, got: object) -> None:
    """Raise `InputError` with name, rule and value unless `holds`.

    >>> require(0 < 2 <= 1, "delta", "in (0, 1]", 2)
    Traceback (most recent call last):
    saferank.errors.InputError: `delta` must be in (0, 1]; got 2.
    """
    if not holds:
        raise InputError(f"`{shorten(name, 120)}` must be {shorten(rule, 160)}; got {_said(got)}.")


def _said(value: object) -> str:
    """The value as `repr` has it, as much of it as a message can hold."""
    try:
        return shorten(repr(value), 100)
    except ValueError:  # an integer of more digits than Python writes
        return f"a value of type {type(value).__name__}"
