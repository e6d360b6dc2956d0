r"""Off-policy estimators as scores of sessions: each is a mean of what single sessions say.

A session of query q says :math:`base_q + \sum_k v(d_k, k, c_k)`: one value for each document that
it showed, by its rank and by whether it was clicked. Everything else (estimates, variances,
intervals, differences) is arithmetic on these tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.estimators.evidence import Evidence


@dataclass(frozen=True, eq=False)
class SessionScore:
    """What a session says: a base of its query, and a value of each document it showed.

    See Also
    --------
    Estimator : makes one per policy.

    Examples
    --------
    >>> score = SessionScore(np.zeros(1), missed=np.zeros((2, 1)), clicked=np.ones((2, 1)))
    >>> score.means(Counts([0, 2], impressions=[[3], [1]], clicks=[[2], [0]]))
    array([0.5])
    """

    base: Floats
    """One value per query, which every session of it has."""
    missed: Floats
    """Documents x ranks: the value of a document that was shown and not clicked."""
    clicked: Floats
    """Documents x ranks: the value of one that was clicked."""

    def __add__(self, other: SessionScore) -> SessionScore:
        return SessionScore(
            self.base + other.base, self.missed + other.missed, self.clicked + other.clicked
        )

    def __mul__(self, factor: float) -> SessionScore:
        return SessionScore(self.base * factor, self.missed * factor, self.clicked * factor)

    def __sub__(self, other: SessionScore) -> SessionScore:
        return self + other * -1.0

    def shifted(self, base: Floats | float) -> SessionScore:
        """The same with something added to every session of a query."""
        return SessionScore(self.base + base, self.missed, self.clicked)

    def rank_means(self, counts: Counts) -> Floats:
        """Mean value of each rank over the sessions of each query: queries x ranks."""
        missed = counts.impressions - counts.clicks
        summed = flat.query_sums(
            self.missed * missed + self.clicked * counts.clicks, counts.offsets
        )
        return _per_session(summed, counts)

    def means(self, counts: Counts) -> Floats:
        """Mean score of the sessions of each query; its base where there were none."""
        means: Floats = self.base + self.rank_means(counts).sum(axis=1)
        return means


def _per_session(summed: Floats, counts: Counts) -> Floats:
    means: Floats = summed / np.maximum(counts.sessions, 1)[:, None]
    return means


def rank_covariances(first: SessionScore, second: SessionScore, counts: Counts) -> Floats:
    """Covariance of two scores' values at each rank within each query: queries x ranks."""
    missed = counts.impressions - counts.clicks
    # weights of what was never shown may be too large to be squared, and count for nothing
    product = np.where(missed > 0, first.missed, 0.0) * second.missed * missed
    product += np.where(counts.clicks > 0, first.clicked, 0.0) * second.clicked * counts.clicks
    together = _per_session(flat.query_sums(product, counts.offsets), counts)
    apart = first.rank_means(counts) * second.rank_means(counts)
    return together - apart


# -- the estimators ----------------------------------------------------------------------------


def exposure_ratio(evidence: Evidence, omega: Floats) -> Floats:
    """omega / rho0, and 0 where production never shows a document: documents x 1."""
    rho = evidence.propensities.rho
    return np.divide(omega, rho, out=np.zeros_like(omega), where=rho > 0)[:, None]


def no_base(evidence: Evidence) -> Floats:
    """Nothing that a session says whatever it shows."""
    return np.zeros(evidence.counts.queries)


def ips(evidence: Evidence, omega: Floats) -> SessionScore:
    r"""Position bias: :math:`\sum_d (\omega/\rho_0)\, c_d`."""
    clicked = np.repeat(exposure_ratio(evidence, omega), evidence.click_model.ranks, axis=1)
    return SessionScore(no_base(evidence), np.zeros_like(clicked), clicked)


def affine_ips(evidence: Evidence, omega: Floats) -> SessionScore:
    r"""Trust bias: :math:`\sum_d (\omega/\rho_0)(c_d - \beta_{k(d)})`."""
    v, beta = exposure_ratio(evidence, omega), evidence.click_model.beta
    return SessionScore(no_base(evidence), -v * beta, v * (1 - beta))


def dm(evidence: Evidence, omega: Floats) -> SessionScore:
    r"""Direct method: :math:`\sum_d \omega \hat R`, whatever a session shows."""
    if evidence.predictions is None:
        raise InputError("`predictions` must be given for dm and dr: one relevance per document.")
    nothing = np.zeros_like(evidence.counts.clicks, dtype=np.float64)
    return SessionScore(
        flat.query_sums(omega * evidence.predictions, evidence.counts.offsets), nothing, nothing
    )


def dr(evidence: Evidence, omega: Floats) -> SessionScore:
    r"""Doubly robust: :math:`\sum_d \omega\hat R + (\omega/\rho_0)(c_d - \alpha\hat R - \beta)`."""
    direct = dm(evidence, omega)
    assert evidence.predictions is not None
    v = exposure_ratio(evidence, omega)
    expected = (
        evidence.click_model.alpha * evidence.predictions[:, None] + evidence.click_model.beta
    )
    return SessionScore(direct.base, -v * expected, v * (1 - expected))
