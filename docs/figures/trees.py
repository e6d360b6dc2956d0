"""The tables of docs/trees.md: `python docs/figures/trees.py OUTPUT [COLLECTION ...]`.

A collection is a folder (such as MQ2008/Fold1) or `synthetic`. Every (collection, seed) is one
piece of work; results are JSON lines, so that a run that was stopped goes on where it was. Then
`python docs/figures/trees.py OUTPUT --tables` prints the tables.
"""

import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np

import saferank as sr
from saferank.clicks import adversarial, relevance, simulate, trust_bias
from saferank.metrics import mean, ndcg
from saferank.plackett_luce import expected_ndcg, exposure
from saferank.rankers import Settings, fit_relevance

SETTINGS = Settings(rounds=60, leaves=15, steps=300, patience=4, hidden=(32, 32))
SKYLINE = replace(SETTINGS, rounds=150, patience=30)
SEEDS = range(5)
SIZES = (10**3, 10**5, 10**7)
METHODS = ("dr", "safe-dr", "prpo")
DELTAS = (0.25, 0.5, 0.65, 0.9, 1.0)
USERS = trust_bias()


def world_of(name, seed):
    """The collection, with 80 % of its training queries: another 80 % for each seed."""
    if name == "synthetic":
        return sr.data.synthetic("mslr", queries=60, seed=seed)
    world = sr.data.load(name)
    part, _ = world.train.split(0.8, 0.2, seed=seed)
    return replace(world, train=part)


def with_production(world, seed):
    """Every part with the scores of a linear ranker of 5 % of the labels."""
    queries = np.random.default_rng(seed).permutation(world.train.queries)
    few = world.train.subset(queries[: max(4, world.train.queries // 20)])
    ranker = sr.learn(few, method="skyline", scorer="linear", seed=seed, settings=SETTINGS)
    parts = {name: replace(p, production=ranker.scores(p)) for name, p in world.parts().items()}
    return replace(world, **parts)


def measured(world, scores):
    test = world.test
    truth = relevance(test.labels, world.highest_grade)
    weights = USERS.exposure_weights

    def utility(of):
        return float(exposure(of, weights, test.offsets) @ truth)

    return {
        "expected": mean(expected_ndcg(scores, test.labels, test.offsets, 5)),
        "sorted": mean(ndcg(scores, test.labels, test.offsets, 5)),
        "kept": utility(scores) / utility(test.production),
    }


def lambdarank(world, leaves, rounds):
    """LightGBM's own objective on the same labels; as many trees as are best on validation."""

    def dataset(part, reference=None):
        return lightgbm.Dataset(
            part.features, label=part.labels, group=part.sizes, reference=reference
        )

    options = {
        "objective": "lambdarank",
        "label_gain": list(range(int(world.highest_grade) + 1)),
        "metric": "ndcg",
        "eval_at": [5],
        "num_leaves": leaves,
        "learning_rate": SKYLINE.shrinkage,
        "verbosity": -1,
    }
    train = dataset(world.train)
    model = lightgbm.train(
        options, train, num_boost_round=rounds, valid_sets=[dataset(world.validation, train)],
        callbacks=[lightgbm.early_stopping(rounds, verbose=False)],
    )  # fmt: skip
    return model.predict(world.test.features, raw_score=True)


def skylines(world, seed):
    held = (world.validation, None)
    yield {"method": "production"}, world.test.production
    yield {"method": "lambdarank"}, lambdarank(world, SKYLINE.leaves, SKYLINE.rounds)
    for rule in ("gradient", "exposure", "constant"):
        settings = replace(SKYLINE, curvature=rule)
        ranker = sr.learn(
            world.train, method="skyline", scorer="trees", validation=held, settings=settings
        )
        yield {"method": "skyline", "scorer": "trees", "curvature": rule}, ranker.scores(world.test)
    pairs = sr.learn(
        world.train, method="lambda", gain="labels", scorer="trees", validation=held,
        settings=SKYLINE,
    )  # fmt: skip
    yield {"method": "lambda (labels)", "scorer": "trees"}, pairs.scores(world.test)
    net = sr.learn(world.train, method="skyline", validation=held, settings=SETTINGS, seed=seed)
    yield {"method": "skyline", "scorer": "mlp"}, net.scores(world.test)


def learned(world, seed):
    for size in SIZES:
        counts = simulate(world.train, world.train.production, USERS, sessions=size, seed=seed)
        for scorer in ("trees", "mlp"):
            shared = {"scorer": scorer, "settings": SETTINGS, "seed": seed}
            shared["production"] = world.train.production
            predictor = fit_relevance(world.train, counts, USERS, **shared)
            for method in METHODS:
                start = {} if method == "dr" else {"start": "add"}
                ranker = sr.learn(
                    world.train, counts, USERS, method=method, predictor=predictor, **shared,
                    **start,
                )  # fmt: skip
                facts = {"method": method, "scorer": scorer, "sessions": size}
                yield facts, ranker.scores(world.test)


def attacked(world, seed):
    """Users who click what is irrelevant: what is kept of production's utility."""
    counts = simulate(
        world.train, world.train.production, adversarial(USERS), sessions=10**6, seed=seed
    )
    shared = {"scorer": "trees", "settings": SETTINGS, "seed": seed}
    shared["production"] = world.train.production
    predictor = fit_relevance(world.train, counts, USERS, **shared)
    for method, deltas in (("dr", [None]), ("prpo", DELTAS), ("prpo-floor", DELTAS)):
        for delta in deltas:
            more = {} if delta is None else {"delta": delta, "start": "add"}
            ranker = sr.learn(
                world.train, counts, USERS, method=method, predictor=predictor, **shared, **more
            )
            facts = {"method": method, "scorer": "trees", "delta": delta, "users": "adversarial"}
            yield facts, ranker.scores(world.test)


def work(output, names):
    done = set()
    if output.exists():
        done = {(r["collection"], r["seed"], r["part"]) for r in records(output)}
    parts = {"skylines": skylines, "learned": learned, "attacked": attacked}
    for seed in SEEDS:
        for name in names:
            label = "synthetic mslr" if name == "synthetic" else Path(name).parent.name
            for part, rows in parts.items():
                if (label, seed, part) in done:
                    continue
                world = with_production(world_of(name, seed), seed)
                found = [
                    {"collection": label, "seed": seed, "part": part, **facts}
                    | measured(world, scores)
                    for facts, scores in rows(world, seed)
                ]
                with output.open("a") as file:
                    file.write("".join(json.dumps(row) + "\n" for row in found))


def records(output):
    return [json.loads(line) for line in output.read_text().splitlines()]


def tables(output):
    groups = defaultdict(list)
    for row in records(output):
        about = ("collection", "part", "method", "scorer", "curvature", "sessions", "delta")
        groups[tuple(str(row.get(key, "")) for key in about)].append(row)
    print("| collection | part | method | scorer | curvature | N | delta | seeds | sorted |"
          " expected | utility kept | least kept |")  # fmt: skip
    print("|" + " --- |" * 12)
    for key, rows in groups.items():
        columns = {name: [row[name] for row in rows] for name in ("sorted", "expected", "kept")}
        cells = [f"{np.mean(values):.3f}" for values in columns.values()]
        print("|", " | ".join([*key, str(len(rows)), *cells, f"{min(columns['kept']):.3f}"]), "|")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    if sys.argv[2:] == ["--tables"]:
        tables(path)
    else:
        work(path, sys.argv[2:] or ["synthetic"])
