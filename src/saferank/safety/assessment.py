"""All that is asked before shipping in one record: certificate, estimates, log and verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saferank import flat
from saferank.clicks import ClickModel
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.evaluation import Deployed, Evaluation, Interval, Policy, evaluate, interval
from saferank.evaluation.policies import all_scores, check_policy
from saferank.files import read_json, write_json
from saferank.gains import GAINS, Evidence, from_log
from saferank.logs import Counts, check_production, overlap
from saferank.rankers import Ranker
from saferank.safety.certificate import Certificate
from saferank.safety.certifying import certify
from saferank.safety.decisions import Decision, verdict

FILE = "assessment.json"
_FORMAT = 1


@dataclass(frozen=True)
class RankRate:
    """Clicks at a rank: how many impressions, the rate seen, and the click model's."""

    rank: int
    impressions: int
    observed: float
    modelled: float


@dataclass(frozen=True)
class LogFacts:
    """What the log is like: its size, how it fits production's scores and the click model."""

    sessions: int
    clicks: int
    queries_seen: int
    queries: int
    sentences: tuple[str, ...]
    by_rank: tuple[RankRate, ...]


@dataclass(frozen=True)
class Assessment:
    """Whether a ranker is safe to ship, and everything that the answer rests on."""

    decision: Decision
    certificate: Certificate
    new: Interval | None = None
    production: Interval | None = None
    difference: Interval | None = None
    estimator: str | None = None
    log: LogFacts | None = None

    def record(self) -> dict[str, Any]:
        """The assessment for JSON."""
        return {"format": _FORMAT, **asdict(self), "certificate": self.certificate.record()}

    def save(self, folder: str | Path) -> Path:
        """Write the assessment beside the ranker it is of."""
        path = Path(folder) / FILE
        write_json(path, self.record())
        return path

    @classmethod
    def load(cls, folder: str | Path) -> Assessment:
        """Read the assessment of a run."""
        path = Path(folder) / FILE
        rule = f"with {FILE}: run `saferank certify` first"
        require(path.is_file(), "run", rule, str(folder))
        return cls.from_record(read_json(path))

    @classmethod
    def from_record(cls, record: Any) -> Assessment:
        """The assessment of a JSON record."""
        try:
            require(record["format"] == _FORMAT, "format", f"{_FORMAT}", record["format"])
            decision = {**record["decision"], "assumes": tuple(record["decision"]["assumes"])}
            found = {name: record[name] for name in ("new", "production", "difference")}
            return cls(
                Decision(**decision),
                Certificate.from_record(record["certificate"]),
                **{name: one and Interval(**one) for name, one in found.items()},
                estimator=record["estimator"],
                log=record["log"] and _log_of(record["log"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"An assessment's record is off; {error!r}.") from error


def certified_deployment(folder: str | Path) -> Deployed:
    """How a run's rankings were last certified to be made: sampled where none was certified."""
    if not (Path(folder) / FILE).is_file():
        return "sampled"
    return Assessment.load(folder).certificate.deployed


def _log_of(record: dict[str, Any]) -> LogFacts:
    rates = tuple(RankRate(**one) for one in record["by_rank"])
    return LogFacts(**{**record, "sentences": tuple(record["sentences"]), "by_rank": rates})


def assess(
    ranker: Policy,
    data: RankingData,
    *,
    production: Policy | None = None,
    counts: Counts | None = None,
    users: ClickModel | None = None,
    keep: float | None = None,
    slack: float | None = None,
    deployed: Deployed = "sampled",
    guard: bool = False,
    by: str = "promise",
    tolerance: float = 0.0,
    confidence: float = 0.95,
    method: str = "clustered",
) -> Assessment:
    """Certify a ranker, estimate its difference to production where there are counts, and decide.

    `users`, `keep` and `slack` are those that the ranker was learned with where not given.
    """
    card = ranker.card if isinstance(ranker, Ranker) else None
    if users is None and card is not None and card.users is not None:
        users = ClickModel.from_record(card.users)
    certificate = certify(
        ranker,
        data,
        production=production,
        keep=_first(keep, None if card is None else card.keep, 0.9),
        slack=_first(slack, None if card is None else card.slack, 0.01),
        deployed=deployed,
        traffic=None if counts is None or counts.total == 0 else counts,
    )
    if counts is None:
        decided = verdict(certificate, guard=guard, by=by)
        return Assessment(decided, certificate)
    if users is None:
        raise InputError("`users` must be given with counts: the ranker's card names none.")
    found = evaluate(
        ranker, data, counts, users, production=production, deployed=deployed,
        weights=certificate.weights if len(certificate.weights) == users.ranks else None,
    )  # fmt: skip
    decided = verdict(
        certificate,
        found,
        guard=guard,
        by=by,
        tolerance=tolerance,
        confidence=confidence,
        method=method,
    )
    return Assessment(
        decided,
        certificate,
        **_intervals(found, method, confidence),
        estimator=f"{found.estimator}, {found.control} control variate",
        log=_log_facts(check_policy(production, data, "production"), data, counts, users),
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _intervals(found: Evaluation, method: str, confidence: float) -> dict[str, Any]:
    return {
        name: interval(getattr(found, name), method, confidence)
        for name in ("new", "production", "difference")
    }


def _log_facts(
    production: Policy, data: RankingData, counts: Counts, users: ClickModel
) -> LogFacts:
    shown = all_scores(production, data, "production")
    parts = overlap(counts).components()
    if len(parts) == 1:
        linked = "Documents were shown at several ranks: all ranks can be compared."
    else:
        linked = f"Ranks fall into {len(parts)} groups that share no document: they cannot be told"
        linked += " apart from relevance."
    return LogFacts(
        sessions=counts.total,
        clicks=int(counts.clicks.sum()),
        queries_seen=int(np.count_nonzero(counts.sessions)),
        queries=counts.queries,
        sentences=(check_production(counts, shown).sentence(), linked),
        by_rank=_rates(counts, users),
    )


def _rates(counts: Counts, users: ClickModel) -> tuple[RankRate, ...]:
    """Click rates by rank beside those of the click model with each document's best relevance."""
    known = Evidence(counts, users, from_log(counts, users, users.exposure_weights))
    relevance = GAINS["click-model"].estimate(known)
    expected = (counts.impressions * users.probability(relevance)).sum(axis=0)
    shown = flat.query_sums(counts.impressions, np.array([0, counts.documents]))[0]
    clicked = counts.clicks.sum(axis=0)
    some = np.maximum(shown, 1)
    return tuple(
        RankRate(k + 1, int(shown[k]), float(clicked[k] / some[k]), float(expected[k] / some[k]))
        for k in range(counts.ranks)
    )
