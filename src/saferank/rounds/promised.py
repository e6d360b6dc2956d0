r"""What is promised against the first production after several rounds.

A policy that keeps (keep, slack) against the one before it has

.. math:: U_n \ge \kappa U_{n-1} - s Z \ge \dots \ge
          \kappa^n U_0 - s Z \sum_{i<n} \kappa^i,

so shares multiply and slacks add up. Shares of exposure that groups keep multiply, too, while
exposure up to a share of all is handed on whole:
:math:`\min(\sigma Z, E_n) \ge \min(\sigma Z, E_0)`. A policy that keeps its promise against the
*first* production keeps it, however many rounds there were.
"""

from __future__ import annotations

from typing import Literal

from saferank.errors import require
from saferank.safety.promise import Promise

Against = Literal["first", "last"]


def promise_after(promise: Promise, replacements: int, against: Against) -> Promise:
    """The promise that holds against the first production after so many replacements.

    Parameters
    ----------
    promise
        Of each round.
    replacements
        How often what is served was replaced.
    against
        What each round's promise is against: the "first" production, or what was served "last".

    Returns
    -------
    Promise
        Against the first production, for every query and any relevance.

    Examples
    --------
    >>> promise_after(Promise(0.9, 0.01), 3, "first")
    Promise(keep=0.9, slack=0.01)
    >>> after = promise_after(Promise(0.9, 0.01), 3, "last")
    >>> round(after.keep, 3), round(after.slack, 4)
    (0.729, 0.0271)
    >>> promise_after(Promise(floor=0.9), 2, "last").floor
    0.81
    """
    require(replacements >= 0, "replacements", "at least 0", replacements)
    require(against in ("first", "last"), "against", "first or last", against)
    if against == "first" or replacements == 0:
        return promise if replacements else Promise(1.0, 0.0)
    slack = sum(promise.slack * promise.keep**i for i in range(replacements))
    return Promise(
        promise.keep**replacements, min(slack, 1.0),
        floor=promise.floor**replacements, floor_of_all=promise.floor_of_all,
    )  # fmt: skip
