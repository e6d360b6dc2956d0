r"""The moves that tell most of the examination curve among all that keep a promise.

A document of relevance R at place r of lists that are shown N times has :math:`N S(r, k)`
impressions at rank k, and information (`predicted_errors`)

.. math:: L_r = m_r \Big(\mathrm{diag}(v) - \frac{v v^T}{1^T v}\Big), \qquad
          v_k = S(r, k)\,\alpha_k,

with :math:`m_r = \sum N R` over lists. It is matrix-concave in S, so that the mean variance of
:math:`\log \alpha_k / \alpha_1`, the mean diagonal of :math:`(\sum_r L_r)^{-1}`, is convex, and
what the promise allows is linear in the probabilities of swaps. The method of Frank and Wolfe
solves a linear program per step; its gap says how far from the best the result is at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, minimize_scalar

from saferank._core.flat import Floats, Ints
from saferank.errors import InputError, require
from saferank.safety.examination import Examination
from saferank.safety.exploring.moves import Moves
from saferank.safety.losses import blind_share
from saferank.safety.promise import Promise

EVERYWHERE = 0.05
"""Share of what may be moved that goes to every swap alike: no rank is closed to a document."""
_STEPS = 150
_GAP = 0.01


@dataclass(frozen=True, eq=False)
class Room:
    """What a promise leaves to swaps of places: each gives up at most a share of its weight."""

    cost: Floats
    """Of moving the document at a place (row) to a rank (column), as a share of its weight."""
    allowed: float
    k: int

    @classmethod
    def of(cls, looking: Examination, promise: Promise, places: int) -> Room:
        """The room of lists of so many places, of which as many are shown as there are weights.

        >>> Room.of(Examination.of("any", [1.0, 0.5]), Promise(0.9, 0.0), 2).cost
        array([[0., 1.],
               [0., 0.]])
        """
        k = looking.weights.size
        require(places >= k, "places", f"at least the {k} ranks", places)
        if looking.every:
            cost = np.triu(np.ones((places, places)), 1)
            cost[k:] = 0.0
        else:
            weights = np.zeros(places)
            weights[:k] = looking.weights
            own = np.where(weights > 0, weights, 1.0)[:, None]
            cost = np.where(weights[:, None] > 0, np.maximum(0.0, 1 - weights / own), 0.0)
        return cls(cost, blind_share(promise.keep, promise.slack), k)

    @property
    def places(self) -> int:
        """How far down production's list documents are taken from."""
        return int(self.cost.shape[0])

    def pairs(self) -> tuple[Ints, Ints]:
        """Places that may be swapped: of which at least one is shown."""
        first, second = np.triu_indices(self.places, 1)
        shown = first < self.k
        return first[shown], second[shown]

    def constraints(self) -> tuple[Floats, Floats]:
        """A, b of A q <= b for the probabilities q of swaps, in the order of `pairs`."""
        first, second = self.pairs()
        rows = np.zeros((2 * self.places, first.size))
        swap = np.arange(first.size)
        rows[first, swap], rows[second, swap] = self.cost[first, second], self.cost[second, first]
        rows[self.places + first, swap] = rows[self.places + second, swap] = 1.0
        return rows, np.repeat([self.allowed, 1.0], self.places)

    def largest(self, direction: Floats) -> Floats:
        """The given probabilities times the largest factor that the promise allows."""
        rows, bound = self.constraints()
        used = rows @ direction
        some = used > 0
        factor = float(np.min(bound[some] / used[some])) if some.any() else 0.0
        return direction * factor

    def moves(self, swaps: Floats) -> Moves:
        """Moves by the probabilities of swaps."""
        table = np.zeros((self.places, self.places))
        table[self.pairs()] = swaps
        return Moves.of_swaps(table, self.k)


@dataclass(frozen=True, eq=False)
class _Curve:
    """The mean variance of log alpha as a function of swaps."""

    room: Room
    mass: Floats
    """N R of each place."""
    alpha: Floats

    def information(self, matrix: Floats) -> Floats:
        """The conductances of all documents together, as a Laplacian."""
        seen = self.mass[:, None] * matrix[:, : self.room.k] * self.alpha
        total = seen.sum(axis=1)
        share = seen / np.where(total > 0, total, 1.0)[:, None]
        return np.asarray(np.diag(seen.sum(axis=0)) - seen.T @ share, dtype=np.float64)

    def inverse(self, matrix: Floats) -> Floats:
        """Covariance of log alpha_k / alpha_1 for k > 1."""
        information = self.information(matrix)[1:, 1:]
        # a deterministic list tells nothing: next to nothing keeps it comparable with the others
        least = 1e-12 * float(np.trace(information)) + 1e-300
        ridge = least * np.eye(len(information))
        return np.asarray(np.linalg.inv(information + ridge), dtype=np.float64)

    def value(self, swaps: Floats) -> float:
        """The mean variance."""
        return float(np.trace(self.inverse(self.room.moves(swaps).matrix)) / (self.room.k - 1))

    def slope(self, swaps: Floats) -> Floats:
        """Its derivative in each swap's probability."""
        k = self.room.k
        matrix = self.room.moves(swaps).matrix
        inverse = self.inverse(matrix)
        change = np.zeros((k, k))
        change[1:, 1:] = -inverse @ inverse / (k - 1)
        seen = matrix[:, :k] * self.alpha
        total = np.where(seen.sum(axis=1) > 0, seen.sum(axis=1), 1.0)[:, None]
        across = seen @ change
        each = np.diag(change) - 2 * across / total
        each = each + np.sum(across * seen, axis=1, keepdims=True) / total**2
        by_place = np.zeros((self.room.places, self.room.places))
        by_place[:, :k] = self.mass[:, None] * self.alpha * each
        by_place[seen.sum(axis=1) == 0] = 0.0
        first, second = self.room.pairs()
        own = np.diag(by_place)
        return by_place[first, second] + by_place[second, first] - own[first] - own[second]


def best_moves(
    room: Room, mass: Floats, alpha: Floats, *, shown: float = 0.0
) -> tuple[Moves, float]:
    """The moves of smallest mean variance of log alpha, and how far from the best they may be.

    Parameters
    ----------
    room : what the promise leaves.
    mass : sessions times relevance of the documents at each place.
    alpha : of the ranks.
    shown : how often each place beyond the ranks must be shown per session, at least.

    Returns
    -------
    Moves, and the largest share by which the variance could still be smaller.

    Examples
    --------
    >>> room = Room.of(Examination.of("any", [1.0, 1.0, 1.0]), Promise(0.9, 0.0), 3)
    >>> moves, gap = best_moves(room, np.ones(3), np.array([1.0, 0.5, 0.3]))
    >>> bool(np.isclose(moves.matrix[0, 1:].sum(), 0.1)), gap < 0.02
    (True, True)
    """
    require(room.k >= 2, "k", "at least 2 ranks to compare", room.k)
    curve = _Curve(room, np.maximum(mass, 1e-9 * mass.max(initial=1e-300)), alpha)
    program = _program(room, shown)
    first, second = room.pairs()
    near: Floats = -1.0 / (1.0 + (second - first).astype(np.float64))
    swaps = 0.5 * program(near) + 0.5 * program(-np.ones(first.size))
    gap = np.inf
    for _ in range(_STEPS):
        slope, value = curve.slope(swaps), curve.value(swaps)
        towards = program(slope) - swaps
        gap = float(-slope @ towards) / value
        if gap < _GAP:
            break
        step = minimize_scalar(
            lambda t, at=swaps, to=towards: curve.value(at + t * to), bounds=(0, 1),
            method="bounded", options={"xatol": 1e-6},
        ).x  # fmt: skip
        swaps = swaps + step * towards
    return room.moves(np.maximum(swaps, 0.0)), gap


def _program(room: Room, shown: float) -> Callable[[Floats], Floats]:
    """Swaps that minimise a linear function under promise, floors and coverage."""
    rows, bound = room.constraints()
    first, second = room.pairs()
    floor = EVERYWHERE * room.largest(np.ones(first.size))
    if room.places > room.k and shown > 0:
        beyond = np.zeros((room.places - room.k, first.size))
        outside = second >= room.k
        beyond[second[outside] - room.k, np.flatnonzero(outside)] = -1.0
        rows = np.vstack([rows, beyond])
        bound = np.concatenate([bound, np.full(room.places - room.k, -shown)])

    def solve(slope: Floats) -> Floats:
        size = float(np.abs(slope).max())
        result = linprog(
            slope / (size or 1.0), A_ub=rows, b_ub=bound,
            bounds=np.column_stack([floor, np.ones(floor.size)]), method="highs",
        )  # fmt: skip
        if not result.success:
            raise InputError("the promise leaves no room to show documents so often; ask for less.")
        swaps: Floats = result.x
        return swaps

    return solve
