"""Commands are killed (kill -9, SIGTERM) at random times, then run again: same bytes, no litter.

`SAFERANK_KILLS` (default 60) says how many kills in all. Some hit a run in an empty folder, some
one whose result is there already, some one that goes on after another kill. SIGTERM must leave no
litter by itself; kill -9 none after the next run to the end.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import Row, at_least, at_most

KILLS = int(os.environ.get("SAFERANK_KILLS", "60"))
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
STARTING = 0.35
"""Share of an undisturbed run that passes before most kills: before it Python starts."""


@dataclass
class Command:
    """A command that writes into a folder of its own."""

    name: str
    arguments: tuple[str, ...]
    """`{here}` stands for the folder, `{inputs}` for that of the inputs."""
    brings: tuple[str, ...] = ()
    """Files and folders of the inputs that it has in its own folder."""
    codes: tuple[int, ...] = (0,)


COMMANDS = (
    Command("count", ("count", "{inputs}/log.parquet", "-o", "{here}/counts.parquet")),
    Command(
        "learn",
        (
            "learn", "--items", "{inputs}/items.parquet", "--counts", "{inputs}/counts.parquet",
            "--method", "dr", "--steps", "600", "-o", "{here}/run",
        ),
    ),
    Command(
        "learn trees",
        (
            "learn", "--items", "{inputs}/items.parquet", "--counts", "{inputs}/counts.parquet",
            "--method", "ips", "--scorer", "trees", "--rounds", "60", "-o", "{here}/run",
        ),
    ),
    Command(
        "certify",
        (
            "certify", "{here}/run", "--items", "{inputs}/items.parquet", "--counts",
            "{inputs}/counts.parquet", "--same-sessions",
        ),
        brings=("run",), codes=(0, 3),
    ),
    Command("cache", ("data", "inspect", "{here}/collection"), brings=("collection",)),
    Command(
        "simulate",
        (
            "simulate", "--rows", "--sessions", "1e6", "-o", "{here}/log.parquet", "--items",
            "{here}/items.parquet",
        ),
    ),
    Command(
        "reproduce",
        (
            "reproduce", "2", "--data", "synthetic:small:30", "--sessions", "100", "--seeds", "1",
            "--workers", "2", "-o", "{here}/study",
        ),
    ),
)  # fmt: skip


@dataclass
class Tally:
    """What the kills of one command came to."""

    kills: dict[str, int] = field(default_factory=dict)
    changed: int = 0
    """Runs after a kill whose files are not those of an undisturbed run."""
    litter: int = 0
    """Runs after a kill that leave a temporary file, and SIGTERMs that do."""
    wrong_exit: int = 0
    littered: int = 0
    """Kills that left something for the next run to clear: how hard they hit."""

    @property
    def total(self) -> int:
        """Kills so far."""
        return sum(self.kills.values())

    def add(self, number: signal.Signals, code: int, *, left: bool) -> None:
        """One kill: the exit code of the process, and whether it left temporary files."""
        self.kills[number.name] = self.kills.get(number.name, 0) + 1
        # -number: Python was still starting, or its work was done; shells say 128 + number of both
        expected = (-number,) if number == signal.SIGKILL else (-number, 128 + number)
        self.wrong_exit += code not in expected
        self.littered += left
        self.litter += left and number == signal.SIGTERM


def run_all(folder: Path, kills: int = KILLS, seed: int = 0) -> dict[str, Tally]:
    """Kill every command its share of times."""
    inputs = make_inputs(folder / "inputs")
    share = -(-kills // len(COMMANDS))
    return {
        command.name: kill_often(command, inputs, folder / command.name, share, seed)
        for command in COMMANDS
    }


def make_inputs(folder: Path) -> Path:
    """A log, items, counts, a ranker and a collection."""
    folder.mkdir(parents=True)
    simulate = ("simulate", "--data", "synthetic", "--sessions")
    _finish(Command("log", (*simulate, "1e6", "--rows", "-o", "{here}/log.parquet")), folder)
    arguments = ("3e5", "-o", "{here}/counts.parquet", "--items", "{here}/items.parquet")
    _finish(Command("counts", (*simulate, *arguments)), folder)
    learned = ("--steps", "50", "-o", "{here}/run")
    given = ("--items", "{here}/items.parquet", "--counts", "{here}/counts.parquet")
    _finish(Command("run", ("learn", *given, *learned)), folder)
    collection = folder / "collection"
    collection.mkdir()
    from saferank.data import synthetic, write_items

    for part, data in synthetic("mslr", queries=400, seed=0).parts().items():
        name = {"train": "train.txt", "validation": "vali.txt", "test": "test.txt"}[part]
        write_items(data, collection / name)
    return folder


def kill_often(command: Command, inputs: Path, folder: Path, kills: int, seed: int) -> Tally:
    """Kill a command some times; one kill or two in a row are followed by a run to the end."""
    calm, here = folder / "calm", folder / "killed"
    seconds = _finish(command, _prepare(command, inputs, calm), inputs)
    expected = files(calm)
    chance = random.Random(f"{seed} {command.name}")
    tally = Tally()
    while tally.total < kills:
        _prepare(command, inputs, here)
        if chance.random() < 0.3:
            _finish(command, here, inputs)
        for _ in range(min(chance.choice((1, 1, 2)), kills - tally.total)):
            number = SIGNALS[tally.total % 2]
            before = set(litter(here))
            code = _killed(command, here, inputs, number, seconds, chance)
            if code is None:  # it ended before the signal: the machine has less to do than before
                seconds *= 0.9
                break
            tally.add(number, code, left=bool(set(litter(here)) - before))
        seconds = max(0.9 * seconds, _finish(command, here, inputs))
        tally.changed += files(here) != expected
        tally.litter += bool(litter(here))
    return tally


def _prepare(command: Command, inputs: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    for name in command.brings:
        shutil.copytree(inputs / name, folder / name)  # with the times that the cache looks at
    return folder


def _start(command: Command, here: Path, inputs: Path) -> subprocess.Popen[bytes]:
    words = [word.format(here=here, inputs=inputs) for word in command.arguments]
    environment = {**os.environ, "TMPDIR": str(here / "tmp"), "XDG_CACHE_HOME": str(here / "tmp")}
    return subprocess.Popen(
        [sys.executable, "-m", "saferank", *words],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _finish(command: Command, here: Path, inputs: Path | None = None) -> float:
    (here / "tmp").mkdir(exist_ok=True)
    start = time.monotonic()
    with _start(command, here, inputs or here) as process:
        _, said = process.communicate()
    if process.returncode not in command.codes:
        raise RuntimeError(f"{command.name}: exit code {process.returncode}: {said.decode()}")
    return time.monotonic() - start


def _killed(
    command: Command,
    here: Path,
    inputs: Path,
    number: signal.Signals,
    seconds: float,
    chance: random.Random,
) -> int | None:
    """The exit code of a run that is killed at a random time; None if it ended before."""
    with _start(command, here, inputs) as process:
        if chance.random() < 0.5:
            time.sleep(chance.uniform(STARTING, 1.0) * seconds)
        else:  # soon after it has begun to write
            before = _names(here)
            until = time.monotonic() + 2 * seconds
            while process.poll() is None and _names(here) == before and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.1) * seconds)
        if process.poll() is not None:
            return None
        process.send_signal(number)
        process.communicate()
    time.sleep(1.0)  # workers whose parent is gone end within half a second
    return process.returncode


def _names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def files(folder: Path) -> dict[str, bytes]:
    """Everything that a command left, by its path; not the folder for temporary files.

    Nor what a cache notes of the files that it is of: when they were written.
    """
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and "tmp" not in path.relative_to(folder).parts[:1]
        and not (_in_cache_of_study(path) and path.name == "entry.json")
    }


def _in_cache_of_study(path: Path) -> bool:
    """Whether a path lies in the cache of files that the command itself wrote (a study's)."""
    return "study" in path.parts and ".saferank-cache" in path.parts


def litter(folder: Path) -> list[str]:
    """Temporary files and folders; a checkpoint is kept on purpose until its run has ended."""
    marks = (".saferank-tmp-", "tmp/")
    names = [f"{path.relative_to(folder)}" for path in folder.rglob("*")]
    # torch makes a folder of its own, which stays empty, wherever it is imported
    ours = [name for name in names if "torchinductor" not in name]
    return [name for name in ours if any(mark in name for mark in marks)]


def rows() -> Iterator[Row]:
    """One block of rows for each command."""
    with tempfile.TemporaryDirectory(prefix="saferank-kills-") as folder:
        for name, tally in run_all(Path(folder)).items():
            for number, kills in sorted(tally.kills.items()):
                yield at_least(f"{name}: {number}", kills, 1, "kills")
            yield Row(f"{name}: kills that left temporary files", tally.littered, "")
            yield at_most(f"{name}: other bytes after the next run", tally.changed, 0, "runs")
            yield at_most(f"{name}: litter after SIGTERM or the next run", tally.litter, 0, "runs")
            yield at_most(f"{name}: unexpected exit codes", tally.wrong_exit, 0, "runs")
