"""The tables of docs/methods.md: `python docs/figures/methods.py FOLDER DATA ...`.

DATA is a folder or `synthetic:PRESET[:QUERIES]`. Jobs are those of the study
(`saferank.experiments`): stopped and started again it goes on where it was, and the tables are
printed when nothing is left to do.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from saferank.experiments import PRESETS, Curve, open_collection, plan, read_results, sweep
from saferank.experiments.study import fingerprint

STUDY = PRESETS["quick"].changed(seeds=5, sessions=tuple(10**power for power in range(2, 9)))
ATTACKED = 10**6
PEAKS = (1.0, 4.0)
DELTAS = ("0.25", "0.5", "0.65", "0.9", "1")


def variants(users):
    yield Curve("", "dr", "dr", users=users)
    yield Curve("", "safe-dr", "safe-dr", "0.95", users=users)
    for method in ("prpo", "prpo-floor"):
        for delta in DELTAS:
            yield Curve("", f"{method}, δ = {delta}", method, delta, users=users)


def studies(data):
    """The main study, and one for each peak of production with one number of sessions."""
    main = STUDY.changed(data=data)
    peaked = [
        main.changed(sessions=(ATTACKED,), conditions=replace(main.conditions, peak=peak))
        for peak in PEAKS
    ]
    return main, peaked


def work(data, folder):
    main, peaked = studies(data)
    address = fingerprint(open_collection(data, folder / "data"))
    jobs = [plan((2,), main, address)]
    for study in peaked:
        curves = [*variants("adversarial"), *variants("trust")]
        jobs.append([job for curve in curves for job in curve.jobs(study, address)])
    every = list(dict.fromkeys(job for some in jobs for job in some))
    print(data, sweep(every, data, folder), flush=True)
    methods_table(read_results(main, address, every, folder))
    for study in peaked:
        attack_table(read_results(study, address, every, folder))


def by_cross_entropy(data, folder):
    """The methods with a regression, by the other loss."""
    study = STUDY.changed(
        data=data, conditions=replace(STUDY.conditions, regression="cross-entropy")
    )
    address = fingerprint(open_collection(data, folder / "data"))
    jobs = plan((2,), study, address)
    print(data, "regression by cross-entropy:", sweep(jobs, data, folder), flush=True)
    methods_table(read_results(study, address, jobs, folder))


def methods_table(results):
    study, sizes = results.study, results.study.sessions
    curves = [Curve("", name, name) for name in ("production", "skyline")]
    curves += [Curve("", m, m) for m in ("naive", "ips", "dm", "dr")]
    curves += [Curve("", "safe-dr", "safe-dr", "0.95"), Curve("", "prpo", "prpo", "100/N")]
    base = results.values(curves[0], 0)
    for measure in ("expected", "sorted"):
        print(f"\n{study.data}, {measure} NDCG@5, mean of {study.seeds} seeds\n")
        print("| ranker |" + "".join(f" N = {n:.0e} |" for n in sizes))
        print("| --- |" + " --- |" * len(sizes))
        for curve in curves:
            fixed = curve.label in ("production", "skyline")
            means = [results.values(curve, 0 if fixed else n, measure).mean() for n in sizes]
            print(f"| {curve.label} |" + "".join(f" {value:.3f} |" for value in means))
    print(
        "\nchange of expected NDCG@5 against production: the worst N's mean over seeds, the worst"
    )
    print("single run; and at the largest N against the skyline\n")
    sky = results.values(curves[1], 0)
    for curve in curves[2:]:
        changes = {n: results.values(curve, n) / base - 1 for n in sizes}
        worst = min(sizes, key=lambda n: changes[n].mean())
        run = min(float(change.min()) for change in changes.values())
        last = float((results.values(curve, sizes[-1]) / sky - 1).mean())
        mean = changes[worst].mean()
        print(f"- {curve.label}: {mean:+.1%} at N = {worst:.0e}; {run:+.1%}; {last:+.1%}")


def attack_table(results):
    peak = results.study.conditions.peak
    print(f"\nproduction's scores x {peak:g}, N = {ATTACKED:.0e}: share of its true utility kept\n")
    print("| ranker | adversarial users: mean | worst seed | trust bias: mean |")
    print("| --- | --- | --- | --- |")
    for bad, good in zip(variants("adversarial"), variants("trust"), strict=True):
        kept = {
            curve.users: results.values(curve, ATTACKED, "utility")
            / results.values(curve, ATTACKED, "production_utility")
            for curve in (bad, good)
        }
        low, cost = kept["adversarial"], kept["trust"]
        print(f"| {bad.label} | {low.mean():.3f} | {np.min(low):.4f} | {cost.mean():.3f} |")


def results_folder(root, data):
    """Where the results of a collection lie: where `saferank reproduce -o root/NAME` has them."""
    label = Path(data).parent.name if Path(data).is_dir() else data.replace(":", "-")
    return Path(root) / label / "results"


if __name__ == "__main__":
    for name in sys.argv[2:] or ["synthetic:mslr:600"]:
        target = results_folder(sys.argv[1], name)
        work(name, target)
        by_cross_entropy(name, target)
