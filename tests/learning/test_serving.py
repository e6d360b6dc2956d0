"""Serving calls in forked workers and in many threads: the rankings of one process.

The parent does what a web server that preloads does: it loads rankers, scores with them, and has
the threads of torch and LightGBM running when it forks.
"""

import os
import subprocess
import sys

import pytest

PARENT = """
import os, sys, threading
import saferank as sr
from saferank.learning import Ranker
from saferank.safety import Guard
from saferank._core.threads import use_threads

folder = sys.argv[1]
items = sr.data.synthetic("small", queries=220, seed=0).train
few = [items.subset([query]) for query in (0, 100, 200)]
settings = sr.learning.Settings(rounds=4, steps=3, hidden=(16,))
kinds = ("trees", "mlp", "linear")
for kind in kinds:
    sr.learn(items, method="skyline", scorer=kind, settings=settings).save(f"{folder}/{kind}")
rankers = {kind: Ranker.load(f"{folder}/{kind}") for kind in kinds}
rankers |= {f"{kind} loaded in the worker": None for kind in kinds}
assert items.documents > 4096  # scored in pieces, on several threads


def answers():
    for name, ranker in rankers.items():
        ranker = ranker or Ranker.load(f"{folder}/{name.split()[0]}")
        guard = Guard(ranker, rankers["linear"], promise=sr.safety.Promise(0.9, 0.01))
        yield from (ranker.scores(items), ranker.rank(items, 5), guard.mixing(items))
        for one in few:
            yield from (ranker.rank(one, 5, mode="sample", seed=3), guard.rank(one, 5, "a"))


def serve():
    return [answer.tobytes() for answer in answers()]


def worker(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 3)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(4)
    return child


def ended_well(child):
    return os.waitpid(child, 0)[1] == 0


def as_expected():
    return serve() == expected


def in_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(as_expected())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found == [True] * 16


with use_threads(1):
    expected = serve()
with use_threads(4):
    assert as_expected(), "four threads"
    assert all([ended_well(child) for child in [worker(as_expected) for _ in range(4)]])
    assert in_threads(), "sixteen threads"
    assert ended_well(worker(lambda: ended_well(worker(as_expected)))), "a worker's worker"
    if sys.argv[2] == "threads of workers":
        children = [worker(in_threads) for _ in range(4)]
        assert all([ended_well(child) for child in children]), "sixteen threads of four workers"
print("served")
"""


def serves(folder, case):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PARENT, folder, case],
        capture_output=True, text=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_workers_and_threads_serve_what_one_process_serves(tmp_path):
    serves(tmp_path, "workers and threads")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_sixteen_threads_in_each_of_four_forked_workers_serve_the_same(tmp_path):
    serves(tmp_path, "threads of workers")
