"""The example in every command's help, which the site's reference shows, runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli.test_first_contact import COMMANDS
from logs.test_ubi import documents, rows_of_a_shop, write
from pages import run_quietly
from shop_files import experiment

EXAMPLES = {
    name: (command.help or "").partition("Example: ")[2].split("; ")
    for name, command in COMMANDS.items()
}
ELSEWHERE = {
    "serve": "test_serving_page: as on the page, at another port",
    "logs join": "test_serving_page",
    "reproduce": "needs ten minutes; tests/experiments run smaller studies",
}


def rename(path: Path, to: Path, **names: str) -> None:
    table = pq.read_table(path)
    pq.write_table(table.rename_columns([names.get(n, n) for n in table.column_names]), to)


def prepare(name: str, folder: Path) -> None:
    """What an example takes for given beside the files of the first tutorial."""
    if name == "count":
        (folder / "clicks").mkdir()
        rename(folder / "clicks.parquet", folder / "clicks" / "a.parquet", rank="position")
    elif name == "compare":
        for copy in ("run-prpo", "run-dr"):
            shutil.copytree(folder / "run", folder / copy)
    elif name == "data inspect":
        rename(folder / "items.parquet", folder / "items.parquet", query_id="term")
    elif name == "logs ubi":
        queries, events = documents(rows_of_a_shop())
        write(folder, "ubi_queries", queries, "json")
        write(folder, "ubi_events", events, "json")
    elif name == "watch":
        experiment(folder)
        (folder / "served" / "log").mkdir()
        shutil.move(folder / "served" / "monday.parquet", folder / "served" / "log")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ELSEWHERE])
def test_it_runs(name: str, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(shop, tmp_path, dirs_exist_ok=True)
    prepare(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES[name]:
        run_quietly(example.strip(), monkeypatch)
