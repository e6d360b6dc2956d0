"""A worker reads inputs one after the other; its parent sees which, should it not come back."""

from __future__ import annotations

import json
import random
import resource
import struct
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.mutation import mutate_bytes
from fuzz.outcomes import WrongNumbersError, refusal_fault, signature, trace
from fuzz.target import Target
from saferank.errors import SaferankError

MEMORY = 6 << 30
"""Bytes of address space that an input may make a worker take besides what it has."""
MOST_KEPT = 300
"""Refused inputs of a target that are mutated further."""
MOST_GOOD = 60
"""Accepted ones, besides the seeds."""


@dataclass
class Tally:
    """What became of a target's inputs."""

    accepted: int = 0
    refused: int = 0
    findings: int = 0
    endings: set[str] = field(default_factory=set)


def read_one(target: Target, data: bytes, folder: Path) -> tuple[str, str]:
    """How an input ends: accepted, refused or a finding, and what tells it from others."""
    try:
        target.read(data, folder)
    except SaferankError as error:
        fault = refusal_fault(error)
        if fault:
            return "finding", f"{fault}: {trace(error)}"
        return "refused", signature(str(error))
    except WrongNumbersError as error:
        return "finding", f"wrong: {trace(error)}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return "finding", f"exception: {trace(error)}"
    return "accepted", ""


@dataclass
class Pool:
    """What a target's inputs are mutated from: most often inputs that are good."""

    good: list[bytes]
    odd: list[bytes] = field(default_factory=list)
    seeds: int = field(init=False)

    def __post_init__(self) -> None:
        self.seeds = len(self.good)

    def choose(self, rng: random.Random) -> bytes:
        """An input to mutate."""
        return rng.choice(self.odd if self.odd and rng.random() < 0.4 else self.good)

    def keep(self, data: bytes, rng: random.Random, *, good: bool) -> None:
        """Keep an input that was accepted, or refused in a new way."""
        if len(data) >= 20_000:
            return
        if not good:
            if len(self.odd) < MOST_KEPT:
                self.odd.append(data)
        elif len(self.good) < self.seeds + MOST_GOOD:
            self.good.append(data)
        else:  # seeds stay
            self.good[rng.randrange(self.seeds, len(self.good))] = data


@dataclass
class Worker:
    """Draws inputs from its own generator: the same seed gives the same inputs."""

    targets: Sequence[Target]
    folder: Path
    seed: str
    place: memoryview
    """Shared with the parent: how many inputs were begun."""

    def run(self, inputs: int, skip: int) -> dict[str, Tally]:
        """Read inputs; those up to `skip` were read before the worker was started again."""
        warnings.simplefilter("ignore")
        _limit_memory()
        rng = random.Random(f"{self.seed}:{skip}")
        pools = {one.name: Pool(one.seeds(self._place("seeds"))) for one in self.targets}
        tallies = {one.name: Tally() for one in self.targets}
        shares = [one.share for one in self.targets]
        own = {one.name: self._place(one.name) for one in self.targets}
        saved = 0.0
        for number in range(skip, inputs):
            (target,) = rng.choices(self.targets, shares)
            pool = pools[target.name]
            data = _mutated(target, pool, rng)
            self._begin(number, target, data)
            ending, what = read_one(target, data, own[target.name])
            tally = tallies[target.name]
            setattr(tally, _COUNTS[ending], getattr(tally, _COUNTS[ending]) + 1)
            if ending == "finding":
                self._tell(target, data, what)
            elif ending == "accepted" or what not in tally.endings:
                tally.endings.add(what)
                pool.keep(data, rng, good=ending == "accepted")
            if time.monotonic() - saved > 1:  # what a worker has done when it is ended is told
                self._save(tallies, skip)
                saved = time.monotonic()
        self._save(tallies, skip)
        return tallies

    def _place(self, name: str) -> Path:
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _begin(self, number: int, target: Target, data: bytes) -> None:
        (self.folder / "input").write_bytes(target.name.encode() + b"\n" + data)
        struct.pack_into("<q", self.place, 0, number + 1)

    def _tell(self, target: Target, data: bytes, what: str) -> None:
        with (self.folder / "findings.jsonl").open("a") as file:
            file.write(json.dumps({"target": target.name, "what": what, "data": data.hex()}) + "\n")

    def _save(self, tallies: dict[str, Tally], skip: int) -> None:
        record: dict[str, Any] = {
            name: {**vars(tally), "endings": len(tally.endings)} for name, tally in tallies.items()
        }
        path = self.folder / f"tally-{skip}.json"
        path.with_suffix(".new").write_text(json.dumps(record))
        path.with_suffix(".new").replace(path)


def _mutated(target: Target, pool: Pool, rng: random.Random) -> bytes:
    """A mutated input; its bytes are changed where its structure is beyond the mutation."""
    data = pool.choose(rng)
    try:
        return target.mutate(data, rng, pool.good)
    except (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError):
        return mutate_bytes(data, rng, pool.good)


_COUNTS = {"accepted": "accepted", "refused": "refused", "finding": "findings"}


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
