"""What was shown, and what was clicked: rows in memory, then Parquet files that are whole.

A folder of logs has `shown/` and `clicks/`, one file per process and period, and `log/`, where each
file of `shown/` appears with its clicks once they have had time to come (`served_log`). A file is
written beside its place and renamed, so whatever ends the process, files that are there are whole;
lost are at most the rows since the last one.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from saferank.data.table_files import write_table
from saferank.errors import require
from saferank.serving.endpoint.ranking_requests import Id
from saferank.serving.endpoint.served_run import Shown

SHOWN: Final = "shown"
CLICKS: Final = "clicks"
MOST_ROWS: Final = 2_000_000
"""Rows that wait for a disk that cannot be written, at most; then the oldest are lost."""

_LOG = logging.getLogger("saferank.serve")
_TIME: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, eq=False)
class ShownList:
    """One answered request."""

    request_id: str
    session_id: Id
    query_id: Id
    ranker: str
    fingerprint: str
    shown: Shown
    at: float
    """Seconds since 1970."""

    @property
    def rows(self) -> int:
        """Documents that were shown."""
        return len(self.shown.doc_ids)


@dataclass(frozen=True)
class Click:
    """A click on a document that a request was answered with."""

    request_id: str
    doc_id: Id
    at: float
    rows: int = field(default=1, init=False)


class RowLog:
    """Entries that become a Parquet file every so many rows or seconds."""

    def __init__(
        self,
        folder: Path,
        table_of: Callable[[list[Any]], pa.Table],
        *,
        rows: int = 200_000,
        seconds: float = 30.0,
    ) -> None:
        require(rows >= 1, "rows", "at least 1", rows)
        require(seconds > 0, "seconds", "positive", seconds)
        self._folder, self._table_of = folder, table_of
        self._rows, self._seconds = rows, seconds
        self._entries: list[Any] = []
        self._waiting = 0
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self.written = self.lost = 0
        self.problem: str | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, entry: Any) -> None:
        """Keep an entry for the next file."""
        with self._lock:
            self._entries.append(entry)
            self._waiting += entry.rows

    @property
    def due(self) -> bool:
        """Whether it is time for the next file."""
        return self._waiting >= self._rows or (
            self._waiting > 0 and time.monotonic() - self._since >= self._seconds
        )

    def roll(self) -> Path | None:
        """Write what waits as a file of its own; what cannot be written waits on."""
        with self._writing:
            with self._lock:
                entries, self._entries, self._waiting = self._entries, [], 0
                self._since = time.monotonic()
            if not entries:
                return None
            try:
                path = self._folder / f"{_name()}.parquet"
                write_table(self._table_of(entries), path, self._folder.name)
            except (OSError, pa.ArrowException) as error:
                self._put_back(entries, str(error))
                return None
            self.problem = None
            self.written += sum(entry.rows for entry in entries)
            return path

    def _put_back(self, entries: list[Any], why: str) -> None:
        _LOG.error("log not written", extra={"folder": str(self._folder), "why": why})
        self.problem = why
        with self._lock:
            kept = entries + self._entries
            waiting = sum(entry.rows for entry in kept)
            drop = 0
            while waiting > MOST_ROWS:
                waiting -= kept[drop].rows
                self.lost += kept[drop].rows
                drop += 1
            self._entries, self._waiting = kept[drop:], waiting


def shown_log(folder: Path, **options: Any) -> RowLog:
    """The log of what was shown, under a folder of logs."""
    return RowLog(folder / SHOWN, shown_table, **options)


def click_log(folder: Path, **options: Any) -> RowLog:
    """The log of clicks, under a folder of logs."""
    return RowLog(folder / CLICKS, _click_table, **options)


def shown_table(lists: list[ShownList]) -> pa.Table:
    """One row per shown document; ids are texts."""
    sizes = np.array([each.rows for each in lists], dtype=np.int64)
    owner = np.repeat(np.arange(len(lists)), sizes)
    first = np.cumsum(sizes) - sizes

    def of_list(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(owner))

    def of_rows(rows: list[list[Any]], kind: pa.DataType) -> pa.Array:
        return pa.array([value for row in rows for value in row], kind)

    text, number = pa.string(), pa.float64()
    return pa.table(
        {
            "request_id": of_list([each.request_id for each in lists], text),
            "session_id": of_list([str(each.session_id) for each in lists], text),
            "query_id": of_list([str(each.query_id) for each in lists], text),
            "doc_id": of_rows([[str(name) for name in each.shown.doc_ids] for each in lists], text),
            "rank": pa.array((np.arange(owner.size) - first[owner] + 1).astype(np.int32)),
            "score": of_rows([each.shown.scores.tolist() for each in lists], number),
            "propensity": of_rows([each.shown.propensities for each in lists], number),
            "arm": of_list([each.shown.arm for each in lists], text),
            "share": of_list([each.shown.share for each in lists], number),
            "ranker": of_list([each.ranker for each in lists], text),
            "fingerprint": of_list([each.fingerprint for each in lists], text),
            "timestamp": of_list([_moment(each.at) for each in lists], _TIME),
        }
    )


def _click_table(clicks: list[Click]) -> pa.Table:
    return pa.table(
        {
            "request_id": pa.array([click.request_id for click in clicks], pa.string()),
            "doc_id": pa.array([str(click.doc_id) for click in clicks], pa.string()),
            "timestamp": pa.array([_moment(click.at) for click in clicks], _TIME),
        }
    )


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _name() -> str:
    """Names sort by time, and no two processes choose the same."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return f"{now}-{os.getpid()}-{secrets.token_hex(4)}"
