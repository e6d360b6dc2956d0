"""Several runs by name, read again when their files change; requests under way keep the old one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from saferank.errors import InputError, SaferankError, require
from saferank.safety.assessment import FILE
from saferank.serving.endpoint.served_run import ServedRun

_LOG = logging.getLogger("saferank.serve")
Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass
class ServedRankers:
    """Runs by name; the first is served where a request names none."""

    runs: Mapping[str, Path]
    load: Callable[[Path], ServedRun] = ServedRun.load
    problems: dict[str, str] = field(default_factory=dict)
    """Runs whose files changed and cannot be served: what was read before is still served."""
    _served: dict[str, ServedRun] = field(default_factory=dict)
    _stamps: dict[str, Stamp] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        require(len(self.runs) > 0, "runs", "at least one", 0)

    def start(self) -> None:
        """Read every run; `InputError` where one cannot be served."""
        for name in self.runs:
            self._read(name)

    def get(self, name: str | None) -> tuple[str, ServedRun] | None:
        """A run by name, the first where none is given; None where there is no such."""
        chosen = next(iter(self.runs)) if name is None else name
        served = self._served.get(chosen)
        return None if served is None else (chosen, served)

    def current(self) -> dict[str, ServedRun]:
        """All runs that are served."""
        return dict(self._served)

    def refresh(self) -> list[str]:
        """Read the runs whose files have changed; returns their names.

        One that cannot be served, as while it is being written, is tried again next time.
        """
        changed = []
        with self._lock:
            for name, path in self.runs.items():
                if _stamp(path) == self._stamps.get(name):
                    continue
                try:
                    self._read(name)
                except (SaferankError, OSError) as error:
                    if self.problems.get(name) != str(error):
                        _LOG.warning("not reloaded", extra={"ranker": name, "why": str(error)})
                    self.problems[name] = str(error)
                else:
                    self.problems.pop(name, None)
                    changed.append(name)
                    _LOG.info("reloaded", extra={"ranker": name})
        return changed

    def _read(self, name: str) -> None:
        stamp = _stamp(self.runs[name])
        served = self.load(self.runs[name])
        served.warm_up()
        self._served = {**self._served, name: served}
        self._stamps[name] = stamp


def _stamp(run: Path) -> Stamp:
    """What changes when a run is written again."""
    return tuple(_of_file(run / name) for name in ("ranker.json", FILE))


def _of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino, facts.st_size


def runs_of(words: list[str]) -> dict[str, Path]:
    """Runs by name, from NAME=RUN or RUN alone, which is called as its folder is.

    >>> runs_of(["runs/blue", "green=runs/2"])
    {'blue': PosixPath('runs/blue'), 'green': PosixPath('runs/2')}
    """
    runs: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        run = Path(path if equals else word)
        own = name if equals else run.resolve().name
        require(0 < len(own) <= 100 and own.isprintable(), "RUN", "NAME=RUN", word)
        if own in runs:
            raise InputError(f"`{own}` must name one run: give the others names, as in NAME=RUN.")
        runs[own] = run
    return runs
