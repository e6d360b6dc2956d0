"""Logs that the endpoint wrote, joined and judged, give back the truth of a simulated world."""

import json
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from serving.asgi import Client
from serving.served_runs import DATA, QUERIES, request, save_run

from saferank.plackett_luce import rank_probabilities
from saferank.serving.app import Logging, create_app
from saferank.serving.endpoint.served_log import join_clicks
from saferank.serving.rankings import Serving
from saferank.serving.watching import read_experiment, watch

LOOK, NOISE = np.array([0.9, 0.6, 0.4]), np.array([0.05, 0.03, 0.02])
K = LOOK.size
RELEVANCE = np.random.default_rng(5).random(DATA.documents)
CHANCE = LOOK * RELEVANCE[:, None] + NOISE
PLACES = {name: place for place, name in enumerate(DATA.doc_ids.tolist())}


def visits(run, folder, sessions):
    """Users ask, look and click; queries are as frequent as each other."""
    rng = np.random.default_rng(0)
    texts = [json.dumps({**request(query), "session_id": "@"}) for query in range(QUERIES)]
    with Client(create_app(run, log=Logging(folder))) as client:
        for number in range(sessions):
            body = texts[number % QUERIES].replace("@", f"visit {number}").encode()
            answer = client.post("/rank", body).json()
            names = [document["doc_id"] for document in answer["documents"]]
            looked = CHANCE[[PLACES[name] for name in names], np.arange(K)]
            clicked = rng.random(K) < looked
            for name in np.array(names)[clicked].tolist():
                client.post("/clicks", {"request_id": answer["request_id"], "doc_id": name})
    join_clicks(folder, window=0, now=time.time() + 1)


def judge(run, folder, sessions):
    """The truth by exact probabilities, and what the log says of it."""
    visits(run, folder, sessions)
    serving = Serving.of_run(run, guard=True)
    scores = serving.ranker.scores(DATA)
    held = serving.guarded(DATA.production, scores)
    production = rank_probabilities(DATA.production, K, DATA.offsets)
    new = rank_probabilities(scores, K, DATA.offsets)
    best = replace(held, holdout=0.0).propensities(DATA)
    true = float(((best - production) * CHANCE).sum() / QUERIES)
    watched = watch(read_experiment(str(folder / "log")), least=100, planned=sessions)
    sequence = watched.watched[0].sequence
    assert sequence.lower[-1] <= true <= sequence.upper[-1]
    error = (sequence.upper[-1] - sequence.estimate[-1]) / 1.96  # wider than a standard error
    assert abs(sequence.estimate[-1] - true) < 4 * error
    table = pq.read_table(folder / "log")
    place = np.array([PLACES[name] for name in table["doc_id"].to_pylist()])
    rank = table["rank"].to_numpy() - 1
    weight = new[place, rank] / table["propensity"].to_numpy()
    gained = (weight * table["click"].to_numpy()).reshape(-1, K).sum(axis=1)
    value, spread = gained.mean(), gained.std() / np.sqrt(sessions)
    wanted = float((new * CHANCE).sum() / QUERIES)
    assert abs(value - wanted) < 4 * spread
    return {
        "watch": (sequence.estimate[-1], sequence.lower[-1], sequence.upper[-1], true),
        "new ranker by logged propensities": (value, spread, wanted),
    }


def test_a_served_log_gives_back_the_true_difference(tmp_path):
    judge(save_run(tmp_path / "run", "held"), tmp_path / "logs", 100 * QUERIES)


@pytest.mark.slow
def test_a_long_served_log_gives_back_the_true_difference(tmp_path):
    print(judge(save_run(tmp_path / "run", "held"), tmp_path / "logs", 1000 * QUERIES))
