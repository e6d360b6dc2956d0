r"""The losses of the regression behind DM and DR: how well :math:`\hat R = \sigma(z)` fits clicks.

Each gives, for the logits z of some documents (rows), the value to maximise, its slope in z and its
curvature (the Fisher information); sums over documents divided by all sessions N are per-session
averages.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.value_slope import Curved
from saferank.estimators.evidence import Evidence
from saferank.estimators.formulas import affine_ips

Rows = Ints | slice
Loss = Callable[[Floats, Rows], Curved]


def cross_entropy(evidence: Evidence) -> Loss:
    r"""Cross-entropy with the affine correction (Oosterhuis, 2022), for one session's weight N_q.

    .. math:: N_q \left( t \log \hat R + (1 - t) \log(1 - \hat R) \right), \quad
              t = (ctr - b) / \rho_0

    Its expectation is the cross-entropy with the true relevance; its slope is
    :math:`N_q (t - \hat R)`.
    """
    target = affine_ips(evidence)
    sessions = flat.repeat_per_document(evidence.counts.sessions, evidence.counts.offsets)

    def loss(logits: Floats, rows: Rows) -> Curved:
        weight, relevant = sessions[rows], expit(logits)
        value = target[rows] * logits - np.logaddexp(0, logits)
        return Curved(
            weight * value, weight * (target[rows] - relevant), weight * relevant * expit(-logits)
        )

    return loss


def likelihood(evidence: Evidence) -> Loss:
    r"""Log-likelihood of the clicks under the click model.

    .. math:: \sum_k c_k \log(\alpha_k \hat R + \beta_k)
              + (n_k - c_k) \log(1 - \alpha_k \hat R - \beta_k)
    """
    alpha, beta = evidence.click_model.alpha, evidence.click_model.beta
    clicked = evidence.counts.clicks
    missed = evidence.counts.impressions - clicked
    rest = 1 - alpha - beta

    def loss(logits: Floats, rows: Rows) -> Curved:
        hits, misses = clicked[rows], missed[rows]
        relevant, irrelevant = expit(logits), expit(-logits)
        hit = np.maximum(relevant[:, None] * alpha + beta, 1e-12)
        # 1 - alpha R - beta, written so that nothing cancels when alpha + beta = 1
        miss = np.maximum(irrelevant[:, None] * alpha + rest, 1e-12)
        value = (hits * np.log(hit) + misses * np.log(miss)).sum(axis=1)
        pull = ((hits / hit - misses / miss) * alpha).sum(axis=1)
        bend = relevant * irrelevant
        informed = ((hits + misses) * alpha**2 / (hit * miss)).sum(axis=1)
        return Curved(value, pull * bend, informed * bend**2)

    return loss


DOUBT = 1e-3


def posterior(evidence: Evidence) -> Loss:
    r"""The likelihood with a prior: :math:`\epsilon N_q` more sessions found nothing relevant.

    .. math:: \ell(\hat R) + \epsilon N_q \log(1 - \hat R), \quad \epsilon = 10^{-3}

    The likelihood says nothing of a document that production does not show, so a regression is free
    to believe what it likes of it, and DR believes the regression. A document shown in many of the
    sessions hardly feels the prior; one shown in none is thought irrelevant unless its features
    say otherwise. docs/methods.md has what that changes.
    """
    unmoved = likelihood(evidence)
    doubt = DOUBT * flat.repeat_per_document(evidence.counts.sessions, evidence.counts.offsets)

    def loss(logits: Floats, rows: Rows) -> Curved:
        fit, weight, relevant = unmoved(logits, rows), doubt[rows], expit(logits)
        return Curved(
            fit.value - weight * np.logaddexp(0, logits),
            fit.slope - weight * relevant,
            fit.curvature + weight * relevant * expit(-logits),
        )

    return loss


LOSSES: dict[str, Callable[[Evidence], Loss]] = {
    "posterior": posterior,
    "likelihood": likelihood,
    "cross-entropy": cross_entropy,
}
