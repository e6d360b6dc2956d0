"""Files: LETOR text, items, LightGBM text, and JSON records."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from functools import cache
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
from saferank.scorers.tree_scorer import TreeScorer


@cache
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
    return [header + rows, brand]


def _read_items_csv(data: bytes, folder: Path) -> None:
    path = folder / "items.csv"
    path.write_bytes(data)
    found = read_items(path)
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    header, body = rows[0], [row for row in rows[1:] if row]
    ensure(found.documents == len(body), "rows of a CSV table")
    columns = {name: [_number(row[at]) for row in body] for at, name in enumerate(header)}
    _check_items(found, columns)


def _number(text: str) -> float | None:
    """As Python reads it; none where it is no number."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return None


def _check_items(items: RankingData, columns: dict[str, list[float | None]]) -> None:
    """Laws of items, and that each column of numbers holds those of the file, in any order."""
    ensure(items.offsets[-1] == items.documents == items.features.shape[0], "documents")
    ensure(not np.isinf(items.features).any(), "a feature that is infinite")
    for values in (items.labels, items.production):
        ensure(values is None or bool(np.isfinite(values).all()), "a value that is not finite")
    query_ids, doc_ids = items.ids()
    pairs = set(zip(np.repeat(query_ids, items.sizes).tolist(), doc_ids.tolist(), strict=True))
    ensure(len(pairs) == items.documents, "a document twice in a query")
    if items.production is not None and "production_score" in columns:
        _check_column(items.production, columns["production_score"], "production's scores")
    for at, feature in enumerate(items.schema.features if items.schema else ()):
        if feature.kind == "number" and feature.name in columns:
            _check_column(items.features[:, at], columns[feature.name], "a column of numbers")


def _check_column(found: Any, expected: list[float | None], what: str) -> None:
    numbers = [math.nan if one is None else one for one in expected]
    with np.errstate(over="ignore"):
        wanted = np.sort(np.array(numbers, dtype=np.float64).astype(found.dtype))
    ensure(np.array_equal(np.sort(found), wanted, equal_nan=True), what)


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
    table = pq.ParquetFile(path).read()
    ensure(found.documents == table.num_rows, "rows of a Parquet table")
    numbers = {
        name: [None if x is None else float(x) for x in column.to_pylist()]
        for name, column in zip(table.column_names, table.columns, strict=True)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    }
    _check_items(found, numbers)


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
    return [json.dumps(one).encode() for one in (model.to_dict(), {**model.to_dict(), "more": [1]})]


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
    for log in (None, counts):
        assessment = assess(
            scores, data, production=np.zeros(data.documents), counts=log,
            click_model=sr.clicks.trust_bias(),
        )  # fmt: skip
        made.append(json.dumps(_shortened(json.loads(assessment.save(folder).read_bytes()))))
    return [one.encode() for one in made]


def _shortened(node: Any) -> Any:
    """JSON with the first two of each list of numbers or objects."""
    if isinstance(node, dict):
        return {key: _shortened(value) for key, value in node.items()}
    return [_shortened(one) for one in node[:2]] if isinstance(node, list) else node


def _read_assessment(data: bytes, folder: Path) -> None:
    from saferank._core.files import read_json
    from saferank.safety.assessment import FILE, Assessment

    (folder / FILE).write_bytes(data)
    # as `load` reads it, without the digest, by which it refuses whatever was changed
    found = Assessment.from_dict(read_json(folder / FILE))
    again = Assessment.from_dict(json.loads(json.dumps(found.to_dict())))
    ensure(again == found, "an assessment that changes when it is written")
    for interval in (found.new, found.production, found.difference):
        if interval is not None:
            numbers = [x for x in asdict(interval).values() if isinstance(x, float)]
            ensure(all(map(math.isfinite, numbers)), "an interval that is not finite")


TARGETS = [
    Target("letor", 0.14, _letor_seeds, _read_letor),
    Target("items-csv", 0.10, _items_csv_seeds, _read_items_csv),
    Target("items-parquet", 0.06, _items_parquet_seeds, _read_items_parquet, mutate_parquet),
    Target("trees", 0.12, _tree_seeds, _read_trees),
    Target("bias", 0.12, _bias_seeds, _read_bias, mutate_json),
    Target("assessment", 0.12, _assessment_seeds, _read_assessment, mutate_json),
]
