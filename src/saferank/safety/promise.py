"""A promise: how much of production's utility is kept, up to how large a slack."""

from __future__ import annotations

from dataclasses import dataclass, field

from saferank.errors import require
from saferank.learning import Ranker


@dataclass(frozen=True)
class Promise:
    r"""For every query and every relevance in [0, 1]: :math:`U \ge keep\; U_0 - slack\; Z_q`.

    Z_q is the utility of a query all of whose documents are relevant: the largest there is.

    >>> print(Promise(0.9, 0.01))
    keeps 90 % of production's utility up to a slack of 1 % of the largest possible
    """

    keep: float = 0.9
    """Share of production's utility that every query keeps, in (0, 1]."""
    slack: float = 0.01
    """What may be lost beside, as a share of Z_q, in [0, 1]."""
    floor: float = field(default=0.0, repr=False)
    """Share of its exposure under production that every group of every query keeps, too."""
    floor_of_all: float = field(default=0.0, repr=False)
    """Up to this share of a query's exposure a group keeps whatever production gives it."""

    def __post_init__(self) -> None:
        require(0 <= self.keep <= 1, "keep", "in [0, 1]", self.keep)
        require(0 <= self.slack <= 1, "slack", "in [0, 1]", self.slack)
        require(0 <= self.floor <= 1, "floor", "in [0, 1]", self.floor)
        require(0 <= self.floor_of_all <= 1, "floor_of_all", "in [0, 1]", self.floor_of_all)

    @property
    def has_floors(self) -> bool:
        """Whether groups are promised exposure."""
        return self.floor > 0 or self.floor_of_all > 0

    def __str__(self) -> str:
        text = (
            f"keeps {100 * self.keep:g} % of production's utility up to a slack of "
            f"{100 * self.slack:g} % of the largest possible"
        )
        if self.floor > 0:
            text += f"; every group keeps {100 * self.floor:g} % of its exposure under production"
        if self.floor_of_all > 0:
            text += (
                f"; every group keeps what production gives it up to {100 * self.floor_of_all:g} % "
                "of a query's exposure"
            )
        return text


def promise_of(ranker: object, keep: float | None = None, slack: float | None = None) -> Promise:
    """The promise asked for; what is not said is as the ranker was learned with, else 0.9, 0.01.

    Examples
    --------
    >>> promise_of([1.0, 2.0], keep=0.8)
    Promise(keep=0.8, slack=0.01)
    """
    own: tuple[float | None, float | None] = (None, None)
    if isinstance(ranker, Ranker):
        own = (ranker.provenance.keep, ranker.provenance.slack)
    kept = [value for value in (keep, own[0], Promise.keep) if value is not None]
    slacks = [value for value in (slack, own[1], Promise.slack) if value is not None]
    return Promise(kept[0], slacks[0])
