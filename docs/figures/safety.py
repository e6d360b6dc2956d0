"""The table of docs/safety.md: what is kept of production's utility when users break the model.

`python docs/figures/safety.py` prints it; figures of each row are the worst over the seeds.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import saferank as sr
from saferank._core.flat import query_sums
from saferank.clicks import ClickModel, Users, relevance
from saferank.clicks.users import adversarial
from saferank.data import Collection
from saferank.learning import Ranker, Settings, learn

METHODS = ("ips", "dr", "safe-dr", "prpo", "prpo-floor")
TRUST = sr.clicks.trust_bias()
USERS: dict[str, tuple[Users, ClickModel]] = {
    "trust bias": (TRUST, TRUST),
    "misspecified": (TRUST, sr.clicks.position_bias()),
    "cascade": (sr.clicks.cascade(), TRUST),
    "adversarial": (adversarial(TRUST), TRUST),
}
"""Who clicks, and what the learner takes them for."""
SESSIONS = 100_000
KEEP, SLACK = 0.9, 0.01
QUICK = Settings(steps=250, min_validation_interval=50, hidden=(16,))


def measured(world: Collection, ranker: Ranker, production: Ranker) -> dict[str, float]:
    """Of the test queries: what is kept, what was certified, and what the guard makes of it."""
    test, weights = world.test, TRUST.exposure_weights
    true = relevance(test.known_labels, world.highest_grade)
    promise = sr.safety.Promise(KEEP, SLACK)
    guard = sr.safety.Guard(ranker, production, promise, weights=weights, mode="mix")
    certificate = sr.certify(ranker, test, production=production, promise=promise, weights=weights)
    total = np.array([weights[:size].sum() for size in test.sizes])

    def utility(omega: Any) -> Any:
        return query_sums(omega * true, test.offsets)

    before = utility(sr.plackett_luce.exposure(production.scores(test), weights, test.offsets))
    after = utility(sr.plackett_luce.exposure(ranker.scores(test), weights, test.offsets))
    guarded = utility(guard.exposure(test))
    floor = KEEP * before - SLACK * total - 1e-8
    curve = np.array(certificate.curve.kept) - np.array(certificate.curve.mean) / before.mean()
    return {
        "kept": after.mean() / before.mean(),
        "certified": curve.max(),
        "broken": float(np.mean(after < floor)),
        "guarded": guarded.mean() / before.mean(),
        "promised": (floor.mean()) / before.mean(),
        "guard broken": float(np.mean(guarded < floor)),
        "worst": float(np.min((after - floor) / total)),
    }


def one(users: str, method: str, seed: int) -> dict[str, float]:
    """Learn one ranker from clicks and measure it."""
    world = sr.data.synthetic("small", queries=120, seed=seed)
    few = world.train.subset(np.arange(8))
    production = learn(few, method="skyline", settings=QUICK, validation=(few, None), seed=seed)
    clickers, believed = USERS[users]
    counts = sr.clicks.simulate(
        world.train, production.scores(world.train), clickers, SESSIONS, seed,
        highest_grade=world.highest_grade, judge=0, progress=False,
    )  # fmt: skip
    delta = {"delta": KEEP} if method.startswith("prpo") else {}
    ranker = learn(
        world.train, counts, believed, method=method, production=production, settings=QUICK,
        seed=seed, **delta,
    )  # fmt: skip
    return measured(world, ranker, production)


def main(seeds: int = 3, *groups: str) -> None:
    """Print the table, of all users or of some."""
    print(
        "| users | method | kept, worst seed | certified at least | queries below the promise "
        "| with guard: kept | with guard: promised | with guard: queries below |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for users in groups or USERS:
        for method in METHODS:
            rows = [one(users, method, seed) for seed in range(seeds)]
            worst = {key: min(row[key] for row in rows) for key in rows[0]}
            most = {key: max(row[key] for row in rows) for key in rows[0]}
            print(
                f"| {users} | {method} | {worst['kept']:.1%} | {worst['certified']:.1%} "
                f"| {most['broken']:.1%} | {worst['guarded']:.1%} | {most['promised']:.1%} "
                f"| {most['guard broken']:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
