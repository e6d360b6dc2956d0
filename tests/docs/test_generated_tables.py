"""Tables of parts in the docs are those of the code: `python docs/tables.py` rewrites them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "docs" / "tables.py"
SPEC = importlib.util.spec_from_file_location("tables", PLACE)
assert SPEC is not None
assert SPEC.loader is not None
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.name)
def test_tables_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.current(text) == text, "run `python docs/tables.py`"


def test_every_table_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in tables.pages())
    assert all(f"<!-- table: {name} -->" in text for name in tables.TABLES)


def test_every_part_says_what_it_is() -> None:
    for name in ("estimators", "objectives"):
        for row in tables.TABLES[name]().splitlines():
            assert all(cell.strip() for cell in row.strip("|").split("|")), row
