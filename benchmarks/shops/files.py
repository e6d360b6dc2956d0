"""A shop's data as a company has it: files with names, units and gaps of their own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.shops.catalogue import CATEGORIES, Catalogue
from benchmarks.shops.sessions import WEEK, Sessions
from benchmarks.shops.spec import Shop

START = np.datetime64("2026-01-05T00:00:00", "s")
MEASURES = (
    "Preis (EUR)", "ctr_7d", "margin %", "BM25", "naïve-bayes score", "rating.avg", "f.12",
    "days since restock", "sim(q,title)", "SELECT", "größe_score", "popularity\\30d", "log_sales",
    "return rate", "img_quality", "x", "x.1",
)  # fmt: skip
COUNTS = ("# reviews", "stock_qty", "Anzahl Bilder")
FLAGS = ("is_new?", "prime", "in stock")
CATEGORY, DATE = "Warengruppe", "listed-on"
GAPPY = ("Preis (EUR)", "ctr_7d", "rating.avg", "f.12", "return rate", "# reviews", CATEGORY)
"""Columns with missing values."""
LOG_NAMES = {
    "query_id": "search term", "doc_id": "SKU", "rank": "Pos.", "click": "clicked?",
    "session_id": "request.id", "user_id": "visitor",
}  # fmt: skip
ITEM_NAMES = {"query_id": "search term", "doc_id": "SKU", "production_score": "prod score"}
WORDS = ("running", "red", "winter", "kinder", "leather", "vegan", "sale", "xl", "café", "o'neill")
THINGS = ("shoes", "jacket", "bag", "t-shirt", "hose", "dress", "socks", "gift", "hat", "belt")


@dataclass(frozen=True)
class Files:
    """Where the data of a shop is, and what its columns are called (name: theirs)."""

    items: Path
    log: str
    """A file, or a glob of them."""
    item_columns: dict[str, str]
    log_columns: dict[str, str]
    rank_from: int


def write(shop: Shop, catalogue: Catalogue, sessions: Sessions, folder: Path) -> Files:
    """Write items and log into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    query_names, product_names = map(pa.array, names_of(catalogue))
    items = _items(shop, catalogue, query_names, product_names)
    log = _log(shop, sessions, query_names, product_names)
    item_names = {n: o for n, o in ITEM_NAMES.items() if n in items.column_names}
    files = Files(
        items=folder / ("items.csv" if shop.layout == "csv" else "items.parquet"),
        log=_log_path(shop, folder),
        item_columns=item_names if shop.odd_names else {},
        log_columns=LOG_NAMES if shop.odd_names else {},
        rank_from=shop.rank_from,
    )
    save(_renamed(items, files.item_columns), files.items)
    _save_log(_renamed(log, files.log_columns), shop, files.log)
    return files


def save(table: pa.Table, path: Path) -> None:
    """Write a table as Parquet or CSV, by the end of the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path, compression="zstd")


def _renamed(table: pa.Table, names: dict[str, str]) -> pa.Table:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def names_of(catalogue: Catalogue) -> tuple[np.ndarray, np.ndarray]:
    """Texts of queries, and article numbers; an article is sold under several queries."""
    queries = [
        f"{WORDS[i % 10]} {THINGS[i // 10 % 10]}" + (f" {i // 100}" if i >= 100 else "")
        for i in range(catalogue.queries)
    ]
    place = np.arange(catalogue.offsets[-1]) - catalogue.offsets[:-1][catalogue.query]
    number = (catalogue.query // 3) * 1000 + place
    return np.array(queries), np.array([f"A-{n:07d}" for n in number])


def _items(shop: Shop, catalogue: Catalogue, queries: pa.Array, products: pa.Array) -> pa.Table:
    """Products still sold, with features in units of their own; the rows in no order."""
    rng = np.random.default_rng([shop.seed, 3])
    kept = np.flatnonzero(catalogue.listed)
    rng.shuffle(kept)
    columns = {
        "query_id": queries.take(catalogue.query[kept]),
        "doc_id": products.take(kept),
        **_features(shop, catalogue, kept),
    }
    if shop.scored:
        score = catalogue.weekly_scores[-1][kept]
        columns["production_score"] = (
            np.zeros_like(score) if shop.production == "uniform" else score
        )
    return pa.table(columns)


def _features(shop: Shop, catalogue: Catalogue, kept: np.ndarray) -> dict[str, pa.Array]:
    rng = np.random.default_rng([shop.seed, 4])
    numbers = catalogue.numbers[kept]
    columns: dict[str, pa.Array] = {}
    for index, name in enumerate(MEASURES):
        column = numbers[:, index]
        columns[name] = _in_units(column, index)
    for index, name in enumerate(COUNTS):
        columns[name] = np.floor(np.exp(2 + numbers[:, len(MEASURES) + index])).astype(np.int32)
    for index, name in enumerate(FLAGS):
        columns[name] = catalogue.flags[kept, index]
    category = pa.array(CATEGORIES).take(pa.array(catalogue.category[kept]))
    day = (START.astype("datetime64[D]") - catalogue.listed_day[kept]).astype("datetime64[D]")
    columns |= {CATEGORY: category, DATE: pa.array(day)}
    if shop.missing == 0:
        columns[CATEGORY], columns[DATE] = catalogue.category[kept], catalogue.listed_day[kept]
        return {name: pa.array(column) for name, column in columns.items()}
    return {
        name: _with_gaps(pa.array(column), rng.random(kept.size) < shop.missing)
        if name in GAPPY
        else pa.array(column)
        for name, column in columns.items()
    }


def _in_units(column: np.ndarray, index: int) -> np.ndarray:
    """A latent number as a price, a rate, a large number or as it is."""
    return {
        0: np.round(np.exp(3 + 0.8 * column), 2),
        1: 1 / (1 + np.exp(3 - column)),
        2: 30 + 10 * column,
        3: 12 + 4 * column,
        5: np.clip(np.round(3.5 + column), 1, 5),
        11: 1e6 * np.exp(column),
    }.get(index, column)


def _with_gaps(column: pa.Array, gaps: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(gaps), pa.scalar(None, column.type), column)


def _log(shop: Shop, sessions: Sessions, queries: pa.Array, products: pa.Array) -> pa.Table:
    """One row per shown product."""
    session, place = np.nonzero(sessions.lists >= 0)
    rng = np.random.default_rng([shop.seed, 5])
    count = sessions.query.size
    names = pa.array([f"{n:012x}" for n in rng.permutation(count) * 65_537])
    click = sessions.clicks[session, place]
    people = rng.integers(0, 10**6, count)
    visitor = np.where(sessions.bot, 1_000_000 + sessions.second % 5, people)
    time = START + sessions.second.astype("timedelta64[s]")
    return pa.table(
        {
            "ts": pa.array(time[session]),
            "session_id": names.take(pa.array(session)),
            "user_id": pa.array(visitor[session]),
            "device": pa.array(["app", "web", "m.web"]).take(pa.array(visitor[session] % 3)),
            "query_id": queries.take(pa.array(sessions.query[session])),
            "doc_id": products.take(pa.array(sessions.lists[session, place])),
            "rank": pa.array((place + shop.rank_from).astype(np.int16)),
            "click": pa.array(click.astype(np.int8) if shop.odd_names else click),
        }
    )


def _log_path(shop: Shop, folder: Path) -> str:
    name = {"parquet": "log.parquet", "weekly": "log/*.parquet", "csv": "log.csv"}[shop.layout]
    return str(folder / name)


def _save_log(log: pa.Table, shop: Shop, path: str) -> None:
    if shop.layout != "weekly":
        save(log, Path(path))
        return
    seconds = (log["ts"].to_numpy() - START).astype("timedelta64[s]").astype(np.int64)
    cuts = np.searchsorted(seconds, WEEK * np.arange(shop.weeks + 1))
    for week, (first, last) in enumerate(pairwise(cuts)):
        save(log.slice(first, last - first), Path(path).parent / f"week-{week + 1:02d}.parquet")
