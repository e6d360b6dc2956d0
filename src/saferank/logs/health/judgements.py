"""What figures of a log mean, and what to do: one function a finding, the thresholds on top."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from saferank.counts.count_table import CountReport
from saferank.counts.overlap import Overlap
from saferank.logs.aligned import Alignment
from saferank.logs.health.measures import Documents, Queries, Rate
from saferank.logs.health.robots import Robots

Severity = Literal["good", "note", "warning", "problem"]

FEW_SESSIONS = 1000
FEW_CLICKS = 500
MANY_SEEN_ONCE = 0.5
MANY_ONE_LIST, MANY_ONE_ORDER = 0.9, 0.95
MANY_DUPLICATES = 0.01
ROBOT_CLICKS = 0.02
RISE = 3.0
"""Standard errors by which a click rate may exceed that of the rank above by chance."""
DRIFT, DRIFT_ERRORS = 0.25, 4.0
THIN_DAY = 0.2
FULL, HALF = 0.99, 0.5
LOW_SUPPORT = 0.5
MANY_UNKNOWN = 0.05
LINK = 10.0
"""Sessions that an overlap of two ranks must be worth to link them."""


@dataclass(frozen=True)
class Finding:
    """One thing found in a log: what, how much, what it means, what to do."""

    name: str
    value: float | int | str
    severity: Severity
    meaning: str
    advice: str = ""


def size(queries: Queries, documents: Documents) -> Finding:
    """Is there enough to learn anything at all?"""
    meaning = (
        f"{queries.sessions:,} sessions of {queries.total:,} queries showed {documents.total:,} "
        f"query-document pairs."
    )
    if queries.sessions >= FEW_SESSIONS:
        return Finding("sessions", queries.sessions, "good", meaning)
    advice = "Collect more, and learn with a safe method (prpo): others need far more sessions."
    return Finding("sessions", queries.sessions, "warning", meaning, advice)


def rows(report: CountReport) -> Finding:
    """Rows that break a rule of the schema."""
    if not report.bad:
        return Finding("bad rows", 0, "good", "Every row keeps the rules of the schema.")
    meaning = "; ".join(str(broken) for broken in report.bad) + "."
    share = report.bad_rows / report.rows
    advice = "Repair the log, or count with --skip-bad if these rows are a random few."
    severity: Severity = "problem" if share > MANY_UNKNOWN else "warning"
    return Finding("bad rows", report.bad_rows, severity, meaning, advice)


MOST_CLICKED = 0.99


def clicks(report: CountReport) -> Finding:
    """Is anything clicked?"""
    rate = report.clicks / max(1, report.impressions)
    meaning = f"{report.clicks:,} clicks on {report.impressions:,} impressions ({rate:.2%})."
    if report.clicks == 0:
        return Finding("clicks", 0, "problem", meaning, "Find out where the clicks went.")
    if rate > MOST_CLICKED:
        advice = "Find out where the rows without a click went: people do not click everything."
        return Finding("clicks", report.clicks, "problem", meaning, advice)
    if report.clicks < FEW_CLICKS:
        advice = "Collect more: estimates from so few clicks are mostly noise."
        return Finding("clicks", report.clicks, "warning", meaning, advice)
    return Finding("clicks", report.clicks, "good", meaning)


def origin(report: CountReport) -> Finding:
    """Ranks that count from 0."""
    meaning = f"Ranks count from 0 in this log (every list begins there); {report.rows:,} rows."
    advice = "They are read so here; count the log with --rank-from 0."
    return Finding("ranks from 0", 0, "warning", meaning, advice)


def ranks(by_rank: Sequence[Rate]) -> Finding:
    """Do click rates fall with the rank, as attention does?"""
    shown = [rate for rate in by_rank if rate.impressions]
    first, last = shown[0], shown[-1]
    meaning = (
        f"Click rates go from {first.rate:.3f} at rank {first.at} to {last.rate:.3f} at rank "
        f"{last.at}."
    )
    if len(shown) == 1:
        advice = "Log the rank of every shown document; one rank says nothing of position bias."
        return Finding("click rate by rank", first.rate, "problem", meaning, advice)
    rising = [f"{low.at}" for high, low in pairwise(shown) if _errors_apart(low, high) > RISE]
    if first.at == 1 and not rising:
        return Finding("click rate by rank", first.rate, "good", meaning)
    if first.at != 1:
        meaning += f" Nothing is logged above rank {first.at}."
    if rising:
        meaning += f" They rise at rank {', '.join(rising)}."
    advice = "Check how ranks are numbered and whether other results share the page."
    return Finding("click rate by rank", first.rate, "warning", meaning, advice)


def lengths(by_rank: Sequence[Rate], sessions: int) -> Finding:
    """Are lists full? What is missing counts for nobody, but should be known."""
    last = max((int(rate.at) for rate in by_rank), default=1)
    there = sum(rate.impressions for rate in by_rank)
    share = min(1.0, there / max(sessions * last, 1))
    meaning = f"{share:.1%} of the rows of {sessions:,} lists of {last} are in the log."
    absent = sorted(set(range(1, last + 1)) - {int(r.at) for r in by_rank if r.impressions})
    if absent:
        meaning += f" Nothing is logged at rank {', '.join(map(str, absent[:5]))}."
        advice = "Log every shown document: of ranks that are not logged nothing can be said."
        return Finding("full lists", share, "warning", meaning, advice)
    if share >= FULL:
        return Finding("full lists", share, "good", meaning)
    advice = (
        "Where lists are cut, this is as it should be, and new rankers are judged in lists of the "
        "same lengths; where rows get lost on the way, find out where."
    )
    return Finding("full lists", share, "note" if share >= HALF else "warning", meaning, advice)


def _errors_apart(first: Rate, second: Rate) -> float:
    """By how many standard errors a click rate exceeds another."""
    shown = first.impressions + second.impressions
    rate = (first.clicks + second.clicks) / shown
    variance = rate * (1 - rate) * (1 / first.impressions + 1 / second.impressions)
    return (first.rate - second.rate) / math.sqrt(variance) if variance > 0 else 0.0


def once(queries: Queries, *, policy_known: bool = False) -> Finding:
    """Queries of which a single session is known."""
    share = queries.seen_once / max(1, queries.total)
    meaning = f"{share:.1%} of the queries were seen once: of those only features can be learned."
    if share <= MANY_SEEN_ONCE or policy_known:
        return Finding("queries seen once", share, "good", meaning)
    advice = "Count a longer time, or map spellings of a query to one query_id."
    return Finding("queries seen once", share, "warning", meaning, advice)


def _fixed(queries: Queries) -> bool:
    """Whether production always shows the same lists, or the same but for what comes and goes."""
    several = max(1, queries.several)
    lists, orders = queries.one_list / several, queries.one_order / several
    return lists > MANY_ONE_LIST or orders > MANY_ONE_ORDER


def variety(queries: Queries) -> Finding:
    """Does production ever show another order?"""
    share, same = (n / max(1, queries.several) for n in (queries.one_order, queries.one_list))
    meaning = (
        f"{share:.1%} of the queries seen several times always show their documents in the same "
        f"order"
    )
    if same < share:
        meaning += f" ({same:.1%} the same list; in the others some documents come or go)"
    if not _fixed(queries):
        return Finding("always the same order", share, "good", f"{meaning}.")
    advice = "Let production vary a little before learning: `saferank explore` says how."
    return Finding("always the same order", share, "problem", f"{meaning}.", advice)


def links(
    documents: Documents, overlap: Overlap, queries: Queries, *, policy_known: bool = False
) -> Finding:
    """Can the ranks' click rates be told apart from the documents'?"""
    share = documents.several_ranks / max(1, documents.total)
    parts = overlap.components(LINK)
    meaning = (
        f"{share:.1%} of the documents were seen at several ranks; they link the ranks into "
        f"{len(parts)} group{'s' if len(parts) > 1 else ''}"
    )
    if policy_known:
        meaning += "; production's policy, which is known, compares them anyway."
        return Finding("overlap between ranks", share, "good", meaning)
    if len(parts) == 1 and _fixed(queries):
        meaning += ", only because documents came or went: the order itself never varied."
        return Finding("overlap between ranks", share, "warning", meaning, _VARY)
    if len(parts) == 1:
        return Finding("overlap between ranks", share, "good", f"{meaning}.")
    biggest = max(parts, key=len)
    apart = sorted(set(range(1, overlap.ranks + 1)) - set(biggest))
    meaning += f". Position bias at rank {_listed(apart)} cannot be compared with the rest."
    if len(biggest) <= 1:
        return Finding("overlap between ranks", share, "problem", meaning, _VARY)
    advice = "Cut with --top at the last linked rank, let production vary, or bring a known bias."
    return Finding("overlap between ranks", share, "warning", meaning, advice)


_VARY = "Let production vary, or bring a known bias (learn --bias bias.json)."


def _listed(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:6]))
    return f"{shown}, ..." if len(ranks) > 6 else shown


def duplicates(report: CountReport, has_sessions: bool) -> Finding:
    """Rows that were logged more than once."""
    if not has_sessions:
        advice = "Log a session_id: without it repeated rows cannot be found."
        return Finding("duplicates", "unknown", "note", "The log has no session_id.", advice)
    share = report.duplicates / max(1, report.rows)
    meaning = f"{report.duplicates:,} rows ({share:.2%}) repeat another of their session."
    if share <= MANY_DUPLICATES:
        return Finding("duplicates", report.duplicates, "good", meaning)
    advice = "They are counted once; look for reloads or a pipeline that delivers twice."
    return Finding("duplicates", report.duplicates, "warning", meaning, advice)


def repeats(report: CountReport) -> list[Finding]:
    """Documents at several ranks of one session, where there are any."""
    repeated = report.repeats
    if repeated is None:
        return []
    advice = (
        "A session is one list: use the id of the request, or leave out blocks that show results "
        "a second time (--where). They are counted at each rank."
    )
    return [Finding("repeated documents", repeated.sessions, "warning", f"{repeated}.", advice)]


def robots(report: CountReport, suspects: Robots) -> Finding:
    """Clicks that no person makes, and who makes them."""
    share = min(1.0, suspects.most_clicks / max(1, report.clicks))
    meaning = f"{share:.2%} of the clicks look like those of robots: {suspects.sentence()}"
    if share <= ROBOT_CLICKS:
        return Finding("robots", share, "good", meaning)
    advice = "Write them to a list with --robots FILE, look at it, and count with --exclude FILE."
    return Finding("robots", share, "warning", meaning, advice)


def drift(by_day: Sequence[Rate]) -> Finding:
    """Is every day like the others?"""
    shown, clicked = sum(day.impressions for day in by_day), sum(day.clicks for day in by_day)
    overall = Rate("all", shown, clicked)
    odd = [day for day in by_day if _drifts(day, overall)]
    thin = [d for d in by_day if d.impressions < THIN_DAY * median(x.impressions for x in by_day)]
    far = max((abs(day.rate / overall.rate - 1) for day in odd), default=0.0) if clicked else 0.0
    meaning = (
        f"Of {len(by_day)} days, {len(odd)} have a click rate more than {DRIFT:.0%} off the mean"
        f"{_days(odd)} and {len(thin)} hardly any rows{_days(thin)}."
    )
    if not odd and not thin:
        return Finding("clicks by day", far, "good", meaning)
    advice = "Look at those days; leave them out with --where if logging or the page changed."
    return Finding("clicks by day", far, "warning", meaning, advice)


def _drifts(day: Rate, overall: Rate) -> bool:
    if not overall.clicks or not day.impressions:
        return False
    error = math.sqrt(overall.rate * (1 - overall.rate) / day.impressions)
    gap = abs(day.rate - overall.rate)
    return gap > DRIFT * overall.rate and gap > DRIFT_ERRORS * error


def _days(days: Sequence[Rate]) -> str:
    return f" ({', '.join(str(day.at) for day in days[:3])})" if days else ""


def support(alignment: Alignment) -> Finding:
    """How much of what could be shown was shown?"""
    share = alignment.support
    meaning = f"{share:.1%} of the {alignment.documents:,} items were ever shown."
    if share >= LOW_SUPPORT:
        return Finding("support", share, "good", meaning)
    advice = (
        "The log says nothing of the other items: estimates give a ranker that raises them no "
        "credit for it. Let production vary more."
    )
    return Finding("support", share, "warning", meaning, advice)


def known(alignment: Alignment) -> Finding:
    """Are the log's documents among the items?"""
    lost, all_ = alignment.unknown_impressions, alignment.impressions
    share = lost / max(1, lost + all_)
    if not alignment.unknown_documents:
        return Finding("unknown documents", 0, "good", "The items have every shown document.")
    meaning = (
        f"{alignment.unknown_documents:,} shown documents have no item ({share:.1%} of the "
        f"impressions), for example {alignment.example}."
    )
    advice = "Bring their features, or leave them out with --skip-bad."
    severity: Severity = "problem" if share > 0.5 else "warning"
    return Finding("unknown documents", alignment.unknown_documents, severity, meaning, advice)
