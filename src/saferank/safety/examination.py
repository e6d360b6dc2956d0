r"""How users look down a list: what a promise is for.

A promise is for given rank weights w, or for every non-increasing examination of K ranks. For the
latter write :math:`w = \sum_j (w_j - w_{j+1})\, 1\{k \le j\}`. The worst loss
:math:`\eta_w = \sum_d \max(0, \kappa\,\omega_0 - \omega)` is convex and positively homogeneous in
the exposures, so :math:`\eta_w \le \sum_j (w_j - w_{j+1})\,\eta_j` with :math:`\eta_j` that of "in
the first j"; and Z of w is :math:`\sum_j (w_j - w_{j+1})\,Z_j`. Hence (keep, slack) holds for every
such w **if and only if** :math:`\eta_j(keep) \le slack\,Z_j` for j = 1..K. :math:`Z_j` is
min(j, D), as a query of D documents has no more ranks. Where lists are not always full it is how
many of the first j ranks are filled on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats, Ints
from saferank.errors import InputError
from saferank.evaluation.scored_policies import rank_weights
from saferank.metrics import dcg_weights
from saferank.policies.production import chances_of_lists, exposure_of_lists, total_weights

Asked = Literal["auto", "fitted", "any", "dcg"] | npt.ArrayLike
"""The rank weights as they are, every non-increasing examination, DCG's, or weights."""


@dataclass(frozen=True, eq=False)
class Examination:
    """What a promise is for: rank weights, or every non-increasing examination of their ranks.

    >>> Examination.of("any", [1.0, 0.5]).views
    array([[1., 0.],
           [1., 1.]])
    """

    weights: Floats
    """Of the K ranks; utilities are measured with them."""
    every: bool = False
    source: str = "as given"
    """Where the weights come from, in words."""

    @classmethod
    def of(cls, asked: Asked, weights: npt.ArrayLike, source: str = "as given") -> Examination:
        """The examination asked for, where `weights` are those of "fitted"."""
        own = rank_weights(weights)
        if isinstance(asked, str):
            if asked not in ("fitted", "any", "dcg"):
                raise InputError(
                    f"`examination` must be any, fitted, dcg or rank weights; got {asked!r}."
                )
            if asked == "dcg":
                return cls(dcg_weights(own.size), source=f"DCG's of {own.size} ranks")
            return cls(own, asked == "any", source)
        return cls(rank_weights(asked))

    @property
    def name(self) -> str:
        """For records: "any" or "weights"."""
        return "any" if self.every else "weights"

    @property
    def views(self) -> Floats:
        """The rank weights for which the promise is checked, views x ranks."""
        return np.tri(self.weights.size) if self.every else self.weights[None]

    def table(
        self, scores: Floats, offsets: Ints, *, in_order: bool, filled: Floats | None = None
    ) -> Floats:
        """P(document at rank) in rankings drawn from scores, or sorted by them."""
        ranks = self.weights.size
        return chances_of_lists(scores, ranks, offsets, in_order=in_order, filled=filled)

    def exposure(self, table: Floats) -> Floats:
        """Exposures with the rank weights by P(document at rank).

        Summed up document by document, so that no other document changes a bit.
        """
        omega: Floats = (table * self.weights[: table.shape[1]]).sum(axis=1)
        return omega

    def exposures(self, table: Floats) -> Floats:
        """Exposures by each view: views x documents."""
        if self.every:
            return np.ascontiguousarray(np.cumsum(table, axis=1).T)
        return self.exposure(table)[None]

    def by_exposure(self) -> Examination:
        """The same for policies that are given by their exposures alone, where those suffice."""
        return self if self.every else ByExposure(self.weights, source=self.source)

    def totals(self, offsets: Ints, filled: Floats | None = None) -> Floats:
        """Z of each query by each view: queries x views."""
        columns = [total_weights(offsets, view, filled) for view in self.views]
        return np.ascontiguousarray(np.stack(columns, axis=1))

    def sentence(self) -> str:
        """What is certified, in words."""
        if self.every:
            return (
                f"The promise is for any relevance and for every way of looking at the first "
                f"{self.weights.size} ranks in which a rank is looked at no more than the one above"
                f" it: no click model is used. Utilities are measured with rank weights "
                f"{self.source}."
            )
        return (
            f"Rank weights: {self.source}. The promise is for these weights and for any relevance; "
            "users who look at the ranks in another way are not covered."
        )


class ByExposure(Examination):
    """Rank weights, for policies of which only their exposures with them are known.

    In place of P(document at rank) is the exposure, documents x 1. It is all that a promise for
    given rank weights depends on, takes half the time, and tells nothing to serve by.
    """

    def table(
        self, scores: Floats, offsets: Ints, *, in_order: bool, filled: Floats | None = None
    ) -> Floats:
        """Exposures in rankings drawn from scores, or sorted by them."""
        return exposure_of_lists(scores, self.weights, offsets, in_order=in_order, filled=filled)[
            :, None
        ]

    def exposure(self, table: Floats) -> Floats:
        """The exposures themselves."""
        return table[:, 0]
