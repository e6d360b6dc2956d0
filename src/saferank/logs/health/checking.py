"""Is this log good enough? Findings, each with its meaning and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from saferank._core.flat import Floats
from saferank.counts.arrays import Counts
from saferank.counts.count_table import CountReport
from saferank.counts.overlap import Overlap
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs.alignment import Alignment, align
from saferank.logs.counting import Counted, EngineChoice, counted
from saferank.logs.exclusions import ExclusionList
from saferank.logs.health import judgements, measures
from saferank.logs.health.judgements import Finding
from saferank.logs.health.measures import Rate
from saferank.logs.health.robots import Robots, find_robots
from saferank.logs.sources import LogName

Verdict = Literal["good", "usable with care", "not good enough"]
FindProduction = Callable[[Counts, Floats], Finding]
"""What counts say of the scores that production is said to use."""


@dataclass(frozen=True, eq=False)
class LogHealth:
    """What a check of a log found, and the figures behind it."""

    report: CountReport
    findings: tuple[Finding, ...]
    by_rank: tuple[Rate, ...]
    by_day: tuple[Rate, ...]
    overlap: Overlap
    robots: Robots
    alignment: Alignment | None = None

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
) -> LogHealth:
    """Look at a log before learning from it; bad rows are told, not refused.

    `items` tells how much of what could be shown was shown, and what `production` finds in their
    production scores (`saferank.policies.production_finding`). `rank_from=None` finds out whether
    ranks count from 0 or 1. The other options are those of `count`.
    """
    options: dict[str, Any] = {
        "engine": engine, "columns": columns, "where": where, "top": top,
        "use_sessions": use_sessions, "exclude": exclude,
    }  # fmt: skip
    with counted(log, rank_from=1 if rank_from is None else rank_from, **options) as found:
        if not (found.report.from_zero and rank_from is None):
            return _checked(found, items, production)
    with counted(log, rank_from=0, **options) as found:
        health = _checked(found, items, production)
        return replace(health, findings=(judgements.origin(found.report), *health.findings))


def _checked(
    found: Counted, items: RankingData | None, production: FindProduction | None
) -> LogHealth:
    if found.report.groups == 0:
        raise InputError(
            f"the log must have rows to check; none of its {found.report.rows:,} is kept."
        )
    return _judged(found, items, production)


def _judged(
    found: Counted, items: RankingData | None, production: FindProduction | None
) -> LogHealth:
    by_rank, by_day = measures.by_rank(found), measures.by_day(found)
    queries, robots = measures.queries(found), find_robots(found)
    documents, overlap = measures.documents(found), measures.overlap(found)
    findings = [
        judgements.size(queries, documents),
        judgements.rows(found.report),
        judgements.clicks(found.report),
        judgements.ranks(by_rank),
        judgements.lengths(by_rank, queries.sessions),
        judgements.once(queries),
        judgements.variety(queries),
        judgements.links(documents, overlap, queries),
        judgements.duplicates(found.report, found.log.has_sessions),
        judgements.robots(found.report, robots),
    ]
    if by_day:
        findings.append(judgements.drift(by_day))
    alignment = None
    if items is not None:
        counts, alignment = align(found.table(None), items, skip_bad=True)
        findings += [judgements.support(alignment), judgements.known(alignment)]
        if items.production is not None and production is not None and counts.total > 0:
            findings.append(production(counts, items.production))
    return LogHealth(found.report, tuple(findings), by_rank, by_day, overlap, robots, alignment)
