"""What comes over the network, or from other systems: requests to the endpoint, and UBI exports."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.folders import learned_ranker
from fuzz.mutation import mutate_bytes, mutate_json
from fuzz.outcomes import ensure
from fuzz.readers import small_world
from fuzz.target import Mutate, Target, file_of, in_folder, of_files
from saferank.logs import read_ubi
from saferank.serving.endpoint.json_bodies import JsonReader
from saferank.serving.endpoint.ranking_requests import (
    ARROW,
    JSON,
    Limits,
    RankingRequest,
    parse_request,
)
from saferank.serving.endpoint.served_run import ServedRun

_BODIES: dict[str, Mutate] = {"json": mutate_json, "arrow": mutate_bytes}
_OPTIONS = {"query_id": "q", "k": "2"}


@cache
def _served(place: Path) -> ServedRun:
    return ServedRun.load(learned_ranker("mlp", place), uncertified=True)


@cache
def _reader() -> JsonReader:
    return JsonReader()


def _request_seeds(folder: Path) -> list[bytes]:
    _served(folder)
    features = small_world().features[:3].tolist()
    plain: dict[str, Any] = {"query_id": "q", "doc_ids": ["a", "b", "c"], "features": features}
    named = {"price": [1, 2, None], "brand": ["x", "y", "x"]}
    asked = {"session_id": 7, "production": [1, 2.5, 0], "production_rank": [1, None, 2], "k": 2}
    bodies = [plain, plain | asked, plain | {"features": named, "ranker": "run"}]
    lists = pa.FixedSizeListArray.from_arrays(
        pa.array(np.ravel(features), pa.float32()), len(features[0])
    )
    table = pa.table({"doc_id": ["a", "b", "c"], "features": lists})
    scored = pa.table({"doc_id": [1, 2], "price": [0.5, None], "production_score": [1.0, 2.0]})
    streams = []
    for one in (table, scored):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, one.schema) as stream:
            stream.write_table(one)
        streams.append(in_folder("arrow", bytes(sink.getvalue())))
    return [*(in_folder("json", json.dumps(body).encode()) for body in bodies), *streams]


def _read_request(data: bytes, folder: Path) -> None:
    kind, body = file_of(data, list(_BODIES))
    form = JSON if kind == "json" else ARROW
    request = parse_request(body, form, _OPTIONS, Limits(documents=50), _reader())
    if kind == "json":
        _check_request(request, json.loads(body))
    served = _served(folder.parent / "seeds")
    if isinstance(request.features, pa.Table):
        return
    shown = served.rank(request, "session")
    ensure(len(set(shown.doc_ids)) == len(shown.doc_ids), "a document twice in a ranking")
    ensure(set(shown.doc_ids) <= set(request.doc_ids), "a document that was not asked for")
    most = served.ranker.k if request.k is None else request.k
    ensure(len(shown.doc_ids) == min(most, request.documents), "the length of a ranking")
    chances = [chance for chance in shown.propensities if chance is not None]
    ensure(all(0 <= chance <= 1 + 1e-9 for chance in chances), "a propensity beyond 0..1")


def _check_request(request: RankingRequest, body: dict[str, Any]) -> None:
    """The request as Python's own reader has it."""
    ensure(request.query_id == body["query_id"], "the query of a request")
    ensure(list(request.doc_ids) == body["doc_ids"], "the documents of a request")
    for name in ("production", "production_rank"):
        found, expected = getattr(request, name), body.get(name)
        ensure((found is None) == (expected is None), f"{name} of a request")
        if found is not None and expected is not None:
            ensure(np.array_equal(found, _floats(expected), equal_nan=True), f"{name}, its values")
    if not isinstance(request.features, pa.Table):
        with np.errstate(over="ignore"):
            wanted = np.array([_floats(row) for row in body["features"]]).astype(np.float32)
        ensure(np.array_equal(request.features, wanted, equal_nan=True), "features of a request")


def _floats(values: list[Any]) -> Any:
    return np.array([np.nan if value is None else float(value) for value in values])


_EXPORTS: dict[str, Mutate] = {"queries.ndjson": mutate_bytes, "events.ndjson": mutate_bytes}


def _documents() -> dict[str, list[dict[str, Any]]]:
    queries: list[dict[str, Any]] = [
        {"query_id": "s1", "user_query": "tea", "client_id": "u", "timestamp": "2026-02-01T08:00Z",
         "query_response_hit_ids": ["a", "b"]},
        {"_source": {"query_id": "s2", "user_query": "mug", "query_response_hit_ids": ["c", "a"],
                     "timestamp": 1769904000000}},
    ]  # fmt: skip
    event = {"object": {"object_id": "b"}, "position": {"ordinal": 2}}
    other = {"object": {"object_id": "c"}, "position": {"ordinal": {"index": 1}}}
    events: list[dict[str, Any]] = [
        {"query_id": "s1", "action_name": "click", "event_attributes": event},
        {"query_id": "s1", "action_name": "purchase", "event_attributes": event},
        {"query_id": "s2", "action_name": "impression", "event_attributes": other},
        {"action_name": "login"},
    ]
    return {"queries.ndjson": queries, "events.ndjson": events}


def _lines(records: list[dict[str, Any]]) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


def _ubi_seeds(_: Path) -> list[bytes]:
    return [in_folder(name, _lines(records)) for name, records in _documents().items()]


def _read_ubi(data: bytes, folder: Path) -> None:
    changed, content = file_of(data, list(_EXPORTS))
    for name, records in _documents().items():
        (folder / name).write_bytes(content if name == changed else _lines(records))
    output = folder / "log.parquet"
    output.unlink(missing_ok=True)
    report = read_ubi(folder / "queries.ndjson", folder / "events.ndjson", output)
    rows = pq.ParquetFile(output).read().to_pylist()
    ensure(report.rows == len(rows) > 0, "rows of a UBI log")
    ensure(report.lists == len({row["session_id"] for row in rows}), "lists of a UBI log")
    pairs = {(row["session_id"], row["doc_id"]) for row in rows}
    ensure(len(pairs) == len(rows), "a document twice in a list")
    ensure(all(row["rank"] is not None and row["click"] in (0, 1) for row in rows), "UBI rows")
    served = _served_lists((folder / "queries.ndjson").read_bytes())
    if served is not None and report.shown_by == "hits":
        found = {(row["session_id"], row["doc_id"]): row["rank"] for row in rows}
        ensure(found == served, "lists of a UBI log, by Python's reader")


def _served_lists(data: bytes) -> dict[tuple[str, str], int] | None:
    """First places of documents; none where queries are not as plain as those of the seeds."""
    places: dict[tuple[str, str], int] = {}
    try:
        records = [json.loads(line) for line in data.split(b"\n") if line.strip()]
    except ValueError:
        return None
    seen = []
    for record in records:
        inner = record.get("_source", record) if isinstance(record, dict) else None
        if not isinstance(inner, dict) or (len(record) > 1 and "_source" in record):
            return None
        session, hits = inner.get("query_id"), inner.get("query_response_hit_ids")
        texts = isinstance(hits, list) and all(isinstance(hit, str) for hit in hits)
        if not isinstance(session, str) or not texts:
            return None
        seen.append(session)
        for place, hit in enumerate(hits or (), start=1):
            key = session, hit
            places[key] = min(place, places.get(key, place))
    return places if len(set(seen)) == len(seen) else None


TARGETS = [
    Target("request", 0.05, _request_seeds, _read_request, of_files(_BODIES)),
    Target("ubi", 0.002, _ubi_seeds, _read_ubi, of_files(_EXPORTS)),
]
