"""Checkpoints: the state of a training run on disk, used whole and unchanged or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from saferank._core.files import atomic_folder, read_json, write_json
from saferank._core.records import convert
from saferank.errors import InputError
from saferank.learning.workers import workers

RECORD: Final = "state.json"


@dataclass(frozen=True)
class Progress:
    """How far training has come: its step, and the validations so far with their values."""

    step: int
    steps: list[int]
    values: list[float]


def save_checkpoint(
    folder: Path, file: str, write: Callable[[Path], object], progress: Progress
) -> None:
    """Write a checkpoint: how far training has come, a file of parameters, and a digest of both.

    Parameters
    ----------
    folder
        The checkpoint's own; the one that is there is replaced in one step.
    file
        Name of the file that `write` makes in the folder it is given.
    """
    if not workers().writes:
        return
    with atomic_folder(folder, holds=(RECORD, file), marked=False) as temporary:
        write(temporary)
        digest = _digest(temporary / file, progress)
        write_json(temporary / RECORD, {**vars(progress), "digest": digest})


def load_checkpoint(folder: Path, file: str) -> Progress | None:
    """How far training had come; None without a checkpoint, or where anything in it is damaged."""
    try:
        record = read_json(folder / RECORD, limit=1 << 24)
        progress = Progress(
            convert(int, record["step"], "step"),
            convert(list[int], record["steps"], "steps"),
            convert(list[float], record["values"], "values"),
        )
        whole = record["digest"] == _digest(folder / file, progress)
    except (InputError, OSError, LookupError, TypeError):
        return None
    fits = len(progress.steps) == len(progress.values) >= 1
    return progress if whole and fits else None


def _digest(path: Path, progress: Progress) -> str:
    """Of the parameters and of how far training has come: either alone may be damaged."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "blake2b")
    digest.update(json.dumps(vars(progress), sort_keys=True).encode())
    return digest.hexdigest()[:32]
