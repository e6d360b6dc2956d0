r"""The certificate: what a ranker keeps of production's utility, whatever users find relevant.

For one query with exposures :math:`\omega` (new) and :math:`\omega_0` (production), any relevance
in [0, 1] and every :math:`\kappa` in [0, 1]:

.. math:: U(\pi) \ge \kappa\, U(\pi_0) - \eta(\kappa), \qquad
          \eta(\kappa) = \sum_d \max(0, \kappa\,\omega_0(d) - \omega(d))

and some relevance attains it. No click and no label is used; the rank weights behind the exposures
are those of a metric or of a fitted click model, and the certificate is for them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.display import html_summary
from saferank._core.files import read_json, write_json
from saferank._core.records import from_dict
from saferank.errors import require
from saferank.evaluation.scored_policies import Deployed
from saferank.safety.changes import Change
from saferank.safety.floors import FloorFacts
from saferank.safety.promise import Promise

FORMAT = 2


@dataclass(frozen=True)
class Curve:
    """The worst loss at each share kept, traffic-weighted over queries, in units of utility.

    Each is convex in `kept`: a straight line between two points never promises too much.
    """

    kept: tuple[float, ...]
    mean: tuple[float, ...]
    guarded: tuple[float, ...]
    """The mean with the guard in place."""
    worst: tuple[float, ...]
    """The largest loss of any query, as a share of its Z."""

    def loss(self, kept: float) -> float:
        """The mean curve at a share kept; between its points a little above the truth."""
        return float(np.interp(kept, self.kept, self.mean))


@dataclass(frozen=True)
class Distribution:
    """Traffic-weighted percentiles 0..100 over queries."""

    loss: tuple[float, ...]
    """eta(keep) as a share of Z_q."""
    largest_loss: tuple[float, ...]
    """eta(1) as a share of Z_q."""
    kept: tuple[float, ...]
    """The largest share kept within the slack."""
    ratio: tuple[float, ...]
    """The smallest new/production exposure of a document: the share kept without any slack."""
    mixing: tuple[float, ...]
    """The share of sessions that the guard gives to the new ranker."""


@dataclass(frozen=True)
class Certificate:
    """What a ranker promises against production, and all that this rests on.

    See Also
    --------
    certify : makes one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.RankingData(np.eye(3), offsets=[0, 3])
    >>> certificate = sr.certify([2.0, 1.0, 0.0], items, production=[2.0, 1.0, 0.5])
    >>> certificate.holds, certificate.queries, certificate.production_kind
    (True, 1, 'sampled')
    """

    promise: Promise
    """What is promised."""
    deployed: Deployed
    """How scores become rankings: "sampled" or "sorted"."""
    holds: bool
    """The promise holds for every query: this is what is promised."""
    holds_on_average: bool
    """Weaker: it holds for the traffic-weighted mean over these queries."""
    share_holding: float
    """Share of the traffic whose queries keep the promise by themselves."""
    mean_loss: float
    """Mean over traffic of eta(keep), in units of utility; `mean_total` is that of Z."""
    mean_total: float
    """Mean over traffic of Z_q, the largest utility of a query."""
    guard_share: float
    """Share of the queries where the guard steps in, and of the traffic."""
    guard_traffic: float
    """Share of the traffic of those queries."""
    guard_mixing: float
    """What the guard keeps, mean over traffic: of a mixture the share of the traffic that still
    gets the new ranker, of the best policy the share of what exposures could gain by its lights."""
    guard_loss: float
    """The largest eta(keep) of any query with the guard, as a share of Z_q."""
    curve: Curve
    """The worst loss at each share kept."""
    distribution: Distribution
    """Percentiles over traffic of what queries can lose and keep."""
    worst: tuple[Change, ...]
    """The queries that can lose most."""
    visited: tuple[Change, ...]
    """The queries with most traffic, where it is known."""
    queries: int
    """How many were compared."""
    documents: int
    """How many were compared."""
    traffic_known: bool
    """Whether means are over the traffic, and not over queries."""
    weights: tuple[float, ...]
    """Of the ranks: K values."""
    weights_from: str
    """Where the rank weights come from, in words."""
    production_kind: str
    """What production does: sampled, sorted, uniform, observed or recorded."""
    assumptions: tuple[str, ...]
    """All that the promise takes for granted, in words."""
    data: str
    """Fingerprint of the items."""
    versions: dict[str, str]
    """Of this package and those that it computes with."""
    examination: str = "weights"
    """What the promise is for: "weights", or "any" for every way of looking."""
    guard_mode: str = "mix"
    """What the guard serves: "best" or "mix"."""
    guard_holdout: float = 0.0
    """Share of each query's sessions that the guard leaves to production at least."""
    guard_gain: float | None = None
    """Change of utility without the guard by the regression's relevance, where there is one."""
    guard_gain_kept: float | None = None
    """The same with the guard."""
    floors: FloorFacts | None = None
    """Of groups, where the promise has floors for them."""

    @property
    def scope(self) -> str:
        """Whom the promise is for, in words."""
        if self.examination == "any":
            return "for any relevance of the documents and every way of looking down the list"
        return "for any relevance of the documents"

    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.holds:
            return f"Every one of the {self.queries:,} queries {self.promise}, {self.scope}."
        if self.floors is not None and not self.floors.holds:
            return (
                f"{1 - self.share_holding:.1%} of the traffic is on queries that may break what is "
                f"promised ({self.promise}, {self.scope}); floors of groups are broken on "
                f"{1 - self.floors.share_holding:.1%}."
            )
        return (
            f"{1 - self.share_holding:.1%} of the traffic is on queries that can lose more than "
            f"promised ({self.promise}, {self.scope}); the worst can lose "
            f"{self.distribution.loss[-1]:.1%} of the largest possible beyond the share given up."
        )

    def _repr_html_(self) -> str:
        worst = self.distribution.loss[-1]
        return html_summary(
            self.sentence(),
            [
                ("promise", self.promise),
                ("queries", f"{self.queries:,}"),
                ("traffic on queries that keep it", f"{self.share_holding:.1%}"),
                ("worst loss beyond the share given up, of the largest", f"{worst:.2%}"),
                ("rankings", f"new: {self.deployed}, production: {self.production_kind}"),
                ("rank weights", " ".join(f"{weight:.3g}" for weight in self.weights)),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """The certificate for JSON."""
        return {"format": FORMAT, **asdict(self)}

    def save(self, path: str | Path) -> None:
        """Write the certificate as JSON."""
        write_json(Path(path), self.to_dict(), "certificate")

    @classmethod
    def from_dict(cls, record: Any) -> Certificate:
        """The certificate of a JSON record."""
        require(isinstance(record, dict), "certificate", "a JSON object", type(record).__name__)
        said = record.get("format")
        require(said == FORMAT, "certificate", f"of format {FORMAT}", said)
        given = {key: value for key, value in record.items() if key != "format"}
        return from_dict(cls, given, "certificate")

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read a certificate that was saved."""
        return cls.from_dict(read_json(Path(path)))
