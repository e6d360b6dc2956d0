"""One pool of threads per process: all work is done once, after a fork and under load too."""

import os
import threading
import time
from functools import partial

import pytest

from saferank._core import threads as pool
from saferank._core.cores import allowed_cores, usable_cores
from saferank._core.threads import (
    Crowding,
    free_threads,
    over_range,
    run_all,
    threads,
    use_threads,
)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_index_is_in_one_piece(count, workers):
    done: list[int] = []
    with use_threads(workers):
        over_range(lambda first, last: done.extend(range(first, last)), count)
    assert sorted(done) == list(range(count))


def test_results_come_in_the_order_of_the_calls():
    with use_threads(4):

        def wait(number):
            time.sleep(0.001 * (number % 3))
            return number

        calls = [partial(wait, n) for n in range(40)]
        assert run_all(calls) == list(range(40))


def test_an_error_reaches_the_caller_and_ends_the_rest():
    started = []

    def fail(number):
        started.append(number)
        time.sleep(0.005)
        if number == 3:
            raise ValueError("three")

    with use_threads(3), pytest.raises(ValueError, match="three"):
        run_all([partial(fail, n) for n in range(200)])
    assert len(started) < 100


def test_parallel_work_inside_parallel_work_gets_done():
    def inner():
        return sum(run_all([partial(int, n) for n in range(10)]))

    with use_threads(4):
        assert run_all([inner] * 30) == [45] * 30


def test_sixteen_threads_at_once_share_the_pool():
    def work():
        totals.append(sum(run_all([partial(pow, n, 2) for n in range(50)])))

    totals: list[int] = []
    with use_threads(3):
        users = [threading.Thread(target=work) for _ in range(16)]
        for user in users:
            user.start()
        for user in users:
            user.join(30)
    assert totals == [sum(n * n for n in range(50))] * 16


def test_the_count_is_as_before_after_the_block():
    before = threads()
    with pytest.raises(KeyError), use_threads(before + 3):
        assert threads() == before + 3
        raise KeyError
    assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_threads_of_its_own():
    with use_threads(3):
        run_all([partial(int, n) for n in range(20)])  # the parent's pool is there
        child = os.fork()
        if child == 0:
            fine = run_all([partial(int, n) for n in range(20)]) == list(range(20))
            os._exit(0 if fine else 1)
        deadline = time.monotonic() + 30
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ended == (child, 0)


def _cgroups(root, lines, **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("\n".join(lines))
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_D_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("lines", "files", "cores"),
    [
        ([], {}, 64),
        (["0::/"], {"cpu_D_max": "max 100000\n"}, 64),
        (["0::/"], {"cpu_D_max": "250000 100000\n"}, 3),
        (["0::/a/b"], {"a__b__cpu_D_max": "max 100000", "a__cpu_D_max": "100000 100000"}, 1),
        (["0::/a"], {"a__cpu_D_max": "5000 100000"}, 1),
        (["0::/a"], {"a__cpu_D_max": "nonsense"}, 64),
        (
            ["4:cpu,cpuacct:/x", "3:memory:/x"],
            {"cpu__x__cpu_D_cfs_quota_us": "400000", "cpu__x__cpu_D_cfs_period_us": "100000"},
            4,
        ),
        (
            ["4:cpu:/"],
            {"cpu__cpu_D_cfs_quota_us": "-1", "cpu__cpu_D_cfs_period_us": "100000"},
            64,
        ),
    ],
)
def test_control_groups_limit_the_cores(tmp_path, monkeypatch, lines, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    _cgroups(tmp_path, lines, **files)
    assert usable_cores(tmp_path) == cores


def test_affinity_limits_the_cores_and_the_knob_rules(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert usable_cores(tmp_path) == 2
    for stated, cores in (("7", 7), (" 1 ", 1)):
        monkeypatch.setenv("SAFERANK_THREADS", stated)
        assert allowed_cores() == cores
    for stated in ("", "0", "-2", "many", "²"):
        monkeypatch.setenv("SAFERANK_THREADS", stated)
        assert allowed_cores() == usable_cores()


def test_work_that_gets_one_core_is_done_alone_for_ever_longer_pauses():
    crowding, now, pauses = Crowding(), 100.0, []
    for _ in range(10):
        crowding.learn(wall=1.0, processor=1.1, now=now)
        pauses.append(crowding.until - now)
        assert crowding.crowded(now)
        assert not crowding.crowded(crowding.until)
        now = crowding.until
    assert pauses == pytest.approx([min(0.05 * 2**n, 5.0) for n in range(10)])
    crowding.learn(wall=1.0, processor=1.9, now=now)  # free cores again: the next pause is short
    crowding.learn(wall=1.0, processor=1.0, now=now)
    assert crowding.until - now == pytest.approx(0.05)


def test_short_work_tells_nothing_about_the_cores():
    crowding = Crowding()
    crowding.learn(wall=1e-4, processor=1e-5, now=1.0)
    assert not crowding.crowded(1.0)


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(pool._State, "count", 2)
    monkeypatch.setattr(pool._State, "stated", False)
    monkeypatch.setattr(pool._State, "crowding", Crowding())


def _who(count, seconds):
    """The threads that took part in a range whose pieces take so long of processor time."""
    workers = set()

    def work(first, last):
        workers.add(threading.get_ident())
        end = time.thread_time() + seconds * (last - first)
        while time.thread_time() < end:
            time.sleep(0)  # others may run

    over_range(work, count)
    return workers


@pytest.mark.usefixtures("two_threads")
def test_small_work_stays_on_the_calling_thread():
    assert _who(8, 1e-6) == {threading.get_ident()}


@pytest.mark.usefixtures("two_threads")
def test_work_is_shared_unless_others_hold_the_cores():
    assert len(_who(64, 1e-3)) == 2
    pool._State.crowding = Crowding(until=time.monotonic() + 60)
    assert _who(64, 1e-3) == {threading.get_ident()}
    assert free_threads() == 1
    with use_threads(2):  # said so: shared whatever it brings
        assert len(_who(64, 1e-3)) == 2
        assert free_threads() == 2
