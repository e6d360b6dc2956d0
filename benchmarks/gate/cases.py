"""One shop, its methods and its verdicts: what the command line says beside what is true."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gate import served
from benchmarks.gate.command_line import Result, run, supports
from benchmarks.gate.preparing import Prepared, RefusedError, prepare
from benchmarks.shops import Shop, World, build
from benchmarks.shops.files import Files

METHODS: dict[str, tuple[str, ...]] = {
    "dr": ("--method", "dr"),
    "prpo": ("--method", "prpo"),
    "keep": ("--keep", "0.9"),
}
CHECKS: dict[str, tuple[str, ...]] = {
    "default": (),
    "guard": ("--guard",),
    "clicks": ("--by", "clicks"),
}
STEPS = 300
Record = dict[str, Any]


def key(record: Record) -> tuple[str, str, str]:
    """What a case is: its world, method and kind of verdict."""
    return record["world"], record["method"], record["check"]


def checks() -> dict[str, tuple[str, ...]]:
    """The kinds of verdict that the command line gives today."""
    return {name: o for name, o in CHECKS.items() if not o or supports("certify", o[0])}


def cases(
    name: str, shop: Shop, methods: tuple[str, ...], steps: int = STEPS
) -> Iterator[list[Record]]:
    """The cases of a shop, method by method; one that could not be finished says why."""
    folder = Path(tempfile.mkdtemp(prefix=f"gate-{name}-"))
    try:
        world = build(shop)
        files = world.write(folder)
        base = {"world": name, "shop": shop.to_dict()}
        try:
            ready = prepare(files, folder)
        except RefusedError as refusal:
            for method in methods:
                refused = {"method": method, "refused": str(refusal)}
                yield [{**base, **refused, "check": check} for check in checks()]
            return
        base |= {"log": ready.check, "bias": ready.fit}
        for method in methods:
            found = _method(world, files, ready, method, folder, steps)
            yield [{**base, **record} for record in found]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def append(
    name: str, shop: Shop, methods: tuple[str, ...], steps: int, path: Path, commit: str
) -> None:
    """The cases of one shop, added to the file as soon as a method is through."""
    for found in cases(name, shop, methods, steps):
        lines = [json.dumps({**record, "commit": commit}) + "\n" for record in found]
        with path.open("a") as file:
            file.write("".join(lines))


def _method(
    world: World, files: Files, ready: Prepared, method: str, folder: Path, steps: int
) -> list[Record]:
    output = folder / method
    learned = _with_skips(
        ready, "learn", "--items", ready.items, "--counts", ready.counts, *ready.options,
        *(["--bias", ready.bias] if ready.bias else []), *METHODS[method],
        "--steps", steps, "-o", output, "--json",
    )  # fmt: skip
    base: dict[str, Any] = {
        "method": method,
        "learn": {"exit": learned.code, "seconds": learned.seconds},
        "frictions": list(ready.frictions),
        "seconds": dict(ready.seconds),
    }
    if learned.code != 0:
        refused = {"refused": learned.sentence, "at": "learn"}
        return [{**base, "check": check, **refused} for check in checks()]
    base["learn"] |= {k: v for k, v in learned.json().items() if k not in ("output", "notes")}
    try:
        ranker = served.load(world, ready, output, files.item_columns)
    except RuntimeError as error:
        return [{**base, "check": check, "refused": str(error), "at": "rank"} for check in checks()]
    policies: dict[tuple[str, bool], Record] = {}
    return [
        {**base, "check": check, **_verdict(world, ready, ranker, output, check, policies)}
        for check in checks()
    ]


def _with_skips(ready: Prepared, *words: object) -> Result:
    """A command; again with --skip-bad where it advises that."""
    result = run(*words)
    if result.code == 2 and "--skip-bad" in result.sentence:
        note = f"{words[0]}: needs --skip-bad: {result.sentence[:200]}"
        if note not in ready.frictions:
            ready.frictions.append(note)
        result = run(*words, "--skip-bad")
    return result


def _verdict(
    world: World,
    ready: Prepared,
    ranker: served.Run,
    output: Path,
    check: str,
    policies: dict[tuple[str, bool], Record],
) -> Record:
    certified = _with_skips(
        ready, "certify", output, "--items", ready.items, "--counts", ready.counts,
        *ready.options, *CHECKS[check], "--json",
    )  # fmt: skip
    said = certified.json() if certified.code in (0, 3) else {}
    record: Record = {"exit": certified.code, "certify_seconds": certified.seconds}
    if not said:
        record |= {"refused": certified.sentence, "at": "certify"}
    decision, certificate = said.get("decision", {}), said.get("certificate") or {}
    deployed = certificate.get("deployed", "sampled")
    guard = bool(said.get("guarded"))
    if (deployed, guard) not in policies:
        policies[deployed, guard] = _truth(world, ranker, deployed, certificate, guard)
    clicks = said.get("clicks") or {}
    return record | {
        "ship": decision.get("ship"),
        "rule": decision.get("rule"),
        "sentence": decision.get("sentence", "")[:600],
        "difference": _interval(said.get("difference")),
        "production": _interval(said.get("production")),
        "new": _interval(said.get("new")),
        "at_least": (said.get("bound") or {}).get("lower"),
        "clicks": _interval(clicks.get("difference")),
        "clicks_at_least": (clicks.get("bound") or {}).get("lower"),
        "clicks_of_production": clicks.get("production"),
        "doubts": said.get("doubts"),
        "policy": (said.get("fit") or {}).get("kind"),
        "unsure": decision.get("unsure"),
        "deployed": deployed,
        "guarded": guard,
        **policies[deployed, guard],
    }


def _interval(found: Record | None) -> Record | None:
    return found and {name: found.get(name) for name in ("estimate", "lower", "upper")}


def _truth(
    world: World, ranker: served.Run, deployed: str, certificate: Record, guard: bool
) -> Record:
    """What would be served truly does; in clicks, and in the unit of the run's click model."""
    promise = certificate.get("promise") or {}
    keep, slack = promise.get("keep", 0.9), promise.get("slack", 0.01)
    policy = served.alone(ranker, deployed)
    if guard:
        policy = served.guarded(ranker, deployed)
    record: Record = {"truth": world.truth.change(policy).to_dict()}
    weights = np.array(certificate.get("weights") or [])[: world.shop.k]
    if weights.size:
        record["promise_broken"] = world.truth.promise_broken(policy, weights, keep, slack)
    model = _click_model(ranker)
    if weights.size and model:
        own = world.truth.utility_change(policy, *model, weights)
        record["utility"] = own and {"production": own[0], "difference": own[1]}
    return record


def _click_model(ranker: served.Run) -> tuple[np.ndarray, np.ndarray] | None:
    """Alpha and beta as the bias file has them."""
    if ranker.ready.bias is None:
        return None
    record = json.loads(Path(ranker.ready.bias).read_text())
    if "alpha" not in record or "beta" not in record:
        return None
    return np.array(record["alpha"]), np.array(record["beta"])
