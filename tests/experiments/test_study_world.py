import shutil

import numpy as np
import pytest

from saferank.experiments import study_world
from saferank.experiments.study import fingerprint, open_collection
from saferank.experiments.study_world import ScoredRanker, open_scaled
from saferank.learning import Settings, learn

DATA = "synthetic:small:30"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaled")
    bare = open_collection(DATA, folder / "data")
    address = fingerprint(bare)
    return folder, bare, address, open_scaled(address, DATA, folder)


def test_features_are_scaled_by_what_the_training_queries_say(opened):
    _, bare, _, scaled = opened
    assert (scaled.name, scaled.highest_grade) == (bare.name, bare.highest_grade)
    shaped = {
        name: np.sign(part.features) * np.log1p(np.abs(part.features.astype(np.float64)))
        for name, part in bare.parts().items()
    }
    mean, spread = shaped["train"].mean(axis=0), shaped["train"].std(axis=0)
    spread[spread < 1e-9] = 1.0  # of a feature that is constant in train
    for name, part in scaled.parts().items():
        np.testing.assert_allclose(part.features, (shaped[name] - mean) / spread, atol=1e-5)
        np.testing.assert_array_equal(part.offsets, bare.parts()[name].offsets)
        np.testing.assert_array_equal(part.labels, bare.parts()[name].labels)


def test_what_is_scaled_is_opened_again_without_the_collection(opened, tmp_path, monkeypatch):
    folder, _, address, scaled = opened
    shutil.copytree(folder / "scaled", tmp_path / "scaled", copy_function=shutil.copy2)
    monkeypatch.setattr(study_world, "open_collection", lambda *_: pytest.fail("opened"))
    again = open_scaled(address, DATA, tmp_path)
    for name, part in again.parts().items():
        np.testing.assert_array_equal(part.features, scaled.parts()[name].features)


def test_scores_at_hand_are_those_of_the_ranker_and_computed_once(opened):
    _, bare, _, scaled = opened
    settings = Settings(steps=5, hidden=(4,))
    ranker = learn(scaled.train, method="skyline", scaling="none", settings=settings, k=5)
    ready = ScoredRanker.of(ranker, (scaled.train, scaled.test))
    for part in scaled.parts().values():
        np.testing.assert_array_equal(ready.scores(part), ranker.scores(part))
    assert ready.scores(scaled.test) is ready.scores(scaled.test)
    assert ready.scores(scaled.validation) is not ready.scores(scaled.validation)
    other = bare.test  # as many documents, other features
    np.testing.assert_array_equal(ready.scores(other), ranker.scores(other))
    assert not np.array_equal(ready.scores(other), ready.scores(scaled.test))
