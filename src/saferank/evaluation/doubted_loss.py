r"""An upper bound of the mean loss at a share of production's utility, the click model in doubt.

Clicks come with :math:`\alpha_k R_d + \beta_k`, where :math:`(\alpha, \beta)` lies in a set B
around the fitted click model, and relevance R in [0, 1] is whatever it is. Utility is
:math:`\sum_d \omega(d) R_d` with fixed rank weights: those of the metric, be they a fitted
:math:`\alpha + \beta`. So only what clicks *mean* is doubted, not what is counted as useful. The
mean loss at a share :math:`\kappa` of production's utility is
:math:`L(\kappa) = \sum_q p_q \sum_d A_d R_d` with :math:`A = \kappa\omega_0 - \omega`, and for
**any** weights v chosen before the clicks are seen,

.. math:: L \le \mathbb{E}\Big[\sum_k v_{d_k,k}\, c_k\Big] + \max_{(\alpha,\beta) \in B} \Big\{
          \sum_q p_q \sum_d \max\big(0, A_d - \sum_k P_0 v \alpha_k\big)
          - \sum_k \beta_k \sum_q p_q \sum_d P_0 v \Big\}

The expectation is one mean of independent sessions, and has an upper bound at any confidence. It is
taken around predictions, whose own mean is known, which leaves it as it is and steadies it. v = 0
asks no click: the certificate's mean curve.

Where production is known from the log's frequencies, they stand in for :math:`P_0`. What is then
bounded is convex in them, so that their sampling error raises it on average; its spread is that
between queries (`clustered`), or is added to the score of a session (`normal`, `bernstein`).
"""

from __future__ import annotations

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.tails import normal_quantile
from saferank.clicks import ClickModel
from saferank.errors import InputError, require
from saferank.evaluation.bias_set import BiasSet
from saferank.evaluation.click_weights import choose_weights
from saferank.evaluation.contrast import Contrast
from saferank.evaluation.document_weights import Multipliers, Prospect
from saferank.evaluation.doubted_scores import Asked, DoubtedScores, doubted_scores
from saferank.evaluation.intervals import QueryScores, interval

WIDTHS = {"bootstrap": "clustered", "cantelli": "bernstein"}
"""Methods that say nothing of such weights, and those that take their place."""
INFLUENCE = {"clustered": 0.2, "normal": 0.2, "bernstein": 0.05}
"""The most that one click may move the mean, in standard errors, and the methods there are."""
PREDICTED = 0.25
"""Relevance of a document where nothing predicts it."""
ASTRAY = 0.1
"""How far off predictions may be: weights are chosen for the spread that clicks then have."""


class DoubtedLoss:
    """Upper bounds of the mean loss from sessions to judge by, for any set of click models.

    Parameters
    ----------
    contrast
        Both policies; its evidence has `shown` (P(document at rank) under production), and
        predictions, from other sessions, of what these may show.
    confidence
        Of each bound, in (0.5, 1).
    method
        "clustered" (queries to come), "normal" or "bernstein" (the log's queries).
    per_document
        Whether each document may have a bias of its own within the doubt.
    observed
        The metric's rank weights, where production is known from frequencies only.
    unseen
        Of each query, production's exposure on documents that the log never showed.
    """

    def __init__(
        self,
        contrast: Contrast,
        *,
        confidence: float = 0.95,
        method: str = "clustered",
        per_document: bool = False,
        observed: Floats | None = None,
        unseen: Floats | None = None,
    ) -> None:
        require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
        evidence = contrast.evidence
        if evidence.shown is None:
            raise InputError("`evidence` must have `shown`: P(document at rank) under production.")
        self.omega, self.omega0 = contrast.omega, contrast.omega0
        self.evidence, self.shown = evidence, evidence.shown
        self.confidence, self.tail = confidence, 1 - confidence
        self.observed, self.per_document = observed, per_document
        self.method = WIDTHS.get(method, method)
        require(self.method in INFLUENCE, "method", f"one of {', '.join(INFLUENCE)}", method)
        counts, model = evidence.counts, evidence.click_model
        self.unseen = np.zeros(counts.queries) if unseen is None else unseen
        predicted = np.full(counts.documents, PREDICTED)
        if evidence.predictions is not None:
            predicted = np.clip(evidence.predictions, 0.0, 1.0)
        self.traffic = counts.sessions / max(counts.total, 1)
        self.prospect = Prospect(
            self.shown, flat.repeat_per_document(self.traffic, counts.offsets), predicted,
            _spread(predicted, model), counts.total, INFLUENCE[self.method],
        )  # fmt: skip

    @property
    def expected(self) -> Floats:
        """Predicted clicks per impression, documents x ranks."""
        return _expected(self.prospect.predicted, self.evidence.click_model)

    @property
    def largest(self) -> float:
        """Z: the largest utility of a session that there can be."""
        total = flat.query_sums(self.omega0, self.evidence.counts.offsets) + self.unseen
        return float(self.traffic @ total)

    def bias(self, doubt: float) -> BiasSet:
        """The click models that are possible with a doubt."""
        return BiasSet.around(self.evidence.click_model, doubt, per_document=self.per_document)

    def weights(
        self,
        kappa: float,
        doubt: float,
        start: Multipliers | None = None,
        out: Floats | None = None,
    ) -> tuple[Floats, Multipliers]:
        """The weights of clicks that promise the smallest bound, by predictions alone.

        They may lie in `out`, documents x ranks, whose values are lost.
        """
        loss, quantile = kappa * self.omega0 - self.omega, float(normal_quantile(self.tail))
        return choose_weights(loss, self.prospect, self.bias(doubt), quantile, start=start, out=out)

    def worst(self, kappa: float) -> float:
        """The loss for any user behaviour: the certificate's mean curve, no click asked."""
        loss = np.maximum(0.0, kappa * self.omega0 - self.omega)
        return float(self.prospect.traffic @ loss + kappa * (self.traffic @ self.unseen))

    def upper(self, kappa: float, bias: BiasSet, weights: Floats) -> float:
        """The bound of L(kappa) for these click models."""
        said = self.said(kappa, bias, weights)
        bound = interval(said.scores, self.method, 1 - 2 * self.tail).upper
        return float(bound if bias.per_document else bound + self._trust(bias, said.weights))

    def said(self, kappa: float, bias: BiasSet, v: Floats) -> DoubtedScores:
        """What sessions say of the loss, its worst rest included, beta as fitted."""
        loss, prospect = kappa * self.omega0 - self.omega, self.prospect
        return doubted_scores(
            Asked(loss, v, self.shown, prospect.variance, prospect.predicted),
            self.evidence.counts,
            bias,
            owed=kappa * self.unseen,
            observed=None if self.observed is None else kappa * self.observed,
        )

    def _trust(self, bias: BiasSet, summed: Floats) -> float:
        """What beta can do beyond its fitted value: each rank's sum of weights at its worst.

        The sums differ between queries; their own bounds are added, as the width of a sum is at
        most the sum of the widths.
        """
        counts, nothing = self.evidence.counts, np.zeros(self.evidence.counts.queries)
        worst = 0.0
        for k, mean in enumerate(np.ascontiguousarray(summed.T)):
            down, up = bias.beta[k] - bias.beta_low[k], bias.beta[k] - bias.beta_high[k]
            if down == up or not mean.any():
                continue
            scores = QueryScores(
                counts.sessions, mean, nothing, mean, mean, nothing, "ranks", cluster=counts.cluster
            )
            around = interval(scores, self.method, 1 - 2 * self.tail)
            worst += max(down * around.upper, up * around.lower, 0.0)
        return worst


def _expected(predicted: Floats, model: ClickModel) -> Floats:
    result: Floats = model.alpha * predicted[:, None] + model.beta
    return result


def _spread(predicted: Floats, model: ClickModel) -> Floats:
    """Variance of a click around its prediction, for a relevance that may be somewhat higher."""
    chance = np.clip(_expected(predicted, model) + ASTRAY * model.alpha, 0.01, 0.99)
    result: Floats = chance * (1 - chance) + (ASTRAY * model.alpha) ** 2
    return result
