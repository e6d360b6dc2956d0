r"""Exposure handed over within a query until groups have their floors.

To move an exposure :math:`t \le \omega_i - \omega_j` from document i to document j is to exchange
the two in a share :math:`t / (\omega_i - \omega_j)` of the sessions: rankings give the exposures
that come of it, too. To a document that has more already, only so much can be moved that the m most
exposed documents have no more than the m first ranks, for every m, which is all that rankings ask
of exposures. Documents of the largest gain receive and those of the smallest give, as long as their
groups can spare it and the promise on utility is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.safety.best_policy import largest_first

_DUST = 1e-13
"""Exposure that is not worth a step."""


class Claims(NamedTuple):
    """What documents and groups are to keep."""

    gains: Floats
    least: Floats
    """Exposure of each document below which the promise on utility counts a loss."""
    unit: Ints
    """The group of each document, numbered over all queries."""
    floor: Floats
    """Of each group of a query."""
    weights: Floats
    """Of the ranks, in any order: of those that a query has documents for, the m largest are the
    most that m documents can have."""


def transfer_to_floors(
    omega: Floats, offsets: Ints, claims: Claims, exposed: Floats, left: Floats
) -> Floats:
    """Exposures with as much handed over to groups below their floors as can be.

    Parameters
    ----------
    omega
        One exposure per document.
    offsets
        Cut documents into queries.
    claims
        What is to be kept.
    exposed
        Exposure of each group of a query.
    left
        Loss that the promise still allows on each query.

    Returns
    -------
    ndarray
        One exposure per document.

    Examples
    --------
    >>> claims = Claims(np.array([2.0, 1.0, 0.0]), np.zeros(3), np.array([0, 0, 1]),
    ...                 np.array([0.0, 0.2]), np.array([0.7, 0.3]))
    >>> transfer_to_floors(np.array([0.7, 0.3, 0.0]), np.array([0, 3]), claims,
    ...                    np.array([1.0, 0.0]), np.zeros(1)).round(6)
    array([0.7, 0.1, 0.2])
    """
    moved = omega.copy()
    _queries(offsets.size - 1, moved, offsets, claims, exposed.copy(), left.copy())
    return moved


@parallel_kernel
def _queries(
    first: int, last: int, omega: Floats, offsets: Ints, claims: Claims, exposed: Floats,
    left: Floats,
) -> None:  # fmt: skip
    for query in range(first, last):
        begin, end = offsets[query], offsets[query + 1]
        _, weights = largest_first(claims.weights, end - begin)
        order = begin + np.argsort(-claims.gains[begin:end])
        for taker in np.concatenate((order, order)):  # what was in the way may be gone by then
            group = claims.unit[taker]
            for back in range(order.size - 1, -1, -1):
                if exposed[group] >= claims.floor[group]:
                    break
                giver = order[back]
                if claims.unit[giver] == group:
                    continue
                most = omega[giver] - omega[taker]
                if most <= 0:
                    most = _upwards(omega[begin:end], giver - begin, taker - begin, weights)
                left[query] += _hand_over(giver, taker, omega, claims, exposed, left[query], most)


@kernel
def _upwards(omega: Floats, giver: int, taker: int, weights: Floats) -> float:
    """How much a document can give to one with more exposure, none changing places."""
    most: float = omega[giver]
    top, low = 0.0, 0.0  # the exposures next above the taker's and next below the giver's
    for other in range(omega.size):
        if other in (taker, giver):
            continue
        if omega[other] >= omega[taker]:
            top = omega[other] if top == 0.0 else min(top, omega[other])
        if omega[other] <= omega[giver]:
            low = max(low, omega[other])
    if top > 0.0:
        most = min(most, top - omega[taker])
    most = min(most, omega[giver] - low)
    order = np.argsort(-omega)
    own, theirs = 0, 0  # their places; of equals the taker comes first, as it then has more
    for place in range(order.size):
        own = place if order[place] == taker else own
        theirs = place if order[place] == giver else theirs
    if theirs < own:
        order[own], order[theirs] = giver, taker
        own, theirs = theirs, own
    room = 0.0
    for place in range(theirs):
        room += (weights[place] if place < weights.size else 0.0) - omega[order[place]]
        if place >= own:
            most = min(most, room)
    return most


@kernel
def _hand_over(
    giver: int, taker: int, omega: Floats, claims: Claims, exposed: Floats, left: float, most: float
) -> float:  # fmt: skip
    """Hand over what is missing and can be spared; returns by how much the loss falls."""
    rich, poor = claims.unit[giver], claims.unit[taker]
    spare = min(exposed[rich] - claims.floor[rich], claims.floor[poor] - exposed[poor])
    free = max(0.0, omega[giver] - claims.least[giver])
    moved = min(spare, most, free + left)
    if moved <= _DUST:
        return 0.0
    lacked = max(0.0, claims.least[taker] - omega[taker])
    omega[giver] -= moved
    omega[taker] += moved
    exposed[rich] -= moved
    exposed[poor] += moved
    fallen: float = min(lacked, moved) - max(0.0, moved - free)
    return fallen
