"""Training of one commit against another: processor time, validation value and test NDCG.

`python -m benchmarks.fewer_steps FILE [--code SRC] [--label new] [--seeds 5] [--data ...]` learns
from simulated clicks with the package in SRC (the `src` of any checkout, such as a git worktree of
an older commit; default: this one) and appends one line per ranker to FILE; what is there is not
run again. `python -m benchmarks.fewer_steps FILE --table` compares the labels `old` and `new` run
by run: same collection, seed, method, clicks and queries.

On `small` and MQ2008 production is a score, which rankers that start from it first imitate, and
queries to stop by are held out; on the collections with long lists production is a network, and
the regression is fitted once for all methods, as in the study. Everything else is at its default.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("dr", "safe-dr", "prpo")
SESSIONS = 20_000


def _world(name: str, seed: int) -> dict[str, Any]:
    """Data, production and clicks of one run."""
    import saferank as sr

    if name.startswith("synthetic:"):
        _, preset, queries = name.split(":")
        data = sr.data.synthetic(preset, queries=int(queries), seed=seed)
    else:
        data = sr.data.load(name)
    users = sr.clicks.trust_bias()
    network = _production(data.train, seed)
    shown = {part: network.scores(it) for part, it in data.parts().items()}
    grade = data.highest_grade
    counts = {
        part: sr.clicks.simulate(data.parts()[part], shown[part], users, sessions=sessions,
                                 seed=seed, judge=0, highest_grade=grade, progress=False)
        for part, sessions in (("train", SESSIONS), ("validation", SESSIONS * 15 // 100))
    }  # fmt: skip
    return {"data": data, "users": users, "network": network, "shown": shown, "counts": counts}


def _production(train: Any, seed: int) -> Any:
    """A network of random layers whose last one is a ridge regression on twelve queries' labels.

    No training has a part in it: it is the same for every code.
    """
    import torch

    from saferank.learning import Settings, learn

    few = train.subset(np.sort(np.random.default_rng(seed).permutation(train.queries)[:12]))
    ranker = learn(few, method="skyline", seed=seed, settings=Settings(steps=1), k=5)
    inputs = torch.from_numpy(ranker.scaling.apply(few).features)
    with torch.no_grad():
        hidden = ranker.scorer.module[:-1](inputs).numpy().astype(np.float64)
        hidden -= hidden.mean(axis=0)
        labels = few.known_labels - few.known_labels.mean()
        inner = hidden.T @ hidden
        ridge = inner + 0.01 * np.trace(inner) / len(inner) * np.eye(len(inner))
        last = np.linalg.solve(ridge, hidden.T @ labels)
        last *= 1.5 / (hidden @ last).std()
        ranker.scorer.module[-1].weight.copy_(torch.from_numpy(last[None, :]))
    return ranker


def _options(world: dict[str, Any], seed: int, scored: bool) -> dict[str, Any]:
    production = world["shown"]["train"] if scored else world["network"]
    options: dict[str, Any] = {"production": production, "seed": seed}
    if not scored:
        options["validation"] = (world["data"].validation, world["counts"]["validation"])
    return options


def learn_all(path: Path, name: str, seed: int, label: str, methods: Sequence[str]) -> None:
    """Some methods on one log."""
    import saferank as sr
    from saferank._core.threads import use_threads

    with use_threads(1):
        world = _world(name, seed)
        test = world["data"].test
        given = (world["data"].train, world["counts"]["train"], world["users"])
        scored = "small" in name or "MQ2008" in name
        options = _options(world, seed, scored)
        start = time.process_time()
        predictor = None if scored else sr.learning.fit_relevance(*given, **options)
        shared = time.process_time() - start
        for method in methods:
            start = time.process_time()
            ranker = sr.learn(*given, method=method, production_kind="sampled",
                              predictor=predictor, **options)  # fmt: skip
            processor = time.process_time() - start
            ndcg = sr.plackett_luce.expected_ndcg(
                ranker.scores(test), test.known_labels, test.offsets, 5
            )
            history = ranker.provenance.history
            line = {
                "label": label, "data": name, "seed": seed, "method": method,
                "processor": processor + shared / len(methods),
                "value": max(history["values"]), "start": history["values"][0],
                "steps": history["steps"][-1], "ndcg": sr.metrics.mean(ndcg),
            }  # fmt: skip
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(lines: list[dict[str, Any]]) -> None:
    """New against old, run by run: ratios of time, differences of value and NDCG."""
    runs: dict[tuple[str, str], dict[int, dict[str, dict[str, Any]]]] = defaultdict(dict)
    for line in lines:
        key = Path(line["data"]).parent.name or line["data"], line["method"]
        runs[key].setdefault(line["seed"], {})[line["label"]] = line
    print("| collection | method | seeds | processor time, old / new | value, new - old | "
          "test NDCG@5, old | new - old (standard error) |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (data, method), seeds in runs.items():
        pairs = [(it["old"], it["new"]) for it in seeds.values() if {"old", "new"} <= it.keys()]
        if not pairs:
            continue
        old, new = ({name: np.array([run[side][name] for run in pairs])
                     for name in ("processor", "value", "ndcg")} for side in (0, 1))  # fmt: skip
        gap = new["ndcg"] - old["ndcg"]
        error = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else float("nan")
        ratio = old["processor"].sum() / new["processor"].sum()
        print(f"| {data} | {method} | {len(pairs)} | {ratio:.2f} | "
              f"{(new['value'] - old['value']).mean():+.4f} | {old['ndcg'].mean():.4f} | "
              f"{gap.mean():+.4f} ({error:.4f}) |")  # fmt: skip


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--code", type=Path)
    parser.add_argument("--label", default="new")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=["synthetic:small:400", "synthetic:mslr:120"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        table(_lines(given.file))
        return
    if given.code is not None:  # the same script, on the other code
        path = os.pathsep.join([str(given.code.resolve()), str(Path(__file__).parents[1])])
        arguments = [it for it in sys.argv[1:] if it not in ("--code", str(given.code))]
        command = [sys.executable, "-m", "benchmarks.fewer_steps", *arguments]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
        return
    done = {(line["label"], line["data"], line["seed"]) for line in _lines(given.file)}
    for seed in range(given.seeds):
        for name in given.data:
            if (given.label, name, seed) not in done:
                learn_all(given.file, name, seed, given.label, given.methods)


if __name__ == "__main__":
    main()
