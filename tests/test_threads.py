"""One pool of threads per process: all work is done once, after a fork and under load too."""

import os
import threading
import time

import pytest

from saferank._core.threads import over_range, run_all, threads, use_threads


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_index_is_in_one_piece(count, workers):
    done = []
    with use_threads(workers):
        over_range(lambda first, last: done.extend(range(first, last)), count)
    assert sorted(done) == list(range(count))


def test_results_come_in_the_order_of_the_calls():
    with use_threads(4):
        calls = [lambda n=n: time.sleep(0.001 * (n % 3)) or n for n in range(40)]
        assert run_all(calls) == list(range(40))


def test_an_error_reaches_the_caller_and_ends_the_rest():
    started = []

    def fail(number):
        started.append(number)
        time.sleep(0.005)
        if number == 3:
            raise ValueError("three")

    with use_threads(3), pytest.raises(ValueError, match="three"):
        run_all([lambda n=n: fail(n) for n in range(200)])
    assert len(started) < 100


def test_parallel_work_inside_parallel_work_gets_done():
    def inner():
        return sum(run_all([lambda n=n: n for n in range(10)]))

    with use_threads(4):
        assert run_all([inner] * 30) == [45] * 30


def test_sixteen_threads_at_once_share_the_pool():
    def work():
        totals.append(sum(run_all([lambda n=n: n * n for n in range(50)])))

    totals = []
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
        run_all([lambda n=n: n for n in range(20)])  # the parent's pool is there
        child = os.fork()
        if child == 0:
            fine = run_all([lambda n=n: n for n in range(20)]) == list(range(20))
            os._exit(0 if fine else 1)
        deadline = time.monotonic() + 30
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ended == (child, 0)
