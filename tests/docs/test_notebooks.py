"""Every notebook of the docs runs from top to bottom."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"


def run(name: str, **environment: str) -> None:
    ended = subprocess.run(
        [sys.executable, NOTEBOOKS / f"{name}.py"],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-1500:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decision", "study", "own_objective"])
def test_simulated(name: str) -> None:
    run(name)


@pytest.mark.slow
def test_on_the_real_log(shared_data: Path) -> None:
    run("real_log", RANKLENS=str(shared_data / "ranklens"))


def test_every_notebook_is_run() -> None:
    names = {path.stem for path in NOTEBOOKS.glob("*.py")}
    assert names == {"decision", "study", "own_objective", "real_log"}
