"""The tables of docs/trees.md: `python docs/figures/trees.py FOLDER DATA ...`.

DATA is a folder or `synthetic:PRESET[:QUERIES]`. From clicks: jobs of the study
(`saferank.experiments`), so that a run that was stopped goes on where it was. From labels: trees
by three curvatures against LightGBM's own `lambdarank`.
"""

import json
import sys
from dataclasses import replace

import lightgbm
import numpy as np
from methods import results_folder

import saferank as sr
from saferank.experiments import PRESETS
from saferank.experiments.learning_curves import Curve
from saferank.experiments.results import read_results
from saferank.experiments.study import Conditions, fingerprint, open_collection
from saferank.experiments.sweep import sweep
from saferank.metrics import mean, ndcg
from saferank.plackett_luce import expected_ndcg

SETTINGS = replace(PRESETS["quick"].conditions.settings, rounds=150, leaves=15)
STUDY = PRESETS["quick"].replace(seeds=5, sessions=(10**2, 10**4, 10**6, 10**8))
ATTACKED = 10**6
DELTAS = ("0.25", "0.5", "0.65", "0.9", "1")
LEARNED = [Curve("", "dr", "dr"), Curve("", "safe-dr", "safe-dr", "0.95"),
           Curve("", "prpo", "prpo", "100/N")]  # fmt: skip
HOSTILE = [Curve("", "dr", "dr", users="adversarial")] + [
    Curve("", f"{method}, δ = {delta}", method, delta, users="adversarial")
    for method in ("prpo", "prpo-floor")
    for delta in DELTAS
]


def from_clicks(data, folder):
    """Trees and networks on the same logs, which a linear production ranker has shown."""
    address = fingerprint(open_collection(data, folder / "data"))
    found = {}
    for scorer in ("trees", "mlp"):
        conditions = Conditions(
            scorer=scorer, shown_by="linear", regression="likelihood", settings=SETTINGS
        )
        study = STUDY.replace(data=data, conditions=conditions)
        attacked = study.replace(sessions=(ATTACKED,))
        references = [Curve("", name, name) for name in ("production", "skyline")]
        jobs = [job for curve in references + LEARNED for job in curve.jobs(study, address)]
        jobs += [job for curve in HOSTILE for job in curve.jobs(attacked, address)]
        print(data, scorer, sweep(jobs, data, folder), flush=True)
        found[scorer] = read_results(study, address, jobs, folder)
    print_learned(found)
    print_attacked(found)


def print_learned(found):
    sizes, seeds = STUDY.sessions, STUDY.seeds
    print(f"\nNDCG@5, sorted / expected, mean of {seeds} seeds\n")
    print("| ranker |" + "".join(f" N = {n:.0e} |" for n in sizes))
    print("| --- |" + " --- |" * len(sizes))
    worst = {}
    for scorer, results in found.items():
        for curve in [Curve("", name, name) for name in ("production", "skyline")] + LEARNED:
            fixed = curve.label in ("production", "skyline")
            cells = []
            for n in sizes:
                sorted_, expected = (
                    results.values(curve, 0 if fixed else n, measure).mean()
                    for measure in ("sorted", "expected")
                )
                cells.append(f"{sorted_:.3f} / {expected:.3f}")
            print(f"| {curve.label}, {scorer} | " + " | ".join(cells) + " |")
            if not fixed:
                base = results.values(Curve("", "", "production"), 0)
                changes = [results.values(curve, n) / base - 1 for n in sizes]
                low = min(float(change.mean()) for change in changes)
                worst[f"{curve.label}, {scorer}"] = low, float(np.min(changes))
    print("\nexpected NDCG@5 against production: worst mean over seeds, worst run\n")
    for name, (low, run) in worst.items():
        print(f"- {name}: {low:+.1%}, {run:+.1%}")


def print_attacked(found):
    print(f"\nadversarial users, N = {ATTACKED:.0e}: share of production's utility, mean (worst)\n")
    print("| ranker | trees | mlp |")
    print("| --- | --- | --- |")
    for curve in HOSTILE:
        cells = []
        for results in found.values():
            utility, before = (
                results.values(curve, ATTACKED, name) for name in ("utility", "production_utility")
            )
            kept = utility / before
            cells.append(f"{kept.mean():.3f} ({kept.min():.4f})")
        print(f"| {curve.label} | " + " | ".join(cells) + " |")


def lambdarank(world, settings):
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
        "num_leaves": settings.leaves,
        "learning_rate": settings.shrinkage,
        "verbosity": -1,
    }
    train = dataset(world.train)
    model = lightgbm.train(
        options, train, num_boost_round=settings.rounds,
        valid_sets=[dataset(world.validation, train)],
        callbacks=[lightgbm.early_stopping(settings.rounds, verbose=False)],
    )  # fmt: skip
    return [model.predict(part.features, raw_score=True) for part in (world.validation, world.test)]


def skylines(world):
    """Rankers of labels by name, as their scores of validation and test."""
    settings = replace(SETTINGS, rounds=300, patience=60)
    held = (world.validation, None)
    yield "lambdarank of LightGBM", lambdarank(world, settings)
    for name, options in (
        ("trees, gradient", {"curvature": "gradient"}),
        ("trees, exposure", {"curvature": "exposure"}),
        ("trees, constant", {"curvature": "constant"}),
        ("trees, lambda", {"method": "lambda"}),
        ("mlp", {"scorer": "mlp"}),
    ):
        curvature = options.get("curvature", settings.curvature)
        ranker = sr.learn(
            world.train, method=options.get("method", "skyline"), gain="labels",
            scorer=options.get("scorer", "trees"), validation=held,
            settings=replace(settings, curvature=curvature),
        )  # fmt: skip
        yield name, [ranker.scores(part) for part in (world.validation, world.test)]


def from_labels(data, folder):
    """Every skyline on five draws of 80 % of the training queries."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "skylines.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    whole = open_collection(data, folder / "data")
    for seed in range(STUDY.seeds):
        if any(row["seed"] == seed for row in rows):
            continue
        world = replace(whole, train=whole.train.split(0.8, 0.2, seed=seed)[0])
        new = []
        for name, scores in skylines(world):
            row = {"seed": seed, "name": name}
            for part, of, found in zip(
                ("validation", "test"), (world.validation, world.test), scores, strict=True
            ):
                row[f"{part} sorted"] = mean(ndcg(found, of.labels, of.offsets, 5))
                row[f"{part} expected"] = mean(expected_ndcg(found, of.labels, of.offsets, 5))
            new.append(row)
        with kept.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in new)
        rows += new
    print(f"\n{data}, from labels, mean of {STUDY.seeds} draws: NDCG@5, sorted / expected\n")
    print("| ranker | validation | test | sorted, test, against lambdarank: mean, standard error |")
    print("| --- | --- | --- | --- |")
    columns = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        for measure, value in row.items():
            if measure not in ("seed", "name"):
                columns.setdefault((row["name"], measure), []).append(value)
    for name in dict.fromkeys(name for name, _ in columns):
        cells = [
            f"{np.mean(columns[name, f'{part} sorted']):.3f} / "
            f"{np.mean(columns[name, f'{part} expected']):.3f}"
            for part in ("validation", "test")
        ]
        ahead = np.subtract(
            columns[name, "test sorted"], columns["lambdarank of LightGBM", "test sorted"]
        )
        error = ahead.std(ddof=1) / np.sqrt(ahead.size)
        print(f"| {name} | " + " | ".join(cells) + f" | {ahead.mean():+.3f}, {error:.3f} |")


if __name__ == "__main__":
    for name in sys.argv[2:] or ["synthetic:mslr:600"]:
        target = results_folder(sys.argv[1], name)
        from_labels(name, target)
        from_clicks(name, target)
