"""More pairs than memory: learn, certify and rank under `--memory`, against the same without it.

`python -m benchmarks.beyond_memory FOLDER --pairs 1000000 4000000 20000000 --memory 4GB` writes the
tables (`many_pairs`; 2 10^7 pairs are 11 GB) and runs the commands on each, one thread each. With
`--plain 1000000` it also runs them on so many pairs without a limit, and compares the processor
time of a pair. Every stage of training takes one pass over its queries, unless `--steps` says
otherwise. What certifying costs depends on the ranker, too (the further its scores lie apart, the
more), so that `--ranker RUN` certifies and ranks by that one, whatever the number of pairs.

For each run: processor time, peak of the process's memory (mapped pages that are in its tables
count), peak of its anonymous memory, and of what it may write privately (`VmData`: with `--enforce`
the system refuses more than the limit of it, `RLIMIT_DATA`).
"""

from __future__ import annotations

import argparse
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.many_pairs import DOCUMENTS, generate
from saferank._core.storage import parse_size
from saferank.learning.descent import Settings
from saferank.learning.stopping import HELD_OUT

COMMANDS: Final = ("learn", "certify", "rank")
_PAUSE: Final = 0.05
_PEAKS: Final = ("VmHWM", "RssAnon", "VmData")
_GOOD: Final = (0, 3)
"""To ship, or not."""


@dataclass(frozen=True)
class Run:
    """What a command took."""

    command: str
    pairs: int
    memory: str | None
    user: float
    system: float
    wall: float
    peaks: dict[str, int]

    @property
    def microseconds(self) -> float:
        """Processor time of a pair."""
        return (self.user + self.system) / self.pairs * 1e6

    def __str__(self) -> str:
        gigabytes = {name: f"{peak / 1e9:.2f}" for name, peak in self.peaks.items()}
        return (
            f"{self.command:8} {self.pairs:>10,} pairs, memory {self.memory or 'any':>6}: "
            f"{self.microseconds:6.1f} us of processor time per pair (system's share "
            f"{self.system / (self.user + self.system):.0%}), {self.wall:.0f} s; peak "
            f"{gigabytes['VmHWM']} GB, anonymous {gigabytes['RssAnon']} GB, private and writable "
            f"{gigabytes['VmData']} GB"
        )


def one_pass(pairs: int) -> int:
    """Steps that take each query to learn from once."""
    learned = (1 - HELD_OUT) * pairs / DOCUMENTS
    return math.ceil(learned / Settings().batch_size)


def measure(folder: Path, pairs: int, memory: str | None, given: argparse.Namespace) -> list[Run]:
    """The commands one after the other on so many pairs."""
    tables = generate(folder, pairs)
    run = folder / f"run_{pairs}_{memory or 'any'}"
    shutil.rmtree(run, ignore_errors=True)
    items = ["--items", tables.items]
    counts = ["--counts", tables.counts, "--production-policy", "sampled"]
    steps = one_pass(pairs) if given.steps is None else given.steps
    if given.ranker is not None:
        shutil.copytree(given.ranker, run)
        (run / "assessment.json").unlink(missing_ok=True)
    options = {
        "learn": ["-o", run, "--bias", "trust-bias", "--steps", steps, *items, *counts],
        "certify": [run, *items, *counts],
        "rank": [run, "-o", run.with_suffix(".parquet"), *items],
    }
    limit = [] if memory is None else ["--memory", memory]
    runs = []
    for command in given.commands:
        call = [sys.executable, "-m", "saferank", command, *options[command], *limit]
        hard = parse_size(memory) if memory is not None and given.enforce else None
        runs.append(_watched([str(word) for word in call], command, pairs, memory, hard))
        print(runs[-1], flush=True)
    return runs


def _watched(
    call: list[str], command: str, pairs: int, memory: str | None, hard: int | None
) -> Run:
    def limit() -> None:
        if hard is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))

    started = time.perf_counter()
    threads = {"SAFERANK_THREADS": "1", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen(
        call, env=os.environ | threads, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=limit,
    )  # fmt: skip
    peaks = dict.fromkeys(_PEAKS, 0)
    while True:
        for name, value in _status(process.pid):
            peaks[name] = max(peaks[name], value)
        done, code, used = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        time.sleep(_PAUSE)
    assert process.stderr is not None
    told = process.stderr.read().decode()
    if os.waitstatus_to_exitcode(code) not in _GOOD:
        raise SystemExit(f"{' '.join(call)}\n{told}")
    wall = time.perf_counter() - started
    return Run(command, pairs, memory, used.ru_utime, used.ru_stime, wall, peaks)


def _status(process: int) -> Iterator[tuple[str, int]]:
    """Sizes that the system tells of a process, in bytes."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return
    for name in _PEAKS:
        match = re.search(rf"{name}:\s+(\d+) kB", text)
        if match is not None:
            yield name, int(match[1]) * 1024


def main() -> None:
    """Measure, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, nargs="+", default=[20_000_000])
    parser.add_argument("--plain", type=int, help="pairs of a run without a limit")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--ranker", type=Path)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS)
    parser.add_argument("--enforce", action="store_true")
    given = parser.parse_args()
    given.commands = given.commands or COMMANDS[given.ranker is not None :]
    plain = measure(given.folder, given.plain, None, given) if given.plain else []
    for pairs in given.pairs:
        limited = measure(given.folder, pairs, given.memory, given)
        for before, after in zip(plain, limited, strict=False):
            ratio = after.microseconds / before.microseconds
            print(f"{after.command}: {ratio:.2f} times the processor time per pair in memory")


if __name__ == "__main__":
    main()
