"""The tables of docs/methods.md: `python docs/figures/methods.py OUTPUT [MSLR-mini/Fold1]`.

`python docs/figures/methods.py --tables OUTPUT` prints them from what was measured.

Every (collection, seed, users, N) is one job on one core; results are JSON lines, so that a run
that was stopped goes on where it was.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import joblib
import numpy as np

import saferank as sr
from saferank.clicks import adversarial, relevance, simulate, trust_bias
from saferank.metrics import mean, ndcg
from saferank.plackett_luce import expected_ndcg, exposure
from saferank.rankers import Settings

SETTINGS = Settings(steps=600, patience=4, batch=16, hidden=(32, 32))
SEEDS = range(5)
SIZES = (10**2, 10**3, 10**4, 10**6, 10**8)
METHODS = ("naive", "ips", "dm", "dr", "safe-dr", "prpo")
DELTAS = (0.25, 0.5, 0.65, 0.9, 1.0)
USERS = trust_bias()


def collection(name, seed):
    if name == "synthetic":
        return sr.data.synthetic("mslr", queries=120, seed=seed)
    return sr.data.load(name)


def production(world, seed, share=0.03):
    """A ranker trained on 3 % of the labels (at least 4 queries)."""
    queries = np.random.default_rng(seed).permutation(world.train.queries)
    few = world.train.subset(queries[: max(4, round(share * world.train.queries))])
    return sr.learn(few, method="skyline", seed=seed, settings=SETTINGS)


def measured(world, ranker, shown):
    test = world.test
    scores = ranker.scores(test)
    truth = relevance(test.labels, world.highest_grade)

    def utility(of):
        return float(exposure(of, USERS.exposure_weights, test.offsets) @ truth)

    return {
        "expected": mean(expected_ndcg(scores, test.labels, test.offsets, 5)),
        "sorted": mean(ndcg(scores, test.labels, test.offsets, 5)),
        "kept": utility(scores) / utility(shown),
    }


def variants(kind):
    if kind == "trust":
        return [(m, {"method": m}) for m in METHODS]
    changed = [
        (f"{m} {d}", {"method": m, "delta": d}) for m in ("prpo", "prpo-floor") for d in DELTAS
    ]
    return [("dr", {"method": "dr"}), ("safe-dr", {"method": "safe-dr"}), *changed]


def job(name, seed, kind, sessions, peak):
    """Every method on one log; `peak` multiplies production's scores (peaked or flat policies)."""
    world = collection(name, seed)
    ranker = production(world, seed)
    if peak != 1:
        ranker = peaked(ranker, peak)
    users = USERS if kind in ("trust", "cost") else adversarial(USERS)
    logs = [
        (part, simulate(part, ranker.scores(part), users, sessions=n, seed=seed + 1,
                        highest_grade=world.highest_grade))
        for part, n in ((world.train, sessions), (world.validation, max(1, sessions * 15 // 100)))
    ]  # fmt: skip
    shown = ranker.scores(world.test)
    rows = [{"ranker": "production", **measured(world, ranker, shown)}]
    if kind == "trust" and sessions == SIZES[0]:
        full = sr.learn(world.train, method="skyline", seed=seed, settings=SETTINGS,
                        validation=(world.validation, None))  # fmt: skip
        rows.append({"ranker": "skyline", **measured(world, full, shown)})
    predictor = sr.rankers.fit_relevance(*logs[0], USERS, production=ranker, validation=logs[1],
                                         seed=seed, settings=SETTINGS)  # fmt: skip
    for label, options in variants(kind):
        learned = sr.learn(*logs[0], USERS, production=ranker, validation=logs[1], seed=seed,
                           settings=SETTINGS, predictor=predictor, **options)  # fmt: skip
        rows.append({"ranker": label, **measured(world, learned, shown)})
    about = {"data": name, "seed": seed, "users": kind, "N": sessions, "peak": peak}
    return [{**about, **row} for row in rows]


def peaked(ranker, factor):
    """The same ranker with its scores multiplied: its last layer is."""
    import torch

    copy = ranker.scorer.copy()
    with torch.no_grad():
        for parameter in list(copy.module.parameters())[-2:]:
            parameter.mul_(factor)
    return type(ranker)(copy, ranker.scaling, ranker.card)


def main(output, real):
    jobs = [("synthetic", s, "trust", n, 1) for n in SIZES for s in SEEDS]
    jobs += [
        ("synthetic", s, k, 10**6, p)
        for p in (1, 4)
        for k in ("adversarial", "cost")
        for s in SEEDS
    ]
    if real:
        jobs += [(real, s, "trust", n, 1) for n in (10**2, 10**4, 10**8) for s in SEEDS]
    path = Path(output)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    seen = {(r["data"], r["seed"], r["users"], r["N"], r["peak"]) for r in done}
    todo = [j for j in jobs if tuple(j) not in seen]
    for rows in joblib.Parallel(n_jobs=2, return_as="generator_unordered")(
        joblib.delayed(job)(*j) for j in todo
    ):
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def tables(path):
    """Markdown: NDCG over N by method, and the share of production's utility kept by delta."""
    found = [json.loads(line) for line in Path(path).read_text().splitlines()]

    def values(field, **wanted):
        rows = [r for r in found if all(r[k] == v for k, v in wanted.items())]
        return np.array([r[field] for r in rows])

    def cell(field, **wanted):
        some = values(field, **wanted)
        return f"{some.mean():.3f}" if some.size else "-"

    for data in dict.fromkeys(r["data"] for r in found):
        trust = [r for r in found if r["data"] == data and r["users"] == "trust"]
        sizes = sorted({r["N"] for r in trust})
        seeds = len({r["seed"] for r in trust})
        for field in ("expected", "sorted"):
            print(f"\n{data}, trust bias, {field} NDCG@5, mean of {seeds} seeds\n")
            print("| ranker | " + " | ".join(f"N = {n:.0e}" for n in sizes) + " |")
            print("| --- |" + " --- |" * len(sizes))
            for ranker in dict.fromkeys(r["ranker"] for r in trust):
                cells = []
                for n in sizes:
                    at = {} if ranker == "skyline" else {"N": n}
                    cells.append(cell(field, data=data, users="trust", ranker=ranker, **at))
                print(f"| {ranker} | " + " | ".join(cells) + " |")
        drops = {}
        for r in trust:
            if r["ranker"] not in ("production", "skyline"):
                base = values("expected", data=data, users="trust", N=r["N"], seed=r["seed"],
                              ranker="production")[0]  # fmt: skip
                drops.setdefault((r["ranker"], r["N"]), []).append(r["expected"] / base - 1)
        print(f"\n{data}: mean change of expected NDCG@5 against production, worst N\n")
        for ranker in dict.fromkeys(name for name, _ in drops):
            worst = min((np.mean(v), n) for (name, n), v in drops.items() if name == ranker)
            print(f"- {ranker}: {worst[0]:+.1%} at N = {worst[1]:.0e}")
    for peak in (1, 4):
        print(f"\nscores of production x {peak}: share of production's true utility kept\n")
        print("| ranker | adversarial, mean | adversarial, worst | trust bias, mean |")
        print("| --- | --- | --- | --- |")
        for ranker in dict.fromkeys(r["ranker"] for r in found if r["users"] == "adversarial"):
            bad = values("kept", users="adversarial", peak=peak, ranker=ranker)
            good = values("kept", users="cost", peak=peak, ranker=ranker)
            if bad.size and good.size:
                print(f"| {ranker} | {bad.mean():.3f} | {bad.min():.3f} | {good.mean():.3f} |")


if __name__ == "__main__":
    if sys.argv[1] == "--tables":
        tables(sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
