"""All that is asked before shipping in one record: certificate, estimates, log and verdict."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from saferank._core.display import html_summary
from saferank._core.files import read_json, write_json
from saferank._core.records import from_dict
from saferank.counts.feedback import CLICKS, Feedback
from saferank.errors import InputError, require
from saferank.evaluation import Interval
from saferank.evaluation.doubt import DoubtCurve
from saferank.evaluation.fair_exposure import ExposureReport
from saferank.evaluation.lower_bound import LowerBound
from saferank.evaluation.scored_policies import Deployed
from saferank.evaluation.support import Support
from saferank.learning import Ranker
from saferank.policies.production_fit import ProductionFit
from saferank.safety.certificate import Certificate
from saferank.safety.decisions import Decision
from saferank.safety.log_facts import LogFacts

FILE = "assessment.json"
ITEMS = "items"
"""Production is the score that the items have."""
_FORMAT = 2


@dataclass(frozen=True)
class ClickChange:
    """Clicks per session: production's as counted, and how they would change.

    Whatever scale of relevance the click model has, these are the same: they can be seen.
    """

    production: float
    difference: Interval
    bound: LowerBound
    """The bound that decides: how many more clicks than production's it gets at least."""

    def share(self, value: float) -> float:
        """A difference as a share of production's clicks."""
        return value / self.production if self.production > 0 else float("nan")


@dataclass(frozen=True)
class TrueChange:
    """What a simulation knows: the true difference of clicks per session, and production's."""

    difference: float
    production: float

    @property
    def share(self) -> float:
        """The change as a share of production's true clicks."""
        return self.difference / self.production if self.production > 0 else float("nan")


@dataclass(frozen=True)
class Assessment:
    """Whether a ranker is safe to ship, and everything that the answer rests on.

    See Also
    --------
    assess : makes one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=20_000, seed=0)
    >>> assessment = sr.assess(
    ...     items.labels, items, production=shown, counts=counts, click_model=model
    ... )
    >>> assessment.decision.ship, bool(assessment.difference.lower > 0)
    (True, True)
    """

    decision: Decision
    """Ship or not, and why."""
    certificate: Certificate
    """What holds for any relevance."""
    new: Interval | None = None
    """Utility per session of what would be served, with the guard where one was asked for."""
    production: Interval | None = None
    """The same of production."""
    difference: Interval | None = None
    """New less production."""
    bound: LowerBound | None = None
    """How much more utility than production it has at least."""
    clicks: ClickChange | None = None
    """The same in clicks, which decide."""
    clicks_alone: Interval | None = None
    """Change of clicks per session without the guard, where the other numbers are with it."""
    doubts: DoubtCurve | None = None
    """The share of production's utility that is certain, the more the click model is doubted."""
    support: Support | None = None
    """How many sessions the estimate rests on."""
    estimator: str | None = None
    """The name of the estimator; None: there is no estimate."""
    fit: ProductionFit | None = None
    """What production was taken for."""
    flatters: str | None = None
    """A warning, where the estimate is made of sessions that the ranker was learned from."""
    guarded: bool = False
    """Whether the numbers are of the ranker with its guard."""
    log: LogFacts | None = None
    """Size of the log, and how it fits production and click model."""
    exposures: ExposureReport | None = None
    """Exposure by group before and after, where the items have groups."""
    truth: TrueChange | None = None
    """The truth, where a simulation knows it."""
    ranker: str | None = None
    """Fingerprint of the ranker that it is of."""
    feedback: Feedback = CLICKS
    """What `clicks` are: their numbers are in units of `feedback.unit`."""
    production_from: str | None = None
    """What it was compared with: fingerprint of production's ranker, or `ITEMS`; None: scores."""

    def change(self, value: float) -> float:
        """A difference as a share of production's estimated utility."""
        base = 0.0 if self.production is None else self.production.estimate
        return value / base if base > 0 else float("nan")

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("verdict", "ship" if self.decision.ship else "do not")]
        if self.clicks is not None:
            gap, bound = self.clicks.difference, self.clicks.bound
            share = self.clicks.share
            span = f"{share(gap.lower):+.1%} to {share(gap.upper):+.1%}"
            rows += [
                ("change of clicks per session", f"{share(gap.estimate):+.1%} ({span})"),
                (f"at least, with confidence {bound.confidence:.0%}", f"{share(bound.lower):+.1%}"),
            ]
        rows += [("worst case", self.certificate.sentence())]
        rows += [("assumes", sentence) for sentence in self.decision.assumes]
        return html_summary(self.decision.sentence, rows)

    def to_dict(self) -> dict[str, Any]:
        """The assessment for JSON."""
        return {"format": _FORMAT, **asdict(self), "certificate": self.certificate.to_dict()}

    def save(self, folder: str | Path) -> Path:
        """Write the assessment beside the ranker it is of."""
        path, record = Path(folder) / FILE, self.to_dict()
        write_json(path, {**record, _DIGEST: _digest(record)}, "assessment")
        return path

    def keep_former(self, folder: str | Path) -> Path | None:
        """Set the folder's assessment aside where it is of other items or of another log.

        Returns
        -------
        Path or None
            Where it is kept; None where this one may take its place.
        """
        path = Path(folder) / FILE
        try:
            record = read_json(path)
            former = Assessment.from_dict(record)
        except (InputError, OSError):
            return None  # none, or of another version: nothing that could still be read
        same_items = former.certificate.data == self.certificate.data
        if same_items and (former.log is None or former.log.size == (self.log and self.log.size)):
            return None
        kept = path.with_stem(f"{path.stem}-{_digest(former.to_dict())[:8]}")
        write_json(kept, record, "assessment")
        return kept

    @classmethod
    def load(cls, folder: str | Path) -> Assessment:
        """Read the assessment of a run."""
        path = Path(folder) / FILE
        rule = f"with {FILE}: run `saferank certify` first"
        require(path.is_file(), "run", rule, str(folder))
        record = read_json(path)
        require(isinstance(record, dict), "assessment", "a JSON object", type(record).__name__)
        digest = record.pop(_DIGEST, None)
        assessment = cls.from_dict(record)
        if assessment.ranker != Ranker.load(folder).fingerprint():
            raise InputError(
                f"`{folder}` holds the assessment of another ranker: run `saferank certify` again."
            )
        if digest != _digest(record):
            raise InputError(
                f"`{path}` was changed after it was written: run `saferank certify` again."
            )
        return assessment

    @classmethod
    def from_dict(cls, record: Any) -> Assessment:
        """The assessment of a JSON record."""
        require(isinstance(record, dict), "assessment", "a JSON object", type(record).__name__)
        given = {key: value for key, value in record.items() if key not in ("format", _DIGEST)}
        said = record.get("format")
        rule = f"of format {_FORMAT}: run `saferank certify` again"
        require(said == _FORMAT, "assessment", rule, said)
        if isinstance(given.get("certificate"), dict):
            given["certificate"] = {k: v for k, v in given["certificate"].items() if k != "format"}
        return from_dict(cls, given, "assessment")


_DIGEST = "digest"


def _digest(record: dict[str, Any]) -> str:
    """Of all that an assessment says: no change of a number goes unnoticed by accident."""
    text = json.dumps(record, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def certified_deployment(folder: str | Path) -> Deployed:
    """How a run's rankings were last certified to be made: sampled where none was certified."""
    if not (Path(folder) / FILE).is_file():
        return "sampled"
    return Assessment.load(folder).certificate.deployed
