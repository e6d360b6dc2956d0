"""Parsed files kept as memory-mapped arrays, so that a second load takes no parsing.

An entry is a folder of `.npy` files and `entry.json`, written whole or not at all, in
`.saferank-cache` beside the source or, where that cannot be written, in the user's cache folder
(`XDG_CACHE_HOME` or `~/.cache`, then `saferank`). It counts only as long as size and time of the
source, reader version and options are those it was made from, and every array has the type, shape
and checksum that it states; else it is rebuilt. Checksums are computed on every load: a pass over
the bytes at some gigabytes per second. Nothing in an entry can run code.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from saferank._core.files import atomic_folder, read_json, write_json
from saferank._core.flat import Array
from saferank._core.scratch import remove_litter
from saferank._core.threads import run_all
from saferank.data.ranking import RankingData
from saferank.errors import InputError

FOLDER: Final = ".saferank-cache"
_PIECE: Final = 1 << 24  # bytes that a checksum takes at a time
_NO_ARRAYS: Final = ("feature_names", "schema", "left_out", "groups")
_ARRAYS: Final = tuple(f.name for f in fields(RankingData) if f.name not in _NO_ARRAYS)


def cached(
    source: Path, build: Callable[[], RankingData], *, version: int, options: Mapping[str, Any]
) -> RankingData:
    """The data of `source` from its entry, or from `build()`, which then makes the entry."""
    stamp = _stamp(source, version, options)
    places = entry_places(source, options)
    for place in places:
        data = _load(place, stamp)
        if data is not None:
            remove_litter(place.parent)
            return data
    data = build()
    if _stamp(source, version, options) == stamp:
        _store(places, data, stamp)
    return data


def entry_places(source: Path, options: Mapping[str, Any]) -> list[Path]:
    """Where the entry of a source may lie, the preferred place first."""
    where = source.resolve()
    named = json.dumps([str(where), dict(options)], sort_keys=True)
    short = hashlib.blake2b(json.dumps(dict(options), sort_keys=True).encode(), digest_size=4)
    long = hashlib.blake2b(named.encode(), digest_size=12)
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return [
        where.parent / FOLDER / f"{where.name}-{short.hexdigest()}",
        Path(home) / "saferank" / f"{where.name}-{long.hexdigest()}",
    ]


def _stamp(source: Path, version: int, options: Mapping[str, Any]) -> dict[str, Any]:
    state = source.stat()
    return {
        "bytes": state.st_size,
        "modified": state.st_mtime_ns,
        "version": version,
        "options": dict(options),
    }


def _load(place: Path, stamp: Mapping[str, Any]) -> RankingData | None:
    try:
        entry = read_json(place / "entry.json", limit=1 << 24)
        if entry["stamp"] != stamp or entry.pop("checksum") != _checksum_of(entry):
            return None
        if not set(entry["arrays"]) <= set(_ARRAYS):
            return None
        arrays = {name: _mapped(place, name, stated) for name, stated in entry["arrays"].items()}
        return RankingData(**arrays, feature_names=entry["feature_names"])  # type: ignore[arg-type]
    except Exception:  # whatever damaged bytes raise: the entry is rebuilt
        return None


def _mapped(place: Path, name: str, stated: Mapping[str, Any]) -> Array:
    """An array of an entry, mapped copy-on-write: writing to it never reaches the file."""
    path = place / f"{name}.npy"
    if not path.is_file() or path.stat().st_size != stated["bytes"]:
        raise ValueError(name)
    array: Array = np.load(path, mmap_mode="c", allow_pickle=False)
    same = array.dtype.str == stated["type"] and list(array.shape) == stated["shape"]
    if not same or not array.flags.c_contiguous or checksum(array) != stated["checksum"]:
        raise ValueError(name)
    return array


def checksum(array: Array) -> str:
    """A checksum of an array's bytes, on all threads: for accidents, not against forgers.

    >>> checksum(np.arange(3.0)) == checksum(np.array([0, 1, 2 + 1e-15]))
    False
    """
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    pieces = [data[first : first + _PIECE] for first in range(0, data.size, _PIECE)]
    sums = run_all([partial(zlib.crc32, piece.data) for piece in pieces])
    return hashlib.blake2b(np.array(sums, dtype=np.uint32).tobytes(), digest_size=16).hexdigest()


def _checksum_of(entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _store(places: list[Path], data: RankingData, stamp: Mapping[str, Any]) -> None:
    """Write the entry where it can be written; data without a cache is good data too."""
    for place in places:
        try:
            with atomic_folder(place, holds=("entry.json", "*.npy"), marked=False) as folder:
                _write(folder, data, stamp)
            return
        except (OSError, InputError):  # or something else lies in its place
            continue


def _write(folder: Path, data: RankingData, stamp: Mapping[str, Any]) -> None:
    arrays = {}
    for name in _ARRAYS:
        array = getattr(data, name)
        if array is None:
            continue
        path = folder / f"{name}.npy"
        np.save(path, array, allow_pickle=False)
        shape = list(array.shape)
        arrays[name] = {
            "type": array.dtype.str,
            "shape": shape,
            "bytes": path.stat().st_size,
            "checksum": checksum(array),
        }
    names = None if data.feature_names is None else list(data.feature_names)
    entry = {"stamp": stamp, "arrays": arrays, "feature_names": names}
    write_json(folder / "entry.json", {**entry, "checksum": _checksum_of(entry)})
