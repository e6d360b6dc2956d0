"""delta(N): how far a policy may stray from production, tightening nothing as data grows."""

from __future__ import annotations

import math
from collections.abc import Callable

from saferank.errors import InputError, require

Schedule = Callable[[int], float]


def constant(delta: float) -> Schedule:
    """The same delta for every N."""
    require(0 < delta <= 1, "delta", "in (0, 1]", delta)
    return lambda _: delta


def inverse(c: float = 100.0) -> Schedule:
    """c / N, the paper's (100, and 0.01)."""
    require(c > 0, "c", "positive", c)
    return lambda sessions: c / max(sessions, 1)


def inverse_log() -> Schedule:
    """1 / log N."""
    return lambda sessions: 1 / math.log(max(sessions, 3))


def schedule(given: str | float | Schedule) -> Schedule:
    """A schedule from a number, a callable, or the words `c/N` and `1/log N`; cut to (0, 1].

    Parameters
    ----------
    given
        A number, a function of the number of sessions N, or the words `c/N` and `1/log N`.

    Returns
    -------
    callable
        From N to delta in (0, 1].

    Examples
    --------
    >>> schedule("100/N")(1000), schedule("100/N")(10), schedule(0.9)(7)
    (0.1, 1.0, 0.9)
    """
    if isinstance(given, str):
        chosen = _from_words(given)
    elif callable(given):
        chosen = given
    else:
        chosen = constant(float(given))
    return lambda sessions: _cut(chosen(sessions))


def _from_words(words: str) -> Schedule:
    text = words.replace(" ", "").lower()
    if text in ("1/logn", "1/log(n)"):
        return inverse_log()
    try:
        return (
            inverse(float(text.removesuffix("/n")))
            if text.endswith("/n")
            else constant(float(text))
        )
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"`delta` must be a number in (0, 1], 'c/N' or '1/log N'; got {words!r}."
        ) from None


def _cut(delta: float) -> float:
    require(math.isfinite(delta) and delta > 0, "delta(N)", "positive", delta)
    return min(delta, 1.0)
