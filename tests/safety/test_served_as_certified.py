"""What the certified guard serves is what was certified, whatever production does."""

import numpy as np
import pytest

import saferank as sr
from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.learning import Settings, learn
from saferank.plackett_luce import exposure
from saferank.safety import Rule, assess
from saferank.serving.rankings import Serving

DATA = synthetic("small", queries=60, seed=3).train
USERS = trust_bias()
SCORES = 2.0 * np.random.default_rng(0).normal(size=DATA.documents)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_guard_of_a_run_knows_productions_temperature(temperature, tmp_path):
    truly = exposure(SCORES / temperature, USERS.exposure_weights, DATA.offsets)
    counts = simulate(DATA, SCORES / temperature, USERS, sessions=40_000, seed=1)
    ranker = learn(
        DATA, counts, USERS, method="dr", production=SCORES, scorer="linear",
        settings=Settings(steps=60),
    )  # fmt: skip
    found = assess(ranker, DATA, production=SCORES, counts=counts, rule=Rule(guard=True))
    assert found.fit.kind == "sampled"
    ranker.save(tmp_path / "run")
    found.save(tmp_path / "run")
    guard = Serving.of_run(tmp_path / "run", guard=True).guarded(SCORES)
    served, shares = guard.exposure(DATA), guard.mixing(DATA)
    assert shares.min() < 1
    # the production arm is production, and what is served keeps its promise against the truth
    lost = 0.9 * truly - served
    per_query = np.add.reduceat(np.maximum(lost, 0), DATA.offsets[:-1])
    allowed = 0.01 * USERS.exposure_weights.sum()
    assert per_query.max() <= allowed * 1.3  # the temperature is fitted
    assert found.certificate.guard_mixing == pytest.approx(
        counts.part("all").sessions @ shares / counts.part("all").total, abs=1e-6
    )


def test_a_uniform_production_needs_no_scores():
    guard = sr.safety.Guard(SCORES, production_kind="uniform", promise=sr.safety.Promise(0.9, 0.01))
    ones = sr.safety.Guard(SCORES, np.zeros(DATA.documents), sr.safety.Promise(0.9, 0.01))
    assert np.array_equal(guard.mixing(DATA), ones.mixing(DATA))
    assert np.array_equal(guard.rank(DATA, 5, "a"), ones.rank(DATA, 5, "a"))
