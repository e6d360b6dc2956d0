"""Two versions of the package side by side: `python -m benchmarks.against OTHER/src [FIGURE ...]`.

The same calls (`against_figures`) in two child processes, one for each version, in turn; of each
the least processor time of several rounds counts. Children keep to one core and one thread. A
figure is named by any part of its name. Ends with 1 where a figure of equal work is slower by more
than 5 % here than in the other version.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
SLOWER = 1.05
LEAST = 0.15
"""Seconds that a measurement takes at least: calls are repeated so often."""
LOOKS = "looks for sessions in common, and documents at two ranks; see `counts alone`"
MORE_WORK = {
    "certify, default guard": "the best policy, not a mixture",
    "counts onto documents": "refuses files that lost rows",
    **dict.fromkeys(
        ("count 2e4 rows, in parts", "count 2e4 rows, in one", "count 2e4 rows with sessions",
         "count 5e6 rows, in parts", "count 5e6 rows, in one", "count 2e6 rows with sessions",
         "count 1e6 rows, ids as text"),
        LOOKS,
    ),
}  # fmt: skip
"""Figures where this version does something else, and what."""


class Child:
    """A process that has one version of the package and answers what a call takes."""

    def __init__(self, source: Path, core: int | None) -> None:
        path = os.pathsep.join([str(source), str(ROOT)])
        threads = dict.fromkeys(("SAFERANK_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against_figures"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, **threads, "PYTHONPATH": path},
        )  # fmt: skip
        if core is not None:
            os.sched_setaffinity(self.process.pid, {core})
        answer = self._answer()
        if Path(answer) != source:
            raise SystemExit(f"The package must come from {source}; it came from {answer}.")

    def seconds(self, name: str, calls: int = 1) -> float:
        """Processor time per call."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\t{calls}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"A child process ended with {self.process.wait()}.")
        return line

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass(frozen=True)
class Pair:
    """What a figure takes in the other version and in this one, in seconds."""

    name: str
    other: float
    this: float

    @property
    def ratio(self) -> float:
        """This version over the other."""
        return self.this / self.other

    @property
    def is_slower(self) -> bool:
        """Whether it is slower than allowed at equal work."""
        return self.ratio > SLOWER and self.name not in MORE_WORK


def measure(name: str, other: Child, this: Child, repeats: int) -> Pair:
    """The least times of a figure, rounds in turn."""
    calls = max(1, round(LEAST / max(other.seconds(name), 1e-6)))
    this.seconds(name)
    rounds = [(other.seconds(name, calls), this.seconds(name, calls)) for _ in range(repeats)]
    times = [min(column) for column in zip(*rounds, strict=True)]
    return Pair(name, *times)


def main(words: list[str]) -> int:
    """Measure, print the table, and say whether a figure is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("other", type=Path, help="the other version's folder src")
    parser.add_argument("figures", nargs="*", help="parts of names of figures; all if none")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--this", type=Path, default=ROOT / "src")
    options = parser.parse_args(words)
    names = [name for name in figure_names() if _is_asked(name, options.figures)]
    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else None
    other, this = (Child(path.resolve(), core) for path in (options.other, options.this))
    console, pairs = Console(), []
    for name in names:
        pairs.append(measure(name, other, this, options.repeats))
        console.print(f"[dim]{name}: {pairs[-1].ratio:.3f}[/dim]", highlight=False)
    for child in (other, this):
        child.close()
    console.print(table(pairs))
    return 1 if any(pair.is_slower for pair in pairs) else 0


def figure_names() -> list[str]:
    """Names of all figures, in order."""
    from benchmarks.against_figures import FIGURES

    return list(FIGURES)


def _is_asked(name: str, asked: list[str]) -> bool:
    return not asked or any(part in name for part in asked)


def table(pairs: list[Pair]) -> Table:
    """Milliseconds of both, and their ratio."""
    lines = Table("figure", "other, ms", "this, ms", "this / other", "")
    for pair in pairs:
        note = "SLOWER" if pair.is_slower else MORE_WORK.get(pair.name, "")
        times = (f"{1000 * seconds:.4g}" for seconds in (pair.other, pair.this))
        lines.add_row(pair.name, *times, f"{pair.ratio:.3f}", note)
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
