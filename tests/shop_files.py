"""Files that pages take for given beside those of the first tutorial."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

YOURS = {"query_id": "term", "doc_id": "sku", "rank": "pos", "click": "clicked"}


def own_names(folder: Path) -> None:
    """The log under a shop's own names."""
    log = pq.read_table(folder / "clicks.parquet").slice(0, 20_000)
    names = {**YOURS, "session_id": "request"}
    renamed = log.rename_columns([names.get(name, name) for name in log.column_names])
    pacsv.write_csv(renamed, folder / "shop.csv")


def in_a_folder(folder: Path) -> None:
    """The log as files of a folder."""
    (folder / "clicks").mkdir()
    shutil.copy(folder / "clicks.parquet", folder / "clicks")


def sessions_and_next_log(folder: Path) -> None:
    """Sessions to be served, and a log that has propensities."""
    log = pq.read_table(folder / "clicks.parquet")
    shown = log.select(["session_id", "query_id"]).slice(0, 500)
    pq.write_table(shown.group_by(shown.column_names).aggregate([]), folder / "sessions.parquet")
    propensity = pa.array(np.full(log.num_rows, 0.2))
    pq.write_table(log.append_column("propensity", propensity), folder / "log.parquet")


def brands(folder: Path) -> None:
    """Items that have a brand."""
    items = pq.read_table(folder / "items.parquet")
    brand = np.array(["ours", "theirs"])[np.arange(items.num_rows) % 2]
    features = np.stack(items["features"].to_numpy())
    columns = {name: items[name] for name in items.column_names if name != "features"}
    columns |= {f"feature_{place}": column for place, column in enumerate(features.T)}
    pq.write_table(pa.table({**columns, "brand": brand}), folder / "items.parquet")


def experiment(folder: Path) -> None:
    """Guarded traffic with clicks and revenue."""
    rng, sessions = np.random.default_rng(0), 2000
    new, click = rng.random(sessions) < 0.5, (rng.random(sessions) < 0.3).astype(int)
    items = pq.read_table(folder / "items.parquet", columns=["query_id", "doc_id"])
    shown = items.take(np.arange(sessions) % items.num_rows)
    table = pa.table({
        "session_id": np.arange(sessions), "query_id": shown["query_id"],
        "doc_id": shown["doc_id"], "rank": np.ones(sessions, int), "click": click,
        "arm": np.where(new, "new", "production"), "share": np.full(sessions, 0.5),
        "revenue": 2.0 * click,
    })  # fmt: skip
    (folder / "served").mkdir()
    pq.write_table(table, folder / "served" / "monday.parquet")


PREPARED: dict[str, Callable[[Path], None]] = {
    "README": in_a_folder,
    "exploration": sessions_and_next_log,
    "fairness": brands,
    "other-column-names": own_names,
    "watch": experiment,
}
"""What a page takes for given beside the files of the first tutorial."""
