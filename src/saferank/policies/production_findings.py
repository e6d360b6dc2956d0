"""What a log says of production, as a finding of `saferank logs check`."""

from __future__ import annotations

from dataclasses import dataclass

from saferank._core.flat import Array, Floats
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.logs.health import Finding
from saferank.policies.choosing import choose_production
from saferank.policies.known_production import known_policy


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


@dataclass(frozen=True)
class PolicyFinding:
    """Whether production's policy is known, by what is said of it (`SAID`) and by the log.

    >>> once = Counts([0, 2, 4], [[1, 0], [0, 1], [0, 1], [1, 0]], [[0, 0]] * 4)
    >>> PolicyFinding("uniform")(once).severity, PolicyFinding()(once) is None
    ('good', True)
    """

    said: str = "auto"

    @property
    def asked(self) -> bool:
        """Whether something was said that the log must agree with."""
        return self.said not in ("auto", "none")

    def __call__(
        self, counts: Counts, scores: Floats | None = None, features: Array | None = None
    ) -> Finding | None:
        """The finding; none where nothing is known, a problem where the log contradicts."""
        name = "production's policy"
        try:
            policy = known_policy(counts, scores, self.said, features=features)
        except InputError as error:
            return Finding(name, self.said, "problem", str(error), "Say what it does, or nothing.")
        if policy is None:
            return None
        return Finding(name, self.said, "good", f"{policy.why} Ranks can be compared through it.")
