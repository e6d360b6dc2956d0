"""The commands of the tutorials and of the guides, typed word for word, do what the pages say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pages import DOCS, console_commands, run_command, run_quietly

FIRST = DOCS / "tutorials" / "first-ranker.md"
OWN_FILES = {"first-ranker.md", "fixed-ranking.md"}
"""Tutorials that make their own files; all other pages go on from those of the first."""
PAGES = sorted(
    page for room in ("tutorials", "how-to") for page in (DOCS / room).glob("*.md")
    if page.name not in OWN_FILES and console_commands(page)
)  # fmt: skip
YOURS = {"query_id": "term", "doc_id": "sku", "rank": "pos", "click": "clicked"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the first tutorial, made once; and its log under a shop's own names."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command, _ in console_commands(FIRST):
            run_quietly(command, patch)
    log = pq.read_table(folder / "clicks.parquet").slice(0, 20_000)
    names = {**YOURS, "session_id": "request"}
    renamed = log.rename_columns([names.get(name, name) for name in log.column_names])
    pacsv.write_csv(renamed, folder / "shop.csv")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OWN_FILES))
def test_from_nothing(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, expected in console_commands(DOCS / "tutorials" / name):
        run_command(command, expected, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_with_the_files_of_the_first(
    page: Path,
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(shop, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for command, expected in console_commands(page):
        run_command(command, expected, monkeypatch, capsys)
