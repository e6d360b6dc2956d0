"""What a log says of production, as a finding of `saferank logs check`."""

from __future__ import annotations

from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.logs import Finding
from saferank.policies.choosing import choose_production


def production_finding(counts: Counts, scores: Floats) -> Finding:
    """What `learn` and `certify` will take production for, by the same tests.

    >>> always = Counts([0, 2], [[40, 0], [0, 40]], [[9, 0], [0, 5]])
    >>> production_finding(always, [2.0, 1.0]).severity
    'good'
    """
    _, fit = choose_production(counts, scores)
    if fit.kind != "observed":
        return Finding("production", fit.kind, "good", fit.sentence)
    advice = (
        "Propensities come from the log's own frequencies. If production changed while the log was "
        "made, count the days since (--where 'COLUMN>=DATE', by your column of dates): rankers are "
        "compared with what the whole log shows."
    )
    return Finding("production", fit.kind, "note", fit.sentence, advice)
