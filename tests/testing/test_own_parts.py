"""Parts that are written outside of the package, in a few lines each, work like those within."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from testing import own_parts

import saferank as sr
from saferank.errors import InputError
from saferank.learning import Recipe, Settings
from saferank.testing import check_click_model, check_estimator, check_objective

QUICK = Settings(steps=30, hidden=(4,))


@pytest.fixture(scope="module")
def world():
    data = sr.data.synthetic("small", queries=50, seed=0).train
    users = own_parts.tired_users()
    shown = np.zeros(data.documents)
    return data, shown, users, sr.clicks.simulate(data, shown, users, sessions=5000, seed=0)


def test_they_are_short():
    for part in (own_parts.shrunken_ips, own_parts.cautious, own_parts.tired_users):
        assert len(inspect.getsource(part).splitlines()) < 20


def test_they_keep_the_contracts():
    check_estimator(own_parts.shrunken_ips, averages=False)
    check_objective(own_parts.cautious)
    check_click_model(own_parts.tired_users())


def test_they_learn_and_are_assessed_like_others(world, tmp_path):
    data, shown, users, counts = world
    recipe = Recipe(own_parts.shrunken_ips, own_parts.cautious, scorer="linear", settings=QUICK)
    ranker = sr.learn(data, counts, users, method=recipe, production=shown, delta=0.1)
    assert ranker.provenance.method == "shrunken_ips x cautious"
    assert ranker.provenance.recipe["gain"] == "callable shrunken_ips"
    ranker.save(tmp_path / "run")
    loaded = sr.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.scores(data), ranker.scores(data))
    assert sr.assess(loaded, data, production=shown, counts=counts).clicks is not None


def test_changes_by_name_take_them_too(world):
    data, shown, users, counts = world
    options = {"method": "ips", "production": shown, "scorer": "linear", "settings": QUICK}
    one = sr.learn(data, counts, users, gain=own_parts.shrunken_ips, **options)
    other = sr.learn(data, counts, users, **options)
    assert not np.array_equal(one.scores(data), other.scores(data))


def test_another_code_of_the_same_name_has_another_checkpoint(world, tmp_path):
    from saferank._core.names import code_fingerprint

    def gain_of(factor):
        if factor == 1:

            def gain(known):
                return known.counts.ctr()
        else:

            def gain(known):
                return 2 * known.counts.ctr()

        return gain

    first, second = gain_of(1), gain_of(2)
    assert first.__qualname__ == second.__qualname__
    assert code_fingerprint(first) != code_fingerprint(second)
    assert code_fingerprint(first) == code_fingerprint(first)


def test_an_estimator_without_a_session_form_learns_and_does_not_evaluate(world):
    data, shown, users, counts = world
    with pytest.raises(InputError, match="mean of what single sessions say"):
        sr.evaluation.evaluate(
            data.labels, data, counts, users, production=shown, estimator=own_parts.shrunken_ips
        )


def test_what_is_no_part_is_refused():
    with pytest.raises(InputError, match="`gain` must be one of naive"):
        Recipe("no such", "utility")
    with pytest.raises(InputError, match="`objective` must be one of utility"):
        Recipe("dr", "no such")
