"""Figures that two versions of the package have alike; the child process of `benchmarks.against`.

Every figure is prepared once and is then a call without arguments. Modules and keywords that have
changed since 0.1 are looked up here, and nowhere else; options are such that both do the same work.
A child reads lines `FIGURE CALLS` and answers each with seconds of processor time per call.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import fields
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np

import saferank as sr
from benchmarks.click_logs import RANKS, generate
from saferank.metrics import dcg_weights

Call = Callable[[], object]
FIGURES: dict[str, Callable[[Path], Call]] = {}
"""What is measured: a function of a folder for its files that returns the call."""


def figure(name: str, **options: Any) -> Callable[[Callable[..., Call]], Callable[..., Call]]:
    """Enter a function into the table, with options that tell its lines apart."""

    def enter(prepare: Callable[..., Call]) -> Callable[..., Call]:
        FIGURES[name] = partial(prepare, **options)
        return prepare

    return enter


def _from(name: str, *modules: str) -> Any:
    """A name from the first of the modules that has it: they moved."""
    for module in modules:
        with suppress(ImportError, AttributeError):
            return getattr(import_module(f"saferank.{module}"), name)
    raise ImportError(f"`{name}` must be in one of {', '.join(modules)}.")


def _accepted(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """The options that a dataclass has: the others are of the other version."""
    own = {field.name for field in fields(function)}  # type: ignore[arg-type]
    return {name: value for name, value in options.items() if name in own}


def _settings(steps: int, rounds: int = 8) -> Any:
    """All steps are taken, and as many validations, whichever rule would stop."""
    make = _from("Settings", "learning", "rankers")
    return make(
        **_accepted(
            make, learning_rate=1e-3, steps=steps, rounds=rounds, patience=10_000, plateau=10_000,
            least=50, min_validation_interval=50,
        )
    )  # fmt: skip


# exact Plackett-Luce


def _scores(documents: int, queries: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(documents)
    scores, slope = rng.normal(size=(2, documents * queries))
    return scores, slope, np.arange(queries + 1) * documents


@figure("exposure, D=20", documents=20, queries=2000)
@figure("exposure, D=120", documents=120, queries=500)
@figure("exposure, D=1000", documents=1000, queries=60)
def _exposure(_: Path, documents: int, queries: int) -> Call:
    scores, _slope, offsets = _scores(documents, queries)
    weights = dcg_weights(5)
    return lambda: sr.plackett_luce.exposure(scores, weights, offsets)


@figure("gradient of exposure, D=20", documents=20, queries=2000)
@figure("gradient of exposure, D=120", documents=120, queries=500)
@figure("gradient of exposure, D=1000", documents=1000, queries=60)
def _gradient(_: Path, documents: int, queries: int) -> Call:
    scores, slope, offsets = _scores(documents, queries)
    weights = dcg_weights(5)
    return lambda: sr.plackett_luce.exposure_gradient(scores, weights, offsets, slope)


@figure("rank probabilities, K=10", k=10)
@figure("rank probabilities, K=50", k=50)
def _rank_probabilities(_: Path, k: int) -> Call:
    scores, _slope, offsets = _scores(120, 200)
    return lambda: sr.plackett_luce.rank_probabilities(scores, k, offsets)


# reading and simulating


@figure("LETOR file of 10 MB")
def _letor(folder: Path) -> Call:
    path = folder / "train.txt"
    rng = np.random.default_rng(0)
    whole = rng.random(136) < 0.4
    with path.open("w") as file:
        for query in range(120):
            values = rng.lognormal(0, 3, size=(120, 136)) * (rng.random((120, 136)) < 0.7)
            for label, row in zip(rng.integers(0, 5, size=120), values, strict=True):
                words = (
                    f"{index}:{value:.0f}" if whole[index - 1] else f"{index}:{value:.6f}"
                    for index, value in enumerate(row.tolist(), start=1)
                )
                file.write(f"{label} qid:{query} {' '.join(words)}\n")
    return lambda: sr.data.read_letor(path)


@cache
def _labelled(queries: int) -> Any:
    rng = np.random.default_rng(0)
    sizes = np.clip(rng.gamma(4.0, 30, queries).round(), 1, 1251).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.choice(5, size=offsets[-1], p=[0.515, 0.325, 0.134, 0.018, 0.008])
    return sr.data.RankingData(np.zeros((offsets[-1], 0)), offsets, labels=labels)


@figure("simulate 3e7 sessions, flat", spread=0.5)
@figure("simulate 3e7 sessions, usual", spread=1.5)
@figure("simulate 3e7 sessions, peaked", spread=4.0)
@figure("simulate 1e5 sessions, usual", spread=1.5, sessions=10**5)
def _simulate(_: Path, spread: float, sessions: int = 3 * 10**7) -> Call:
    data, users = _labelled(600), sr.clicks.trust_bias()
    scores = spread * np.random.default_rng(1).normal(size=data.documents)
    return lambda: sr.clicks.simulate(data, scores, users, sessions, seed=0, judge=0)


# counting


@figure("count 2e4 rows, in parts", rows=20_000)
@figure("count 2e4 rows, in one", rows=20_000, judge=0)
@figure("count 2e4 rows with sessions", rows=20_000, use_sessions=True)
@figure("count 5e6 rows, in parts", rows=5_000_000)
@figure("count 5e6 rows, in one", rows=5_000_000, judge=0)
@figure("count 2e6 rows with sessions", rows=2_000_000, use_sessions=True)
@figure("count 1e6 rows, ids as text", rows=1_000_000, text=True)
def _count(
    folder: Path, rows: int, use_sessions: bool = False, text: bool = False, **options: Any
) -> Call:
    log = generate(folder / "log", sessions=rows // RANKS, queries=rows // 1000, text=text)
    output = folder / "counts.parquet"
    return lambda: sr.logs.count(log, output=output, use_sessions=use_sessions, **options)


@figure("count 2e4 rows, counts alone", rows=20_000)
@figure("count 2e4 rows with sessions, counts alone", rows=20_000, use_sessions=True)
@figure("count 5e6 rows, in parts, counts alone", rows=5_000_000)
@figure("count 2e6 rows with sessions, counts alone", rows=2_000_000, use_sessions=True)
@figure("count 1e6 rows, ids as text, counts alone", rows=1_000_000, text=True)
def _count_alone(folder: Path, **options: Any) -> Call:
    call = _count(folder, **options)

    def alone() -> None:
        with ExitStack() as stack:
            for look in ("_sketches", "find_repeats"):
                with suppress(AttributeError):  # 0.1 has neither
                    stack.enter_context(patch.object(sr.logs.counting, look, _no_look))
            call()

    return alone


def _no_look(*_: object) -> None:
    """What is told of sessions beside the counts, left out."""


@figure("counts onto documents")
def _read_counts(folder: Path) -> Call:
    path = folder / "own.parquet"
    log = generate(folder / "log", sessions=10**5, queries=2000)
    sr.logs.count(log, output=path, use_sessions=False)
    return lambda: sr.logs.read_counts(path)


# learning


@cache
def _logged(queries: int) -> tuple[Any, Any, Any, Any]:
    users, data = sr.clicks.trust_bias(), sr.data.synthetic("mslr", queries=queries, seed=0).train
    shown = np.random.default_rng(0).normal(size=data.documents)
    counts = sr.clicks.simulate(data, shown, users, sessions=10**6, seed=0, judge=0)
    return data, counts, users, shown


@figure("learn: PRPO, a network, 100 steps", method="prpo")
@figure("learn: safe DR, a network, 100 steps", method="safe-dr")
@figure("learn: PRPO, trees, 8 rounds", method="prpo", scorer="trees")
def _learn(_: Path, method: str, **options: Any) -> Call:
    data, counts, users, shown = _logged(300)
    settings = _settings(steps=100)
    return lambda: sr.learn(
        data, counts, users, method=method, production=shown, settings=settings, seed=0, **options
    )


@figure("two jobs of the study")
def _study(folder: Path) -> Call:
    curve = _from("Curve", "experiments.learning_curves", "experiments")
    sweep = _from("sweep", "experiments.sweep", "experiments")
    open_collection, fingerprint = (
        _from(name, "experiments.study") for name in ("open_collection", "fingerprint")
    )
    study = sr.experiments.PRESETS["quick"]
    conditions = study.conditions.__class__(settings=_settings(steps=100))
    study = study.__class__("synthetic:mslr:300", (10**4,), 1, conditions)
    address = fingerprint(open_collection(study.data, folder / "data"))
    sweep(list(curve("", "production", "production").jobs(study, address)), study.data, folder)
    jobs = [job for name in ("dr", "prpo") for job in curve("", name, name).jobs(study, address)]

    def call() -> None:
        for done in (folder / "jobs").iterdir():
            done.unlink()
        outcome = sweep(jobs, study.data, folder, workers=1)
        assert outcome.ran == len(jobs), outcome

    return call


# certifying and serving


@cache
def _compared(queries: int, documents: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    data = sr.data.RankingData(
        np.zeros((queries * documents, 1)), np.arange(queries + 1) * documents
    )
    old = rng.normal(size=data.documents)
    return data, old + 0.3 * rng.normal(size=data.documents), old


def _mixture() -> dict[str, Any]:
    """The guard's mode, where there is a choice: before there were mixtures only."""
    guard = {field.name for field in fields(sr.safety.Guard)}
    return {"mode": "mix"} if "mode" in guard else {}


@figure("certify, guard by mixture")
def _certify(_: Path) -> Call:
    data, new, old = _compared(1000, 120)
    return lambda: sr.certify(new, data, production=old, **_mixture())


@figure("certify, default guard")
def _certify_default(_: Path) -> Call:
    data, new, old = _compared(1000, 120)
    return lambda: sr.certify(new, data, production=old)


def _guard(new: Any, old: Any) -> Any:
    return sr.safety.Guard(new, old, **_mixture())


@figure("Guard.mixing, by mixture")
def _mixing(_: Path) -> Call:
    data, *scores = _compared(1000, 120)
    guard = _guard(*scores)
    return lambda: guard.mixing(data)


@figure("Guard.exposure, by mixture")
def _guarded_exposure(_: Path) -> Call:
    data, *scores = _compared(1000, 120)
    guard = _guard(*scores)
    return lambda: guard.exposure(data)


@figure("Guard.rank, by mixture, 1000 queries", queries=1000)
@figure("Guard.rank, by mixture, one query", queries=1)
def _guarded_rank(_: Path, queries: int) -> Call:
    data, *scores = _compared(queries, 120)
    guard = _guard(*scores)
    return lambda: guard.rank(data, 5, "session")


# starting

HELP = "import sys; sys.argv[1:] = ['--help']; from saferank.cli.app import main; main()"


@figure("import saferank", code="import saferank")
@figure("import saferank.plackett_luce", code="import saferank.plackett_luce")
@figure("saferank --help", code=HELP)
def _import(_: Path, code: str) -> Call:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def _used() -> float:
    """Seconds of processor time of this process and of children that have ended."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usage = [resource.getrusage(each) for each in who]
    return sum(each.ru_utime + each.ru_stime for each in usage)


def _serve() -> None:
    """Answer requests; what was prepared for a figure is kept until another is asked for."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed is no answer
    print(Path(sr.__file__).parent.parent, file=answers, flush=True)
    current, call = "", cast("Call", _nothing)
    with tempfile.TemporaryDirectory(prefix="saferank-bench-") as folder:
        for number, line in enumerate(sys.stdin):
            name, calls = line.rstrip("\n").split("\t")
            if name != current:
                own = Path(folder) / str(number)
                own.mkdir()
                current, call = name, FIGURES[name](own)
                call()  # compiled before it is measured
            before = _used()
            for _ in range(int(calls)):
                call()
            print((_used() - before) / int(calls), file=answers, flush=True)


def _nothing() -> None:
    """Nothing is prepared yet."""


if __name__ == "__main__":
    _serve()
