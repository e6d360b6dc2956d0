"""From a shop's files to counts and a click model, as its engineer would get there.

Every step first takes the files as they are. What the command line refuses is written down as a
friction, with its own sentence, and done by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gate.command_line import PROBLEM, Result, run, supports
from benchmarks.shops.cleaning import clean_items, clean_log
from benchmarks.shops.files import Files


@dataclass
class Prepared:
    """What later commands need, what was found on the way, and what got in it."""

    items: Path
    counts: Path
    options: list[str] = field(default_factory=list)
    """For commands that read items: names of columns."""
    bias: str | None = None
    check: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)
    frictions: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def note(self, step: str, result: Result) -> None:
        """Remember why a command failed."""
        self.frictions.append(f"{step}: exit {result.code}: {result.sentence[:400]}")


class RefusedError(Exception):
    """A step that failed whatever was tried."""


def prepare(files: Files, folder: Path) -> Prepared:
    """Check, count and fit; raises `RefusedError` when a log cannot even be counted."""
    ready = Prepared(files.items, folder / "counts.parquet")
    _usable_items(ready, files, folder)
    log = _count(ready, files, folder)
    _check(ready, log, folder)
    _fit(ready, folder)
    return ready


def names(columns: dict[str, str]) -> list[str]:
    """`--column` options of names."""
    return [word for name, theirs in columns.items() for word in ("--column", f"{name}={theirs}")]


def _usable_items(ready: Prepared, files: Files, folder: Path) -> None:
    options = names(files.item_columns)
    if not options or supports("learn", "--column"):
        seen = run("data", "inspect", files.items, *options)
        if seen.code == 0:
            ready.options = options
            return
        ready.note("items", seen)
    else:
        ready.frictions.append("items: no --column for items: renamed by hand")
    ready.items = clean_items(files, folder / "clean-items.parquet")


def _count(ready: Prepared, files: Files, folder: Path) -> list[str]:
    """Count; returns the log and its options as they worked."""
    columns = names(files.log_columns)
    tries = [[files.log, *columns]]
    if files.rank_from == 0 and supports("count", "--rank-from"):
        tries.append([files.log, *columns, "--rank-from", "0"])
    for log in tries:
        counted = run("count", *log, "-o", ready.counts)
        if counted.code == 0:
            ready.seconds["count"] = counted.seconds
            return log
        ready.note("count", counted)
    clean = str(clean_log(files, folder / "clean-log.parquet"))
    counted = run("count", clean, "-o", ready.counts)
    ready.seconds["count"] = counted.seconds
    if counted.code != 0:
        ready.note("count", counted)
        raise RefusedError(counted.sentence)
    return [clean]


def _check(ready: Prepared, log: list[str], folder: Path) -> None:
    """Check the log; robots that it names are left out of the counts, as it advises."""
    robots = folder / "robots.csv"
    named = ["--robots", robots] if supports("logs check", "--robots") else []
    theirs = ["--item-column" if word == "--column" else word for word in ready.options]
    words = ["logs", "check", *log, "--items", ready.items, *theirs, *named, "--json"]
    checked = run(*words)
    ready.seconds["check"] = checked.seconds
    if checked.code == PROBLEM or not checked.out:
        ready.note("logs check", checked)
        return
    ready.check = _check_facts(checked)
    if named and "robots" in ready.check["warnings"]:
        counted = run("count", *log, "--exclude", robots, "-o", ready.counts)
        ready.check["robots"] = "excluded"
        if counted.code != 0:
            ready.check["robots"] = "left in"
            ready.note("count --exclude", counted)


def _check_facts(checked: Result) -> dict[str, Any]:
    record = checked.json()
    findings = record.get("findings", [])
    return {
        "exit": checked.code,
        "verdict": record.get("verdict"),
        "warnings": {
            one["name"]: one["severity"]
            for one in findings
            if one.get("severity") in ("warning", "problem")
        },
    }


def _fit(ready: Prepared, folder: Path) -> None:
    """Fit the click model; where the log cannot tell, by features; else none."""
    path = folder / "bias.json"
    by_features: list[object] = ["--items", ready.items, *ready.options]
    tries: list[list[object]] = [[], by_features, [*by_features, "--skip-bad"]]
    for extra in tries:
        fitted = run("bias", ready.counts, "-o", path, *extra, "--json")
        if fitted.code == 0 and path.is_file():
            ready.bias, ready.seconds["bias"] = str(path), fitted.seconds
            record = fitted.json()
            ready.fit = {
                "by": "features" if extra else "log",
                "misfit": record.get("misfit"),
                "identified": (record.get("identifiability") or {}).get("identified"),
            }
            return
        ready.note("bias" + (" --items" if extra else ""), fitted)
