"""The parent of the workers: starts them, sees crashes and hangs, and starts them again."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import signal
import struct
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fuzz.target import Target
from fuzz.worker import Worker, read_one

STUCK = 20.0
"""Seconds of processor time, or thirty times as many on the clock, that one input may take."""
LARGEST = 4 << 30
"""Bytes that a worker may hold."""


@dataclass
class Lane:
    """A worker and what its parent knows of it."""

    number: int
    folder: Path
    inputs: int
    shared: mmap.mmap
    process: int = 0
    done: bool = False
    seen: tuple[int, float, float] = (-1, 0.0, 0.0)
    """Inputs begun, and the processor time and clock when that was first seen."""

    @property
    def begun(self) -> int:
        """How many inputs were begun."""
        return int(struct.unpack_from("<q", self.shared, 0)[0])


@dataclass
class Report:
    """What a run found."""

    inputs: int = 0
    seconds: float = 0.0
    tallies: dict[str, Counter[str]] = field(default_factory=dict)
    findings: list[dict[str, str]] = field(default_factory=list)


def run(
    targets: Sequence[Target], inputs: int, workers: int, seed: int, folder: Path, minutes: float
) -> Report:
    """Read `inputs` mutated inputs in forked workers, or as many as the minutes allow."""
    start = time.monotonic()
    lanes = []
    for number in range(workers):
        place = folder / str(number)
        place.mkdir(parents=True)
        share = inputs // workers + (number < inputs % workers)
        lanes.append(Lane(number, place, share, mmap.mmap(-1, 8)))
    report = Report()
    for lane in lanes:
        _start(lane, targets, seed)
    while not all(lane.done for lane in lanes):
        time.sleep(0.2)
        late = time.monotonic() - start > 60 * minutes
        for lane in lanes:
            if not lane.done:
                _look(lane, targets, seed, report, late)
    for lane in lanes:
        _collect(lane, report)
        report.inputs += min(lane.begun, lane.inputs)
    report.seconds = time.monotonic() - start
    return report


def _start(lane: Lane, targets: Sequence[Target], seed: int) -> None:
    lane.seen = (-1, 0.0, 0.0)
    lane.process = os.fork()
    if lane.process:
        return
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        log = os.open(lane.folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        worker = Worker(targets, lane.folder, f"{seed}/{lane.number}", memoryview(lane.shared))
        worker.run(lane.inputs, lane.begun)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _look(lane: Lane, targets: Sequence[Target], seed: int, report: Report, late: bool) -> None:
    """Is the worker at its end, dead, or stuck?"""
    process, status = os.waitpid(lane.process, os.WNOHANG)
    fault = None
    if process:
        if status == 0:
            lane.done = True
            return
        how = signal.Signals(status & 127).name if status & 127 else f"exit code {status >> 8}"
        fault = f"the process ended: {how}"
    else:
        fault = "out of time" if late else _stuck(lane)
        if fault:
            os.kill(lane.process, signal.SIGKILL)
            os.waitpid(lane.process, 0)
    if fault is None:
        return
    if late:
        lane.done = True
        return
    if not (lane.folder / "input").exists():
        said = (lane.folder / "output.txt").read_text()[-3000:]
        raise SystemExit(f"a worker could not begin:\n{said}")
    name, _, data = (lane.folder / "input").read_bytes().partition(b"\n")
    report.findings.append({"target": name.decode(), "what": fault, "data": data.hex()})
    _start(lane, targets, seed)


def _stuck(lane: Lane) -> str | None:
    try:
        process = psutil.Process(lane.process)
        times = process.cpu_times()
        if process.memory_info().rss > LARGEST:
            return f"more than {LARGEST >> 30} GB"
    except psutil.NoSuchProcess:
        return None
    used, begun, now = times.user + times.system, lane.begun, time.monotonic()
    if begun != lane.seen[0]:
        lane.seen = (begun, used, now)
        return None
    first = begun == 0 or not (lane.folder / "input").exists()
    limit = STUCK * (10 if first else 1)  # seeds are made first
    over = used - lane.seen[1] > limit or now - lane.seen[2] > 30 * limit
    return "no end in sight" if over else None


def replay(target: Target, inputs: Sequence[Path], folder: Path) -> list[str]:
    """Read kept inputs in a child; what is wrong with them, or with the last that it began."""
    told = folder / "told.txt"
    for name in ("seeds", target.name):
        (folder / name).mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child == 0:
        try:
            with told.open("w") as file:
                for path in inputs:
                    print(path.name, file=file, end=": ", flush=True)
                    ending, what = read_one(target, path.read_bytes(), folder / target.name)
                    print(ending, what, file=file, flush=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    lines = told.read_text().splitlines()
    found = [line for line in lines if ": finding " in line]
    return [*found, f"{lines[-1:]}: the process ended"] if status else found


def _collect(lane: Lane, report: Report) -> None:
    for path in lane.folder.glob("tally-*.json"):
        for name, tally in json.loads(path.read_text()).items():
            report.tallies.setdefault(name, Counter()).update(tally)
    path = lane.folder / "findings.jsonl"
    if path.exists():
        report.findings += [json.loads(line) for line in path.read_text().splitlines()]


def distinct(findings: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """One finding of each kind: the shortest input."""
    best: dict[tuple[str, str], dict[str, str]] = {}
    for one in findings:
        key = one["target"], one["what"].split(": ")[1] if ": " in one["what"] else one["what"]
        if key not in best or len(one["data"]) < len(best[key]["data"]):
            best[key] = one
    return list(best.values())


def save(findings: Sequence[dict[str, str]], folder: Path) -> None:
    """Write the inputs of findings, to be kept in the corpus once they are mended."""
    for one in findings:
        data = bytes.fromhex(one["data"])
        place = folder / one["target"]
        place.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b(data, digest_size=6).hexdigest()
        (place / name).write_bytes(data)
        (place / f"{name}.what").write_text(one["what"] + "\n")
