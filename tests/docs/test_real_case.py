"""The commands of docs/real-case.md, run as they stand, say what the page says they say."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from saferank.cli.app import main

PAGE = Path(__file__).parents[2] / "docs" / "real-case.md"


@pytest.mark.slow
def test_every_command(
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    (tmp_path / "ranklens").symlink_to(shared_data / "ranklens")
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    lines = [line for block in blocks for line in block.splitlines() if line]
    assert sum(line.startswith("$ ") for line in lines) == 8
    said = ""
    for line in lines:
        if not line.startswith("$ "):
            assert line in said, f"should be said: {line}"
            continue
        monkeypatch.setattr(sys, "argv", shlex.split(line[2:]))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code in (None, 0, 3), f"{line}: {err}"
        said = " ".join(re.sub("[│┃]", " ", out).split())
