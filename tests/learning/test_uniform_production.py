"""Learning from lists that were in random order, each seen once: production is no ranker."""

import numpy as np

from saferank.cli.inputs import read_weights
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.learning import Settings, learn

MODEL = ClickModel([0.9, 0.6, 0.4, 0.3], np.zeros(4))


def once(lists: int = 400) -> tuple[RankingData, Counts, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(lists, 4))
    rank = np.argsort(rng.random(x.shape), axis=1)
    shown = np.eye(4, dtype=np.int64)[rank].reshape(-1, 4)
    relevance = 1 / (1 + np.exp(1 - 2 * x.ravel()))
    clicks = (rng.random(shown.shape) < MODEL.probability(relevance)) * shown
    offsets = np.arange(lists + 1) * 4
    return RankingData(x.reshape(-1, 1), offsets), Counts(offsets, shown, clicks), x.ravel()


def test_a_ranker_learns_from_lists_in_random_order() -> None:
    data, counts, x = once()
    ranker = learn(
        data, counts, MODEL, method="prpo", scorer="linear", production_kind="uniform",
        weights=[1.0, 0.5],
        settings=Settings(steps=60, min_validation_interval=20, learning_rate=0.05),
    )  # fmt: skip
    assert np.corrcoef(ranker.scores(data), x)[0, 1] > 0.9
    assert ranker.provenance.production is not None
    assert ranker.provenance.production.kind == "uniform"
    assert ranker.provenance.weights == [1.0, 0.5, 0.0, 0.0]


def test_weights_of_the_first_ranks_from_the_command_line() -> None:
    assert read_weights("examination:2", MODEL) == [0.9, 0.6]
