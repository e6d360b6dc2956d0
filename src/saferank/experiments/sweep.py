"""The sweep: jobs that are not done yet, run side by side; killed, it goes on where it was."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, NamedTuple

from saferank._core.cores import allowed_cores
from saferank._core.progress import bar
from saferank._core.scratch import remove_litter
from saferank._core.threads import use_threads
from saferank.data import Collection
from saferank.errors import EngineError, MissingExtraError, require
from saferank.experiments.jobs import (
    FAILURES,
    Job,
    Log,
    Production,
    Store,
    production_ranker,
    run_jobs,
)
from saferank.experiments.study_world import open_scaled

_DEATHS = 3
"""How often workers may die (out of memory, say) before the sweep gives up."""


class Done(NamedTuple):
    """What a task did: so many jobs, of which some failed."""

    jobs: int
    failed: int = 0


Task = Callable[[], Done]
Runner = Callable[[Sequence[Task]], Iterator[Done]]


@dataclass(frozen=True)
class Outcome:
    """How a sweep ended."""

    jobs: int
    already: int
    failed: int

    @property
    def ran(self) -> int:
        """Jobs that were run now and ended well."""
        return self.jobs - self.already - self.failed

    def __str__(self) -> str:
        done = f"{self.jobs} jobs: {self.already} were done already, {self.ran} ran"
        return f"{done}, {self.failed} failed (see results/failed)" if self.failed else done


def sweep(
    jobs: Sequence[Job],
    data: str,
    folder: str | Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
) -> Outcome:
    """Run every job that has no result in `folder` yet.

    Jobs run in `workers` processes on this machine (as many as there are usable cores, if not
    given), or on the Dask cluster whose scheduler has the address `cluster`; its workers must see
    `folder` and `data` under the same paths, and should have one thread each. A job that fails is
    recorded with its error, and the others go on; the next sweep tries it again.
    """
    count = allowed_cores() if workers is None else workers
    require(count >= 1, "workers", "at least 1", count)
    store = Store(Path(folder).resolve())
    run = partial(on_cluster, address=cluster) if cluster else partial(in_processes, workers=count)
    with _alone(store.folder):
        todo = store.missing(jobs)
        for production in dict.fromkeys(job.log.production for job in todo):
            _collection(production, data, store.folder)  # scaled here, not by every worker
        _train_productions(todo, data, store, run)
        groups = grouped(todo, count)
        tasks = [partial(_jobs_task, tuple(group), data, store.folder) for group in groups]
        failed = 0
        with bar("Learning and measuring rankers", len(todo)) as advance:
            for done in run(tasks):
                failed += done.failed
                advance(done.jobs, note=f"{failed} failed" if failed else None)
    return Outcome(len(jobs), len(jobs) - len(todo), failed)


def grouped(jobs: Sequence[Job], workers: int) -> list[list[Job]]:
    """Jobs of one log together, as its clicks are made once; cut further only to feed all workers.

    Jobs without clicks share nothing and stand alone.
    """
    by_log: dict[Log | Job, list[Job]] = {}
    for job in jobs:
        by_log.setdefault(job.log if job.log.sessions else job, []).append(job)
    groups = list(by_log.values())
    while groups and len(groups) < 2 * workers and max(map(len, groups)) > 1:
        largest = max(groups, key=len)
        groups.remove(largest)
        half = (len(largest) + 1) // 2
        groups += [largest[:half], largest[half:]]
    # first what every figure refers to, then the largest, so that no worker is left with one alone
    return sorted(groups, key=lambda group: (group[0].log.sessions > 0, -len(group)))


def _train_productions(jobs: Sequence[Job], data: str, store: Store, run: Runner) -> None:
    wanted = dict.fromkeys(job.log.production for job in jobs)
    missing = [it for it in wanted if not (store.production(it) / "ranker.json").is_file()]
    tasks = [partial(_production_task, it, data, store.folder) for it in missing]
    with bar("Training production rankers", len(tasks)) as advance:
        for _ in run(tasks):
            advance()


def _production_task(production: Production, data: str, folder: Path) -> Done:
    # one that cannot be trained is met again by its jobs, which record why
    with one_thread(), suppress(*FAILURES):
        production_ranker(production, _collection(production, data, folder), Store(folder))
    return Done(1)


def _jobs_task(jobs: tuple[Job, ...], data: str, folder: Path) -> Done:
    with one_thread():
        collection = _collection(jobs[0].log.production, data, folder)
        return Done(len(jobs), run_jobs(jobs, collection, Store(folder)))


def _collection(production: Production, data: str, folder: Path) -> Collection:
    return _scaled(production.collection, data, folder)


@lru_cache(maxsize=2)
def _scaled(address: str, data: str, folder: Path) -> Collection:
    return open_scaled(address, data, folder)


@contextmanager
def one_thread() -> Iterator[None]:
    """Work on one core: the others have processes of their own."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with use_threads(1):
            yield
    finally:
        torch.set_num_threads(before)


def in_processes(tasks: Sequence[Task], *, workers: int) -> Iterator[Done]:
    """Run tasks in processes of this machine; results as they come."""
    if workers == 1 or len(tasks) <= 1:
        yield from (task() for task in tasks)
        return
    left = list(tasks)
    for deaths in itertools.count(1):
        yield from _until_a_death(left, min(workers, len(left)))
        if not left:
            return
        if deaths == _DEATHS:
            raise EngineError(
                "Worker processes were ended from outside (is there memory enough?); results so "
                "far are kept: start again with fewer workers to go on."
            )


def _until_a_death(left: list[Task], workers: int) -> Iterator[Done]:
    """Run what is left, and take from it what is done."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_end_with, initargs=(os.getpid(),)
    )
    with pool:
        with _environment("OMP_NUM_THREADS", "1"):  # workers start with it: trees on one core too
            futures: dict[Any, Task] = {pool.submit(task): task for task in left}
        try:
            for future in as_completed(futures):
                done = future.result()
                left.remove(futures[future])
                yield done
        except BrokenProcessPool:
            return
        except BaseException:  # stopped: what still runs is stopped too, and puts its files away
            for worker in active_children():
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _end_with(parent: int) -> None:
    """A worker whose parent was killed ends too, instead of waiting for work for ever.

    Ctrl-C reaches all processes at once: workers leave it to the parent, which ends them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _unwind)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _unwind(number: int, frame: object) -> None:
    del frame
    raise SystemExit(128 + number)


def on_cluster(tasks: Sequence[Task], *, address: str) -> Iterator[Done]:
    """Run tasks on a Dask cluster through joblib; results as they come."""
    try:
        import joblib
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("dask", "cluster") from error
    client: Any = Client  # untyped
    with client(address), joblib.parallel_config(backend="dask"):
        parallel = joblib.Parallel(return_as="generator_unordered")
        yield from parallel(joblib.delayed(task)() for task in tasks)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder: two sweeps at once would do the same work; clear what a killed one left."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EngineError(f"`{folder}` is in use by another sweep.") from error
        for inside, _, _ in os.walk(folder):
            remove_litter(Path(inside))
        yield
