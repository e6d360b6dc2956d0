import itertools

import numpy as np
import pytest
import worlds
from hypothesis import example, given
from hypothesis import strategies as st

import saferank as sr
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.safety import Certificate, Promise, certify
from saferank.safety.losses import Views, largest_within, query_facts, worst_loss

W = np.array([1.0, 0.6, 0.3])


def items(sizes, seed=0, **more):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = np.random.default_rng(seed).normal(size=(offsets[-1], 4))
    return RankingData(features, offsets, **more)


def exposures(scores, data):
    own = [scores[a:b] for a, b in itertools.pairwise(data.offsets)]
    return [worlds.exposure(list(part), list(W)) for part in own]


def two_policies(seed, sizes=(5, 3, 1, 4)):
    data = items(sizes, seed)
    rng = np.random.default_rng(seed)
    old = rng.normal(size=data.documents) * 1.5
    return data, old + rng.normal(size=data.documents) * rng.choice([0.05, 0.5, 2.0]), old


@pytest.mark.parametrize("seed", range(6))
def test_curve_is_the_definition_on_enumerated_exposures(seed):
    data, new, old = two_policies(seed)
    traffic = np.array([5, 1, 2, 2])
    found = certify(
        new, data, production=old, weights=W, traffic=traffic, promise=Promise(0.8, 0.02)
    )
    after, before = exposures(new, data), exposures(old, data)
    for point in (0, 37, 80, 100):
        kappa = found.curve.kept[point]
        eta = [
            sum(max(0, kappa * b - a) for a, b in zip(*pair, strict=True))
            for pair in zip(after, before, strict=True)
        ]
        assert found.curve.mean[point] == pytest.approx(np.average(eta, weights=traffic), abs=1e-9)
        total = [W[: len(a)].sum() for a in after]
        assert found.curve.worst[point] == pytest.approx(max(np.divide(eta, total)), abs=1e-9)
    ratios = [min(1, *(np.divide(a, b))) for a, b in zip(after, before, strict=True)]
    assert found.distribution.ratio[0] == pytest.approx(min(ratios), rel=1e-7)


ROUNDED = st.sampled_from([-1e-12, -1e-17, 1e-15])
"""Exposures as a linear programme may leave them."""


@given(
    old=st.lists(st.floats(0, 1) | st.sampled_from([1e-15, 1e-300]), min_size=1, max_size=12),
    new=st.lists(st.floats(0, 1) | ROUNDED, min_size=12, max_size=12),
    grid=st.sets(st.floats(0, 1), max_size=20),
    same=st.booleans(),
)
@example(old=[0.5], new=[0.0] * 12, grid=set(), same=False)
def test_curves_by_pieces_are_sums_over_documents(old, new, grid, same):
    before = np.array(old)
    after = before if same else np.array(new[: before.size])
    points, total = np.array(sorted(grid)), max(float(before.sum()), 1e-3)
    views = Views(
        np.stack([after, before, 0.5 * (after + before)])[:, None],
        np.array([0, before.size]), np.array([[total]]), np.array([1e-9]),
    )  # fmt: skip
    facts, curves = np.empty((1, 6)), np.empty((1, 2, points.size))
    query_facts(1, views, (0.9, 0.01), points, facts, curves)
    for line, policy in enumerate((after, 0.5 * (after + before))):
        lost = np.maximum(0, points[:, None] * before - policy).sum(axis=1)
        assert curves[0, line] * total == pytest.approx(np.minimum(lost, points * total), abs=1e-14)


def test_no_relevance_beats_the_promise_and_one_attains_it():
    # U(new) >= kappa U(production) - eta(kappa), for thousands of policies and relevances
    rng = np.random.default_rng(1)
    for _ in range(2000):
        size = rng.integers(1, 8)
        new, old = rng.dirichlet(np.full(size, rng.choice([0.05, 1.0])), size=2)
        kappa = rng.random()
        eta = worst_loss(old, new, kappa)
        relevances = [rng.random(size), rng.integers(0, 2, size), np.ones(size), np.zeros(size)]
        for relevance in relevances:
            assert new @ relevance >= kappa * old @ relevance - eta - 1e-12
        worst = (kappa * old > new).astype(float)
        assert new @ worst == pytest.approx(kappa * old @ worst - eta, abs=1e-12)


@given(
    a=st.lists(st.floats(-1, 1), min_size=1, max_size=8),
    b=st.lists(st.floats(0, 1), min_size=8, max_size=8),
    allowed=st.floats(0, 2),
)
def test_largest_within_is_where_the_loss_meets_the_slack(a, b, allowed):
    a, b = np.array(a), np.array(b[: len(a)])
    x = largest_within(a, b, allowed)
    assert 0 <= x <= 1
    assert worst_loss(a, b, x) <= allowed + 1e-12
    if x < 1:
        beyond = min(1.0, x + 1e-6)
        assert worst_loss(a, b, beyond) >= allowed - 1e-12


def test_production_itself_keeps_everything_and_a_shift_of_scores_is_none():
    data, _, old = two_policies(3)
    for new in (old, old + 7.25):
        found = certify(new, data, production=old, weights=W, promise=Promise(1.0, 0.0))
        assert found.holds
        assert found.holds_on_average
        assert found.guard_share == 0
        assert found.distribution.kept[0] == 1
        assert found.share_holding == pytest.approx(1)


def test_promises_are_checked_query_by_query():
    data = items([3] * 10)
    old = np.tile([2.0, 1.0, 0.0], 10)
    new = old.copy()
    new[:3] = [0.0, 1.0, 2.0]  # one query is turned round
    traffic = np.r_[1, np.full(9, 100)]
    found = certify(
        new, data, production=old, weights=W, promise=Promise(0.9, 0.01), traffic=traffic
    )
    assert not found.holds
    assert found.holds_on_average
    assert found.share_holding == pytest.approx(900 / 901)
    assert found.guard_share == pytest.approx(0.1)
    assert found.guard_loss == pytest.approx(0.01, abs=1e-8)
    assert found.worst[0].query == "0"
    assert found.visited[0].traffic == pytest.approx(100 / 901)


def test_sorted_rankings_are_certified_as_such():
    data = items([2])
    new, old = np.array([0.0, 1e-6]), np.array([1e-6, 0.0])
    assert certify(new, data, production=old, weights=W).holds
    found = certify(new, data, production=old, weights=W, deployed="sorted", promise=Promise(1.0))
    assert not found.holds
    assert found.mean_loss == pytest.approx(0.4)  # 1 -> 0.6 at rank 1
    moved = found.worst[0].moved
    assert [(m.document, m.rank_before, m.rank_after) for m in moved] == [("1", 2, 1), ("0", 1, 2)]
    assert any("sort" in sentence for sentence in found.assumptions)


def test_the_record_survives_json(tmp_path):
    data, new, old = two_policies(2)
    found = certify(new, data, production=old, weights=W, traffic=[1, 2, 3, 4])
    found.save(tmp_path / "certificate.json")
    assert Certificate.load(tmp_path / "certificate.json") == found
    (tmp_path / "bad.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match="certificate"):
        Certificate.load(tmp_path / "bad.json")


def test_parts_do_not_change_the_certificate(monkeypatch):
    data, new, old = two_policies(5, sizes=(4, 0, 6, 2, 5, 3))
    whole = certify(new, data, production=old, weights=W)
    monkeypatch.setattr("saferank.evaluation.scored_policies.DOCUMENTS_AT_A_TIME", 5)
    from saferank.evaluation.scored_policies import data_blocks

    assert [part.queries.tolist() for part in data_blocks(data, 6)] == [[0, 1], [2], [3], [4], [5]]
    monkeypatch.setattr(
        "saferank.safety.policy_facts.data_blocks", lambda data: data_blocks(data, 6)
    )
    again = certify(new, data, production=old, weights=W)
    assert again.distribution == whole.distribution
    assert again.curve.mean == pytest.approx(whole.curve.mean, abs=1e-15)


def test_functions_and_the_items_own_scores_are_policies():
    data, new, old = two_policies(0)
    given_ = certify(new, data, production=old, weights=W)
    carried = RankingData(data.features, data.offsets, production=old)
    coded = certify(
        lambda part: new[part.features[:, :1].size * 0 :][: part.documents], carried, weights=W
    )
    assert coded.curve == given_.curve
    assert sr.certify is certify


def test_bad_input_gets_one_sentence():
    data, new, old = two_policies(0)
    with pytest.raises(InputError, match="keep"):
        Promise(keep=1.1)
    with pytest.raises(InputError, match="slack"):
        Promise(slack=-1)
    for wrong, match in (
        ({"weights": [-1.0]}, "weights"),
        ({"deployed": "both"}, "deployed"),
        ({"traffic": [1, 2]}, "traffic"),
        ({"production": None}, "production"),
        ({"production": old[:-1]}, "production"),
    ):
        with pytest.raises(InputError, match=match):
            certify(new, data, **{"production": old, "weights": W, **wrong})


def test_weights_that_are_all_zero_promise_nothing():
    items = sr.data.RankingData(np.eye(2), offsets=[0, 2])
    with pytest.raises(InputError, match="positive at some rank"):
        sr.certify([1.0, 0.0], items, production=[0.0, 1.0], weights=[0.0, 0.0])
