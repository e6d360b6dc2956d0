"""The errors of saferank, each also the builtin that a caller would expect."""

from __future__ import annotations


class SaferankError(Exception):
    """Anything that saferank raises on purpose."""

    exit_code = 2
    """What the command line ends with."""


class InputError(SaferankError, ValueError):
    """The caller's data or options break a rule; the message is one sentence that says which."""


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
        raise InputError(f"`{name}` must be {rule}; got {got!r}.")
