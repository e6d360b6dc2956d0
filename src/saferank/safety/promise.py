"""A promise: how much of production's utility is kept, up to how large a slack."""

from __future__ import annotations

from dataclasses import dataclass

from saferank.errors import require


@dataclass(frozen=True)
class Promise:
    r"""For every query and every relevance in [0, 1]: :math:`U \ge keep\; U_0 - slack\; Z_q`.

    Z_q is the utility of a query all of whose documents are relevant: the largest there is.

    >>> print(Promise(0.9, 0.01))
    keeps 90 % of production's utility up to a slack of 1 % of the largest possible
    """

    keep: float = 0.9
    slack: float = 0.01

    def __post_init__(self) -> None:
        require(0 <= self.keep <= 1, "keep", "in [0, 1]", self.keep)
        require(0 <= self.slack <= 1, "slack", "in [0, 1]", self.slack)

    def __str__(self) -> str:
        return (
            f"keeps {100 * self.keep:g} % of production's utility up to a slack of "
            f"{100 * self.slack:g} % of the largest possible"
        )
