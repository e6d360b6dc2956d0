"""Errors that `explore` predicts beside those realised: `python -m benchmarks.explored_errors`.

A shop's production sorts; a plan is made from the counts of its fixed lists (or from what is said
of clicks). Of each way to explore, 200 logs are simulated with what it serves, and fitted by the
package's own `bias`; the spread of the fitted slopes is set beside the errors that the plan
predicted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.bias_coverage import FITS, MODELS, RANKS, World
from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.policies import ProductionPolicy
from saferank.safety.exploring import Aim, ExplorationPlan, Explorer, explore
from saferank.safety.promise import Promise

PROMISE = Promise(0.9, 0.01)
SIZE, POOL = 20, 50_000


class Shop:
    """A world whose production sorts, and its counts of fixed lists."""

    def __init__(self, queries: int, users: str, *, old: int = 100_000, seed: int = 0) -> None:
        world = World(queries, 1.0, seed)
        self.users = MODELS[users]
        self.data = replace(world.data, production=world.scores)
        self.relevance = np.asarray(world.data.labels, dtype=np.float64)
        self.shares = world.traffic / world.traffic.sum()
        self.production = ProductionPolicy.sorted(world.scores, world.data.offsets)
        self.order = flat.top(world.scores, SIZE, world.data.offsets)
        still = np.arange(RANKS)[None]
        self.counts = self.log(still, old, np.random.default_rng(seed))

    def log(self, served: Ints, sessions: int, rng: np.random.Generator) -> Counts:
        """Counts of sessions that each get one of the rankings that were served (of places)."""
        query = rng.choice(self.shares.size, sessions, p=self.shares)
        ranking = served[rng.integers(len(served), size=sessions)]
        shown = np.zeros((self.data.documents, RANKS), dtype=np.int64)
        for rank in range(RANKS):
            documents = self.order[query, ranking[:, rank]]
            shown[:, rank] = np.bincount(documents, minlength=self.data.documents)
        clicks = rng.binomial(shown, self.users.probability(self.relevance))
        return Counts(self.data.offsets, shown, clicks)

    def plan(self, sessions: int, aim: Aim, known: str) -> ExplorationPlan:
        """A plan from what is known: the users, counts of fixed lists, or neither."""
        given = {"counts": self.counts} if known != "nothing" else {}
        return explore(
            self.data, self.production, k=RANKS, sessions=sessions, promise=PROMISE, aim=aim,
            click_model=self.users if known == "users" else None, **given,  # type: ignore[arg-type]
        )  # fmt: skip


def realised(shop: Shop, lists: Ints, kind: str, sessions: int, logs: int) -> Iterator[Floats]:
    """Fitted log slopes of simulated logs."""
    for seed in range(logs):
        counts = shop.log(lists, sessions, np.random.default_rng([7, seed]))
        try:
            fit = FITS[kind](counts, folds=0, progress=False)  # type: ignore[operator]
        except InputError:
            continue
        yield np.log(fit.canonical.slope)


def errors(logs: int, only: list[int] | None) -> None:
    """Print predicted errors beside realised ones."""
    heads = "users, fit, known, sessions, depth, way, predicted, realised, ratio by rank, logs"
    print(f"| {' | '.join(heads.split(', '))} |\n" + "| --- " * 10 + "|")
    for row, (users, kind, known, sessions, depth) in enumerate(SETTINGS, start=1):
        if only and row not in only:
            continue
        shop = Shop(300, users)
        aim = Aim(kind, depth=depth, judge=0.0)
        plan = shop.plan(sessions, aim, known)
        for one in plan.outlooks[1:]:
            if one.name not in ("moves", "uniform", "neighbours"):
                continue
            lists = served(shop, plan, one.name, known)
            fits = np.array(list(realised(shop, lists, kind, sessions, logs)))
            spread = fits.std(axis=0, ddof=1)[1:]
            said = np.array(one.errors[kind], dtype=np.float64)[1:]
            ratio = said / spread
            row_of = [
                users, kind, known, f"{sessions:,}", plan.depth, one.name, f"{said.max():.3g}",
                f"{spread.max():.3g}",
                f"{ratio.min():.2f}-{ratio.max():.2f}, mean {ratio.mean():.2f}", len(fits),
            ]  # fmt: skip
            print("| " + " | ".join(map(str, row_of)) + " |", flush=True)


def served(shop: Shop, plan: ExplorationPlan, name: str, known: str) -> Ints:
    """Rankings that one of the plan's ways serves of a list of 20, as places in production's."""
    again = explore(
        shop.data, shop.production, k=RANKS, sessions=plan.sessions, promise=PROMISE, choose=name,
        counts=shop.counts, aim=Aim(plan.kind, depth=plan.depth, judge=0.0),
        click_model=shop.users if known == "users" else None,
    )  # fmt: skip
    one = shop.data.subset([0])
    scores = -np.arange(SIZE, dtype=np.float64)
    policy = again.policy(scores, one)
    if isinstance(policy, Explorer):
        lists = [policy.rank_query(scores, RANKS, i, "list") for i in range(POOL)]
    else:
        new = np.asarray(policy.new, dtype=np.float64)
        lists = [policy.rank_query(new, scores, RANKS, i, "list") for i in range(POOL)]
    return np.array(lists)


SETTINGS = [
    ("shop, position", "position", "counts", 20_000, None),
    ("shop, position", "position", "counts", 200_000, None),
    ("shop, position", "position", "counts", 200_000, 20),
    ("shop, trust", "trust", "users", 300_000, None),
    ("shop, trust", "trust", "counts", 300_000, None),
    ("shop, trust", "trust", "counts", 1_000_000, 20),
    ("the paper's", "trust", "users", 300_000, None),
]
"""Users, fit, what is known of clicks, sessions, depth."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--only", type=int, nargs="*", help="rows of the table, from 1")
    asked = parser.parse_args()
    errors(asked.logs, asked.only)


if __name__ == "__main__":
    main()
