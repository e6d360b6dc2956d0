"""What commands may write to: checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path

from saferank._core.files import check_file
from saferank.errors import InputError


def check_outputs(
    outputs: Iterable[Path | None],
    inputs: Iterable[Path | str | None] = (),
    kinds: Iterable[str | None] = (),
) -> None:
    """Refuse outputs that are inputs, the same twice, or files that saferank did not write.

    `kinds` say what the outputs will be, in their order: a file that is something else stays.
    """
    read = {Path(path).resolve() for path in inputs if path is not None}
    seen: set[Path] = set()
    for path, kind in zip(outputs, chain(kinds, repeat(None)), strict=False):
        if path is None:
            continue
        place = path.resolve()
        if place in read:
            raise InputError(f"`{path}` is read by this command: write to another name.")
        if place in seen:
            raise InputError(f"`{path}` must not be written twice by one command.")
        seen.add(place)
        check_file(path, kind=kind)
