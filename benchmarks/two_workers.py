"""What two processes bring: `torchrun -m saferank learn` with two of them against one.

    python -m benchmarks.two_workers FOLDER [--queries 2000] [--steps 200] [--repeats 3]
                                            [--shards 8]

Lists are as long as MSLR-WEB30K's (120 documents, 136 features), the network is the default one,
every process has one thread. Commands with all steps and with one step run in turn: training is
what they differ by, and the short ones are everything else (importing, reading, aligning, saving).
Beside it stands what the machine's cores allow: two commands at once that know nothing of each
other. With --shards items and counts are cut into so many shards first, of which each process
reads its own. Times are those that pass, the least of the repeats: nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saferank.clicks import simulate, trust_bias
from saferank.counts.counts_file import save_counts
from saferank.data import synthetic, write_items
from saferank.logs import shard

WANTED = 1.6
"""Times as fast with two processes."""
CROWDED = 1.3
"""Two commands at once take this many times as long as one where the cores are not free."""


class Took(NamedTuple):
    """Seconds that passed, and those of all processors."""

    wall: float
    processor: float


def main() -> int:
    """Measure and print a table.

    Returns 0 where training is as fast as wanted and gives the same bits, else 1; 2 where the
    machine was too busy to tell.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shards", type=int, default=0)
    given = parser.parse_args()
    make_world(given.folder, given.queries, given.shards)
    run(given.folder, 1, 1)  # compiled by now
    best: dict[tuple[int, int], Took] = {}
    apart = float("inf")
    for _ in range(given.repeats):
        for steps in (1, given.steps):
            for workers in (1, 2):
                took = run(given.folder, workers, steps)
                best[workers, steps] = min(best.get((workers, steps), took), took)
        apart = min(apart, run_apart(given.folder, given.steps))
    same = parameters(given.folder, 1) == parameters(given.folder, 2)
    ratio = tell(best, given.steps, apart)
    print(f"the same bits with one process and with two: {'yes' if same else 'NO'}")
    if same and ratio is None:
        return 2
    return 0 if same and ratio is not None and ratio >= WANTED else 1


def make_world(folder: Path, queries: int, shards: int = 0) -> None:
    """Write items of long lists and the counts of simulated sessions, unless they are there.

    The commands that follow learn from the shards where the folder has any.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "shards", ignore_errors=True)
    _make_tables(folder, queries)
    if shards:
        tables = folder / "items.parquet", folder / "counts.parquet"
        shard(*tables, folder / "shards", shards=shards)


def _make_tables(folder: Path, queries: int) -> None:
    if (folder / "counts.parquet").exists():
        return
    train = synthetic("mslr", queries=queries, seed=0).train
    shown = np.random.default_rng(0).normal(size=train.documents)
    items = replace(train, production=shown)
    write_items(items, folder / "items.parquet")
    counts = simulate(items, shown, trust_bias(), sessions=100 * queries, seed=0)
    save_counts(counts, items, folder / "counts.parquet")


def command(folder: Path, workers: int, steps: int, name: str) -> list[str]:
    """The command line of one training."""
    start = ["-m", "torch.distributed.run", "--nproc-per-node", "2"] if workers == 2 else []
    tables = ["--items", folder / "items.parquet", "--counts", folder / "counts.parquet"]
    if (folder / "shards").exists():
        tables = ["--items", folder / "shards"]
    words = [
        *start, "-m", "saferank", "learn", *tables, "--bias", "trust-bias", "--production-policy",
        "sampled", "--steps", steps, "-o", folder / name,
    ]  # fmt: skip
    return [sys.executable, *map(str, words)]


def run(folder: Path, workers: int, steps: int) -> Took:
    """Train once, and tell how long it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = _start(command(folder, workers, steps, f"with-{workers}"))
    _finish(process)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall, spent)


def run_apart(folder: Path, steps: int) -> float:
    """Seconds that pass while two trainings run that know nothing of each other."""
    start = time.perf_counter()
    both = [_start(command(folder, 1, steps, f"apart-{number}")) for number in range(2)]
    for process in both:
        _finish(process)
    return time.perf_counter() - start


def parameters(folder: Path, workers: int) -> bytes:
    """What was learned."""
    return (folder / f"with-{workers}" / "scorer.safetensors").read_bytes()


def tell(best: dict[tuple[int, int], Took], steps: int, apart: float) -> float | None:
    """Print the table; return how many times as fast training is, None if the cores were busy."""
    whole = {workers: best[workers, steps].wall for workers in (1, 2)}
    rest = {workers: best[workers, 1].wall for workers in (1, 2)}
    training = {workers: whole[workers] - rest[workers] for workers in (1, 2)}
    rows = {
        f"whole command, {steps} steps": (whole[1], whole[2]),
        "everything but training": (rest[1], rest[2]),
        "training": (training[1], training[2]),
        "processor time of the whole": tuple(best[n, steps].processor for n in (1, 2)),
    }
    print(f"{'seconds':32}{'one':>8}{'two':>8}{'times':>8}")
    for name, (alone, together) in rows.items():
        print(f"{name:32}{alone:8.2f}{together:8.2f}{alone / together:8.2f}")
    print(f"two commands at once, over one: {apart / whole[1]:.2f} (1 is two free cores)")
    if min(training.values()) <= 0 or apart > CROWDED * whole[1]:
        print("the machine was busy: this says nothing of what two processes bring")
        return None
    ratio = training[1] / training[2]
    print(f"training is {ratio:.2f} times as fast (wanted {WANTED:g})")
    return ratio


def _start(words: list[str]) -> subprocess.Popen[bytes]:
    single = {"SAFERANK_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=os.environ | single, stdout=subprocess.DEVNULL)


def _finish(process: subprocess.Popen[bytes]) -> None:
    if process.wait() != 0:
        raise SystemExit(f"learn ended with exit code {process.returncode}.")


if __name__ == "__main__":
    sys.exit(main())
