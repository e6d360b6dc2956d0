"""Many rounds: serve, log, learn, certify, and serve what was certified."""

from saferank.rounds.loop import Loop
from saferank.rounds.promised import Against, promise_after
from saferank.rounds.steps import Candidate, Step, take_step

__all__ = [
    "Against",
    "Candidate",
    "Loop",
    "Step",
    "promise_after",
    "take_step",
]
