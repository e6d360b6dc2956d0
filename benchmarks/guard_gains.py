"""What the guard gives up: true gain kept by mixture and best policy, on queries never seen.

`python -m benchmarks.guard_gains synthetic:small:120 synthetic:mslr:200 MQ2008/Fold1 ... --seeds 5`
prints the table of docs/safety.md. Rankers are learned from simulated clicks; gains are changes of
true utility against production, on test queries, mean over seeds.
"""

from __future__ import annotations

import argparse

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks import relevance, simulate, trust_bias
from saferank.data import Collection, load, synthetic
from saferank.learning import Ranker, Settings, learn
from saferank.plackett_luce import exposure, rank_probabilities
from saferank.safety import Guard, Promise

USERS = trust_bias()
SESSIONS = 100_000
PROMISES = tuple(Promise(keep, 0.01) for keep in (0.9, 0.8, 0.5))
QUICK = Settings(steps=250, hidden=(16,))
FEW = 8
"""Queries whose labels production was trained on."""
Key = tuple[object, ...]


def collection_of(name: str, seed: int) -> Collection:
    """`synthetic:PRESET:QUERIES`, or the folder of a collection."""
    word, _, rest = name.partition(":")
    if word != "synthetic":
        return load(name)
    preset, _, queries = rest.partition(":")
    return synthetic(preset, queries=int(queries), seed=seed)


def learned(world: Collection, method: str, seed: int) -> tuple[Ranker, Ranker]:
    """A ranker from clicks, and production."""
    few = world.train.subset(np.arange(FEW))
    production = learn(few, method="skyline", settings=QUICK, validation=(few, None), seed=seed)
    counts = simulate(
        world.train, production.scores(world.train), USERS, SESSIONS, seed,
        highest_grade=world.highest_grade, progress=False,
    )  # fmt: skip
    ranker = learn(
        world.train, counts, USERS, method=method, production=production, settings=QUICK, seed=seed
    )
    return ranker, production


def measure(world: Collection, ranker: Ranker, production: Ranker) -> dict[Key, float]:
    """True change of utility, as a share of production's; and promises that were broken."""
    test, weights = world.test, USERS.exposure_weights
    true = relevance(test.known_labels, world.highest_grade)
    old, new = production.scores(test), ranker.scores(test)
    before = exposure(old, weights, test.offsets) @ true

    def change(omega: Floats) -> float:
        return float(omega @ true / before - 1)

    found: dict[Key, float] = {("unguarded",): change(exposure(new, weights, test.offsets))}
    for promise in PROMISES:
        for looking in ("fitted", "any"):
            for what, mode, gains, deployed in (
                ("mix", "mix", None, "sampled"),
                ("mix sorted", "mix", None, "sorted"),
                ("best", "best", None, "sampled"),
                ("best by relevance", "best", ranker.relevance(test), "sampled"),
            ):
                guard = Guard(
                    new, old, promise, weights=weights, mode=mode, examination=looking,  # type: ignore[arg-type]
                    gains=gains, deployed=deployed, production_kind="sampled",
                )  # fmt: skip
                table = guard.propensities(test)
                found[promise.keep, looking, what] = change(table @ weights)
                found[promise.keep, looking, what, "broken"] = _broken(
                    table, rank_probabilities(old, weights.size, test.offsets), true, promise,
                    weights, test.offsets,
                )  # fmt: skip
    return found


def _broken(
    table: Floats, table0: Floats, true: Floats, promise: Promise, weights: Floats, offsets: Floats
) -> float:
    """Share of the queries whose true utility is below what was promised."""
    after, before = (np.add.reduceat((t @ weights) * true, offsets[:-1]) for t in (table, table0))
    total = np.array([weights[:size].sum() for size in np.diff(offsets)])
    return float(np.mean(after < promise.keep * before - promise.slack * total - 1e-8))


def main() -> None:
    """Print a row per collection, way of looking and promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--method", default="dr")
    given = parser.parse_args()
    print(
        "| collection | unguarded | promised for | keep | mixture | mixture, new ranker sorted "
        "| best policy | ratio "
        "| best by the regression's relevance | promises broken |"
    )
    print("|" + 10 * " --- |")
    for name in given.collections:
        runs = []
        for seed in range(given.seeds):
            world = collection_of(name, seed)
            runs.append(measure(world, *learned(world, given.method, seed)))
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        for looking in ("fitted", "any"):
            for promise in PROMISES:
                mix, in_order, best, other = (
                    mean[promise.keep, looking, what]
                    for what in ("mix", "mix sorted", "best", "best by relevance")
                )
                broken = max(run[key] for run in runs for key in run if "broken" in key)
                print(
                    f"| {name} | {mean['unguarded',]:+.1%} | {looking} | {promise.keep:g} "
                    f"| {mix:+.2%} | {in_order:+.2%} | {best:+.2%} | {best / mix:.2f} "
                    f"| {other:+.2%} | {broken:.2%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
