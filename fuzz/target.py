"""A kind of input: good examples, how they are mutated, and how saferank reads them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.mutation import mutate_bytes

Mutate = Callable[[bytes, random.Random, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Target:
    """A reader under test.

    `read` takes the input and a folder of its own; it returns when the input is accepted and every
    law that can be checked holds, and raises what saferank raises.
    """

    name: str
    share: float
    """Of a run's inputs."""
    seeds: Callable[[Path], list[bytes]]
    """Good inputs; the folder is for making them."""
    read: Callable[[bytes, Path], Any]
    mutate: Mutate = mutate_bytes


def in_folder(name: str, data: bytes) -> bytes:
    """An input that replaces one file of a folder."""
    return name.encode() + b"\n" + data


def file_of(data: bytes, names: Sequence[str]) -> tuple[str, bytes]:
    """The name of the file that an input replaces, one of `names`, and its bytes."""
    name, _, rest = data.partition(b"\n")
    text = name.decode("ascii", "replace")
    return (text, rest) if text in names else (names[0], data)


def of_files(mutations: dict[str, Mutate]) -> Mutate:
    """Mutates the bytes after the first line, by the rule of the file that it names."""

    def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
        name, rest = file_of(data, list(mutations))
        alike = [file_of(one, list(mutations)) for one in others]
        bodies = [body for other, body in alike if other == name]
        return in_folder(name, mutations[name](rest, rng, bodies))

    return mutate
