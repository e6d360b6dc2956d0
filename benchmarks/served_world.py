"""A shop goes the whole way by the command line, and every number is held against the truth.

`python -m benchmarks.served_world [SESSIONS]`: log of production -> count, bias, learn, certify
with the guard and a hold-out -> serve; simulated users ask and click over HTTP; what the server
logged is joined, counted, judged and watched. The truth is by exact probabilities of what each
policy shows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.asgi_calls import server

QUERIES, DOCUMENTS, K = 40, 15, 5
LOOK = np.array([0.95, 0.7, 0.5, 0.35, 0.25])  # P(a rank is looked at)
NOISE = np.array([0.06, 0.05, 0.04, 0.03, 0.02])  # clicks on what is not relevant
FEATURES = ("Preis (EUR)", "lieferzeit", "match%", "age_days")


def gumbel_lists(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One Plackett-Luce ranking per row of scores."""
    return np.argsort(-(scores + rng.gumbel(size=scores.shape)), axis=1)[:, :K]


class Shop:
    """Items, what users find relevant, and what production does."""

    def __init__(self, seed: int = 0) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.features = rng.normal(size=(QUERIES, DOCUMENTS, len(FEATURES)))
        taste = self.features @ np.array([-0.8, 0.1, 1.2, 0.0]) + rng.normal(
            0, 0.4, (QUERIES, DOCUMENTS)
        )
        self.relevance = 1 / (1 + np.exp(-2 * (taste - 0.8)))
        self.production = 0.7 * self.features[..., 2] + rng.normal(0, 0.8, (QUERIES, DOCUMENTS))
        self.doc_ids = [[f"sku-{q}-{d}" for d in range(DOCUMENTS)] for q in range(QUERIES)]

    def items(self) -> pa.Table:
        """One row per query-document pair, names as the shop has them."""
        flat = self.features.reshape(-1, len(FEATURES))
        return pa.table({
            "search": [f"query {q}" for q in range(QUERIES) for _ in range(DOCUMENTS)],
            "sku": [name for names in self.doc_ids for name in names],
            "production_score": self.production.ravel(),
            **{name: flat[:, i] for i, name in enumerate(FEATURES)},
        })  # fmt: skip

    def log(self, sessions: int) -> pa.Table:
        """What production showed, and what was clicked."""
        query = self.rng.integers(QUERIES, size=sessions)
        shown = gumbel_lists(self.production[query], self.rng)
        clicked = self.clicks(query[:, None], shown)
        return pa.table({
            "visit": np.repeat(np.arange(sessions), K),
            "search": [f"query {q}" for q in np.repeat(query, K)],
            "sku": [self.doc_ids[q][d] for q, row in zip(query, shown, strict=True) for d in row],
            "position": np.tile(np.arange(1, K + 1), sessions),
            "click": clicked.ravel().astype(np.int64),
        })  # fmt: skip

    def clicks(self, query: Any, shown: np.ndarray) -> np.ndarray:
        """Who clicks on what, rank by rank."""
        chance = LOOK * self.relevance[query, shown] + NOISE
        return self.rng.random(shown.shape) < chance

    def true_clicks(self, table: np.ndarray) -> float:
        """Clicks per session of P(document at rank), queries x documents x K, exactly."""
        chance = LOOK * self.relevance[..., None] + NOISE
        return float((table * chance).sum(axis=(1, 2)).mean())


def saferank(*words: object) -> tuple[int, str]:
    """A command: its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "saferank", *map(str, words)], capture_output=True, text=True
    )
    if done.returncode not in (0, 3, 4):
        raise SystemExit(f"{words}: {done.returncode}\n{done.stderr[-800:]}")
    return done.returncode, done.stdout


def post(port: int, path: str, record: Any) -> Any:
    """A record to the server, and its answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(record).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def visit(shop: Shop, port: int, number: int) -> None:
    """A user asks, looks, and clicks."""
    rng = np.random.default_rng([7, number])
    query = int(rng.integers(QUERIES))
    answer = post(port, "/rank", {
        "query_id": f"query {query}", "session_id": f"visit {number}",
        "doc_ids": shop.doc_ids[query],
        "features": {name: shop.features[query, :, i].tolist() for i, name in enumerate(FEATURES)},
        "production": shop.production[query].tolist(),
    })  # fmt: skip
    names = [document["doc_id"] for document in answer["documents"]]
    places = np.array([shop.doc_ids[query].index(name) for name in names])
    clicked = rng.random(K) < LOOK * shop.relevance[query, places] + NOISE
    chosen = [
        {"request_id": answer["request_id"], "doc_id": name}
        for name, hit in zip(names, clicked, strict=True)
        if hit
    ]
    if chosen:
        post(port, "/clicks", {"clicks": chosen})


def tables(shop: Shop, run: Path) -> dict[str, np.ndarray]:
    """P(document at rank) of production, of the new ranker, of the guard, and of what is served."""
    from dataclasses import replace

    from saferank.data import RankingData
    from saferank.plackett_luce import rank_probabilities
    from saferank.serving.rankings import Serving

    flat = shop.features.reshape(-1, len(FEATURES))
    cuts = np.arange(0, QUERIES * DOCUMENTS + 1, DOCUMENTS)
    data = RankingData(flat, cuts, feature_names=FEATURES, production=shop.production.ravel())
    serving = Serving.of_run(run, guard=True)
    scores = serving.ranker.scores(data)
    held = serving.guarded(shop.production.ravel(), scores)
    found = {
        "production": rank_probabilities(shop.production.ravel(), K, cuts),
        "new": rank_probabilities(scores, K, cuts),
        "guarded": replace(held, holdout=0.0).propensities(data),
        "served": held.propensities(data),
    }
    return {name: table.reshape(QUERIES, DOCUMENTS, K) for name, table in found.items()}


def main(sessions: int) -> None:
    """Go the whole way and print each number beside the truth."""
    shop = Shop()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        items, log, run = folder / "items.parquet", folder / "log.parquet", folder / "run"
        pq.write_table(shop.items(), items)
        pq.write_table(shop.log(20 * sessions), log)
        own = ["--column", "query_id=search", "--column", "doc_id=sku"]
        logged = [*own, "--column", "rank=position", "--column", "session_id=visit"]
        counts, bias = folder / "counts.parquet", folder / "bias.json"
        saferank("count", log, *logged, "-o", counts)
        saferank("bias", counts, "-o", bias)
        saferank("learn", "--items", items, *own, "--counts", counts, "--bias", bias, "-o", run)
        _, verdict = saferank(
            "certify", run, "--items", items, *own, "--counts", counts, "--guard", "--keep", 0.5,
            "--slack", 0.02, "--holdout", 0.3, "--json",
        )  # fmt: skip
        record = json.loads(verdict)
        print(record["verdict"])
        truth = {name: shop.true_clicks(table) for name, table in tables(shop, run).items()}
        print("true clicks per session:", {k: round(v, 4) for k, v in truth.items()})
        change = record["clicks"]["difference"]
        _compare("certify: served - production", change, truth["served"] - truth["production"])
        served = folder / "served"
        start = time.monotonic()
        with server(run, "--log", served, "--roll", 5) as (_, port), ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: visit(shop, port, n), range(sessions)))
        print(f"{sessions} visits over HTTP in {time.monotonic() - start:.0f} s")
        print(saferank("logs", "join", served, "--window", 0)[1].strip())
        code, watched = saferank("watch", served / "log", "--json")
        metric = json.loads(watched)["metrics"][0]
        _compare("watch: guarded - production", metric, truth["guarded"] - truth["production"])
        print(f"watch: production {metric['production']:.4f}, true {truth['production']:.4f}")
        print(f"watch: exit code {code}")
        again, judged = folder / "again.parquet", folder / "judged"
        saferank("count", served / "log", "--column", "propensity=propensity", "-o", again)
        subprocess.run(["cp", "-r", run, judged], check=True)
        (judged / "assessment.json").unlink()
        _, verdict = saferank(
            "certify", judged, "--items", items, *own, "--counts", again, "--production-policy",
            "recorded", "--by", "clicks", "--json",
        )  # fmt: skip
        record = json.loads(verdict)
        print(record["verdict"])
        _compare("judged by the served log: new - served", record["clicks"]["difference"],
                 truth["new"] - truth["served"])  # fmt: skip


def _compare(what: str, interval: dict[str, Any], truth: float) -> None:
    low, high = interval["lower"], interval["upper"]
    inside = low is not None and high is not None and low <= truth <= high
    print(f"{what}: {interval['estimate']:+.4f} [{low}, {high}], true {truth:+.4f}: "
          f"{'inside' if inside else 'OUTSIDE'}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
