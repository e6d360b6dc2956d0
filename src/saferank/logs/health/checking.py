"""Is this log good enough? Findings, each with its meaning and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from saferank._core.flat import Array, Floats
from saferank.counts.arrays import Counts
from saferank.counts.count_table import CountReport
from saferank.counts.feedback import CLICKS, Feedback
from saferank.counts.overlap import Overlap
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs.aligned import Alignment
from saferank.logs.alignment import align, arrays_of
from saferank.logs.counting import Counted, EngineChoice, count_rows
from saferank.logs.exclusions import ExclusionList
from saferank.logs.health import judgements, measures
from saferank.logs.health.judgements import Finding
from saferank.logs.health.measures import Rate
from saferank.logs.health.robots import Robots, find_robots
from saferank.logs.log_reading import LogReading
from saferank.logs.sources import LogName

Verdict = Literal["good", "usable with care", "not good enough"]
FindProduction = Callable[[Counts, Floats], Finding]
"""What counts say of the scores that production is said to use."""


class FindPolicy(Protocol):
    """Whether production's policy is known (`saferank.policies.PolicyFinding`)."""

    @property
    def asked(self) -> bool:
        """Whether something was said of it, and the counts must be looked at for that alone."""

    def __call__(
        self, counts: Counts, scores: Floats | None = None, features: Array | None = None
    ) -> Finding | None:
        """The finding; none where nothing is known."""


@dataclass(frozen=True, eq=False)
class LogHealth:
    """What a check of a log found, and the figures behind it.

    See Also
    --------
    check_log : makes one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import saferank as sr
    >>> rows = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "rank": [1, 2], "click": [0, 1]}
    >>> health = sr.logs.check_log(pa.table(rows))
    >>> [rate.clicks for rate in health.by_rank]
    [0, 1]
    """

    report: CountReport
    """What was counted, left out and mended."""
    findings: tuple[Finding, ...]
    """What is wrong or remarkable, how grave it is, and what to do."""
    by_rank: tuple[Rate, ...]
    """Impressions and clicks at each rank."""
    by_day: tuple[Rate, ...]
    """The same of each day, where the log has times."""
    overlap: Overlap
    """How many documents were seen at several ranks."""
    robots: Robots
    """Who clicks like a robot."""
    alignment: Alignment | None = None
    """What of the log has items, where they were given."""

    @property
    def verdict(self) -> Verdict:
        """The worst of the findings."""
        severities = {finding.severity for finding in self.findings}
        if "problem" in severities:
            return "not good enough"
        return "usable with care" if "warning" in severities else "good"

    def to_dict(self) -> dict[str, Any]:
        """The check for JSON."""
        return {
            "verdict": self.verdict,
            "report": self.report.to_dict(),
            "findings": [asdict(finding) for finding in self.findings],
            "click_rate_by_rank": [{**asdict(rate), "rate": rate.rate} for rate in self.by_rank],
            "click_rate_by_day": [{**asdict(rate), "rate": rate.rate} for rate in self.by_day],
            "robots": {name: ids.to_pylist() for name, ids in self.robots.named.items()},
            "documents_at_both_ranks": self.overlap.documents.tolist(),
            "alignment": None if self.alignment is None else self.alignment.to_dict(),
        }


def check_log(
    log: LogName,
    *,
    items: RankingData | None = None,
    engine: str | EngineChoice = "duckdb",
    columns: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    top: int | None = None,
    use_sessions: bool = True,
    rank_from: int | None = None,
    exclude: ExclusionList | None = None,
    production: FindProduction | None = None,
    policy: FindPolicy | None = None,
    feedback: str | Feedback = CLICKS,
) -> LogHealth:
    """Look at a log before learning from it; bad rows are told, not refused.

    `items` tells how much of what could be shown was shown, and what `production` finds in their
    production scores (`saferank.policies.production_finding`). `policy` tells whether production's
    policy is known, so that ranks can be compared though every list was seen once.
    `rank_from=None` finds out whether ranks count from 0 or 1. The other options are those of
    `count`.

    Parameters
    ----------
    log
        As in `count`.
    items
        Tell how much of what could be shown was shown.
    engine, columns, where, top, use_sessions, exclude, feedback
        As in `count`.
    rank_from
        The log's first rank; None finds out whether ranks count from 0 or 1.
    production
        What to find in the items' production scores (`policies.production_finding`).
    policy
        Tells whether production's policy is known, so that ranks can be compared though every list
        was seen once.

    Returns
    -------
    LogHealth
        Findings, and the figures behind them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "rank": [1, 2], "click": [0, 1]}
    >>> log = pa.table(rows)
    >>> check_log(log).report.rows
    2
    """
    first = 1 if rank_from is None else rank_from
    reading = LogReading(columns, where, top, use_sessions, first, exclude, feedback)
    with count_rows(log, reading, engine) as counted_log:
        if not (counted_log.report.from_zero and rank_from is None):
            return _checked(counted_log, items, production, policy)
    with count_rows(log, replace(reading, rank_from=0), engine) as counted_log:
        health = _checked(counted_log, items, production, policy)
        return replace(health, findings=(judgements.origin(counted_log.report), *health.findings))


def _checked(
    counted_log: Counted,
    items: RankingData | None,
    production: FindProduction | None,
    policy: FindPolicy | None,
) -> LogHealth:
    if counted_log.report.groups == 0:
        raise InputError(
            f"the log must have rows to check; none of its {counted_log.report.rows:,} is kept."
        )
    return _judged(counted_log, items, production, policy)


def _judged(
    counted_log: Counted,
    items: RankingData | None,
    production: FindProduction | None,
    policy: FindPolicy | None,
) -> LogHealth:
    by_rank, by_day = measures.by_rank(counted_log), measures.by_day(counted_log)
    queries, robots = measures.queries(counted_log), find_robots(counted_log)
    documents, overlap = measures.documents(counted_log), measures.overlap(counted_log)
    counts, alignment = _counts(counted_log, items, policy)
    policy_finding = None
    if policy is not None and counts is not None and counts.total > 0:
        policy_finding = _find_policy(policy, counts, items)
    policy_known = policy_finding is not None and policy_finding.severity == "good"
    findings = [
        judgements.size(queries, documents),
        judgements.rows(counted_log.report),
        judgements.clicks(counted_log.report),
        judgements.ranks(by_rank),
        judgements.lengths(by_rank, queries.sessions),
        judgements.once(queries, policy_known=policy_known),
        judgements.variety(queries),
        judgements.links(documents, overlap, queries, policy_known=policy_known),
        judgements.duplicates(counted_log.report, counted_log.log.has_sessions),
        *judgements.repeats(counted_log.report),
        judgements.robots(counted_log.report, robots),
    ]
    if by_day:
        findings.append(judgements.drift(by_day))
    if policy_finding is not None:
        findings.append(policy_finding)
    if alignment is not None:
        findings += [judgements.support(alignment), judgements.known(alignment)]
    scores = None if items is None else items.production
    if scores is not None and production is not None and counts is not None and counts.total > 0:
        findings.append(production(counts, scores))
    return LogHealth(
        counted_log.report, tuple(findings), by_rank, by_day, overlap, robots, alignment
    )


def _counts(
    counted_log: Counted, items: RankingData | None, policy: FindPolicy | None
) -> tuple[Counts | None, Alignment | None]:
    """The counts in memory, where someone looks at them."""
    if items is not None:
        return align(counted_log.table(None), items, skip_bad=True)
    if policy is not None and (policy.asked or counted_log.report.recorded):
        return arrays_of(counted_log.table(None)), None
    return None, None


def _find_policy(policy: FindPolicy, counts: Counts, items: RankingData | None) -> Finding | None:
    if items is None:
        return policy(counts)
    return policy(counts, items.production, items.features)
