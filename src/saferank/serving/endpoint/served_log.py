"""Clicks joined onto what was shown: files in the form that `saferank count` reads.

A file of `shown/` gets its clicks once it is older than the click window, and then appears in
`log/` under the same name: every file there is final, and `count`, `watch` and `logs check` take
them as they are. All of it is done from files alone, by whichever process comes first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from saferank.data.damage import refuse_damaged
from saferank.data.table_files import write_table
from saferank.errors import require
from saferank.serving.endpoint.shown_log import CLICKS, SHOWN

LOG: Final = "log"
WINDOW: Final = 1800.0
"""Seconds that clicks are waited for, unless told otherwise."""
LATEST: Final = 4e9
"""A moment after all clicks, in seconds since 1970."""


@dataclass(frozen=True)
class Joined:
    """What a join has done."""

    files: int
    rows: int
    clicks: int
    waiting: int
    """Files that clicks may still come for."""

    def sentence(self) -> str:
        """The same in words."""
        text = (
            f"{_many(self.files, 'file')} with {_many(self.rows, 'row')} and "
            f"{_many(self.clicks, 'click')} {'is' if self.files == 1 else 'are'} new in the log"
        )
        waits = f"{'waits' if self.waiting == 1 else 'wait'} for clicks"
        return f"{text}; {_many(self.waiting, 'file')} {waits}." if self.waiting else f"{text}."


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def join_clicks(folder: str | Path, *, window: float = WINDOW, now: float | None = None) -> Joined:
    """Write each file of what was shown with its clicks, where the window of clicks has passed.

    Parameters
    ----------
    folder : of logs, as `saferank serve --log` makes it.
    window : seconds after a file was written in which clicks on it may still come.
    now : seconds since 1970; by default the clock's.
    """
    require(window >= 0, "window", "at least 0 seconds", window)
    base = Path(folder)
    require((base / SHOWN).is_dir(), "folder", "one that `saferank serve --log` made", str(folder))
    moment = time.time() if now is None else now
    shown = sorted((base / SHOWN).glob("*.parquet"))
    fresh = [path for path in shown if not (base / LOG / path.name).exists()]
    ready = [path for path in fresh if path.stat().st_mtime + window <= moment]
    rows = clicks = 0
    read = lru_cache(maxsize=1000)(_read)  # the same clicks are looked at for many files
    for path in ready:
        table = _joined(path, base / CLICKS, window, read)
        write_table(table, base / LOG / path.name, "log")
        rows += table.num_rows
        clicks += pc.sum(table["click"]).as_py() or 0
    return Joined(len(ready), rows, clicks, len(fresh) - len(ready))


def _read(path: Path) -> pa.Table:
    with refuse_damaged(path, "readable parquet table"):
        return pq.read_table(path)


def _joined(path: Path, clicks: Path, window: float, read: Callable[[Path], pa.Table]) -> pa.Table:
    """The rows of a file with `click`, 1 where a click came on the document in that request."""
    shown = _read(path)
    times = pc.min_max(shown["timestamp"]).as_py()
    # without a window all clicks that there are by now count; with one, when it is joined does not
    begin, end = times["min"].timestamp(), path.stat().st_mtime + window if window else LATEST
    wanted = pc.unique(shown["request_id"])
    keys = []
    for each in sorted(clicks.glob("*.parquet")):
        if each.stat().st_mtime < begin:
            continue  # written before the first of these was shown
        table = read(each)
        moments = pc.cast(table["timestamp"], pa.int64())
        inside = pc.and_(
            pc.is_in(table["request_id"], value_set=wanted), pc.less_equal(moments, int(end * 1e6))
        )
        keys.append(_key(table.filter(inside)))
    clicked = pa.chunked_array(keys, pa.string()) if keys else pa.chunked_array([[]], pa.string())
    values = pc.cast(pc.is_in(_key(shown), value_set=clicked), pa.int8())
    return shown.append_column("click", values)


def _key(table: pa.Table) -> pa.ChunkedArray:
    """Request and document in one text; requests have ids of our own, of one length."""
    joined = pc.binary_join_element_wise(table["request_id"], table["doc_id"], "\x1f")
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])
