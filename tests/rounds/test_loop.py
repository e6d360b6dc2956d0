"""Many rounds: what taught never judges, promises hold, a killed round goes on to the same bits."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saferank as sr
from saferank.counts.feedback import Feedback
from saferank.data.groups import Groups
from saferank.rounds import Loop, promise_after
from saferank.rounds.round_files import read_round, save_round
from saferank.safety import Promise

MODEL = sr.clicks.trust_bias()
OPTIONS: dict[str, Any] = {"scorer": "linear", "settings": sr.learning.Settings(steps=40)}


@pytest.fixture(scope="module")
def items() -> sr.data.RankingData:
    return sr.data.synthetic("small", queries=50, seed=2).train


@pytest.fixture(scope="module")
def shown(items: sr.data.RankingData) -> np.ndarray:
    return sr.clicks.stand_in_production(items, seed=2)


def logged(items: sr.data.RankingData, scores: np.ndarray, users: Any, seed: int) -> Any:
    return sr.clicks.simulate(items, scores, users, sessions=20_000, seed=seed)


def promised_on_every_query(loop: Loop, items: sr.data.RankingData) -> bool:
    """The promise against the first production, for the worst relevance of each query."""
    weights = MODEL.exposure_weights
    new, old = (policy.exposure(weights) for policy in (loop.served, loop.production))
    promise = loop.promised
    for first, last in zip(items.offsets[:-1], items.offsets[1:], strict=True):
        worst = np.maximum(promise.keep * old[first:last] - new[first:last], 0).sum()
        total = weights[: last - first].sum()
        if worst > promise.slack * total + 1e-8:
            return False
    return True


@pytest.mark.parametrize("against", ["first", "last"])
def test_the_promise_against_the_first_production_holds(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path, against: Any
) -> None:
    loop = Loop.start(tmp_path, items, MODEL, production=shown, against=against)
    loop = loop.add(logged(items, shown, MODEL, 0), **OPTIONS)
    assert loop.rounds[0].replaced
    assert promised_on_every_query(loop, items)
    assert Loop.open(tmp_path, items).rounds == loop.rounds


def test_users_who_break_the_click_model_change_nothing(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    users = sr.clicks.adversarial(MODEL)
    loop = Loop.start(tmp_path, items, MODEL, production=shown)
    loop = loop.add(logged(items, shown, users, 0), **OPTIONS)
    assert not loop.rounds[0].replaced
    assert "Kept what is served" in loop.rounds[0].sentence
    assert loop.promised == Promise(1.0, 0.0)


def test_a_round_that_was_killed_goes_on_to_the_same_bits(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    counts = logged(items, shown, MODEL, 0)
    whole = Loop.start(tmp_path / "whole", items, MODEL, production=shown)
    whole = whole.add(counts, **OPTIONS)
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    for name in ("round-001.json", "served-001.safetensors"):
        (tmp_path / "killed" / name).unlink()
    again = Loop.open(tmp_path / "killed", items)
    assert again.rounds == ()
    with pytest.raises(sr.InputError, match="begun with"):
        again.add(logged(items, shown, MODEL, 1), **OPTIONS)
    again = again.add(counts, **OPTIONS)
    assert again.rounds == whole.rounds
    ours, theirs = (
        (tmp_path / name / "served-001.safetensors").read_bytes() for name in ("killed", "whole")
    )
    assert ours == theirs


def test_sessions_to_judge_by_teach_the_next_round_only(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    loop = Loop.start(tmp_path, items, MODEL, production=shown)
    first = logged(items, shown, MODEL, 0)
    loop = loop.add(first, **OPTIONS)
    candidate = sr.load(tmp_path / "candidate-001")
    assert candidate.provenance.sessions == first.part("learn").total
    second = logged(items, shown, MODEL, 1)  # as if nothing had been replaced: refused
    loop = loop.add(second, **OPTIONS)
    assert not loop.rounds[1].replaced
    assert "not that of the policy that was served" in loop.rounds[1].sentence
    later = sr.load(tmp_path / "candidate-002")
    assert later.provenance.sessions == first.total + second.part("learn").total


@pytest.mark.parametrize("n", [0, 1, 4])
def test_shares_multiply_and_slacks_add_up(n: int) -> None:
    keep, slack, rest = 1.0, 0.0, Promise(0.8, 0.02)
    for _ in range(n):
        keep, slack = rest.keep * keep, rest.keep * slack + rest.slack
    after = promise_after(rest, n, "last")
    assert after.keep == pytest.approx(keep)
    assert after.slack == pytest.approx(slack)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_floors_over_rounds_hold_for_chains_that_keep_each_step(n: int) -> None:
    rng = np.random.default_rng(n)
    promise = Promise(floor=0.8, floor_of_all=0.1)
    for _ in range(50):
        first = exposed = rng.dirichlet(np.ones(4))
        for _ in range(n):  # as low as each step allows, and a little more
            least = np.maximum(promise.floor * exposed, np.minimum(promise.floor_of_all, exposed))
            exposed = least + rng.choice([0.0, 0.02])
        after = promise_after(promise, n, "last")
        kept = np.maximum(after.floor * first, np.minimum(after.floor_of_all, first))
        assert (exposed >= kept - 1e-12).all()


def test_what_is_shown_has_the_chances_that_the_round_is_judged_by(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    loop = Loop.start(tmp_path, items, MODEL, production=shown)
    loop = loop.add(logged(items, shown, MODEL, 0), **OPTIONS)
    sessions, k = 400, MODEL.ranks
    seen = np.zeros((items.documents, k))
    for session in range(sessions):
        rankings = loop.rank(session)
        assert rankings.shape == (items.queries, k)
        for rank in range(k):
            seen[rankings[:, rank][rankings[:, rank] >= 0], rank] += 1
    table = loop.served.rank_probabilities(k)
    error = np.sqrt(np.maximum(table * (1 - table), 1e-4) / sessions)
    assert np.abs(seen / sessions - table).max() < 6 * error.max()
    z = (seen / sessions - table) / error
    assert abs(float(z.mean())) < 0.1
    assert float(z.std()) < 1.1
    assert np.array_equal(loop.rank("a"), Loop.open(tmp_path, items).rank("a"))
    assert not np.array_equal(loop.rank("a"), loop.rank("a", salt="another"))


def test_floors_for_groups_are_kept_in_every_round(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    promise = Promise(0.5, 0.05, floor=0.9)
    with pytest.raises(sr.InputError, match="with groups"):
        Loop.start(tmp_path, items, MODEL, production=shown, promise=promise)
    codes = np.arange(items.documents) % 3
    grouped = replace(items, groups=Groups(codes, ("a", "b", "c"), "brand"))
    loop = Loop.start(tmp_path, grouped, MODEL, production=shown, promise=promise)
    loop = loop.add(logged(grouped, shown, MODEL, 0), **OPTIONS)
    assert loop.rounds[0].replaced
    assert loop.promised.floor == 0.9
    weights = MODEL.exposure_weights
    new, old = (policy.exposure(weights) for policy in (loop.served, loop.production))
    query = np.repeat(np.arange(items.queries), np.diff(items.offsets))
    kept, before = (np.bincount(query * 3 + codes, values) for values in (new, old))
    assert (kept >= 0.9 * before - 1e-7).all()
    assert np.abs(new - old).max() > 0.01


def test_counts_of_other_items_leave_the_round_as_it_was(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    loop = Loop.start(tmp_path, items, MODEL, production=shown)
    other = sr.data.synthetic("small", queries=20, seed=5).train
    with pytest.raises(sr.InputError, match="of the loop's items"):
        loop.add(logged(other, np.zeros(other.documents), MODEL, 0), **OPTIONS)
    with pytest.raises(sr.InputError, match="5 ranks"):
        wide = sr.clicks.trust_bias(7)
        loop.add(sr.clicks.simulate(items, shown, wide, sessions=100, seed=0), **OPTIONS)
    assert Loop.open(tmp_path, items).add(logged(items, shown, MODEL, 0), **OPTIONS).rounds


def test_a_loop_begins_in_a_folder_of_its_own(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(sr.InputError, match="empty, or not there yet"):
        Loop.start(tmp_path, items, MODEL, production=shown)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    against: Any = "none"
    with pytest.raises(sr.InputError, match="first or last"):
        Loop.start(tmp_path / "new", items, MODEL, production=shown, against=against)


def test_what_is_no_loop_is_one_sentence(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    Loop.start(tmp_path, items, MODEL, production=shown)
    with pytest.raises(sr.InputError, match="without a loop"):
        Loop.start(tmp_path, items, MODEL, production=shown)
    other = sr.data.synthetic("small", queries=20, seed=5).train
    with pytest.raises(sr.InputError, match="begun with"):
        Loop.open(tmp_path, other)
    record = json.loads((tmp_path / "loop.json").read_text())
    del record["plan"]["method"]
    (tmp_path / "loop.json").write_text(json.dumps(record))
    with pytest.raises(sr.InputError, match="method"):
        Loop.open(tmp_path, items)


def test_sessions_of_an_earlier_round_are_refused(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    counts = logged(items, shown, sr.clicks.adversarial(MODEL), 0)
    loop = Loop.start(tmp_path, items, MODEL, production=shown).add(counts, **OPTIONS)
    with pytest.raises(sr.InputError, match="round 1 had them"):
        loop.add(counts, **OPTIONS)


def test_a_loop_is_of_clicks(items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path) -> None:
    loop = Loop.start(tmp_path, items, MODEL, production=shown)
    counts = logged(items, shown, MODEL, 0)
    bought = replace(counts, feedback=Feedback("purchase"), judge=None)
    judge = replace(counts.part("judge"), feedback=Feedback("purchase"))
    with pytest.raises(sr.InputError, match="of clicks"):
        loop.add(replace(bought, judge=judge), **OPTIONS)


def test_users_of_queries_are_kept(
    items: sr.data.RankingData, shown: np.ndarray, tmp_path: Path
) -> None:
    users = np.arange(items.queries) // 2
    counts = logged(items, shown, MODEL, 0)
    parts = (replace(counts.part(name), cluster=users) for name in ("learn", "judge"))
    save_round(tmp_path / "round.safetensors", sr.counts.Counts.of_parts(*parts))
    kept = read_round(tmp_path / "round.safetensors", items.offsets, MODEL.ranks)
    assert kept.part("judge").cluster is not None
    np.testing.assert_array_equal(kept.part("judge").cluster, users)
