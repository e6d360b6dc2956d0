import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch
from learning.looking import files, quality

from saferank._core.threads import use_threads
from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.learning import METHODS, Ranker, RankingEstimator, Settings, fit_relevance, learn
from saferank.learning.descent import Training
from saferank.learning.problem import Log

USERS = trust_bias()
WORLD = synthetic("small", queries=120, seed=0)
QUICK = Settings(steps=60, min_validation_interval=20, hidden=(16,), learning_rate=1e-3)


@pytest.fixture(scope="module")
def production():
    few = WORLD.train.subset(np.arange(8))
    return learn(few, method="skyline", settings=QUICK, validation=(few, None))


@pytest.fixture(scope="module")
def counts(production):
    return simulate(
        WORLD.train, production.scores(WORLD.train), USERS, sessions=20_000, seed=3, judge=0
    )


def parameters(ranker):
    return list(ranker.scorer.module.state_dict().values())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_saves_and_loads(method, production, counts, tmp_path):
    ranker = learn(
        WORLD.train, counts, USERS, method=method, production=production, settings=QUICK, seed=1
    )
    scores = ranker.scores(WORLD.test)
    assert np.isfinite(scores).all()
    ranker.save(tmp_path / "run")
    again = Ranker.load(tmp_path / "run")
    assert np.array_equal(again.scores(WORLD.test), scores)
    assert again.provenance == ranker.provenance
    assert again.provenance.method == method
    assert not any(path.suffix in (".pt", ".pkl") for path in (tmp_path / "run").rglob("*"))


@pytest.mark.parametrize("method", ["prpo", "prpo-floor"])
def test_delta_one_from_production_never_moves_a_bit(method, production, counts):
    ranker = learn(
        WORLD.train, counts, USERS, method=method, production=production, delta=1.0, settings=QUICK
    )
    for before, after in zip(parameters(production), parameters(ranker), strict=True):
        assert torch.equal(before, after)
    assert ranker.provenance.history["steps"] == [0, 20]  # one pass tells, of at most 60 steps


def test_delta_one_on_top_of_production_scores_never_moves_a_bit(counts):
    shown = np.random.default_rng(0).normal(size=WORLD.train.documents)
    ranker = learn(
        WORLD.train, counts, USERS, production=shown, start="add", delta=1.0, settings=QUICK,
        production_kind="sampled",
    )  # fmt: skip
    assert not ranker.scorer.scores(WORLD.train.features).any()
    with pytest.raises(InputError, match="this ranker adds to them"):
        ranker.scores(WORLD.test)


def test_propensities_of_a_log_are_computed_once(production, counts, monkeypatch):
    seen, own = [], Log.propensities

    def counted(log, *args, **options):
        seen.append((id(log.counts), options["averaged"]))
        return own(log, *args, **options)

    monkeypatch.setattr(Log, "propensities", counted)
    learn(WORLD.train, counts, USERS, method="dr", production=production, settings=QUICK)
    assert len(seen) == len(set(seen)) == 2  # to learn from, and to validate by


def test_prpo_is_dr_as_delta_vanishes(production, counts):
    shared = {"production": production, "settings": QUICK, "start": "production"}
    prpo = learn(WORLD.train, counts, USERS, method="prpo", delta=1e-12, **shared)
    dr = learn(WORLD.train, counts, USERS, method="dr", **shared)
    for one, two in zip(parameters(prpo), parameters(dr), strict=True):
        assert torch.equal(one, two)


def test_safe_dr_tends_to_dr_as_the_log_grows(production, counts):
    shared = {"production": production, "settings": QUICK, "start": "production"}

    def distance(factor):
        log = Counts(
            counts.offsets,
            counts.impressions * factor,
            counts.clicks * factor,
            counts.sessions * factor,
        )
        safe = learn(WORLD.train, log, USERS, method="safe-dr", delta=0.02, **shared)
        dr = learn(WORLD.train, log, USERS, method="dr", **shared)
        return np.abs(safe.scores(WORLD.test) - dr.scores(WORLD.test)).mean()

    assert distance(10**10) < 0.1 * distance(1)


def test_learning_beats_production_with_enough_sessions(production, counts):
    many = simulate(
        WORLD.train, production.scores(WORLD.train), USERS, sessions=10**7, seed=3, judge=0
    )
    settings = Settings(steps=400, hidden=(32,))
    for method in ("dr", "prpo"):
        ranker = learn(
            WORLD.train, many, USERS, method=method, production=production, settings=settings
        )
        assert quality(ranker, WORLD.test) > quality(production, WORLD.test) + 0.02


def test_same_seed_same_files_whatever_the_threads(production, counts, tmp_path):
    threads = torch.get_num_threads()
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            with use_threads(number):
                learn(
                    WORLD.train, counts, USERS, production=production, settings=QUICK, seed=7
                ).save(tmp_path / str(number))
    finally:
        torch.set_num_threads(threads)
    other = learn(WORLD.train, counts, USERS, production=production, settings=QUICK, seed=8)
    other.save(tmp_path / "other")
    runs = [files(folder) for folder in sorted(tmp_path.iterdir())]
    assert runs[0] == runs[1]
    assert runs[0] != runs[-1]


def test_an_interrupted_run_goes_on_where_it_was(production, counts, tmp_path, monkeypatch):
    settings = Settings(steps=200, min_validation_interval=20, patience=100, hidden=(16,))
    whole = learn(WORLD.train, counts, USERS, production=production, settings=settings)
    step, calls = Training._step, []

    def breaking(self, queries):
        calls.append(1)
        if len(calls) in (70, 130, 190):
            raise KeyboardInterrupt
        step(self, queries)

    monkeypatch.setattr(Training, "_step", breaking)
    for _ in range(4):
        try:
            resumed = learn(
                WORLD.train, counts, USERS, production=production, settings=settings,
                checkpoint=tmp_path / "checkpoints",
            )  # fmt: skip
        except KeyboardInterrupt:
            continue
    whole.save(tmp_path / "whole")
    resumed.save(tmp_path / "resumed")
    assert files(tmp_path / "whole") == files(tmp_path / "resumed")
    # 200 of the regression, 200 of the ranker, and at most 20 again after each of three stops
    assert 400 < len(calls) <= 400 + 3 * 20
    assert not (tmp_path / "checkpoints").exists()


def test_a_killed_process_resumes_to_the_same_file(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        from pathlib import Path
        import numpy as np
        import saferank as sr
        folder = Path(sys.argv[1])
        world = sr.data.synthetic("small", queries=60, seed=0)
        users = sr.clicks.trust_bias()
        shown = np.zeros(world.train.documents)
        counts = sr.clicks.simulate(world.train, shown, users, sessions=5000, seed=0, judge=0)
        settings = sr.learning.Settings(
            steps=400, min_validation_interval=10, patience=100, hidden=(16,)
        )
        ranker = sr.learn(world.train, counts, users, method="dr", production=shown,
                          settings=settings, checkpoint=folder / "checkpoint")
        ranker.save(folder / "run")
    """)
    )
    folders = [tmp_path / "calm", tmp_path / "killed"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SAFERANK_THREADS": "1"}
    subprocess.run([sys.executable, script, folders[0]], check=True, env=environment)
    kills = 0
    while not (folders[1] / "run").exists():
        process = subprocess.Popen([sys.executable, script, folders[1]], env=environment)
        checkpoint, before = folders[1] / "checkpoint", time.monotonic()
        while kills < 2 and process.poll() is None and time.monotonic() - before < 60:
            if any(checkpoint.glob("**/state.json")):
                time.sleep(0.05 * (kills + 1))
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.01)
        process.wait()
    assert kills
    assert files(folders[0] / "run") == files(folders[1] / "run")


def test_users_own_module_and_scikit_learn_face(counts, tmp_path):
    def tiny(width):
        return torch.nn.Sequential(
            torch.nn.Linear(width, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
        )

    estimator = RankingEstimator(method="naive", scorer=tiny, settings=QUICK)
    estimator.fit(WORLD.train, counts, USERS)
    estimator.ranker_.save(tmp_path / "own")
    loaded = Ranker.load(tmp_path / "own", module=tiny)
    assert np.array_equal(loaded.scores(WORLD.test), estimator.predict(WORLD.test))
    assert 0 < estimator.score(WORLD.test) < 1
    with pytest.raises(InputError, match="`module` must be given"):
        Ranker.load(tmp_path / "own")
    with pytest.raises(InputError, match="`fit` must come before"):
        RankingEstimator().predict(WORLD.test)


def test_a_regression_fitted_once_serves_every_method(production, counts):
    shared = {"production": production, "settings": QUICK, "seed": 5}
    predictor = fit_relevance(WORLD.train, counts, USERS, **shared)
    for method in ("dm", "dr"):
        given = learn(WORLD.train, counts, USERS, method=method, predictor=predictor, **shared)
        fitted = learn(WORLD.train, counts, USERS, method=method, **shared)
        assert np.array_equal(given.scores(WORLD.test), fitted.scores(WORLD.test))
    assert not given.provenance.regression
    assert fitted.provenance.regression == predictor.provenance.history


def test_rankings(production):
    sorted_, drawn = (production.rank(WORLD.test, 3, mode=m, seed=1) for m in ("sort", "sample"))
    scores = production.scores(WORLD.test)
    first = WORLD.test.offsets[:-1]
    best = [first[q] + scores[first[q] : WORLD.test.offsets[q + 1]].argmax() for q in range(5)]
    assert sorted_[:5, 0].tolist() == best
    assert np.array_equal(drawn, production.rank(WORLD.test, 3, mode="sample", seed=1))
    assert not np.array_equal(drawn, production.rank(WORLD.test, 3, mode="sample", seed=2))


def test_keep_is_written_into_the_ranker(production, counts):
    ranker = learn(WORLD.train, counts, USERS, production=production, keep=0.9, settings=QUICK)
    assert (ranker.provenance.keep, ranker.provenance.slack, ranker.provenance.recipe["delta"]) == (
        0.9,
        0.01,
        0.5,
    )


NOISE = np.random.default_rng(0).normal(size=(9, 3))
ONE = RankingData(NOISE, [0, 9], labels=np.arange(9) % 3)
SINGLES = RankingData(NOISE, np.arange(10), labels=np.ones(9))
FLAT = RankingData(np.ones((9, 3)), [0, 4, 9], labels=np.arange(9) % 2)


@pytest.mark.parametrize("data", [ONE, SINGLES, FLAT])
@pytest.mark.parametrize(
    "method", ["ips", "dr", "safe-dr", "prpo", "prpo-floor", "ppo", "crm", "vcrm"]
)
def test_degenerate_data_gives_a_finite_ranker(data, method):
    shown = np.zeros(data.documents)
    log = simulate(data, shown, USERS, sessions=50, seed=0, judge=0)
    ranker = learn(data, log, USERS, method=method, production=shown, settings=QUICK)
    assert np.isfinite(ranker.scores(data)).all()


@pytest.mark.parametrize("method", ["naive", "ips", "dr", "prpo"])
def test_one_session_gives_a_finite_ranker_and_no_clicks_give_none(method):
    shown = np.zeros(ONE.documents)
    log = simulate(ONE, shown, USERS, sessions=1, seed=0, judge=0)
    assert log.clicks.any()
    ranker = learn(ONE, log, USERS, method=method, production=shown, settings=QUICK)
    assert np.isfinite(ranker.scores(ONE)).all()
    silent = Counts(log.offsets, log.impressions, np.zeros_like(log.clicks))
    with pytest.raises(InputError, match="`counts` must be of at least one click"):
        learn(ONE, silent, USERS, method=method, production=shown, settings=QUICK)


def test_without_production_propensities_come_from_the_log(counts):
    for method in ("dr", "prpo"):
        ranker = learn(WORLD.train, counts, USERS, method=method, settings=QUICK)
        assert np.isfinite(ranker.scores(WORLD.test)).all()


def test_alpha_zero_at_a_shown_rank():
    users = ClickModel([0.5, 0.0, 0.3], [0.1, 0.2, 0.0])
    shown = np.zeros(WORLD.train.documents)
    log = simulate(WORLD.train, shown, users, sessions=500, seed=0, judge=0)
    ranker = learn(WORLD.train, log, users, method="dr", production=shown, settings=QUICK)
    assert np.isfinite(ranker.scores(WORLD.test)).all()
    with pytest.raises(InputError, match="alpha at rank 2"):
        learn(WORLD.train, log, users, method="safe-dr", production=shown, settings=QUICK)


def test_bad_input_is_one_sentence(counts, production):
    data = WORLD.train
    for call, sentence in (
        (lambda: learn(data, counts, USERS, method="magic"), "`method` must be one of"),
        (lambda: learn(data, counts, USERS, gain="magic"), "`gain` must be one of"),
        (lambda: learn(data, counts, USERS, colour=1), "`options` must be among"),
        (lambda: learn(data, None, USERS), "`counts` and `click_model` must be given"),
        (lambda: learn(WORLD.test, counts, USERS), "`counts` must be of the data's documents"),
        (lambda: learn(data, counts, trust_bias(3)), "`click_model` must be of 5 ranks; got 3"),
        (lambda: learn(data, counts, USERS, start="add"), "`production` must be given to add"),
        (lambda: learn(data, counts, USERS, method="ppo"), "this objective draws its rankings"),
        (lambda: learn(data, Counts.zeros(data.offsets, 5), USERS), "at least one session"),
        (
            lambda: learn(data, counts, USERS, production=np.ones(3)),
            "`production` must be of shape",
        ),
        (lambda: learn(data, counts, USERS, keep=1.5), r"`keep` must be in \(0, 1\]; got 1.5"),
        (
            lambda: learn(data, counts, USERS, method="dr", keep=0.9),
            "`keep` must be used with keep or prpo-floor",
        ),
        (lambda: Ranker.load("nowhere"), "a saved ranker"),
        (lambda: Settings(steps=0), "`steps` must be at least 1"),
    ):
        with pytest.raises(InputError, match=sentence):
            call()


def test_a_tampered_file_is_refused(production, tmp_path):
    production.save(tmp_path / "run")
    path = tmp_path / "run" / "ranker.json"
    record = json.loads(path.read_text())
    record["scorer"]["hidden"] = [10**9]
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="at most 64 layers"):
        Ranker.load(tmp_path / "run")
    del record["scaling"]
    record["scorer"]["hidden"] = [16]
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="must be a ranker's record"):
        Ranker.load(tmp_path / "run")
