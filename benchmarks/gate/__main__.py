"""`python -m benchmarks.gate`: run the cases that are missing, then print the table."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.gate import cases, table
from benchmarks.gate.worlds import NAMED, shops

RESULTS = Path(__file__).parents[2] / "build" / "gate" / "cases.jsonl"


def main(words: list[str]) -> int:
    """Run, resume and tell."""
    options = _options(words)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    known = {**shops(options.worlds), **{name: NAMED[name] for name in options.named}}
    if options.only:
        known = {name: shop for name, shop in known.items() if name in options.only}
    if not options.table:
        _run(known, tuple(options.methods), options)
    records = [r for r in read(options.output) if r["world"] in known]
    commits = sorted({record.get("commit") or "unknown" for record in records})
    print(f"{len(records)} cases of {len(known)} worlds, commit {', '.join(commits)}\n")
    print(table.markdown(records))
    for title, lines in (
        (
            "A better ranker was learned, and one was shipped (any but sorted):",
            table.by_world(records),
        ),
        ("Shipped, and truly worse:", table.wrong(records)),
        ("What got in the way, in how many worlds:", _counted(records)),
    ):
        if lines:
            print(f"\n{title}")
            print("\n".join(f"- {line}" for line in lines))
    return 0


def _commit() -> str:
    """The commit that the cases are of: a file may hold several."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    words = [git, "-C", str(RESULTS.parents[2]), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.gate", description=__doc__)
    parser.add_argument("--worlds", type=int, default=60, help="How many shops.")
    parser.add_argument("--only", nargs="*", default=[], help="Shops by name, such as 002-drift.")
    parser.add_argument("--named", nargs="*", default=[], choices=list(NAMED))
    parser.add_argument("--methods", nargs="*", default=list(cases.METHODS))
    parser.add_argument("--steps", type=int, default=cases.STEPS, help="Of learning.")
    parser.add_argument("--jobs", type=int, default=2, help="Processes.")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON lines, one per case.")
    parser.add_argument("--table", action="store_true", help="Only print what is there.")
    return parser.parse_args(words)


def read(path: Path) -> list[dict[str, Any]]:
    """The cases of a file, the last of each kept; a line cut short by a kill is left out."""
    found = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[cases.key(record)] = record
    return list(found.values())


def _missing(known: dict[str, Any], methods: tuple[str, ...], path: Path) -> Iterator[Any]:
    done = {cases.key(record) for record in read(path)}
    for name, shop in known.items():
        left = tuple(m for m in methods if any((name, m, c) not in done for c in cases.checks()))
        if left:
            yield name, shop, left


def _run(known: dict[str, Any], methods: tuple[str, ...], options: argparse.Namespace) -> None:
    # compiled loops of two processes on two cores: one thread each
    os.environ |= {"SAFERANK_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    work = list(_missing(known, methods, options.output))
    start, commit = time.perf_counter(), _commit()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        waiting = {
            pool.submit(cases.append, name, shop, left, options.steps, options.output, commit): name
            for name, shop, left in work
        }
        for number, future in enumerate(as_completed(waiting), 1):
            passed = time.perf_counter() - start
            if future.exception() is not None:  # left out: the next run tries it again
                print(f"{waiting[future]} crashed: {future.exception()!r}", file=sys.stderr)
                continue
            print(f"{number}/{len(work)} {waiting[future]}: {passed:.0f} s", file=sys.stderr)


def _counted(records: list[dict[str, Any]]) -> list[str]:
    return [f"{count}: {text}" for text, count in table.frictions(records).items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
