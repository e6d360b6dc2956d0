"""What a log can tell of position bias, and what it says when it cannot."""

import numpy as np
import pytest

from saferank.clicks import fit_position_bias, fit_trust_bias, identifiability, simulate, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError


def counts_of(shown: list[list[int]]) -> Counts:
    table = np.array(shown)
    return Counts([0, len(shown)], table, np.minimum(table, 1))


def test_a_deterministic_log_cannot_tell() -> None:
    found = identifiability(counts_of([[9, 0, 0], [0, 9, 0], [0, 0, 9]]))
    assert found.deterministic
    assert not found.identified
    assert found.components == ((1,), (2,), (3,))
    assert found.verdict.startswith(
        "Every document was always shown at one rank: the same documents cannot tell alpha from"
    )
    assert "What can still be done" in found.verdict


def test_groups_of_ranks_that_nothing_connects() -> None:
    counts = counts_of([[5, 4, 0, 0], [4, 5, 0, 0], [0, 0, 5, 4], [0, 0, 4, 5]])
    found = identifiability(counts)
    assert found.components == ((1, 2), (3, 4))
    assert "(ranks 1 2, ranks 3 4)" in found.verdict
    with pytest.raises(InputError, match="Ranks fall into groups"):
        fit_position_bias(counts)


def test_the_weakest_needed_link_is_named() -> None:
    found = identifiability(counts_of([[1000, 1000, 1], [1000, 1000, 0], [1, 1, 2000], [0, 8, 8]]))
    assert found.identified
    assert found.weakest is not None
    first, second, weight = found.weakest
    assert {first, second} == {2, 3}
    assert weight == pytest.approx(1000 / 1001 + 2000 / 2001 + 4)
    assert "only weakly" in found.verdict


def test_a_chain_of_ranks_is_connected_without_a_direct_link() -> None:
    found = identifiability(counts_of([[500, 500, 0], [0, 400, 400], [300, 0, 0]]))
    assert found.identified
    assert found.overlap.weight[0, 2] == 0
    assert found.weakest == (2, 3, 200.0)
    assert found.several == 2
    assert found.verdict.startswith(
        "All ranks are connected: 2 of 3 documents were seen at several"
    )


def test_what_is_refused_fits_into_one_message() -> None:
    """Forty ranks in eleven groups, one of them of thirty ranks."""
    shown = np.diag(np.full(40, 5))
    shown[:10, :10] = 1
    with pytest.raises(InputError, match=r"and 8 more.*or bring a click model") as error:
        fit_trust_bias(
            Counts([0, 40], shown + 2 * np.eye(40, k=1, dtype=int), 0 * shown + shown // 5)
        )
    assert "…" not in str(error.value)


def test_one_rank_and_none() -> None:
    assert "Only one rank" in identifiability(counts_of([[5, 0], [4, 0]])).verdict
    assert "Nothing was shown" in identifiability(Counts.zeros([0, 2], 3)).verdict


def test_a_stochastic_policy_connects_all_ranks() -> None:
    rng = np.random.default_rng(0)
    data = RankingData(rng.normal(size=(60, 1)), [0, 30, 60], labels=rng.integers(0, 3, 60))
    scores = rng.normal(size=60)
    flat = simulate(data, scores, trust_bias(), 10_000, seed=0)
    assert identifiability(flat).identified
    fixed = simulate(data, scores, trust_bias(), 10_000, seed=0, deterministic=True)
    assert identifiability(fixed).deterministic
    assert identifiability(fixed).to_dict()["components"] == [[1], [2], [3], [4], [5]]
