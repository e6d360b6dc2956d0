"""The estimators by name: their formula for documents, and what single sessions say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from saferank._core.flat import Floats
from saferank.errors import require
from saferank.estimators import formulas, session_form
from saferank.estimators.evidence import Evidence
from saferank.estimators.session_form import SessionScore


@dataclass(frozen=True)
class Estimator:
    r"""An estimator in both of its forms.

    `documents` gives the estimated relevance of each document, which learning multiplies exposure
    with. `sessions`, where there is one, gives what each session says of exposures
    :math:`\omega`; its mean over the sessions of a query is :math:`\sum_d \omega_d\,\hat\mu_d`
    of the other form: a ranker is evaluated by the formula that it was learned with.

    Examples
    --------
    >>> import numpy as np
    >>> popular = Estimator(lambda evidence: evidence.counts.clicks.sum(axis=1).astype(np.float64))
    >>> popular.needs
    'clicks'
    """

    documents: Callable[[Evidence], Floats]
    """From evidence to one value per document."""
    sessions: Callable[[Evidence, Floats], SessionScore] | None = None
    """From evidence and exposures to what each session says; None: it evaluates no rankers."""
    needs: Literal["clicks", "predictions", "labels"] = "clicks"
    """Beside counts and click model: the regression's predictions; or labels instead of clicks."""


EstimatorLike = str | Estimator | Callable[[Evidence], Floats]
"""A name, an estimator, or its formula for documents."""


def estimator_of(
    given: EstimatorLike, name: str = "gain", among: Iterable[str] | None = None
) -> Estimator:
    """The estimator of a name, or one that is made of a formula.

    >>> estimator_of("dr").needs
    'predictions'
    """
    if isinstance(given, Estimator):
        return given
    if callable(given):
        return Estimator(given)
    names = list(ESTIMATORS if among is None else among)
    require(given in names, name, f"one of {', '.join(names)}", given)
    return ESTIMATORS[given]


ESTIMATORS: dict[str, Estimator] = {
    "naive": Estimator(formulas.naive),
    "ips": Estimator(formulas.ips, session_form.ips),
    "bayes-ips": Estimator(formulas.bayes_ips),
    "affine-ips": Estimator(formulas.affine_ips, session_form.affine_ips),
    "dm": Estimator(formulas.dm, session_form.dm, needs="predictions"),
    "dr": Estimator(formulas.dr, session_form.dr, needs="predictions"),
    "evidence-dr": Estimator(formulas.evidence_dr, needs="predictions"),
    "click-model": Estimator(formulas.click_model),
    "labels": Estimator(formulas.labels, needs="labels"),
}
