"""Which method should be the default: every candidate beside the truth, worst first.

`python -m benchmarks.default_method FOLDER DATA... [--seeds 3] [--sessions 1e2 1e4] [--users
trust] [--peak 1] [--methods dr prpo]` learns each method on each log (worlds of the study,
`saferank.experiments`: production is a network trained on a few labelled queries) and appends one
line per ranker to FOLDER/rankers.jsonl, so that a stop loses nothing and what is there is not run
again; then it prints the table of docs/methods.md, of all lines that are there. DATA is a folder
or `synthetic:PRESET[:QUERIES]`; without any, only the table is printed.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from saferank._core import flat
from saferank.clicks import relevance
from saferank.estimators.estimator_table import estimator_of
from saferank.experiments import PRESETS
from saferank.experiments.jobs import Log, Production, Store, World, scored_production
from saferank.experiments.study import fingerprint, open_collection
from saferank.experiments.study_world import open_scaled
from saferank.experiments.sweep import one_thread
from saferank.learning import Ranker, learn
from saferank.learning.problem import Log as LearnedLog
from saferank.learning.problem import terms
from saferank.plackett_luce import exposure
from saferank.safety import Guard, Promise

METHODS: dict[str, dict[str, Any]] = {
    "dr": {"method": "dr"},
    "safe-dr": {"method": "safe-dr"},
    "prpo": {"method": "prpo"},
    "prpo-sharpened": {"method": "prpo-sharpened"},
    "prpo-floor": {"method": "prpo-floor"},
    "keep": {"method": "keep"},
    "evidence": {"method": "evidence"},
    "evidence x keep": {"method": "evidence", "objective": "keep"},
    "prpo-lift": {"method": "prpo-lift"},
    "keep 0.9": {"method": "keep", "keep": 0.9},
    "prpo-floor 0.9": {"method": "prpo-floor", "keep": 0.9},
}
CHOICES: dict[str, tuple[dict[str, Any], ...]] = {
    "prpo, better start": ({"method": "prpo"}, {"method": "prpo", "start": "scratch"}),
    "keep, better start": ({"method": "keep"}, {"method": "keep", "start": "scratch"}),
    "prpo or dr": ({"method": "prpo"}, {"method": "dr"}),
}
"""Several rankers, of which the better by validation is kept: rankers of one method by its own
value, of two methods by DR's estimate of utility."""
NAMES = [*METHODS, *CHOICES]
PROMISE = Promise(0.9, 0.01)
"""By which every ranker is looked at."""

Case = tuple[str, str, float, int, int]
"""Collection, users, peak of production, sessions, seed."""


def _world(case: Case, folder: Path) -> World:
    data, users, peak, sessions, seed = case
    place = folder / data.strip("/").replace("/", "-").replace(":", "-")
    address = fingerprint(open_collection(data, place / "data"))
    collection = open_scaled(address, data, place)
    conditions = replace(PRESETS["quick"].conditions, peak=peak)
    production = Production(address, conditions, seed)
    ranker = scored_production(production, collection, Store(place))
    return World(Log(production, users, sessions), collection, ranker)


class Learner:
    """Learns on one world; what several columns of the table ask for is learned once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.learned: dict[str, Ranker] = {}

    def ranker(self, name: str) -> Ranker:
        """A ranker by a name of the table."""
        if name in METHODS:
            return self._of(METHODS[name])
        candidates = CHOICES[name]
        rankers = [self._of(options) for options in candidates]
        if len({options["method"] for options in candidates}) == 1:
            return max(rankers, key=lambda ranker: max(ranker.provenance.history["values"]))
        return max(rankers, key=self._validated)

    def _of(self, options: dict[str, Any]) -> Ranker:
        key = json.dumps(options)
        if key not in self.learned:
            self.learned[key] = _from(self.world, options)
        return self.learned[key]

    def _validated(self, ranker: Ranker) -> float:
        """Utility by DR on the validation clicks."""
        data, clicks = self.world.collection.validation, self.world.clicks[1]
        model = self.world.conditions.click_model()
        weights = model.exposure_weights
        log = LearnedLog(data, clicks)
        by_log = log.propensities(model, weights, averaged=True)
        predictions = expit(self.world.predictor.scores(data))
        gain = terms(log, estimator_of("dr"), model, weights, by_log, predictions).gain
        omega = exposure(ranker.scores(data), weights, data.offsets)
        share = flat.repeat_per_document(clicks.sessions / clicks.total, data.offsets)
        return float(share @ (omega * gain))


def _from(world: World, options: dict[str, Any]) -> Ranker:
    data = world.collection
    return learn(
        data.train,
        world.clicks[0],
        world.conditions.click_model(),
        production=world.production,
        production_kind="sampled",
        validation=(data.validation, world.clicks[1]),
        predictor=world.predictor,
        **(world.options() | options),
    )


def _measure(ranker: Ranker, world: World) -> dict[str, float]:
    """On test queries: change of true utility, and the share of queries that keep the promise."""
    test, weights = world.collection.test, world.conditions.click_model().exposure_weights
    new, old = ranker.scores(test), world.production.scores(test)
    omega, omega0 = (exposure(scores, weights, test.offsets) for scores in (new, old))
    relevant = relevance(test.known_labels, world.collection.highest_grade)
    guarded = Guard(new, old, PROMISE, weights=weights).exposure(test)
    worth = [float(flat.query_sums(it * relevant, test.offsets).sum())
             for it in (omega, omega0, guarded)]  # fmt: skip
    return {
        "change": worth[0] / worth[1] - 1,
        "kept": _kept(omega, omega0, test.offsets),
        "guarded change": worth[2] / worth[1] - 1,
        "guarded kept": _kept(guarded, omega0, test.offsets),
    }


def _kept(omega: flat.Floats, omega0: flat.Floats, offsets: flat.Ints) -> float:
    loss = flat.query_sums(np.maximum(0, PROMISE.keep * omega0 - omega), offsets)
    return float((loss <= PROMISE.slack * flat.query_sums(omega0, offsets) + 1e-8).mean())


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(folder: Path, cases: Sequence[Case], methods: Sequence[str]) -> None:
    """Learn and measure what has no line yet."""
    path = folder / "rankers.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    done = {(*line["case"], line["method"]) for line in _lines(path)}
    for case in cases:
        missing = [name for name in methods if (*case, name) not in done]
        if not missing:
            continue
        with one_thread():
            world = _world(case, folder)
            learner = Learner(world)
            for name in missing:
                found = _measure(learner.ranker(name), world)
                with path.open("a") as file:
                    file.write(json.dumps({"case": case, "method": name, **found}) + "\n")


def tables(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row per condition and sessions, a column per method; then worst and mean over rows."""
    cells: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = defaultdict(dict)
    for line in lines:
        cells[tuple(line["case"][:4])].setdefault(line["method"], []).append(line)
    names = [name for name in NAMES if any(name in cell for cell in cells.values())]
    yield f"| collection, users, peak, N (seeds) | {' | '.join(names)} |"
    yield "| --- |" + " --- |" * len(names)
    for (data, users, peak, sessions), cell in cells.items():
        seeds = max(len(found) for found in cell.values())
        label = f"{Path(data).parent.name if '/' in data else data}, {users}, x{peak:g}"
        text = (_cell(cell.get(name, [])) for name in names)
        yield f"| {label}, {sessions:.0e} ({seeds}) | {' | '.join(text)} |"
    for title, where in (("all but adversarial", False), ("adversarial", True)):
        rows = [cell for key, cell in cells.items() if (key[1] == "adversarial") == where]
        text = (_summary([cell[name] for cell in rows if name in cell]) for name in names)
        yield f"| {title}: worst mean, worst run; mean; rows | {' | '.join(text)} |"


def _cell(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    changes = np.array([line["change"] for line in found])
    kept = np.mean([line["kept"] for line in found])
    return f"{changes.mean():+.1%} ({changes.min():+.1%}), {kept:.1%}".replace("%", " %")


def _summary(rows: list[list[dict[str, Any]]]) -> str:
    if not rows:
        return ""
    means = [float(np.mean([line["change"] for line in found])) for found in rows]
    worst = min(line["change"] for found in rows for line in found)
    text = f"{min(means):+.1%}, {worst:+.1%}; {np.mean(means):+.1%}; {len(rows)}"
    return text.replace("%", " %")


def main() -> None:
    """Run what is asked for, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sessions", type=float, nargs="+", default=[1e2, 1e3, 1e4, 1e6])
    parser.add_argument("--users", nargs="+", default=["trust"])
    parser.add_argument("--peak", type=float, nargs="+", default=[1.0])
    parser.add_argument("--methods", nargs="+", default=NAMES, choices=NAMES)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    cases = product(given.data, given.users, given.peak, map(int, given.sessions), seeds)
    run(given.folder, list(cases), given.methods)
    print("\n".join(tables(_lines(given.folder / "rankers.jsonl"))))


if __name__ == "__main__":
    main()
