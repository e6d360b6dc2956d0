r"""Estimators of a policy's clicks from the chance of each document at each rank.

:math:`P(d, k)` is that of the policy to be judged, :math:`P_0(d, k)` production's, both documents x
ranks. What is estimated is clicks per session, :math:`\sum_{d,k} P(d, k)\, r(d, k)` with
:math:`r(d, k)` the click rate of d at k: what an A/B test would count. Each estimator is a score of
sessions, a value v of each document that a session showed and that was clicked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.estimators.session_form import SessionScore


@dataclass(frozen=True, eq=False)
class RankEvidence:
    """What the log says of clicks at ranks, and what production shows there."""

    counts: Counts
    shown: Floats
    """P0(d, k), documents x ranks."""
    click_model: ClickModel | None = None
    predictions: Floats | None = None
    """Relevance of each document by a regression on other sessions."""

    def __post_init__(self) -> None:
        shape = self.counts.clicks.shape
        require(self.shown.shape == shape, "shown", f"of shape {shape}", self.shown.shape)
        if self.click_model is not None:
            ranks = self.click_model.ranks
            require(
                ranks == self.counts.ranks, "click_model", f"of {self.counts.ranks} ranks", ranks
            )

    def known_click_model(self) -> ClickModel:
        """The click model, or `InputError` where there is none."""
        if self.click_model is None:
            raise InputError("`click_model` must be given for this estimator: fit one to the log.")
        return self.click_model

    def predicted_clicks(self) -> Floats:
        r"""Click rates by the regression, :math:`\alpha_k\hat R + \beta_k`: documents x ranks."""
        if self.predictions is None:
            raise InputError("`predictions` must be given for this estimator: fit the regression.")
        model = self.known_click_model()
        rates: Floats = model.alpha * self.predictions[:, None] + model.beta
        return rates


def item_position(evidence: RankEvidence, policy: Floats) -> SessionScore:
    r"""Item-position model: :math:`v(d, k) = P(d, k)/P_0(d, k)`."""
    return _of_clicks(evidence, _ratio(policy, evidence.shown))


def item_position_dr(evidence: RankEvidence, policy: Floats) -> SessionScore:
    r"""The same around predicted click rates: :math:`\sum P\hat r + (P/P_0)(c - \hat r)`."""
    return _around(evidence, policy, _ratio(policy, evidence.shown))


def interpolated(evidence: RankEvidence, policy: Floats, *, window: int) -> SessionScore:
    r"""INTERPOL (Buchholz et al., 2024): ranks within a window of each other lend evidence.

    .. math:: v(d, k) = \sum_{j:\,|j-k| \le w} P(d, j)\,\alpha_j \Big/
              \sum_{i:\,|i-j| \le w} P_0(d, i)\,\alpha_i

    Window 0 is the item-position model, which needs no click model; a window of all ranks is
    policy-aware IPS. With trust bias, clicks without relevance are taken off and added back:
    :math:`v\,(c - \beta_k) + \sum_k P(d, k)\,\beta_k`.
    """
    model = evidence.known_click_model()
    near = _within(model.ranks, window)
    v = _ratio(policy * model.alpha, (evidence.shown * model.alpha) @ near) @ near
    base = flat.query_sums(policy @ model.beta, evidence.counts.offsets)
    return SessionScore(base, -v * model.beta, v * (1 - model.beta))


def click_based(evidence: RankEvidence, policy: Floats) -> SessionScore:
    r"""CIPS (Tanaka et al., 2026): the chance of a click in place of that of a rank.

    .. math:: v(d) = \sum_k P(d, k)\,\hat r(d, k) \Big/ \sum_k P_0(d, k)\,\hat r(d, k)

    A log that always shows the same ranking tells by it: users vary even where production does not.
    Without trust bias :math:`\hat R` cancels, and no regression is needed.
    """
    return _of_clicks(evidence, _click_ratio(evidence, policy))


def click_based_dr(evidence: RankEvidence, policy: Floats) -> SessionScore:
    r"""CDR: predicted click rates, corrected by clicks that examination weighs.

    .. math:: \sum_k P(d, k)\,\hat r(d, k) + v(d)\,(c - \hat r(d, k)), \qquad
              v(d) = \sum_k P(d, k)\,\alpha_k \Big/ \sum_k P_0(d, k)\,\alpha_k

    Right if the click model is, whatever the regression predicts; with the weights of CIPS
    the correction would cancel.
    """
    model = evidence.known_click_model()
    v = _ratio(policy @ model.alpha, evidence.shown @ model.alpha)
    return _around(evidence, policy, np.repeat(v[:, None], model.ranks, axis=1))


def _click_ratio(evidence: RankEvidence, policy: Floats) -> Floats:
    model = evidence.known_click_model()
    rates = model.alpha[None] if not model.beta.any() else evidence.predicted_clicks()
    v = _ratio((policy * rates).sum(axis=1), (evidence.shown * rates).sum(axis=1))
    return np.repeat(v[:, None], model.ranks, axis=1)


def _of_clicks(evidence: RankEvidence, v: Floats) -> SessionScore:
    return SessionScore(np.zeros(evidence.counts.queries), np.zeros_like(v), v)


def _around(evidence: RankEvidence, policy: Floats, v: Floats) -> SessionScore:
    rates = evidence.predicted_clicks()
    base = flat.query_sums((policy * rates).sum(axis=1), evidence.counts.offsets)
    return SessionScore(base, -v * rates, v * (1 - rates))


def _ratio(above: Floats, below: Floats) -> Floats:
    ratio: Floats = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return ratio


def _within(ranks: int, window: int) -> Floats:
    """1 where two ranks are within the window of each other."""
    require(window >= 0, "window", "at least 0", window)
    rank = np.arange(ranks)
    near: Floats = (np.abs(rank[:, None] - rank) <= window).astype(np.float64)
    return near


@dataclass(frozen=True)
class ClickEstimator:
    """An estimator of a policy's clicks, what it needs, and what it takes for granted."""

    form: Callable[[RankEvidence, Floats], SessionScore]
    support: Literal["rank", "document", "window"]
    """Where production must show what the policy shows: at that rank, anywhere, or near it."""
    assumes: tuple[str, ...]
    window: int = 0
    fills: Literal["nothing", "predictions", "beta"] = "nothing"
    """What stands for the click rate of what the log cannot tell of."""

    def unknown(self, evidence: RankEvidence, policy: Floats) -> tuple[Floats, Floats]:
        """How far too high and too low each query may be for what the log cannot tell of.

        Click rates there may be anything from 0 to 1.
        """
        out_of_sight = policy * (1 - self.supported(evidence))
        rates = np.zeros_like(policy)
        if self.fills == "predictions":
            rates = evidence.predicted_clicks()
        elif self.fills == "beta":
            rates = rates + evidence.known_click_model().beta
        high, low = (
            flat.query_sums((out_of_sight * part).sum(axis=1), evidence.counts.offsets)
            for part in (rates, 1 - rates)
        )
        return high, low

    def supported(self, evidence: RankEvidence) -> Floats:
        """1 where the log can tell of a document at a rank, else 0: documents x ranks."""
        shown = (evidence.shown > 0).astype(np.float64)
        if self.support == "document":
            seen = shown.any(axis=1, keepdims=True)
            return np.repeat(seen.astype(np.float64), shown.shape[1], axis=1)
        near = _within(shown.shape[1], self.window if self.support == "window" else 0)
        return (shown @ near > 0).astype(np.float64)


_BY_ITEM = "A click at a rank depends on the document there and on the rank, not on the others."
_MODEL = "Clicks follow the click model: examination by rank, relevance by document."
_PREDICTED = "Predicted relevance is right where clicks without relevance (trust bias) are many."


def interpolation(window: int) -> ClickEstimator:
    """INTERPOL with a window of so many ranks to each side."""
    near = f"Between ranks up to {window} apart, clicks follow the click model."
    form = partial(interpolated, window=window)
    return ClickEstimator(form, "window", (_BY_ITEM, near), window, fills="beta")


CLICK_ESTIMATORS: dict[str, ClickEstimator] = {
    "ipm": ClickEstimator(item_position, "rank", (_BY_ITEM,)),
    "ipm-dr": ClickEstimator(item_position_dr, "rank", (_BY_ITEM,), fills="predictions"),
    "interpol": interpolation(1),
    "cips": ClickEstimator(click_based, "document", (_BY_ITEM, _MODEL, _PREDICTED)),
    "cdr": ClickEstimator(click_based_dr, "document", (_BY_ITEM, _MODEL), fills="predictions"),
}
