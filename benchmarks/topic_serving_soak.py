"""The endpoint for long: 10^5 requests at constant memory, all of them logged.

`SAFERANK_BENCH_REQUESTS` says how many. The server logs what it shows; its memory is that of the
process after the first tenth of the requests, and at the end.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil

from benchmarks.asgi_calls import http, save_runs, send_all, server, text
from benchmarks.measure import Row, at_most, info
from saferank.data import RankingData, Scaling
from saferank.learning.ranker import Provenance, Ranker
from saferank.metrics import dcg_weights
from saferank.safety import Rule
from saferank.scorers.networks import NetworkScorer, make_network

REQUESTS = int(os.environ.get("SAFERANK_BENCH_REQUESTS", "100000"))
DOCUMENTS, WIDTH, K = 30, 10, 10
RULE = Rule(guard=True, guard_mode="best", by="promise", holdout=0.1)


def rows() -> Iterator[Row]:
    """Memory after a tenth and at the end, and how long it took."""
    rng = np.random.default_rng(0)
    count = 20 * DOCUMENTS
    features, production = rng.normal(size=(count, WIDTH)), rng.normal(size=count)
    cuts = np.arange(0, count + 1, DOCUMENTS)
    data = RankingData(features, cuts, production=production)
    weights = dcg_weights(K).tolist()
    origin = Provenance("benchmark", {"scorer": "mlp"}, 0, 0, weights, None, "none")
    network = NetworkScorer(make_network(WIDTH, (16,), 0), WIDTH, (16,))
    ranker = Ranker(network, Scaling.fit(data, "standard", encode=True), origin)
    names = [f"d{n}" for n in range(DOCUMENTS)]

    def request(number: int) -> bytes:
        query = number % 20
        own = slice(query * DOCUMENTS, (query + 1) * DOCUMENTS)
        record = {
            "query_id": query, "session_id": number, "doc_ids": names,
            "features": features[own].round(4).tolist(), "production": production[own].tolist(),
        }  # fmt: skip
        return http("/rank", text(record), "application/json")

    with tempfile.TemporaryDirectory() as folder:
        run = save_runs(Path(folder), ranker, data, {"best": ("sampled", RULE)})["best"]
        options = (run, "--log", Path(folder) / "logs", "--roll", 5, "--click-window", 5)
        with server(*options) as (process, port):
            memory = psutil.Process(process.pid).memory_info
            start = time.monotonic()
            first = REQUESTS // 10
            asyncio.run(send_all(port, map(request, range(first)), 4))
            early = memory().rss
            asyncio.run(send_all(port, map(request, range(first, REQUESTS)), 4))
            late, taken = memory().rss, time.monotonic() - start
        shown = Path(folder) / "logs" / "shown"
        yield info("requests", REQUESTS, "")
        yield info("requests per second, over HTTP, logged", REQUESTS / taken, "1/s")
        yield info("memory after a tenth of them", early / 1e6, "MB")
        yield at_most("memory at the end beside it", late / early, 1.1, "x")
        yield info("files of what was shown", len(list(shown.glob("*.parquet"))), "")
        yield at_most("rows missing in them", _missing(shown), 0, "")


def _missing(shown: Path) -> int:
    import pyarrow.parquet as pq

    rows = sum(pq.read_metadata(path).num_rows for path in shown.glob("*.parquet"))
    return abs(REQUESTS * K - rows)
