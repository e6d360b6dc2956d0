"""The endpoint on one core, from request bytes to response bytes, beside ONNX Runtime.

100 documents of 136 features, K = 10. Times of the app are those of the ASGI call: parsing, scores,
the guard, propensities, metrics and the answer; the bare score is ONNX Runtime's of the same list,
one thread, in the same rounds. They are processor times, which other processes disturb least; wall
times beside them tell how much the machine was disturbed. Throughput is over HTTP
on loopback, its client on the same cores.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnxruntime
import pyarrow as pa
import simdjson

from benchmarks.asgi_calls import caller, http, milliseconds, save_runs, send_all, server, text
from benchmarks.measure import Row, at_most, info
from saferank._core.threads import use_threads
from saferank.data import RankingData, Scaling
from saferank.learning.ranker import Provenance, Ranker
from saferank.metrics import dcg_weights
from saferank.safety import Rule
from saferank.scorers.networks import NetworkScorer, make_network
from saferank.scorers.tree_scorer import TreeScorer
from saferank.scorers.tree_text import Forest
from saferank.serving.app import create_app
from saferank.serving.export import export

DOCUMENTS, WIDTH, K, TREES = 100, 136, 10, 300
ROUNDS = int(os.environ.get("SAFERANK_BENCH_ROUNDS", "1000"))
SECONDS = float(os.environ.get("SAFERANK_BENCH_SECONDS", "10"))
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
WAYS: dict[str, Any] = {
    "sorted": ("sorted", None),
    "sampled": ("sampled", None),
    "mixture": ("sampled", Rule(guard=True, guard_mode="mix", by="promise")),
    "best policy": ("sampled", Rule(guard=True, guard_mode="best", by="promise")),
}


def world(queries: int = 20) -> RankingData:
    """Documents of random features, with production's scores."""
    rng = np.random.default_rng(0)
    count = queries * DOCUMENTS
    return RankingData(
        rng.normal(size=(count, WIDTH)),
        np.arange(0, count + 1, DOCUMENTS),
        production=rng.normal(size=count),
    )


def rankers(data: RankingData) -> dict[str, Ranker]:
    """A network of 64 and 64 hidden units, and 300 trees of 31 leaves."""
    weights = dcg_weights(K).tolist()
    origin = Provenance("benchmark", {"scorer": "mlp"}, 0, 0, weights, None, "none")
    network = NetworkScorer(make_network(WIDTH, (64, 64), 0), WIDTH, (64, 64))
    aim = data.features[:, :8].sum(axis=1) + np.sin(3 * data.features[:, 9])
    options = {"objective": "regression", "num_leaves": 31, "verbosity": -1, "num_threads": 1}
    grown = lightgbm.train(options, lightgbm.Dataset(data.features, label=aim), TREES)
    trees = TreeScorer(Forest.parse(grown.model_to_string()))
    return {
        "MLP": Ranker(network, Scaling.fit(data, "standard", encode=True), origin),
        f"{TREES} trees": Ranker(trees, Scaling("none", WIDTH), origin),
    }


def bodies(data: RankingData) -> dict[str, tuple[str, bytes, str]]:
    """Address, body and type of one request, as JSON and as Arrow."""
    features, names = data.features[:DOCUMENTS], [f"d{n}" for n in range(DOCUMENTS)]
    production = data.production[:DOCUMENTS] if data.production is not None else None
    record = {
        "query_id": "q", "session_id": "s", "doc_ids": names,
        "features": [[float(f"{value:.7g}") for value in row] for row in features.tolist()],
        "production": production.tolist() if production is not None else None,
    }  # fmt: skip
    flat = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), WIDTH)
    table = pa.table({"doc_id": names, "production_score": production, "features": flat})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    address = "/rank?query_id=q&session_id=s"
    return {
        "JSON": ("/rank", text(record), JSON),
        "Arrow": (address, sink.getvalue().to_pybytes(), ARROW),
    }


def rows() -> Iterator[Row]:
    """Latencies beside the bare score, then throughput."""
    data = world()
    with tempfile.TemporaryDirectory() as name:
        folder, requests = Path(name), bodies(data)
        for form, (_, body, _) in requests.items():
            yield info(f"request as {form}", len(body) / 1000, "kB")
        for kind, ranker in rankers(data).items():
            runs = save_runs(folder / kind.replace(" ", "-"), ranker, data, WAYS)
            with use_threads(1):
                yield from _latencies(kind, runs, data, requests)
        run = folder / "MLP" / "best-policy"
        for workers in (1, 2):
            yield from _throughput(run, workers, requests)


def _latencies(
    kind: str, runs: dict[str, Path], data: RankingData, requests: dict[str, Any]
) -> Iterator[Row]:
    target = runs["sorted"].parent / "model.onnx"
    export(runs["sorted"], "onnx", target, rows=300)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(target), options)
    features = np.ascontiguousarray(data.features[:DOCUMENTS])

    async def bare() -> None:
        session.run(["scores"], {"features": features})

    parser, numbers = simdjson.Parser(), requests["JSON"][1]

    async def parse() -> None:
        parser.parse(numbers)

    app = create_app(runs, uncertified=True)
    names: list[tuple[str, str]] = []
    calls: list[Callable[[], Awaitable[Any]]] = [bare, parse]
    for way, (form, (path, body, type_)) in itertools.product(WAYS, requests.items()):
        address = f"{path}&ranker={way}" if form == "Arrow" else path
        given = body if form == "Arrow" else body.replace(b"{", f'{{"ranker":"{way}",'.encode(), 1)
        names.append((way, form))
        calls.append(caller(app, address, given, type_))
    times = asyncio.run(milliseconds(calls, ROUNDS))
    middle, slow = np.quantile(times[0], [0.5, 0.99], axis=0)
    wall = np.quantile(times[1], 0.99, axis=0)
    yield info(f"{kind}: bare score by ONNX Runtime, p50", float(middle[0]), "ms")
    parsing = float(middle[1] / middle[0])
    yield info(f"{kind}: simdjson's parsing of JSON alone, beside the bare score", parsing, "x")
    for (way, form), p50, p99, waited in zip(names, middle[2:], slow[2:], wall[2:], strict=True):
        what = f"{kind}, {way}, {form}"
        if way == "sorted":
            yield at_most(f"{what}: p50 beside the bare score", float(p50 / middle[0]), 2, "x")
        yield info(f"{what}: p50", float(p50), "ms")
        yield at_most(f"{what}: p99", float(p99), 5, "ms")
        yield info(f"{what}: p99, wall time", float(waited), "ms")


def _throughput(run: Path, workers: int, requests: dict[str, Any]) -> Iterator[Row]:
    """Requests per second over connections that stay open."""
    with server(run, "--uncertified", "--workers", workers) as (_, port):
        for form, (path, body, kind) in requests.items():
            wire = http(path, body, kind)

            def until(end: float, wire: bytes = wire) -> Iterator[bytes]:
                while time.monotonic() < end:
                    yield wire

            asyncio.run(send_all(port, until(time.monotonic() + 2), 8))
            times = asyncio.run(send_all(port, until(time.monotonic() + SECONDS), 8))
            what = f"MLP, best policy, {form}, {workers} workers, over HTTP"
            yield info(what, len(times) / SECONDS, "requests/s")
