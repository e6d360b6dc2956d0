import numpy as np
import pytest

from saferank.data import synthetic
from saferank.data.synthetic import PRESETS
from saferank.errors import InputError


@pytest.mark.parametrize("preset", PRESETS)
def test_shape_and_grades_are_those_of_the_preset(preset):
    world = synthetic(preset, queries=300, seed=2)
    shape = PRESETS[preset]
    assert world.train.queries == 300
    assert world.train.width == shape.features
    assert world.highest_grade == len(shape.grades) - 1
    assert world.train.sizes.mean() == pytest.approx(shape.documents, rel=0.1)
    grades = np.bincount(world.train.labels.astype(int), minlength=len(shape.grades))
    assert grades / grades.sum() == pytest.approx(shape.grades, abs=0.05)


def test_same_seed_same_bits_and_a_longer_collection_begins_like_a_shorter_one():
    short, long = (synthetic("small", queries=n, seed=5).train for n in (300, 700))
    again = synthetic("small", queries=300, seed=5).train
    assert np.array_equal(short.features, again.features)
    documents = short.offsets[256]  # whole chunks are the same
    assert np.array_equal(short.features[:documents], long.features[:documents])
    other = synthetic("small", queries=300, seed=6).train
    assert not np.array_equal(short.features[:10], other.features[:10])


def test_heavy_tails_are_heavy():
    features = synthetic("mslr", queries=60, seed=0).train.features
    ratio = features.max(axis=0) / (np.median(np.abs(features), axis=0) + 1e-9)
    assert np.mean(ratio > 50) > 0.3


def test_unknown_preset_is_one_sentence():
    with pytest.raises(InputError, match="`preset` must be one of"):
        synthetic("moon")  # type: ignore[arg-type]
