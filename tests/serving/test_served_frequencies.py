"""What is served over many sessions has the exposures that were certified."""

import json
from functools import cache

import numpy as np
import pytest
from scipy import stats
from serving.asgi import Client
from serving.served_runs import DATA, SIZE, WAYS, request, save_run

from saferank.plackett_luce import rank_probabilities
from saferank.serving.app import create_app
from saferank.serving.rankings import Serving

GUARDED = ["sampled", "mix", "best", "held", "held mix"]
K = 3


@cache
def certified_table(run, way):
    """P(document at rank) of the first query, by the guard on all items at once."""
    serving = Serving.of_run(run, guard=WAYS[way][1] is not None)
    scores = serving.ranker.scores(DATA)
    if WAYS[way][1] is None:
        return rank_probabilities(scores, K, DATA.offsets)[:SIZE]
    return serving.guarded(DATA.production, scores).propensities(DATA)[:SIZE]


def p_value(client, run, way, requests):
    """Of documents at each rank; cells that are rarely seen are taken together."""
    asked, table = request(0, ranker=way), certified_table(run, way)
    seen, places = np.zeros(table.shape), {name: n for n, name in enumerate(asked["doc_ids"])}
    text = json.dumps({**asked, "session_id": "@"})
    for number in range(requests):
        answer = client.post("/rank", text.replace("@", f"session {number}").encode()).json()
        for document in answer["documents"]:
            seen[places[document["doc_id"]], document["rank"] - 1] += 1
    values = []
    for rank in range(K):
        expected = requests * table[:, rank]
        assert not seen[expected < 1e-9, rank].any()
        often = expected >= 5
        observed = np.append(seen[often, rank], seen[~often, rank].sum())
        wanted = np.append(expected[often], expected[~often].sum())
        kept = wanted > 0
        values.append(
            stats.chisquare(observed[kept], wanted[kept] * requests / wanted.sum()).pvalue
        )
    return min(1.0, K * min(values))


def check(tmp_path, requests):
    runs = {way: save_run(tmp_path / way.replace(" ", "-"), way) for way in GUARDED}
    with Client(create_app(runs, uncertified=True)) as client:
        found = {way: p_value(client, runs[way], way, requests) for way in GUARDED}
    assert min(found.values()) > 1e-3, found
    return found


def test_frequencies_are_those_certified(tmp_path):
    check(tmp_path, 1_000)


@pytest.mark.slow
def test_frequencies_of_a_hundred_thousand_requests_are_those_certified(tmp_path):
    print(check(tmp_path, 20_000))
