"""Were these sessions part of what they are to judge? An estimate from such sessions flatters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from saferank.counts import Counts
from saferank.counts.additive_print import MARK, additive_print
from saferank.counts.sketch import Sketch
from saferank.learning import Provenance, Ranker

FLATTERS = (
    "The estimate is made of sessions that the ranker was learned from: it flatters the ranker."
)
NO_PART = "The sessions to judge by had no part in the ranker."
UNKNOWN_PART = (
    "The sessions to judge by had no part in the ranker: it could not be checked, for want of ids "
    "of sessions, or of enough of them to compare."
)
SOME = 0.01
"""Share of sessions in common that is let pass: a session may lie on both sides of midnight."""
_WHAT_TO_DO = (
    "judge by other sessions (`saferank count` sets 20 % aside unless told --judge 0; learn from "
    "such counts), or give --same-sessions (same_sessions=True) for an estimate that flatters"
)


def shared_sessions(ranker: object, counts: Counts) -> str | None:
    """Why the sessions to judge by had a part in the ranker, in one sentence; None: not known to.

    Compared are fingerprints of counts and samples of the sessions' ids, as the
    provenance of the ranker and of its regression has them.
    """
    if not isinstance(ranker, Ranker):
        return None
    provenances = [
        ranker.provenance,
        *([] if ranker.regression is None else [ranker.regression.provenance]),
    ]
    log = _Log(counts)
    reasons = [
        reason for provenance in provenances if (reason := _reason(provenance, log)) is not None
    ]
    return reasons[0] if reasons else None


def can_tell(ranker: object, counts: Counts) -> bool:
    """Whether sessions in common would have been found.

    They are the other part of the very counts that it learned from, or samples of ids could be
    compared. A sample of few sessions may have none that a sample of many could share.
    """
    if not isinstance(ranker, Ranker):
        return False
    provenance = ranker.provenance
    if counts.judge is not None:
        learned = {provenance.learned_from, *provenance.also_from}  # of shards each by itself
        part = counts.part("learn")
        if part.fingerprint() in learned or (
            _adds_up(provenance) and additive_print(part) in learned
        ):
            return True
    own = (counts if counts.judge is None else counts.judge).sketch
    if own is None or provenance.sketch is None:
        return False
    return own.shared(Sketch.from_dict(provenance.sketch)) is not None


@dataclass(frozen=True, eq=False)
class _Log:
    """Counts, and the fingerprints of their parts, each made once."""

    counts: Counts

    @cached_property
    def whole(self) -> str:
        return self.counts.part("all").fingerprint()

    @cached_property
    def judged(self) -> str:
        judge = self.counts.judge
        return self.whole if judge is None else judge.fingerprint()

    @cached_property
    def learned(self) -> str:
        return self.counts.part("learn").fingerprint()

    @cached_property
    def sums(self) -> set[str]:
        """Prints of all sessions and of those to judge by that add up over shards."""
        judge = self.counts.judge
        parts = [self.counts.part("all"), *([] if judge is None else [judge])]
        return {additive_print(part) for part in parts}


def _adds_up(provenance: Provenance) -> bool:
    """Whether a ranker was learned from shards, whose prints are added."""
    return any(one.startswith(MARK) for one in provenance.also_from)


def _reason(provenance: Provenance, log: _Log) -> str | None:
    return _by_fingerprint(provenance, log) or _by_sketch(provenance, log.counts)


def _by_sketch(provenance: Provenance, counts: Counts) -> str | None:
    """By samples of the sessions' ids: also where the log was counted in another way."""
    own = (counts if counts.judge is None else counts.judge).sketch
    if provenance.sketch is None or own is None:
        return None
    share = own.shared(Sketch.from_dict(provenance.sketch))
    if share is None or share <= SOME:
        return None
    what = "the ranker" if provenance.method != "relevance" else "the ranker's regression"
    return (
        f"About {share:.0%} of the sessions to judge by are among those that {what} was learned "
        f"from: {_WHAT_TO_DO}."
    )


def _by_fingerprint(provenance: Provenance, log: _Log) -> str | None:
    if provenance.learned_from is None:
        return None
    counts, whole, judged = log.counts, log.whole, log.judged
    if {whole, judged}.intersection(provenance.also_from):
        return f"The ranker was stopped by these sessions, or began from them: {_WHAT_TO_DO}."
    what = "the ranker" if provenance.method != "relevance" else "the ranker's regression"
    if _adds_up(provenance) and log.sums.intersection(provenance.also_from):
        return f"These are the sessions that {what} was learned from: {_WHAT_TO_DO}."
    if judged == provenance.learned_from or (counts.judge is None and whole == provenance.log):
        return f"These are the sessions that {what} was learned from: {_WHAT_TO_DO}."
    if whole == provenance.learned_from:
        return f"These sessions are among those that {what} was learned from: {_WHAT_TO_DO}."
    if whole == provenance.log and log.learned != provenance.learned_from:
        return (
            f"The same log was split in another way when {what} was learned, so that sessions to "
            f"judge by were learned from: {_WHAT_TO_DO}."
        )
    return None
