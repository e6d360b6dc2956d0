"""Counts in parts: sessions to learn from, sessions to judge by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saferank.counts import Counts
from saferank.counts.arrays import Part
from saferank.errors import InputError


def _random(seed: int, ranks: int = 3) -> Counts:
    rng = np.random.default_rng(seed)
    impressions = rng.integers(0, 20, (7, ranks))
    return Counts([0, 3, 7], impressions, rng.binomial(impressions, 0.3))


def test_parts_add_up() -> None:
    learn, judge = _random(0), _random(1)
    both = Counts.of_parts(learn, judge)
    parts: dict[Part, Counts] = {"learn": learn, "judge": judge, "all": learn + judge}
    for name, part in parts.items():
        assert both.part(name).judge is None
        for field in ("impressions", "clicks", "sessions"):
            np.testing.assert_array_equal(getattr(both.part(name), field), getattr(part, field))
    day_by_day = both + Counts.of_parts(_random(2), _random(3))
    assert day_by_day.part("judge").fingerprint() == (judge + _random(3)).fingerprint()
    chosen = day_by_day.subset([1])
    assert chosen.part("learn").fingerprint() == (learn + _random(2)).subset([1]).fingerprint()


def test_counts_without_parts_are_all_to_learn_from() -> None:
    counts = _random(0)
    assert counts.part("learn") is counts
    assert counts.part("judge").total == 0


def test_a_judge_part_lies_within_the_counts() -> None:
    counts = _random(0)
    with pytest.raises(InputError, match="a part of the counts"):
        replace(counts, judge=counts + counts)
    with pytest.raises(InputError, match="same documents"):
        replace(counts, judge=_random(0, ranks=2))


def test_a_fingerprint_is_of_sessions_not_of_their_order() -> None:
    counts = _random(0)
    moved = counts.subset([1, 0])
    empty = np.zeros((7, 2), dtype=np.int64)
    wider = Counts(
        counts.offsets,
        np.hstack([counts.impressions, empty]),
        np.hstack([counts.clicks, empty]),
        counts.sessions,
    )
    assert counts.fingerprint() == moved.fingerprint() == wider.fingerprint()
    assert counts.fingerprint() != _random(1).fingerprint()
    one_more = counts.clicks.copy()
    one_more[np.unravel_index(np.argmax(counts.impressions - counts.clicks), (7, 3))] += 1
    assert counts.fingerprint() != replace(counts, clicks=one_more).fingerprint()
