r"""Estimates of relevance from counts, one per document, which objectives multiply exposure with.

In every formula :math:`ctr = \sum_k c_k / N_q`, :math:`a = \sum_k n_k \alpha_k / N_q` and
:math:`b = \sum_k n_k \beta_k / N_q` are averages over the sessions of the document's query.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import parallel_kernel
from saferank.errors import InputError
from saferank.estimators.evidence import Evidence


def naive(evidence: Evidence) -> Floats:
    """Plain click-through: :math:`ctr`."""
    return evidence.counts.ctr()


def ips(evidence: Evidence) -> Floats:
    r"""Policy-aware IPS for position bias: :math:`ctr / \rho_0` (0 where :math:`\rho_0 = 0`)."""
    return _ratio(evidence.counts.ctr(), evidence.propensities.rho)


def affine_ips(evidence: Evidence) -> Floats:
    r"""IPS with the affine correction for trust bias: :math:`(ctr - b) / \rho_0`."""
    excess = evidence.counts.ctr() - evidence.counts.mean_weight(evidence.click_model.beta)
    return _ratio(excess, evidence.propensities.rho)


def bayes_ips(evidence: Evidence) -> Floats:
    r"""Bayes-IPS (Agarwal et al., 2019): clicks weighted by how far their rank can be trusted.

    .. math:: \frac{1}{N_q}\sum_k c_k \frac{\alpha_k + \beta_k}{\alpha_k + 2\beta_k}
              \Big/ \mathbb{E}_{\pi_0}[\alpha_k + \beta_k]

    The examination probability is taken as :math:`\alpha_k + \beta_k`: an examined relevant
    document is always clicked. Not unbiased under trust bias; a baseline.
    """
    certain = evidence.click_model.alpha + evidence.click_model.beta
    trust = _ratio(certain, certain + evidence.click_model.beta)
    return _ratio(
        evidence.counts.per_session(evidence.counts.clicks @ trust), evidence.propensities.seen
    )


def dm(evidence: Evidence) -> Floats:
    r"""Direct method: :math:`\hat R`."""
    if evidence.predictions is None:
        raise InputError("`predictions` must be there for this gain; fit the regression first.")
    return evidence.predictions


def dr(evidence: Evidence) -> Floats:
    r"""Doubly robust: :math:`\hat R + (ctr - a \hat R - b) / \rho_0`."""
    predicted = dm(evidence)
    expected = evidence.counts.mean_weight(evidence.click_model.alpha) * predicted
    excess = (
        evidence.counts.ctr() - expected - evidence.counts.mean_weight(evidence.click_model.beta)
    )
    return predicted + _ratio(excess, evidence.propensities.rho)


WARRANT = 100
"""Impressions per feature at which the regression is trusted by half."""


def evidence_dr(evidence: Evidence) -> Floats:
    r"""Doubly robust, with the regression trusted as far as the log warrants it.

    .. math:: w\hat R + (ctr - a\,w\hat R - b) / \rho_0, \quad w = \frac{n}{n + 100 F}

    n is the number of impressions in the log and F that of features. DR is unbiased whatever the
    regression says, so that a smaller :math:`\hat R` costs variance and no bias. A regression on a
    handful of clicks says little of documents that nobody has seen: with few impressions the
    gains are IPS's, by which a document moves on its own clicks alone; with many they are DR's.
    """
    impressions = float(evidence.counts.impressions.sum())
    trust = impressions / (impressions + WARRANT * evidence.features)
    return dr(replace(evidence, predictions=trust * dm(evidence)))


def click_model(evidence: Evidence) -> Floats:
    r"""The relevance in [0, 1] under which a document's own clicks are most likely.

    Maximises :math:`\sum_k c_k \log(\alpha_k R + \beta_k) + (n_k - c_k)\log(1 - \alpha_k R -
    \beta_k)` with a prior of one relevant and one irrelevant vote; 1/2 for a document never shown.
    """
    counts, model = evidence.counts, evidence.click_model
    relevance = np.empty(counts.documents)
    _most_likely(
        counts.documents, counts.impressions, counts.clicks, model.alpha, model.beta, relevance
    )
    return relevance


def labels(evidence: Evidence) -> Floats:
    """Full information: relevance itself."""
    if evidence.labels is None:
        raise InputError("`labels` must be there for this gain; the data has none.")
    return evidence.labels


def _ratio(above: Floats, below: Floats) -> Floats:
    result = np.zeros_like(above)
    np.divide(above, below, out=result, where=below > 0)
    return result


@parallel_kernel
def _most_likely(
    start: int, stop: int, shown: Ints, clicked: Ints, alpha: Floats, beta: Floats, result: Floats
) -> None:
    # The log-likelihood is concave in R, so its derivative changes sign once: bisection.
    for document in range(start, stop):
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            slope = 1.0 / middle - 1.0 / (1.0 - middle)
            for k in range(alpha.size):
                p = alpha[k] * middle + beta[k]
                clicks = clicked[document, k]
                if clicks > 0 and p > 0:
                    slope += clicks * alpha[k] / p
                if shown[document, k] > clicks and p < 1:
                    slope -= (shown[document, k] - clicks) * alpha[k] / (1.0 - p)
            if slope > 0:
                low = middle
            else:
                high = middle
        result[document] = 0.5 * (low + high)
