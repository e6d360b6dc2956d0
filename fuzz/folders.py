"""Folders of which one file is mutated: rankers, checkpoints, cache entries, results of a study."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from unittest import mock

import numpy as np

from fuzz.mutation import mutate_bytes, mutate_json, mutate_safetensors
from fuzz.outcomes import ensure
from fuzz.readers import small_world
from fuzz.target import Mutate, Target, file_of, in_folder, of_files
from saferank.data.cache import cached, entry_places
from saferank.experiments import Study
from saferank.experiments.jobs import Job, Store
from saferank.experiments.learning_curves import plan
from saferank.experiments.results import read_results
from saferank.experiments.study import Conditions
from saferank.learning import Ranker, Settings, learn
from saferank.learning.descent import Training

SETTINGS = Settings(steps=4, min_validation_interval=1, rounds=2, hidden=(3,))
_NETWORK: dict[str, Mutate] = {
    "ranker.json": mutate_json,
    "scorer.safetensors": mutate_safetensors,
}
_TREES: dict[str, Mutate] = {"ranker.json": mutate_json, "scorer.txt": mutate_bytes}
_CHECKPOINT: dict[str, Mutate] = {
    "state.json": mutate_json,
    "state.safetensors": mutate_safetensors,
}


def _inputs(folder: Path, names: dict[str, Mutate]) -> list[bytes]:
    return [in_folder(name, (folder / name).read_bytes()) for name in names]


def _with_file(good: Path, data: bytes, names: dict[str, Mutate], folder: Path) -> Path:
    """A copy of a good folder with the input's file in it."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(good, run)
    name, content = file_of(data, list(names))
    (run / name).write_bytes(content)
    return run


@cache
def learned_ranker(scorer: str, place: Path) -> Path:
    """A small ranker that was saved."""
    place.mkdir(exist_ok=True)
    learn(small_world(), method="skyline", scorer=scorer, settings=SETTINGS).save(place / scorer)
    return place / scorer


def _ranker_seeds(scorer: str, names: dict[str, Mutate], folder: Path) -> list[bytes]:
    return _inputs(learned_ranker(scorer, folder), names)


def _read_ranker(scorer: str, names: dict[str, Mutate], data: bytes, folder: Path) -> None:
    run = _with_file(learned_ranker(scorer, folder.parent / "seeds"), data, names, folder)
    ranker = Ranker.load(run)
    world = small_world()
    if ranker.scorer.width != world.width or ranker.adds_production:
        return
    with np.errstate(all="ignore"):
        scores = ranker.scores(world)
        ranker.save(run)
        again = Ranker.load(run).scores(world)
    ensure(np.array_equal(scores, again, equal_nan=True), "scores change when a ranker is saved")


def _learn(checkpoint: Path | None) -> Ranker:
    world = small_world()
    return learn(world, method="skyline", settings=SETTINGS, checkpoint=checkpoint, seed=1)


@cache
def _checkpoint(place: Path) -> tuple[Path, bytes]:
    """A checkpoint that was left behind, and the parameters that the whole run ends with."""
    step, calls = Training._step, []

    def interrupted(self: Training, *args: object) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        step(self, *args)  # type: ignore[arg-type]

    with mock.patch.object(Training, "_step", interrupted), suppress(KeyboardInterrupt):
        _learn(place / "left")
    (state,) = (place / "left").rglob("state.json")
    return state.parent, _parameters(_learn(None))


def _parameters(ranker: Ranker) -> bytes:
    tensors = ranker.scorer.module.state_dict().values()  # type: ignore[attr-defined]
    return b"".join(tensor.numpy().tobytes() for tensor in tensors)


def _checkpoint_seeds(folder: Path) -> list[bytes]:
    return _inputs(_checkpoint(folder)[0], _CHECKPOINT)


def _read_checkpoint(data: bytes, folder: Path) -> None:
    place = folder.parent / "seeds"
    state, expected = _checkpoint(place)
    own = folder / "checkpoint"
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(place / "left", own)
    name, content = file_of(data, list(_CHECKPOINT))
    (own / state.relative_to(place / "left") / name).write_bytes(content)
    ensure(_parameters(_learn(own)) == expected, "another ranker from a damaged checkpoint")


_ENTRY: dict[str, Mutate] = {
    "entry.json": mutate_json,
    **{
        f"{name}.npy": mutate_bytes
        for name in ("features", "labels", "offsets", "query_ids", "doc_ids")
    },
}


@cache
def _entry(place: Path) -> Path:
    source = place / "train.txt"
    source.write_text("source")
    cached(source, small_world, version=1, options={})
    return entry_places(source, {})[0]


def _cache_seeds(folder: Path) -> list[bytes]:
    entry = _entry(folder)
    return _inputs(entry, {name: one for name, one in _ENTRY.items() if (entry / name).exists()})


def _read_cache(data: bytes, folder: Path) -> None:
    """Every damage is either harmless or found, and the data is the same in the end."""
    good = _entry(folder.parent / "seeds")
    source = folder / "train.txt"
    if not source.exists():
        shutil.copy2(good.parents[1] / "train.txt", source)
    place = entry_places(source, {})[0]
    if not place.exists():
        shutil.copytree(good, place)
    name, content = file_of(data, list(_ENTRY))
    (place / name).write_bytes(content)
    found, world = cached(source, small_world, version=1, options={}), small_world()
    for key in ("features", "offsets", "labels"):
        same = getattr(found, key).tobytes() == getattr(world, key).tobytes()
        ensure(same, f"{key} from a damaged cache")
    if not (place / name).exists() or (place / name).read_bytes() != (good / name).read_bytes():
        shutil.rmtree(place, ignore_errors=True)


@cache
def _study() -> tuple[Study, Job]:
    study = Study("synthetic:small:30", (100,), 1, Conditions(settings=SETTINGS))
    return study, plan((2,), study, "fingerprint")[0]


def _result_seeds(_: Path) -> list[bytes]:
    names = ("expected", "sorted", "utility", "production_utility", "bound", "distance")
    record = {"job": asdict(_study()[1]), "measures": dict.fromkeys(names, 0.5)}
    return [json.dumps(record).encode()]


def _read_result(data: bytes, folder: Path) -> None:
    study, job = _study()
    path = Store(folder).result(job)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    found = read_results(study, "fingerprint", [job], folder)
    measures = found.measures.get(job, {})
    ensure(all(map(math.isfinite, measures.values())), "a measure that is not finite")


def _rankers(scorer: str, names: dict[str, Mutate], share: float) -> Target:
    return Target(
        f"ranker-{scorer}",
        share,
        partial(_ranker_seeds, scorer, names),
        partial(_read_ranker, scorer, names),
        of_files(names),
    )


TARGETS = [
    _rankers("mlp", _NETWORK, 0.03),
    _rankers("trees", _TREES, 0.02),
    Target("checkpoint", 0.005, _checkpoint_seeds, _read_checkpoint, of_files(_CHECKPOINT)),
    Target("cache", 0.035, _cache_seeds, _read_cache, of_files(_ENTRY)),
    Target("result", 0.06, _result_seeds, _read_result, mutate_json),
]
