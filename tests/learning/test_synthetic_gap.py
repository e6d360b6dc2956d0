"""Synthetic collections leave room: few labels < a linear ranker < an MLP on all labels."""

import numpy as np
import pytest

from saferank.data import synthetic
from saferank.learning import Settings, learn
from saferank.metrics import mean, ndcg


def quality(world, train, **options):
    ranker = learn(train, method="skyline", seed=0, validation=(world.validation, None), **options)
    test = world.test
    return mean(ndcg(ranker.scores(test), test.labels, test.offsets, 5))


@pytest.mark.parametrize("preset", ["small", "mslr"])
def test_few_labels_linear_and_mlp(preset):
    differences = []
    for seed in (0, 1):
        world = synthetic(preset, queries={"small": 400, "mslr": 120}[preset], seed=seed)
        few = world.train.subset(np.arange(round(0.03 * world.train.queries)))
        slow, quick = Settings(steps=400, patience=6), Settings(steps=300, learning_rate=0.01)
        production = quality(world, few, settings=slow)
        linear = quality(world, world.train, scorer="linear", settings=quick)
        deep = quality(world, world.train, settings=slow)
        differences.append((linear - production, deep - linear))
    for gap in np.mean(differences, axis=0):
        assert gap > 0.02
