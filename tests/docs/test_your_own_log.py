"""The commands of docs/your-own-log.md, run as they stand, say what the page says they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import DOCS, console_commands, run_command

COMMANDS = console_commands(DOCS / "your-own-log.md")
REAL = ("yandex-wscd", "obd-small", "tiangong-st")


def test_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ours = [(c, lines) for c, lines in COMMANDS if not any(name in c for name in (*REAL, "yandex"))]
    assert len(ours) == 8
    for command, lines in ours:
        run_command(command, lines, monkeypatch, capsys)


def test_real(
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in REAL:
        (tmp_path / name).symlink_to(shared_data / name)
    real = [(c, lines) for c, lines in COMMANDS if any(name in c for name in (*REAL, "yandex"))]
    assert len(real) == 5
    for command, lines in real:
        run_command(command, lines, monkeypatch, capsys)
