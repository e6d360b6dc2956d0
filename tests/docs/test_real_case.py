"""The commands of docs/real-case.md, run as they stand, say what the page says they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import DOCS, console_commands, run_command


@pytest.mark.slow
def test_every_command(
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ranklens").symlink_to(shared_data / "ranklens")
    commands = console_commands(DOCS / "real-case.md")
    assert len(commands) == 8
    for command, expected in commands:
        run_command(command, expected, monkeypatch, capsys)
