"""Commands of pages: read from console blocks, run as they stand, compared with what follows."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from saferank.cli.app import main

DOCS = Path(__file__).parents[1] / "docs"


def console_commands(page: Path) -> list[tuple[str, list[str]]]:
    """The commands of a page's console blocks, each with the lines that follow it."""
    commands: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif line:
                commands[-1][1].append(line)
    return commands


def run_quietly(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one command of a page; it must not fail ("do not ship" is no failure)."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (None, 0, 3), command


def run_command(
    command: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run one command of a page; it must say what the page says."""
    run_quietly(command, monkeypatch)
    said = capsys.readouterr()
    text = " ".join(re.sub("[│┃]", " ", said.out + said.err).split())
    for line in expected:
        assert line in text, f"{command} should say: {line}"
