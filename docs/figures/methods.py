"""The tables of docs/methods.md: `python docs/figures/methods.py FOLDER DATA ...`.

DATA is a folder or `synthetic:PRESET[:QUERIES]`. Jobs are those of the study
(`saferank.experiments`): stopped and started again it goes on where it was, and the tables are
printed when nothing is left to do.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from saferank.estimators.regression import LOSSES
from saferank.experiments import PRESETS
from saferank.experiments.learning_curves import Curve, plan
from saferank.experiments.results import read_results
from saferank.experiments.study import fingerprint, open_collection
from saferank.experiments.sweep import sweep

STUDY = PRESETS["quick"].replace(seeds=5, sessions=tuple(10**power for power in range(2, 9)))
ATTACKED = 10**6
PEAKS = (1.0, 4.0)
REGRESSED = [Curve("", name, name) for name in ("dm", "dr")]
REGRESSED += [Curve("", "safe-dr", "safe-dr", "0.95"), Curve("", "prpo", "prpo", "100/N")]
DELTAS = ("0.25", "0.5", "0.65", "0.9", "1")


def variants(users):
    yield Curve("", "dr", "dr", users=users)
    yield Curve("", "safe-dr", "safe-dr", "0.95", users=users)
    for method in ("prpo", "prpo-floor"):
        for delta in DELTAS:
            yield Curve("", f"{method}, δ = {delta}", method, delta, users=users)


def study_of(data, *, sessions=STUDY.sessions, **conditions):
    return STUDY.replace(
        data=data, sessions=sessions, conditions=replace(STUDY.conditions, **conditions)
    )


def run(study, jobs_of, folder):
    """The results of a study, after running what is left of its jobs."""
    address = fingerprint(open_collection(study.data, folder / "data"))
    jobs = list(dict.fromkeys(jobs_of(study, address)))
    print(study.data, sweep(jobs, study.data, folder), flush=True)
    return read_results(study, address, jobs, folder)


def learned(data, folder):
    """Every method against the number of sessions."""
    methods_table(run(study_of(data), partial(plan, (2,)), folder))


def attacked(data, folder):
    """Adversarial users, and what the same rankers gain from honest ones."""

    def jobs(study, address):
        curves = [*variants("adversarial"), *variants("trust")]
        return [job for curve in curves for job in curve.jobs(study, address)]

    attack_table(
        [run(study_of(data, sessions=(ATTACKED,), peak=peak), jobs, folder) for peak in PEAKS]
    )


def by_regression(data, folder):
    """The methods with a regression, by each of its losses."""

    def jobs(study, address):
        return [job for curve in REGRESSED for job in curve.jobs(study, address)]

    print(f"\n{data}, expected NDCG@5 by the loss of the regression")
    for loss in LOSSES:
        results = run(study_of(data, sessions=STUDY.sessions[::2], regression=loss), jobs, folder)
        for curve in REGRESSED:
            means = [results.values(curve, n).mean() for n in results.study.sessions]
            print(f"| {curve.label} | {loss} |" + "".join(f" {mean:.3f} |" for mean in means))


def methods_table(results):
    study, sizes = results.study, results.study.sessions
    fixed = [Curve("", name, name) for name in ("production", "skyline")]
    rankers = [Curve("", name, name) for name in ("naive", "ips")] + REGRESSED

    def cell(curve, sessions):
        values = (results.values(curve, sessions, measure) for measure in ("expected", "sorted"))
        return " / ".join(f"{value.mean():.3f}" for value in values)

    print(f"\n{study.data}, NDCG@5 expected / sorted, mean of {study.seeds} seeds\n")
    print("| ranker |" + "".join(f" N = {n:.0e} |" for n in sizes))
    print("| --- |" + " --- |" * len(sizes))
    for curve in fixed:
        print(f"| {curve.label} | {cell(curve, 0)} |" + " |" * (len(sizes) - 1))
    for curve in rankers:
        print(f"| {curve.label} |" + "".join(f" {cell(curve, n)} |" for n in sizes))
    print(
        "\nexpected NDCG@5 against production: the worst mean over seeds of any N, the worst run;"
    )
    print("and at the largest N against the skyline\n")
    base, sky = (results.values(curve, 0) for curve in fixed)
    for curve in rankers:
        changes = [results.values(curve, n) / base - 1 for n in sizes]
        mean, run = min(change.mean() for change in changes), np.min(changes)
        last = (results.values(curve, sizes[-1]) / sky - 1).mean()
        print(f"| {curve.label} | {mean:+.1%}, {run:+.1%}; {last:+.1%} |".replace("%", " %"))


def attack_table(by_peak):
    print(f"\nN = {ATTACKED:.0e}: share of production's true utility that is kept\n")
    peaks = [results.study.conditions.peak for results in by_peak]
    heads = [f"x{peak:g}: adversarial, mean (worst) | x{peak:g}: trust bias" for peak in peaks]
    print(f"| ranker | {' | '.join(heads)} |")
    print("| --- |" + " --- | --- |" * len(by_peak))
    for bad, good in zip(variants("adversarial"), variants("trust"), strict=True):
        cells = []
        for results in by_peak:
            low, cost = (
                results.values(curve, ATTACKED, "utility")
                / results.values(curve, ATTACKED, "production_utility")
                for curve in (bad, good)
            )
            cells.append(f"{low.mean():.3f} ({low.min():.3f}) | {cost.mean():.3f}")
        print(f"| {bad.label} | {' | '.join(cells)} |")


def results_folder(root, data):
    """Where the results of a collection lie: where `saferank reproduce -o root/NAME` has them."""
    label = Path(data).parent.name if Path(data).is_dir() else data.replace(":", "-")
    return Path(root) / label / "results"


if __name__ == "__main__":
    for name in sys.argv[2:] or ["synthetic:mslr:600"]:
        for part in (learned, by_regression, attacked):
            part(name, results_folder(sys.argv[1], name))
