"""What the scale of relevance changes: the same log, learned with click models that fit it equally.

`python -m benchmarks.scale_of_relevance` prints the table of docs/clicks.md. Every scale tells the
same click probabilities; only the relevance that they are said to come from differs.
"""

from __future__ import annotations

import argparse

import numpy as np

from saferank import learn
from saferank._core.flat import Floats
from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.clicks.bias import canonical
from saferank.clicks.simulation.stand_in import stand_in_production
from saferank.data import synthetic
from saferank.evaluation import truth
from saferank.learning import Settings
from saferank.metrics import dcg_weights
from saferank.plackett_luce import exposure

USERS = trust_bias()
FORM = canonical(USERS)
LOW = float(np.max(-FORM.intercept / FORM.slope))
SCALES = {
    "the users' own": USERS,
    "widest": FORM.widest(through_zero=False),
    "narrow": FORM.model(USERS.beta[0] + 0.2 * USERS.alpha[0], 1.0),
}
"""Narrow: a document of the users' relevance 0.2 has relevance 0, so that many are below."""
METHODS: dict[str, dict[str, object]] = {
    "ips, DCG weights, no floor of propensities": {"method": "ips", "weights": "dcg"},
    "ips, DCG weights": {"method": "ips", "weights": "dcg"},
    "dr, DCG weights": {"method": "dr", "weights": "dcg"},
    "dr": {"method": "dr"},
    "safe-dr": {"method": "safe-dr"},
    "prpo": {"method": "prpo"},
    "prpo, DCG weights": {"method": "prpo", "weights": "dcg"},
}


def run(name: str, scale: ClickModel, seed: int, sessions: int) -> tuple[float, float, Floats]:
    """NDCG and utility (the users' own) on test queries, and exposures there."""
    collection = synthetic("small", queries=100, seed=seed)
    train, test = collection.train, collection.test
    production = stand_in_production(train, seed=seed)
    if "no floor" in name:  # uniform lists, shown so often that no propensity is below the floor
        production = np.zeros(train.documents)
    counts = simulate(train, production, USERS, sessions, seed, highest_grade=4, judge=0)
    ranker = learn(
        train, counts, scale, production=production, seed=seed,
        scorer="linear", settings=Settings(steps=400), **METHODS[name],
    )  # fmt: skip
    found = truth(ranker, test, weights=USERS.exposure_weights, highest=4)
    return found.ndcg, found.utility, exposure(ranker.scores(test), dcg_weights(5), test.offsets)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=100_000)
    chosen = parser.parse_args()
    heads = " | ".join(SCALES)
    print(f"| method | NDCG@5: {heads} | largest change of an exposure beside the users' own |")
    print("| --- " * (2 + len(SCALES)) + "|")
    for name in METHODS:
        ndcg, change = np.zeros((chosen.seeds, len(SCALES))), np.zeros(len(SCALES))
        for seed in range(chosen.seeds):
            results = [run(name, scale, seed, chosen.sessions) for scale in SCALES.values()]
            ndcg[seed] = [result[0] for result in results]
            moved = [np.abs(result[2] - results[0][2]).max() for result in results]
            change = np.maximum(change, moved)
        cells = [f"{value:.3f}" for value in ndcg.mean(axis=0)]
        moves = ", ".join(f"{value:.2g}" for value in change[1:])
        print(f"| {name} | {' | '.join(cells)} | {moves} |", flush=True)


if __name__ == "__main__":
    main()
