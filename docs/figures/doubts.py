"""The tables of docs/safety.md on doubt: `python docs/figures/doubts.py RESULTS.jsonl DATA ...`.

DATA is a folder of a collection or `synthetic:PRESET:QUERIES`. What share of production's utility
is certain at each doubt, beside the truth; and how often an improvement is certified that is not
there, when users are not who the click model takes them for. Stopped and started again it goes on
where it was; without DATA it prints the tables of what is there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import saferank as sr
from saferank._core.flat import repeat_per_document
from saferank.clicks import relevance
from saferank.data import Collection
from saferank.learning import Settings, learn
from saferank.safety.doubting import doubt_served
from saferank.safety.judging import Served, evidence_for

SESSIONS = (10**4, 10**5, 10**6)
SEEDS = 5
BELIEVED = {"misspecified": "position"}
"""What the users are taken for, where it is not trust bias."""
CLICKING = {"misspecified": "trust"}
OTHERS = ("cascade", "misspecified", "adversarial")
SHOWN = (0.0, 0.1, 0.2, 0.5)
QUICK = Settings(steps=250, hidden=(16,))


def collection(data: str, seed: int) -> Collection:
    """A collection by name; synthetic ones differ by seed."""
    if data.startswith("synthetic:"):
        _, preset, queries = data.split(":")
        return sr.data.synthetic(preset, queries=int(queries), seed=seed)
    return sr.data.load(data, cache=False)


def one(data: str, users: str, sessions: int, seed: int) -> dict[str, Any]:
    """One log, one ranker, what is certain of it, and the truth on the same queries."""
    world = collection(data, seed)
    items = world.train
    few = items.subset(np.random.default_rng(seed).permutation(items.queries)[:8])
    production = learn(few, method="skyline", settings=QUICK, validation=(few, None), seed=seed)
    shown = production.scores(items)
    clicking = sr.clicks.USERS[CLICKING.get(users, users)](5)
    model = sr.clicks.USERS[BELIEVED.get(users, "trust")](5)
    counts = sr.clicks.simulate(
        items, shown, clicking, sessions, seed, highest_grade=world.highest_grade, progress=False
    )
    ranker = learn(
        items, counts, model, method="prpo", production=production, settings=QUICK, seed=seed
    )
    rule, weights = sr.safety.Rule(doubt=0.2, method="clustered"), ranker.provenance.weights
    told = sr.assess(
        ranker, items, production=production, counts=counts, click_model=model, rule=rule
    )
    # the curve also where a check of the click model keeps it from being shown
    policy = sr.policies.ProductionPolicy.sampled(shown, items.offsets)
    evidence = evidence_for(ranker, items, counts.judge, model, policy, np.asarray(weights))
    served = Served(ranker.scores(items), items, policy, np.asarray(weights), "sampled")
    true = relevance(items.known_labels, world.highest_grade)
    share = repeat_per_document(counts.judge.sessions / counts.judge.total, items.offsets)

    def utility(scores: Any) -> float:
        omega = sr.plackett_luce.exposure(scores, weights, items.offsets)
        return float(share @ (omega * true))

    return {
        "data": Path(data).parent.name if "/" in data else data.rsplit(":", 1)[0],
        "users": users, "sessions": sessions, "seed": seed,
        "truth": utility(ranker.scores(items)) / utility(shown),
        "ship": told.decision.ship, "sentence": told.decision.sentence,
        "doubts": doubt_served(served, evidence, counts, rule).to_dict(),
    }  # fmt: skip


def jobs(data: list[str]) -> Iterator[tuple[str, str, int, int]]:
    """Seeds outermost, so that a run cut short has some of everything."""
    for seed in range(SEEDS):
        for name in data:
            yield from ((name, "trust", n, seed) for n in SESSIONS)
            yield from ((name, users, SESSIONS[1], seed) for users in OTHERS)


def read(path: Path) -> list[dict[str, Any]]:
    """What is there already."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tables(rows: list[dict[str, Any]]) -> None:
    """Means over seeds, and counts of what was certified wrongly."""
    titles = [f"{100 * doubt:g} %" for doubt in SHOWN]
    print("| data | users | sessions | seeds | truth | " + " | ".join(titles), end="")
    print(" | any users | breakdown | above the truth | false gain | false ship |")
    print("| --- " * (10 + len(SHOWN)) + "|")
    groups = dict.fromkeys((row["data"], row["users"], row["sessions"]) for row in rows)
    for group in groups:
        some = [r for r in rows if (r["data"], r["users"], r["sessions"]) == group and r["doubts"]]
        if some:
            print(_line(group, some))


def _line(group: tuple[str, str, int], rows: list[dict[str, Any]]) -> str:
    curves = [row["doubts"] for row in rows]
    truth = np.array([row["truth"] for row in rows])
    shares = np.array([[c["shares"][c["doubts"].index(d)] for d in SHOWN] for c in curves])
    stated = np.array([curve["share"] for curve in curves])
    cells = [f"{value:.2f}" for value in shares.mean(axis=0)]
    broken = np.mean([curve["breakdown"] or 0.0 for curve in curves])
    wrong = [f"{int((shares[:, i] > truth).sum())}" for i in (0, 2)]
    false_gain = int(((stated >= 1) & (truth < 1)).sum())
    shipped = sum(bool(row["ship"]) and row["truth"] < 1 for row in rows)
    name, users, sessions = group
    return (
        f"| {name} | {users} | {sessions:,} | {len(rows)} | {truth.mean():.2f} | "
        + " | ".join(cells)
        + f" | {np.mean([c['unbounded'] for c in curves]):.2f} | {broken:.0%} | "
        f"{wrong[0]}, {wrong[1]} of {len(rows)} | {false_gain} | {shipped} |"
    )


def main(results: str, *data: str) -> None:
    """Run what is missing, then print."""
    path = Path(results)
    done = {(r["job"], r["users"], r["sessions"], r["seed"]) for r in read(path)}
    for job in jobs(list(data)):
        if job in done:
            continue
        row = {**one(*job), "job": job[0]}
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
    tables(read(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
