"""`python -m fuzz`: read many mutated inputs, tell what became of them; exit code 1 on findings."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from fuzz.endpoint import TARGETS as ENDPOINT
from fuzz.folders import TARGETS as FOLDERS
from fuzz.logs import TARGETS as LOGS
from fuzz.parent import Report, distinct, run, save
from fuzz.readers import TARGETS as READERS

TARGETS = [*READERS, *LOGS, *FOLDERS, *ENDPOINT]


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--inputs", type=float, default=1e6, help="how many inputs [1e6]")
    parser.add_argument("--workers", type=int, default=2, help="processes [2]")
    parser.add_argument("--minutes", type=float, default=120, help="stop after [120]")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same inputs [0]")
    parser.add_argument("--target", action="append", help="only these targets")
    parser.add_argument("--output", type=Path, default=Path("fuzz-findings"), help="for findings")
    options = parser.parse_args()
    targets = [one for one in TARGETS if not options.target or one.name in options.target]
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_place()) as folder:
        report = run(
            targets, int(options.inputs), options.workers, options.seed, Path(folder),
            options.minutes,
        )  # fmt: skip
    found = distinct(report.findings)
    _print(report)
    for one in found:
        print(f"FINDING {one['target']}: {one['what']}")
    if found:
        save(found, options.output)
        sys.exit(f"{len(report.findings)} findings, {len(found)} distinct: {options.output}")


def _print(report: Report) -> None:
    print(
        f"{'target':<16}{'inputs':>9}{'accepted':>10}{'refused':>10}{'endings':>9}{'findings':>10}"
    )
    for name, tally in sorted(report.tallies.items()):
        kinds = ("accepted", "refused", "endings", "findings")
        total = tally["accepted"] + tally["refused"] + tally["findings"]
        numbers = "".join(f"{tally[kind]:>{9 + (kind != 'endings')},}" for kind in kinds)
        print(f"{name:<16}{total:>9,}{numbers}")
    rate = report.inputs / max(report.seconds, 1e-9)
    print(f"{report.inputs:,} inputs in {report.seconds:,.0f} s, {rate:,.0f} per second")


def _place() -> str | None:
    """In memory where there is room for it: inputs are many and short-lived."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


if __name__ == "__main__":
    main()
