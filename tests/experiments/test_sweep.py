import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saferank._core.threads import threads
from saferank.errors import EngineError, InputError
from saferank.experiments import Study
from saferank.experiments.jobs import VERSION, Job, Log, Production, Store
from saferank.experiments.learning_curves import Curve, plan
from saferank.experiments.results import read_results
from saferank.experiments.study import Conditions, fingerprint, open_collection
from saferank.experiments.study_world import open_scaled
from saferank.experiments.sweep import Done, grouped, in_processes, sweep
from saferank.learning import Settings

TINY = Study(
    "synthetic:small:30",
    (100, 1000),
    2,
    Conditions(settings=Settings(steps=20, min_validation_interval=10, hidden=(4,))),
)


def tiny_jobs(folder, figures=(2,)):
    collection = open_collection(TINY.data, folder / "data")
    return plan(figures, TINY, fingerprint(collection))


def result_files(folder):
    """Names and bytes of everything that counts: results and production rankers."""
    kept = [*folder.glob("jobs/*"), *folder.glob("production/*/*")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    jobs = tiny_jobs(folder)
    outcome = sweep(jobs, TINY.data, folder, workers=1)
    return folder, jobs, outcome


def test_every_job_has_a_result_and_none_is_run_twice(done):
    folder, jobs, outcome = done
    # production and skyline of each seed; six methods at two sizes for two seeds
    assert len(jobs) == 2 * 2 + 6 * 2 * 2
    assert (outcome.jobs, outcome.already, outcome.failed, outcome.ran) == (28, 0, 0, 28)
    assert {path.stem for path in (folder / "jobs").iterdir()} == {job.key for job in jobs}
    before = {path: path.stat().st_mtime_ns for path in (folder / "jobs").iterdir()}
    again = sweep(jobs, TINY.data, folder, workers=1)
    assert (again.already, again.ran) == (28, 0)
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "jobs").iterdir()}


def test_production_is_its_own_reference(done):
    folder, jobs, _ = done
    for job in jobs:
        found = json.loads(Store(folder).result(job).read_text())["measures"]
        if job.method == "production":
            assert found["distance"] == 0
            assert found["utility"] == found["production_utility"]
        if job.method == "prpo" and job.log.sessions == 100:  # delta(100) = 100/100 = 1
            assert found["distance"] == 0
        assert 0 <= found["expected"] <= 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"expected": 0', '"expected": NaN, "was": 0'),
        lambda text: text.replace('"expected": 0', '"expected": "0.5", "was": 0'),
        lambda text: text.replace('"expected"', '"unexpected"'),
        lambda text: text[: len(text) // 2],
        lambda text: "[1]",
    ],
)
def test_a_damaged_result_is_run_again(damage, done, tmp_path):
    folder, jobs, _ = done
    job = next(job for job in jobs if job.method == "production")
    shutil.copytree(folder, tmp_path / "copy")
    path = Store(tmp_path / "copy").result(job)
    damaged = damage(path.read_text())
    assert damaged != path.read_text()
    path.write_text(damaged)
    with pytest.raises(InputError, match="must be the result of a job"):
        read_results(TINY, job.log.production.collection, jobs, tmp_path / "copy")
    outcome = sweep(jobs, TINY.data, tmp_path / "copy", workers=1)
    assert (outcome.already, outcome.ran) == (27, 1)
    assert result_files(tmp_path / "copy") == result_files(folder)


def test_two_processes_give_the_same_bits(done, tmp_path):
    folder, _, _ = done
    sweep(tiny_jobs(tmp_path), TINY.data, tmp_path, workers=2)
    assert result_files(tmp_path) == result_files(folder)


SWEEP = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_sweep import TINY, tiny_jobs
from saferank.experiments.sweep import sweep
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(sweep(tiny_jobs(folder), TINY.data, folder, workers=int(sys.argv[2])).failed)
"""


@pytest.mark.parametrize(("workers", "kills"), [(1, 2), pytest.param(2, 5, marks=pytest.mark.slow)])
def test_killed_at_random_times_the_results_are_the_same(workers, kills, done, tmp_path):
    folder, jobs, _ = done
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(SWEEP).format(tests=str(Path(__file__).parent)))
    target = tmp_path / "results"
    command = [sys.executable, str(script), str(target), str(workers)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    chance = random.Random(0)
    finished: list[Any] = []
    for _ in range(kills):
        # killed somewhere between the first and the last of the results that are still missing
        goal = len(finished) + chance.randint(1, 4)
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        while process.poll() is None and len(list(target.glob("jobs/*.json"))) < goal:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.2))
        assert process.poll() is None, "the sweep ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        survived = list(target.glob("jobs/*.json"))
        assert set(finished) <= set(survived)
        finished = survived
        assert 0 < len(finished) < len(jobs)
    subprocess.run(command, env=environment, check=True)
    assert result_files(target) == result_files(folder)


def test_a_failed_job_is_recorded_and_the_rest_go_on(done, tmp_path):
    _, jobs, _ = done
    good = [job for job in jobs if job.method in ("production", "naive")]
    bad = Job(good[-1].log, "prpo", "7")
    outcome = sweep([bad, *good], TINY.data, tmp_path, workers=1)
    assert (outcome.failed, outcome.ran) == (1, len(good))
    told = json.loads(Store(tmp_path).failure(bad).read_text())
    assert "`delta` must be in (0, 1]; got 7" in told["error"]
    again = sweep([bad, *good], TINY.data, tmp_path, workers=1)
    assert (again.failed, again.already) == (1, len(good))


def test_a_production_that_cannot_be_trained_fails_its_jobs(done, tmp_path):
    _, jobs, _ = done
    conditions = Conditions(scorer="magic", settings=TINY.conditions.settings)
    log = Log(Production(jobs[0].log.production.collection, conditions, 0), "trust", 100)
    outcome = sweep([Job(log, "dr")], TINY.data, tmp_path, workers=1)
    assert outcome.failed == 1
    told = json.loads(Store(tmp_path).failure(Job(log, "dr")).read_text())
    assert "`scorer` must be one of" in told["error"]


def test_threads_are_as_before_after_a_sweep_in_this_process(done, tmp_path):
    import torch

    _, jobs, _ = done
    before = threads(), torch.get_num_threads()
    sweep(jobs[:1], TINY.data, tmp_path, workers=1)
    assert (threads(), torch.get_num_threads()) == before


def _threads_of_openmp():
    return Done(int(os.environ["OMP_NUM_THREADS"]))


def test_workers_run_openmp_on_one_core(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = list(in_processes([_threads_of_openmp] * 2, workers=2))
    assert found == [Done(1), Done(1)]
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_peaked_production_has_the_scores_times_the_peak(done):
    folder, jobs, _ = done
    collection = open_scaled(jobs[0].log.production.collection, TINY.data, folder)
    flat, peaked = (
        Production("any", replace(TINY.conditions, peak=peak), 0).train(collection)
        for peak in (1.0, 4.0)
    )
    np.testing.assert_allclose(
        peaked.scores(collection.test), 4 * flat.scores(collection.test), rtol=1e-5
    )
    with pytest.raises(InputError, match="`peak` must be"):
        Conditions(peak=0)


def test_production_may_have_another_scorer(tmp_path):
    conditions = replace(TINY.conditions, scorer="linear", shown_by="mlp")
    study = TINY.replace(seeds=1, conditions=conditions)
    address = fingerprint(open_collection(study.data, tmp_path / "data"))
    jobs = [Curve("", "", m).job(study, address, 100, 0) for m in ("dr", "prpo", "safe-dr")]
    assert sweep(jobs, study.data, tmp_path, workers=1).failed == 0
    kinds = [json.loads(p.read_text())["scorer"]["kind"] for p in tmp_path.rglob("ranker.json")]
    assert kinds == ["mlp"]
    kept = json.loads(Store(tmp_path).result(jobs[1]).read_text())["measures"]
    assert kept["distance"] == 0  # delta is 1: production's scores with nothing added


def test_addresses_follow_content():
    production = Production("abc", Conditions(), 0)
    job = Job(Log(production, "trust", 100), "prpo", "100/N")
    assert (
        job.key == Job(Log(Production("abc", Conditions(), 0), "trust", 100), "prpo", "100/N").key
    )
    others = [
        Job(Log(production, "trust", 1000), "prpo", "100/N"),
        Job(Log(production, "adversarial", 100), "prpo", "100/N"),
        Job(Log(production, "trust", 100), "prpo", "1"),
        Job(Log(production, "trust", 100), "dr", "100/N"),
        Job(Log(Production("abd", Conditions(), 0), "trust", 100), "prpo", "100/N"),
        Job(Log(Production("abc", Conditions(), 1), "trust", 100), "prpo", "100/N"),
        Job(Log(Production("abc", Conditions(fraction=0.5), 0), "trust", 100), "prpo", "100/N"),
        Job(Log(Production("abc", Conditions(), 0, VERSION + 1), "trust", 100), "prpo", "100/N"),
    ]
    assert len({job.key, *(other.key for other in others)}) == 1 + len(others)


@pytest.mark.parametrize("workers", [1, 2, 50])
def test_groups_share_a_log_and_hold_every_job_once(workers):
    jobs = [
        job for curve in (Curve("", "a", "dr"), Curve("", "b", "ips"), Curve("", "c", "skyline"))
        for job in curve.jobs(TINY, "abc")
    ]  # fmt: skip
    groups = grouped(jobs, workers)
    assert sorted(job.key for group in groups for job in group) == sorted(job.key for job in jobs)
    assert all(len({job.log for job in group}) == 1 for group in groups)
    assert len(groups) >= min(len(jobs), 2 * workers)
    with_clicks = [group[0].log.sessions > 0 for group in groups]
    assert with_clicks == sorted(with_clicks)


def test_one_sweep_at_a_time(tmp_path):
    import fcntl

    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(EngineError, match="in use by another sweep"):
            sweep([], TINY.data, tmp_path)
    assert sweep([], TINY.data, tmp_path).jobs == 0


def test_bad_input_is_one_sentence(tmp_path):
    for call, sentence in (
        (lambda: sweep([], TINY.data, tmp_path, workers=0), "`workers` must be at least 1"),
        (lambda: open_collection("synthetic:huge", tmp_path), "synthetic:PRESET"),
        (lambda: open_collection("nowhere", tmp_path), "a folder that exists"),
        (lambda: Study("x", (), 1), "`sessions` must be"),
        (lambda: Study("x", (10,), 0), "`seeds` must be at least 1"),
        (lambda: Conditions(fraction=0), "`fraction` must be in"),
        (lambda: Conditions(learner="magic"), "`learner` must be one of"),
        (lambda: plan((9,), TINY, "abc"), "`figure` must be one of"),
    ):
        with pytest.raises(InputError, match=sentence):
            call()


def test_a_dask_cluster_gives_the_same_bits(done, tmp_path):
    distributed = pytest.importorskip("distributed")
    folder, jobs, _ = done
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        outcome = sweep(jobs, TINY.data, tmp_path, cluster=cluster.scheduler_address)
    assert (outcome.failed, outcome.ran) == (0, len(jobs))
    assert result_files(tmp_path) == result_files(folder)
