"""Files: LETOR text, items, logs, counts, conditions on a log, LightGBM text, and JSON records."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from letor_reference import BadLineError, reference

import saferank as sr
from fuzz.mutation import mutate_json
from fuzz.outcomes import ensure
from fuzz.tables import mutate_parquet, to_bytes
from fuzz.target import Target
from saferank.clicks import ClickModel
from saferank.data import RankingData, read_items, read_letor
from saferank.errors import InputError
from saferank.logs import Counts, count, read_counts, save_counts
from saferank.rankers.tree_scorer import TreeScorer


def small_world() -> RankingData:
    """A few queries with features, labels and production's scores."""
    return sr.data.synthetic("small", queries=3, seed=0).train


def example_table() -> pa.Table:
    """Items of three queries."""
    return pa.table(
        {
            "query_id": [1, 1, 1, 2, 2, 3],
            "doc_id": ["a", "b", "c", "a", "d", "e"],
            "bm25": [0.5, 1.25, -3.0, 0.0, 1e-3, 7.0],
            "age": [1, 2, 3, 4, 5, 6],
            "label": [0, 1, 2, 0, 0, 1],
            "production_score": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        }
    )


def _letor_seeds(_: Path) -> list[bytes]:
    return [
        b"2 qid:1 1:0.5 2:3 3:-1e-3 # docid = GX-1\n0 qid:1 1:1 3:0.25\n1 qid:2 2:7 # docid = 9\n",
        b"0 qid:a 1:1\n\n# a remark\n1.5 qid:b 2:0.333333343 5:16777217\r\n3 qid:b 1:.5 2:5.\n",
        b"\n".join(b"%d qid:%d 1:%d 7:0.5 #docid=%d" % (n % 3, n // 4, n, n) for n in range(12)),
    ]


def _read_letor(data: bytes, folder: Path) -> None:
    path = folder / "data.txt"
    path.write_bytes(data)
    try:
        expected: dict[str, Any] | None = reference(data)
    except BadLineError:
        expected = None
    try:
        found = read_letor(path)
    except InputError:
        # what the reader refuses for its size alone is beyond these rules
        wide = expected is not None and expected["features"].size > 10**6
        ensure(expected is None or wide, "good LETOR text was refused")
        raise
    if expected is None:
        raise AssertionError("malformed LETOR text was accepted")
    same = found.features.tobytes() == expected["features"].tobytes()
    ensure(same and found.labels is not None, "features of LETOR text")
    ensure(found.offsets.tolist() == expected["offsets"], "queries of LETOR text")


def _items_csv_seeds(_: Path) -> list[bytes]:
    header = b"query_id,doc_id,bm25,age,label,production_score\n"
    rows = b"1,a,0.5,1,0,0.1\n1,b,1.25,2,1,0.2\n2,a,-3,3,2,0.3\n2,c,,4,0,0.4\n"
    brand = b'query_id,doc_id,brand,price\n"a, b",1,x,5\nc,2,y,\nc,3,"x ""y""",1e3\n'
    return [header + rows, brand, header.replace(b",", b"\t") + rows]


def _read_items_csv(data: bytes, folder: Path) -> None:
    path = folder / "items.csv"
    path.write_bytes(data)
    found = read_items(path)
    _check_items(found)
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    header, body = rows[0], [row for row in rows[1:] if row]
    ensure(found.documents == len(body), "rows of a CSV table")
    for name in ("production_score",):
        if name in header:
            column = sorted(_number(row[header.index(name)]) for row in body)
            ensure(column == sorted(np.asarray(found.production).tolist()), name)


def _number(text: str) -> float:
    return float(text.strip())


def _check_items(items: RankingData) -> None:
    ensure(items.offsets[-1] == items.documents == items.features.shape[0], "documents")
    ensure(not np.isinf(items.features).any(), "a feature that is infinite")
    for values in (items.labels, items.production):
        ensure(values is None or bool(np.isfinite(values).all()), "a value that is not finite")
    query_ids, doc_ids = items.ids()
    pairs = set(zip(np.repeat(query_ids, items.sizes).tolist(), doc_ids.tolist(), strict=True))
    ensure(len(pairs) == items.documents, "a document twice in a query")


def _items_parquet_seeds(_: Path) -> list[bytes]:
    table = example_table()
    lists = table.select(["query_id", "doc_id"]).append_column(
        "features", pa.array([[0.5, 1.0]] * 6, type=pa.list_(pa.float32()))
    )
    words = table.set_column(2, "brand", pa.array(["x", "y", None, "x", "z", "y"]))
    return [to_bytes(one) for one in (table, lists, words)]


def _read_items_parquet(data: bytes, folder: Path) -> None:
    path = folder / "items.parquet"
    path.write_bytes(data)
    found = read_items(path)
    _check_items(found)
    table = pq.read_table(path)
    ensure(found.documents == table.num_rows, "rows of a Parquet table")
    if found.production is not None:
        column = [float(x) for x in table.column("production_score").to_pylist()]
        ensure(sorted(column) == sorted(found.production.tolist()), "production's scores")


def _log_seeds(_: Path) -> list[bytes]:
    rows = {
        "query_id": ["q", "q", "r", "r", "q"], "doc_id": [1, 2, 3, 1, 1], "rank": [1, 2, 1, 2, 1],
        "click": [0, 1, 0, 1, 1],
    }  # fmt: skip
    summed = {
        "query_id": [1, 1, 2], "doc_id": [1, 2, 3], "rank": [1, 2, 1], "impressions": [9, 5, 7],
        "clicks": [3, 0, 7],
    }  # fmt: skip
    sessions = rows | {"session_id": ["s", "s", "t", "t", "u"]}
    return [to_bytes(pa.table(one)) for one in (rows, summed, sessions)]


def _read_log(data: bytes, folder: Path) -> None:
    path = folder / "log.parquet"
    path.write_bytes(data)
    table = count(path).to_arrow()
    shown, clicked = (np.asarray(table.column(name)) for name in ("impressions", "clicks"))
    ensure(bool(np.all((clicked >= 0) & (clicked <= shown))), "clicks beyond impressions")


def _counts_seeds(folder: Path) -> list[bytes]:
    data = small_world()
    path = folder / "seed.parquet"
    counts = sr.clicks.simulate(
        data, np.zeros(data.documents), sr.clicks.trust_bias(), sessions=40, seed=0
    )
    save_counts(counts, data, path)
    return [path.read_bytes()]


def _read_counts(data: bytes, folder: Path) -> None:
    path = folder / "counts.parquet"
    path.write_bytes(data)
    _check_counts(read_counts(path))


def _check_counts(counts: Counts) -> None:
    shown, clicked = counts.impressions, counts.clicks
    ensure(bool(np.all((clicked >= 0) & (clicked <= shown))), "clicks beyond impressions")
    ensure(int(counts.sessions.min(initial=0)) >= 0, "negative sessions")
    total = sum(int(x) for x in shown.ravel().tolist())
    ensure(total == int(shown.sum()), "a sum that wraps")


_LOG_SCHEMA = {
    "rank": "int64", "day": "date", "at": "timestamp", "device": "string", "price": "float64",
    "is_app": "boolean", "small": "int8", "cost": "decimal(9, 2)",
}  # fmt: skip


def _where_seeds(_: Path) -> list[bytes]:
    return [
        b"rank=3", b"day>=2026-01-31", b"at < 2026-01-31T12:00", b"device='mobile'", b"price!=0.5",
        b"is_app==true", b"small<=-5", b"cost>1.25", b"device=",
    ]  # fmt: skip


def _read_where(data: bytes, _: Path) -> None:
    import ibis

    from saferank.logs.conditions import parse

    table = ibis.table(_LOG_SCHEMA, name="log")
    text = data.decode("utf-8", "replace")
    condition = parse(text)
    expression = condition.of(table)
    ensure(condition.column in _LOG_SCHEMA, "a condition on a column that is not there")
    sql = str(ibis.to_sql(table.filter(expression), dialect="duckdb"))
    import sqlglot

    ensure(len(sqlglot.parse(sql, read="duckdb")) == 1, "a condition that is several statements")


def _tree_seeds(_: Path) -> list[bytes]:
    import lightgbm

    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3))
    features[rng.random(features.shape) < 0.2] = np.nan
    texts = []
    for options in ({}, {"zero_as_missing": True}, {"min_data_in_leaf": 50}):
        known = {"objective": "regression", "num_leaves": 4, "verbosity": -1, "min_data_in_leaf": 5}
        data = lightgbm.Dataset(features, label=features[:, 0] > 0)
        model = lightgbm.train({**known, **options}, data, num_boost_round=2)
        text = model.model_to_string()
        texts.append(text[: text.index("feature_importances")].encode())
    return texts


def _read_trees(data: bytes, folder: Path) -> None:
    path = folder / "model.txt"
    path.write_bytes(data)
    scorer = TreeScorer.read(path)
    features = np.array([[0, 1, -1], [np.nan, 0.2, 5], [1e-36, -0.0, 3e38]], dtype=np.float32)
    features = np.resize(features, (3, min(scorer.width, 1000)))
    if features.shape[1] < scorer.width:
        return
    scores = scorer.scores(features)
    theirs = scorer.booster.predict(features, raw_score=True)
    ensure(np.array_equal(scores, theirs, equal_nan=True), "scores that are not LightGBM's")


def _bias_seeds(_: Path) -> list[bytes]:
    model = sr.clicks.trust_bias()
    return [json.dumps(one).encode() for one in (model.record(), {**model.record(), "more": [1]})]


def _read_bias(data: bytes, folder: Path) -> None:
    path = folder / "bias.json"
    path.write_bytes(data)
    model = ClickModel.load(path)
    for values in (model.alpha, model.beta, model.exposure_weights):
        ensure(bool(np.all((values >= 0) & (values <= 1 + 1e-9))), "a chance beyond 0..1")


def _assessment_seeds(folder: Path) -> list[bytes]:
    from saferank.safety import assess

    data = small_world()
    scores = np.linspace(0, 1, data.documents)
    counts = sr.clicks.simulate(
        data, np.zeros(data.documents), sr.clicks.trust_bias(), sessions=60, seed=0
    )
    made = []
    for options in ({}, {"counts": counts, "users": sr.clicks.trust_bias()}):
        assessment = assess(scores, data, production=np.zeros(data.documents), **options)
        made.append(assessment.save(folder).read_bytes())
    return made


def _read_assessment(data: bytes, folder: Path) -> None:
    from saferank.safety.assessment import FILE, Assessment

    (folder / FILE).write_bytes(data)
    found = Assessment.load(folder)
    again = Assessment.from_record(found.record())
    ensure(again == found, "an assessment that changes when it is written")
    for interval in (found.new, found.production, found.difference):
        if interval is not None:
            numbers = [x for x in asdict(interval).values() if isinstance(x, float)]
            ensure(all(map(math.isfinite, numbers)), "an interval that is not finite")


TARGETS = [
    Target("letor", 0.16, _letor_seeds, _read_letor),
    Target("items-csv", 0.10, _items_csv_seeds, _read_items_csv),
    Target("items-parquet", 0.08, _items_parquet_seeds, _read_items_parquet, mutate_parquet),
    Target("log", 0.003, _log_seeds, _read_log, mutate_parquet),
    Target("counts", 0.003, _counts_seeds, _read_counts, mutate_parquet),
    Target("where", 0.13, _where_seeds, _read_where),
    Target("trees", 0.08, _tree_seeds, _read_trees),
    Target("bias", 0.15, _bias_seeds, _read_bias, mutate_json),
    Target("assessment", 0.12, _assessment_seeds, _read_assessment, mutate_json),
]
