"""A click model that is known to misfit reaches the verdict."""

import json

import numpy as np
import pytest

from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.data import synthetic
from saferank.errors import InputError
from saferank.learning import Ranker, Settings, learn
from saferank.safety import Rule, assess, compare

DATA = synthetic("small", queries=60, seed=0).train
SHOWN = np.zeros(DATA.documents)


def bias_file(folder, found, size=0.04):
    users = trust_bias()
    record = {**users.to_dict(), "misfit": {"found": found, "size": size}}
    (folder / "bias.json").write_text(json.dumps(record))
    return ClickModel.load(folder / "bias.json")


@pytest.mark.parametrize("found", [False, True])
def test_from_bias_to_verdict(found, tmp_path):
    users = bias_file(tmp_path, found)
    counts = simulate(DATA, SHOWN, trust_bias(), sessions=30_000, seed=1)
    ranker = learn(
        DATA, counts, users, method="dr", production=SHOWN, scorer="linear",
        settings=Settings(steps=60),
    )  # fmt: skip
    ranker.save(tmp_path / "run")
    again = Ranker.load(tmp_path / "run")
    verdict = assess(again, DATA, production=SHOWN, counts=counts).decision
    assert verdict.ship is not found
    assert verdict.unsure is found
    assert ("known to misfit" in verdict.sentence) is found
    both = compare({"run": again}, DATA, counts, production=SHOWN)
    assert (both.best is None) is found
    assert ("known to misfit" in both.sentence()) is found
    # within a promise it can still be tried
    guarded = assess(
        again, DATA, production=SHOWN, counts=counts, rule=Rule(guard=True, by="promise")
    )
    assert guarded.decision.ship


def test_a_model_through_features_that_nothing_checks_is_doubted():
    record = {**trust_bias().to_dict(), "identifiability": {"identified": False}}
    users = ClickModel.from_dict(record)
    assert "through features" in users.doubt
    assert ClickModel.from_dict(users.to_dict()).doubt == users.doubt
    assert ClickModel.from_dict({**record, "identifiability": {"identified": True}}).doubt == ""


@pytest.mark.parametrize("size", ["much", None])
def test_a_damaged_misfit_is_refused(size, tmp_path):
    with pytest.raises(InputError, match="misfit"):
        bias_file(tmp_path, True, size)
