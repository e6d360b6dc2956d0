"""What is put together of shards has the same bits, whoever has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learning.working_together import at_all

from saferank.data import RankingData, Scaling
from saferank.errors import InputError
from saferank.learning.descent import GoalQueries, steps_of_epoch
from saferank.learning.own_shards import check_recipe
from saferank.learning.pointwise_goals import ImitationGoal
from saferank.learning.portion import Portion, share_shards
from saferank.learning.recipe import METHODS
from saferank.learning.shares import Shares
from saferank.learning.workers import Workers

SHARDS = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=8), min_size=4, max_size=9)


def portion_of(sizes: list[list[int]], worker: Workers) -> Portion:
    owned = share_shards([sum(shard) for shard in sizes], worker.count)
    mine = [np.array(sizes[number]) for number in owned[worker.rank]]
    return Portion.gather(mine, [10 * own for own in mine], owned, worker, "key")


@given(SHARDS, st.integers(1, 4))
def test_all_know_the_numbers_of_all_queries(sizes: list[list[int]], count: int) -> None:
    flat = np.concatenate(sizes)
    for worker, portion in enumerate(at_all(count, lambda us: portion_of(sizes, us))):
        assert portion.offsets.tolist() == [0, *np.cumsum(flat)]
        assert portion.sessions.tolist() == (10 * flat).tolist()
        assert np.diff(portion.borders).tolist() == [len(shard) for shard in sizes]
        assert portion.workers.rank == worker


@given(st.lists(st.integers(1, 99), min_size=1, max_size=20), st.integers(1, 20))
def test_every_shard_has_one_owner_and_every_worker_a_shard(
    documents: list[int], workers: int
) -> None:
    if workers > len(documents):
        with pytest.raises(InputError, match="`workers` must be at most"):
            share_shards(documents, workers)
        return
    owned = share_shards(documents, workers)
    assert [shard for own in owned for shard in own] == list(range(len(documents)))
    assert all(owned)


@given(SHARDS, st.integers(1, 4), st.integers(0, 2**32))
def test_sums_over_shards_do_not_depend_on_workers(
    sizes: list[list[int]], count: int, seed: int
) -> None:
    each = np.random.default_rng(seed).normal(size=(len(sizes), 3))

    def total(us: Workers) -> tuple[np.ndarray, float]:
        portion = portion_of(sizes, us)
        own = [each[number] for number in portion.own]
        return portion.total(own), portion.most(max(row.max() for row in own))

    (alone, largest), *_ = at_all(1, total)
    np.testing.assert_allclose(alone, each.sum(axis=0))
    assert largest == each.max()
    for summed, most in at_all(count, total):
        assert summed.tobytes() == alone.tobytes()
        assert most == largest


@given(SHARDS, st.integers(1, 7), st.integers(0, 3))
def test_an_epoch_takes_every_query_once_and_a_step_of_every_shard_as_many(
    sizes: list[list[int]], batch: int, epoch: int
) -> None:
    portion = portion_of(sizes, Workers())
    data = RankingData(np.zeros((portion.offsets[-1], 1)), portion.offsets)
    part = GoalQueries(data, ImitationGoal(portion.queries, np.zeros(1)), portion=portion)
    order = part.order(3, epoch)
    steps = [part.batch(order, step, batch) for step in range(steps_of_epoch(part.queries, batch))]
    assert sorted(np.concatenate(steps)) == list(range(portion.queries))
    for queries in steps:
        shards = np.searchsorted(portion.borders, queries, side="right") - 1
        assert list(shards) == sorted(shards)
        for shard, own in enumerate(sizes):
            assert abs(np.count_nonzero(shards == shard) - len(own) / len(steps)) < 1 + 1e-9
    assert max(map(len, steps)) - min(map(len, steps)) <= 1


@given(SHARDS, st.integers(1, 4), st.integers(1, 30))
def test_blocks_are_their_owners_and_sums_those_of_one_worker(
    sizes: list[list[int]], count: int, documents: int
) -> None:
    queries = sum(map(len, sizes))
    rng = np.random.default_rng(0)
    chosen = np.flatnonzero(rng.random(queries) < 0.5) if queries > 1 else np.arange(1)
    values = torch.from_numpy(rng.normal(size=(queries, 3)))

    def learn(us: Workers) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        portion = portion_of(sizes, us).subset(chosen)
        shares = Shares.of_shards(portion.offsets, portion.borders, documents, portion)
        for first, last in shares.own:
            assert portion.first <= first < last <= portion.last
        own = [values[chosen[first:last]] for first, last in shares.own]
        sums = [rows.sum(dim=0) for rows in own]
        return *shares.add_up(sums, own, (values[0], 3)), shares.join(own, 3)

    if chosen.size == 0:
        return
    ((alone, _, _),) = at_all(1, learn)
    torch.testing.assert_close(alone, values[chosen].sum(dim=0))
    for total, *tables in at_all(count, learn):
        assert torch.equal(total, alone)
        assert all(torch.equal(table, values[chosen]) for table in tables)


@pytest.mark.parametrize("kind", ["standard", "log1p", "none", "query_minmax"])
def test_a_scaling_is_that_of_all_documents(kind: str) -> None:
    rng = np.random.default_rng(0)
    sizes = [[3, 5], [4], [9, 1, 2], [6]]
    flat = np.concatenate(sizes)
    features = rng.lognormal(size=(flat.sum(), 4)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    features[:, 3] = 7
    offsets = np.concatenate([[0], np.cumsum(flat)])
    whole = Scaling.fit(RankingData(features, offsets), kind, encode=True)

    def fit(us: Workers) -> Scaling:
        portion = portion_of(sizes, us)
        cuts = portion.offsets[portion.first : portion.last + 1]
        own = RankingData(features[cuts[0] : cuts[-1]], cuts - cuts[0])
        return Scaling.fit(own, kind, encode=True, parts=portion.parts())

    (alone,) = at_all(1, fit)
    for name in ("centre", "spread"):
        if getattr(whole, name) is not None:
            np.testing.assert_allclose(getattr(alone, name), getattr(whole, name), rtol=1e-13)
    assert alone.encoding.marked == whole.encoding.marked
    np.testing.assert_allclose(alone.encoding.fill, whole.encoding.fill, rtol=1e-6)
    for count in (2, 3, 4):
        assert all(fitted.to_dict() == alone.to_dict() for fitted in at_all(count, fit))


def test_quantiles_are_refused() -> None:
    portion = portion_of([[2], [3]], Workers())
    data = RankingData(np.zeros((5, 1)), portion.offsets)
    with pytest.raises(InputError, match="cannot be put together exactly"):
        Scaling.fit(data, "clip", parts=portion.parts())


def test_methods_that_are_sums_of_documents_are_taken_and_others_refused() -> None:
    taken = {"naive", "ips", "bayes-ips", "dm", "dr", "safe-ips", "safe-dr", "prpo", "prpo-ips",
             "prpo-lift", "prpo-floor", "keep"}  # fmt: skip
    for name, recipe in METHODS.items():
        if name in taken:
            check_recipe(recipe)
        else:
            with pytest.raises(InputError, match="where items are in shards"):
                check_recipe(recipe)
    for changes in ({"scorer": "trees"}, {"fairness": "disparity"}, {"gradient": "reinforce"},
                    {"regression": "cross-entropy"}):  # fmt: skip
        with pytest.raises(InputError, match=f"`{next(iter(changes))}` must be"):
            check_recipe(METHODS["prpo"].replace(**changes))
    with pytest.raises(InputError, match="`keep` must be left out"):
        check_recipe(METHODS["keep"].replace(keep=0.9))
