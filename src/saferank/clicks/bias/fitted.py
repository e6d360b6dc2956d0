"""A fitted click model: what the log could tell, how surely, and by which route."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from saferank._core.files import write_json
from saferank._core.flat import Floats
from saferank.clicks.bias.identifiability import Identifiability
from saferank.clicks.bias.misfit import Misfit
from saferank.clicks.bias.scale import Canonical
from saferank.clicks.bias.uncertainty import Uncertainty
from saferank.clicks.models import ClickModel
from saferank.counts.feedback import CLICKS, Feedback

FEW_IMPRESSIONS = 100.0
"""Per document, below which EM with a relevance for each document is noticeably biased."""
_VAGUE = 10.0

Route = Literal["documents", "policy", "features"]
"""How ranks are compared: through documents seen at several of them, through a known policy that
puts documents there by chance, or through documents with like features."""


@dataclass(frozen=True, eq=False)
class FittedBias:
    """A click model fitted to counts, on the scale that clicks identify and on one that is usable.

    `canonical` is what the log tells: click probability at each rank from that at `reference`.
    `model` is the same with the widest range of relevance (see `Canonical.widest`); another range
    is `canonical.model(low, high)`. `uncertainty` has errors and intervals of both.

    See Also
    --------
    fit_trust_bias, fit_position_bias : fit one to counts.

    Examples
    --------
    >>> import saferank as sr
    >>> seen = sr.counts.Counts(range(21), [[40, 40]] * 20, [[20, 10], [10, 5]] * 10)
    >>> fit = sr.clicks.fit_position_bias(seen)
    >>> fit.kind, fit.reference, fit.model.alpha.round(3)
    ('position', 1, array([1. , 0.5]))
    """

    kind: str
    """What was fitted: "trust" or "position"."""
    method: str
    """How: "em", "harvest", "policy" or "matching"."""
    reference: int
    """The rank (from 1) that the others are compared with."""
    model: ClickModel
    """Usable at once: the widest range of relevance that the log allows."""
    canonical: Canonical
    """Click probability at each rank from that at `reference`."""
    level_at: float
    """Clicks per impression at the reference rank, to two digits: a document to speak of."""
    uncertainty: Uncertainty
    """Standard errors and intervals of `canonical` and `model`."""
    relevance: Floats
    """Of each document on the scale of `model`; NaN where it was never shown."""
    misfit: Misfit
    """How far the clicks are from what the model explains."""
    identifiability: Identifiability
    """Which ranks the log can compare."""
    route: Route = "documents"
    """What tells ranks apart: documents seen at several, a known policy, or features."""
    why: str = ""
    """Why this route was taken, in one sentence; empty where nothing but documents was given."""
    impressions_per_document: float = np.inf
    """Mean over the documents that were shown."""

    @property
    def slope_error(self) -> Floats:
        """Standard errors of `canonical.slope` (NaN where unknown)."""
        return self.uncertainty.slope_error

    @property
    def intercept_error(self) -> Floats:
        """Standard errors of `canonical.intercept` (NaN where unknown)."""
        return self.uncertainty.intercept_error

    @property
    def level(self) -> Floats:
        """Click probability at each rank of a document that has `level_at` at the reference."""
        return self.canonical.level(self.level_at)

    @property
    def feedback(self) -> Feedback:
        """What the model was fitted to."""
        return Feedback(self.model.feedback) if self.model.feedback else CLICKS

    def sentences(self) -> list[str]:
        """What the log could tell, how surely, and whether clicks deviate from the model."""
        return [self.feedback.say(sentence) for sentence in self._sentences()]

    def _sentences(self) -> list[str]:
        said = [self.verdict]
        said.append(self.uncertainty.sentence)
        if self.route == "features" and self.method == "em" and self.uncertainty.known:
            said.append("Each such fit is one step of Fisher scoring from the fit of all.")
        if self.method == "matching" and self.uncertainty.known:
            said.append("They take what features predict as it is: its errors are not in them.")
        if self.uncertainty.known:
            said.append(self._precision())
        if self.method == "em" and self.route == "documents":
            said += self._bias_of_em()
        said.append(self.misfit.verdict)
        if self.misfit.found and self.uncertainty.known:
            said.append("The intervals are of the closest click model; they do not allow for that.")
        return said

    @property
    def verdict(self) -> str:
        """How alpha was told from relevance, and why so."""
        links, why = self.identifiability, f" {self.why}" if self.why else ""
        if self.route == "documents":
            return f"{links.verdict}{why}"
        if self.route == "policy":
            return (
                "Ranks are compared through production's policy, which puts documents there by "
                f"chance.{why}"
            )
        if self.method == "em":
            return (
                "Ranks are compared through documents with like features: this holds as far as "
                f"relevance is a logistic function of the features. {links.finding}{why}"
            )
        return (
            "Ranks are compared through documents with like features: this holds as far as the "
            f"features say what production knew of relevance.{why}"
        )

    def _precision(self) -> str:
        low, high = self.uncertainty.slope.T
        others = np.flatnonzero(np.isfinite(low) & (np.arange(low.size) != self.reference - 1))
        if others.size == 0:
            return "Only one rank was shown: there is nothing to compare."
        worst = others[np.argmax(high[others] / low[others])]
        ends = f"between {low[worst]:.3g} and {high[worst]:.3g}"
        where = f"rank {worst + 1}: {ends} of that at rank {self.reference}"
        if high[worst] > _VAGUE * low[worst]:
            return (
                f"The log can hardly tell alpha at {where}; take more sessions, count fewer ranks, "
                "or do not rely on it."
            )
        return f"Alpha is least certain at {where}."

    def _bias_of_em(self) -> list[str]:
        if self.impressions_per_document >= FEW_IMPRESSIONS:
            return []
        return [
            f"Documents were shown {self.impressions_per_document:.0f} times on average: EM with a "
            "relevance for each is biased then, and its intervals do not show it; harvest instead."
        ]

    def to_dict(self) -> dict[str, Any]:
        """The fit for JSON; `ClickModel.load` reads it as a click model."""
        sure = self.uncertainty
        return {
            **self.model.to_dict(),
            "alpha_error": _finite(sure.alpha_error),
            "beta_error": _finite(sure.beta_error),
            "canonical": {
                "reference": self.reference,
                "slope": _finite(self.canonical.slope),
                "slope_error": _finite(sure.slope_error),
                "slope_interval": _finite(sure.slope),
                "intercept": _finite(self.canonical.intercept),
                "intercept_error": _finite(sure.intercept_error),
                "intercept_interval": _finite(sure.intercept),
                "level_at": self.level_at,
                "level": _finite(self.level),
                "level_error": _finite(sure.level_error),
                "level_interval": _finite(sure.level),
                "intervals": sure.to_dict(),
            },
            "kind": self.kind,
            "method": self.method,
            "route": {"name": self.route, "why": self.why},
            "misfit": self.misfit.to_dict(),
            "identifiability": self._identifiability(),
            "sentences": self.sentences(),
        }

    def _identifiability(self) -> dict[str, Any]:
        links = self.identifiability.to_dict()
        if self.route == "policy" or self.method == "matching":
            return {**links, "identified": True, "verdict": self.verdict}
        return links

    def save(self, path: str | Path) -> None:
        """Write the fit as JSON (`bias.json`)."""
        write_json(Path(path), self.to_dict(), "click model")


def _finite(values: Floats) -> list[Any]:
    if values.ndim > 1:
        return [_finite(row) for row in values]
    return [float(value) if np.isfinite(value) else None for value in values]
