"""A fingerprint of counts that adds up over any cut of the queries, in any order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from saferank.counts import Counts
from saferank.counts.additive_print import added, additive_print


def drawn(seed: int, queries: int, ranks: int) -> Counts:
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(rng.integers(0, 5, queries)))
    shown = rng.integers(0, 4, (offsets[-1], ranks))
    return Counts(offsets, shown, rng.integers(0, shown + 1), rng.integers(20, 99, queries))


def chosen(counts: Counts, queries: np.ndarray, order: np.random.Generator) -> Counts:
    """Some queries, in that order, their documents in any."""
    places = [
        order.permutation(np.arange(counts.offsets[q], counts.offsets[q + 1])) for q in queries
    ]
    rows = np.concatenate([np.zeros(0, np.int64), *places])
    sizes = [place.size for place in places]
    return Counts(
        np.append(0, np.cumsum(sizes, dtype=np.int64)), counts.impressions[rows],
        counts.clicks[rows], counts.sessions[queries],
    )  # fmt: skip


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 4), st.integers(1, 4))
def test_prints_of_the_parts_add_up(seed: int, queries: int, ranks: int, parts: int) -> None:
    counts, rng = drawn(seed, queries, ranks), np.random.default_rng(seed)
    of = rng.integers(0, parts, queries)
    cut = [
        chosen(counts, rng.permutation(np.flatnonzero(of == part)), rng) for part in range(parts)
    ]
    assert added(map(additive_print, cut)) == additive_print(counts)
    wider = Counts(
        counts.offsets, np.pad(counts.impressions, ((0, 0), (0, 2))),
        np.pad(counts.clicks, ((0, 0), (0, 2))), counts.sessions,
    )  # fmt: skip
    assert additive_print(wider) == additive_print(counts)


@given(st.integers(0, 2**32), st.integers(0, 2), st.integers(0, 7))
def test_one_count_more_is_another_print(seed: int, what: int, where: int) -> None:
    counts = drawn(seed, 8, 2)
    tables = [counts.impressions + 1, counts.clicks.copy(), counts.sessions + 30]
    before = additive_print(Counts(counts.offsets, tables[0], tables[1], tables[2]))
    if what < 2 and counts.documents == 0:
        return
    flat = tables[what].reshape(-1)
    flat[where % flat.size] += 1
    assert additive_print(Counts(counts.offsets, tables[0], tables[1], tables[2])) != before
