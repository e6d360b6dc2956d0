"""Run benchmark topics: every `benchmarks/topic_*.py` has `rows()`, which yields `Row`s."""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE.parent / "build" / "bench"
SLOW = {
    "counting_billion",
    "kills",
    "serving_soak",
}  # many minutes, or tens of gigabytes of disk: run by name only


def main(topics: list[str]) -> int:
    """Run the topics (all quick ones if none is named), print a table and write JSON for each."""
    known = sorted(path.stem.removeprefix("topic_") for path in HERE.glob("topic_*.py"))
    unknown = sorted(set(topics) - set(known))
    if unknown:
        print(f"unknown topics {unknown}; known: {known}", file=sys.stderr)
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    console = Console()
    missed = 0
    for topic in topics or [topic for topic in known if topic not in SLOW]:
        rows = []
        table = Table("what", "value", "unit", "wanted", "holds", title=topic)
        for row in importlib.import_module(f"benchmarks.topic_{topic}").rows():
            console.print(
                f"[dim]{topic}: {row.what}: {row.value:.4g} {row.unit}[/dim]", highlight=False
            )
            holds = {None: "", True: "yes", False: "NO"}[row.holds]
            table.add_row(row.what, f"{row.value:.4g}", row.unit, row.wanted, holds)
            rows.append(row.to_dict())
            missed += row.holds is False
        console.print(table)
        machine = {"python": platform.python_version(), "numpy": np.__version__}
        report = {"topic": topic, "machine": machine, "rows": rows}
        (RESULTS / f"{topic}.json").write_text(json.dumps(report, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
