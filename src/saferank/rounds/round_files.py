"""What a loop keeps of each round: the policy that was served, and the counts in parts.

Files are safetensors with the arrays of one round; their shapes are compared with the items before
any of them is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from saferank._core.files import atomic_file
from saferank._core.flat import Array, Ints
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.policies import ProductionPolicy

_COUNTED = ("impressions", "clicks", "sessions")


def save_arrays(path: Path, arrays: dict[str, Array]) -> None:
    """Write arrays whole or not at all."""
    with atomic_file(path) as target:
        save_file({name: np.ascontiguousarray(it) for name, it in arrays.items()}, target)


def read_arrays(path: Path, shapes: Mapping[str, tuple[int, ...]], kind: str) -> dict[str, Array]:
    """The arrays of a file, if they have these shapes and the type `kind` ("F64" or "I64")."""
    require(path.is_file(), "round", "a file of safetensors", str(path))
    try:
        with safe_open(path, framework="np") as file:
            for name, shape in shapes.items():
                part = file.get_slice(name)
                given = tuple(part.get_shape()), part.get_dtype()
                require(given == (shape, kind), name, f"{shape} of {kind} in {path.name}", given)
            return {name: file.get_tensor(name) for name in shapes}
    except (SafetensorError, OSError) as error:
        raise InputError(f"{str(path)!r} is damaged: {error}.") from error


def _has(path: Path, name: str) -> bool:
    require(path.is_file(), "round", "a file of safetensors", str(path))
    try:
        with safe_open(path, framework="np") as file:
            return name in set(file.keys())
    except (SafetensorError, OSError) as error:
        raise InputError(f"{str(path)!r} is damaged: {error}.") from error


def save_policy(path: Path, policy: ProductionPolicy, k: int) -> None:
    """Keep what is served: P(document at rank)."""
    save_arrays(path, {"table": policy.rank_probabilities(k)})


def read_policy(path: Path, offsets: Ints, k: int) -> ProductionPolicy:
    """What was served."""
    table = read_arrays(path, {"table": (int(offsets[-1]), k)}, "F64")["table"]
    return ProductionPolicy.recorded(table, offsets)


def save_round(path: Path, counts: Counts) -> None:
    """Keep the counts of a round, sessions to learn from and to judge by apart."""
    arrays = {
        f"{part}.{name}": getattr(counts.part(part), name)
        for part in ("learn", "judge")
        for name in _COUNTED
    }
    if counts.cluster is not None:
        arrays["cluster"] = counts.cluster
    save_arrays(path, arrays)


def read_round(path: Path, offsets: Ints, k: int) -> Counts:
    """The counts of a round, in parts."""
    cells, queries = (int(offsets[-1]), k), (offsets.size - 1,)
    shapes: dict[str, tuple[int, ...]] = {
        f"{part}.{name}": queries if name == "sessions" else cells
        for part in ("learn", "judge")
        for name in _COUNTED
    }
    if _has(path, "cluster"):
        shapes["cluster"] = queries
    arrays = read_arrays(path, shapes, "I64")
    learn, judge = (
        Counts(
            offsets,
            arrays[f"{part}.impressions"],
            arrays[f"{part}.clicks"],
            arrays[f"{part}.sessions"],
            cluster=arrays.get("cluster"),
        )
        for part in ("learn", "judge")
    )
    return Counts.of_parts(learn, judge)
