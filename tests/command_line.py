"""The command line as a user types it, in this process."""

import sys

import pytest

from saferank.cli.app import main


def saferank(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["saferank", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err
