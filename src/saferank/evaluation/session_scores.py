r"""Off-policy estimators as scores of sessions: each is a mean of what single sessions say.

A session of query q says :math:`base_q + \sum_k v(d_k, k, c_k)`: one value for each document that
it showed, by its rank and by whether it was clicked. Everything else (estimates, variances,
intervals, differences) is arithmetic on these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.estimators import Evidence


@dataclass(frozen=True, eq=False)
class SessionScore:
    """What a session says: a base of its query, and a value of each document it showed."""

    base: Floats
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
    product = first.missed * second.missed * missed
    product += first.clicked * second.clicked * counts.clicks
    together = _per_session(flat.query_sums(product, counts.offsets), counts)
    apart = first.rank_means(counts) * second.rank_means(counts)
    return together - apart


# -- the estimators ----------------------------------------------------------------------------


def _weights(known: Evidence, omega: Floats) -> Floats:
    """omega / rho0, and 0 where production never shows a document: documents x 1."""
    rho = known.propensities.rho
    return np.divide(omega, rho, out=np.zeros_like(omega), where=rho > 0)[:, None]


def _no_base(known: Evidence) -> Floats:
    return np.zeros(known.counts.queries)


def ips(known: Evidence, omega: Floats) -> SessionScore:
    r"""Position bias: :math:`\sum_d (\omega/\rho_0)\, c_d`."""
    clicked = np.repeat(_weights(known, omega), known.users.ranks, axis=1)
    return SessionScore(_no_base(known), np.zeros_like(clicked), clicked)


def affine_ips(known: Evidence, omega: Floats) -> SessionScore:
    r"""Trust bias: :math:`\sum_d (\omega/\rho_0)(c_d - \beta_{k(d)})`."""
    v, beta = _weights(known, omega), known.users.beta
    return SessionScore(_no_base(known), -v * beta, v * (1 - beta))


def dm(known: Evidence, omega: Floats) -> SessionScore:
    r"""Direct method: :math:`\sum_d \omega \hat R`, whatever a session shows."""
    if known.predictions is None:
        raise InputError("`predictions` must be given for dm and dr: a relevance a document.")
    nothing = np.zeros_like(known.counts.clicks, dtype=np.float64)
    return SessionScore(
        flat.query_sums(omega * known.predictions, known.counts.offsets), nothing, nothing
    )


def dr(known: Evidence, omega: Floats) -> SessionScore:
    r"""Doubly robust: :math:`\sum_d \omega\hat R + (\omega/\rho_0)(c_d - \alpha\hat R - \beta)`."""
    direct = dm(known, omega)
    assert known.predictions is not None
    v = _weights(known, omega)
    expected = known.users.alpha * known.predictions[:, None] + known.users.beta
    return SessionScore(direct.base, -v * expected, v * (1 - expected))


ESTIMATORS: dict[str, Callable[[Evidence, Floats], SessionScore]] = {
    "ips": ips,
    "affine-ips": affine_ips,
    "dm": dm,
    "dr": dr,
}


# -- control variates --------------------------------------------------------------------------


def control_variate(known: Evidence, omega: Floats) -> tuple[SessionScore, Floats]:
    r""":math:`\sum_d (\omega/\rho_0)\,\alpha_{k(d)}`, and the mean that it is known to have."""
    v = _weights(known, omega)
    seen = v * known.users.alpha
    supported = np.where(known.propensities.rho > 0, omega, 0.0)
    return SessionScore(_no_base(known), seen, seen), flat.query_sums(
        supported, known.counts.offsets
    )


Scores = tuple[SessionScore, SessionScore, SessionScore]
Exposures = tuple[Floats, Floats, Floats]
Control = Callable[[Sequence[SessionScore], Evidence, Exposures], Scores]
"""Of new, production and their difference, with their exposures: the same three, steadied."""


def plain(scores: Sequence[SessionScore], known: Evidence, exposures: Exposures) -> Scores:
    """The estimator as it is."""
    del known, exposures
    new, old, difference = scores
    return new, old, difference


def additive(scores: Sequence[SessionScore], known: Evidence, exposures: Exposures) -> Scores:
    r"""Additive control variate: :math:`x - b\,(w - E w)` with the b of least variance.

    :math:`w = \sum_d (\omega/\rho_0)\alpha_{k(d)}` has a known mean; :math:`b = Cov(x, w)/Var(w)`
    is taken within queries, ranks apart, of the difference, and used for all three, so that they
    add up. Unbiased for a fixed b; its own noise is of order 1/N.
    """
    control, _ = control_variate(known, exposures[2])
    sessions = known.counts.sessions
    both = float(sessions @ rank_covariances(scores[2], control, known.counts).sum(axis=1))
    own = float(sessions @ rank_covariances(control, control, known.counts).sum(axis=1))
    b = both / own if own > 0 else 0.0
    controls = [control_variate(known, exposure) for exposure in exposures]
    new, old, difference = (
        score - each.shifted(-expected) * b
        for score, (each, expected) in zip(scores, controls, strict=True)
    )
    return new, old, difference


def normalised(scores: Sequence[SessionScore], known: Evidence, exposures: Exposures) -> Scores:
    r"""Self-normalised: :math:`E w \cdot \bar x / \bar w`, linear around its own value.

    Biased by order 1/N. The score of a session is :math:`E w\,(r + (x - r w)/\bar w)` with
    :math:`r = \bar x/\bar w`: its mean is the estimate, its variance that of the delta method.
    The difference is that of the two.
    """
    new, old = (
        _normalised(score, known, exposure)
        for score, exposure in zip(scores[:2], exposures[:2], strict=True)
    )
    return new, old, new - old


def _normalised(score: SessionScore, known: Evidence, omega: Floats) -> SessionScore:
    control, expected = control_variate(known, omega)
    share = known.counts.sessions / max(known.counts.total, 1)
    x, w = float(share @ score.means(known.counts)), float(share @ control.means(known.counts))
    scale = float(share @ expected)
    if abs(w) < 1e-12:
        return score
    ratio = x / w
    return ((score - control * ratio) * (1 / w)).shifted(ratio) * scale


CONTROLS: dict[str, Control] = {
    "none": plain,
    "additive": additive,
    "normalised": normalised,
}


def joint_scores(
    omega: Floats, omega0: Floats, known: Evidence, estimator: str, control: str
) -> Scores:
    """New, production and their difference as scores of sessions, which add up."""
    require(estimator in ESTIMATORS, "estimator", f"one of {', '.join(ESTIMATORS)}", estimator)
    require(control in CONTROLS, "control", f"one of {', '.join(CONTROLS)}", control)
    exposures = (omega, omega0, omega - omega0)
    estimates = [ESTIMATORS[estimator](known, exposure) for exposure in exposures]
    return CONTROLS[control](estimates, known, exposures)
