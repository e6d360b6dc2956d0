"""Control variates, and the joint scores of a new ranker, of production and of their difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.errors import InputError, require
from saferank.estimators import ESTIMATORS, Evidence
from saferank.estimators.estimator_table import EstimatorLike, estimator_of
from saferank.estimators.session_form import (
    SessionScore,
    exposure_ratio,
    no_base,
    rank_covariances,
)


def control_variate(evidence: Evidence, omega: Floats) -> tuple[SessionScore, Floats]:
    r""":math:`\sum_d (\omega/\rho_0)\,\alpha_{k(d)}`, and the mean that it is known to have."""
    v = exposure_ratio(evidence, omega)
    seen = v * evidence.click_model.alpha
    supported = np.where(evidence.propensities.rho > 0, omega, 0.0)
    return SessionScore(no_base(evidence), seen, seen), flat.query_sums(
        supported, evidence.counts.offsets
    )


EVALUATES = tuple(name for name, estimator in ESTIMATORS.items() if estimator.sessions is not None)
"""Estimators that rankers can be evaluated by."""
Scores = tuple[SessionScore, SessionScore, SessionScore]
Exposures = tuple[Floats, Floats, Floats]
Control = Callable[[Sequence[SessionScore], Evidence, Exposures], Scores]
"""Of new, production and their difference, with their exposures: the same three, steadied."""


def plain(scores: Sequence[SessionScore], evidence: Evidence, exposures: Exposures) -> Scores:
    """The estimator as it is."""
    del evidence, exposures
    new, old, difference = scores
    return new, old, difference


def additive(scores: Sequence[SessionScore], evidence: Evidence, exposures: Exposures) -> Scores:
    r"""Additive control variate: :math:`x - b\,(w - E w)` with the b of least variance.

    :math:`w = \sum_d (\omega/\rho_0)\alpha_{k(d)}` has a known mean; :math:`b = Cov(x, w)/Var(w)`
    is taken within queries, ranks apart, of the difference, and used for all three, so that they
    add up. Unbiased for a fixed b; its own noise is of order 1/N.
    """
    control, _ = control_variate(evidence, exposures[2])
    sessions = evidence.counts.sessions
    both = float(sessions @ rank_covariances(scores[2], control, evidence.counts).sum(axis=1))
    own = float(sessions @ rank_covariances(control, control, evidence.counts).sum(axis=1))
    b = both / own if own > 0 else 0.0
    controls = [control_variate(evidence, exposure) for exposure in exposures]
    new, old, difference = (
        score - each.shifted(-expected) * b
        for score, (each, expected) in zip(scores, controls, strict=True)
    )
    return new, old, difference


def normalised(scores: Sequence[SessionScore], evidence: Evidence, exposures: Exposures) -> Scores:
    r"""Self-normalised: :math:`E w \cdot \bar x / \bar w`, linear around its own value.

    Biased by order 1/N. The score of a session is :math:`E w\,(r + (x - r w)/\bar w)` with
    :math:`r = \bar x/\bar w`: its mean is the estimate, its variance that of the delta method.
    The difference is that of the two.
    """
    new, old = (
        _normalised(score, evidence, exposure)
        for score, exposure in zip(scores[:2], exposures[:2], strict=True)
    )
    return new, old, new - old


def _normalised(score: SessionScore, evidence: Evidence, omega: Floats) -> SessionScore:
    control, expected = control_variate(evidence, omega)
    share = evidence.counts.sessions / max(evidence.counts.total, 1)
    x, w = (
        float(share @ score.means(evidence.counts)),
        float(share @ control.means(evidence.counts)),
    )
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
    omega: Floats, omega0: Floats, evidence: Evidence, estimator: EstimatorLike, control: str
) -> Scores:
    """New, production and their difference as scores of sessions, which add up."""
    form = session_form(estimator)
    require(control in CONTROLS, "control", f"one of {', '.join(CONTROLS)}", control)
    exposures = (omega, omega0, omega - omega0)
    estimates = [form(evidence, exposure) for exposure in exposures]
    return CONTROLS[control](estimates, evidence, exposures)


def session_form(estimator: EstimatorLike) -> Callable[[Evidence, Floats], SessionScore]:
    """How an estimator sees single sessions; `InputError` where it has no such form."""
    form = estimator_of(estimator, "estimator", EVALUATES).sessions
    if form is None:
        raise InputError(
            "`estimator` must be one that is a mean of what single sessions say: give its "
            "`sessions`, or take one of " + ", ".join(EVALUATES) + "."
        )
    return form
