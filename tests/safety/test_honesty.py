"""The table of docs/safety.md: numbers by sessions to judge by hold the truth as often as said."""

from __future__ import annotations

import os

import pytest
from scipy.stats import binom

from benchmarks import honesty

WORLDS = int(os.environ.get("SAFERANK_WORLDS", "200"))


@pytest.mark.slow
@pytest.mark.parametrize("sessions", honesty.SESSIONS)
def test_intervals_and_bounds_hold_in_95_percent_of_the_worlds(sessions: int) -> None:
    found = [
        one for world in range(WORLDS)
        for one in honesty.outcomes(world, sessions, unsplit=False) if one.estimate is not None
    ]  # fmt: skip
    for method in honesty.METHODS:
        told = [one for one in found if one.method == method]
        assert len(told) > WORLDS / 2
        inside = sum(one.lower <= one.truth <= one.upper for one in told)
        below = sum(one.at_least <= one.truth for one in told)
        clicked = sum(one.clicks[0] <= one.clicks_truth <= one.clicks[1] for one in told)
        decided = sum(one.clicks[2] <= one.clicks_truth for one in told)
        fewest = binom.ppf(0.001, len(told), 0.95)
        for held in (inside, below, clicked, decided):
            assert held >= fewest, (method, held, len(told))


def test_judged_by_its_own_sessions_a_ranker_is_flattered() -> None:
    found = [one for world in range(3) for one in honesty.outcomes(world, 300)]
    own = [one for one in found if not one.split and one.method == "dr"]
    assert own
    assert all(one.estimate > one.truth for one in own)
