"""The commands of docs/your-own-log.md, run as they stand, say what the page says they say."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from saferank.cli.app import main

PAGE = Path(__file__).parents[2] / "docs" / "your-own-log.md"
REAL = ("yandex-wscd", "obd-small", "tiangong-st")


def commands() -> list[tuple[str, list[str]]]:
    """The commands of the console blocks, each with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line:
                found[-1][1].append(line)
    return found


def run(
    command: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert not ended.value.code, f"{command}: {said.err}"
    text = " ".join(re.sub("[│┃]", " ", said.out).split())
    for line in expected:
        assert line in text, f"{command} should say: {line}"


def test_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    ours = [
        (c, lines) for c, lines in commands() if not any(name in c for name in (*REAL, "yandex"))
    ]
    assert len(ours) == 8
    for command, lines in ours:
        run(command, lines, monkeypatch, capsys)


def test_real(
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    for name in REAL:
        (tmp_path / name).symlink_to(shared_data / name)
    real = [(c, lines) for c, lines in commands() if any(name in c for name in (*REAL, "yandex"))]
    assert len(real) == 5
    for command, lines in real:
        run(command, lines, monkeypatch, capsys)
