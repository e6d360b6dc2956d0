"""Can these sessions tell? How many they are worth, and what they never show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.estimators import Evidence
from saferank.estimators.session_form import SessionScore, rank_covariances
from saferank.evaluation.controls import control_variate

LEAST_SESSIONS = 20.0
"""Effective sessions below which no estimate is made."""
LEAST_SHARE = 0.5
"""Share of the new ranker's exposure on documents that production shows, below which none is."""


@dataclass(frozen=True)
class Support:
    """What an off-policy estimate rests on."""

    sessions: int
    effective: float
    r"""Sessions of the new ranker that these are worth: :math:`N \bar W^2 / \overline{W^2}`."""
    share: float
    """Share of the new ranker's exposure that lies on documents which production shows."""
    unsupported: float
    """Exposure per session on documents that production never shows."""

    def to_dict(self) -> dict[str, Any]:
        """The support for JSON."""
        return asdict(self)

    def refusal(self) -> str | None:
        """Why no estimate can be made from these sessions, in one sentence; None: it can."""
        if self.share < LEAST_SHARE:
            return (
                f"only {self.share:.0%} of the new ranker's exposure is on documents that the log "
                f"ever shows (at least {LEAST_SHARE:.0%} is needed)"
            )
        if self.effective < LEAST_SESSIONS:
            return (
                f"the {self.sessions:,} sessions to judge by are worth {self.effective:.1f} "
                f"sessions of the new ranker (at least {LEAST_SESSIONS:g} are needed)"
            )
        return None


def support_of(omega: Floats, evidence: Evidence) -> Support:
    r"""Effective sessions by the weights :math:`W = \sum_d (\omega/\rho_0)\alpha_{k(d)}`."""
    counts = evidence.counts
    share = counts.sessions / max(counts.total, 1)
    weights = [
        _moments(control_variate(part, omega[documents])[0], part.counts)
        for documents, part in evidence.blocks()
    ]
    means, spread = (np.concatenate(own) for own in zip(*weights, strict=True))
    per_document = flat.repeat_per_document(share, counts.offsets) * omega
    total = float(per_document.sum())
    lost = float(per_document[evidence.propensities.rho <= 0].sum())
    return Support(
        sessions=counts.total,
        effective=_effective(means, spread, counts),
        share=1 - lost / total if total > 0 else 0.0,
        unsupported=lost,
    )


def effective_sessions(weights: SessionScore, counts: Counts) -> float:
    r""":math:`N \bar W^2 / \overline{W^2}` of the weights that sessions have.

    Ranks are taken apart: the square of a session's W is its mean squared plus the variances of
    its ranks.
    """
    return _effective(*_moments(weights, counts), counts)


def _moments(weights: SessionScore, counts: Counts) -> tuple[Floats, Floats]:
    """Mean and variance of the weights of each query's sessions."""
    return weights.means(counts), np.maximum(
        rank_covariances(weights, weights, counts).sum(axis=1), 0.0
    )


def _effective(means: Floats, spread: Floats, counts: Counts) -> float:
    """How many sessions weights are worth by what is known of each query."""
    share = counts.sessions / max(counts.total, 1)
    mean, square = float(share @ means), float(share @ (means**2 + spread))
    return counts.total * mean**2 / square if square > 0 else 0.0
