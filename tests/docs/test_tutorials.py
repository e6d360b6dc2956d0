"""The commands of tutorials, guides and other pages, typed word for word, do what they say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pages import OWN_FILES, WITH_FILES, console_commands, run_command
from shop_files import PREPARED


@pytest.mark.slow
@pytest.mark.parametrize("page", OWN_FILES, ids=lambda page: page.stem)
def test_from_nothing(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, expected in console_commands(page):
        run_command(command, expected, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_FILES, ids=lambda page: page.stem)
def test_with_the_files_of_the_first(
    page: Path,
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(shop, tmp_path, dirs_exist_ok=True)
    PREPARED.get(page.stem, lambda folder: None)(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command, expected in console_commands(page):
        run_command(command, expected, monkeypatch, capsys)
