"""The key of a run: a name for everything that goes into it, so that no other run resumes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank._core.names import code_fingerprint
from saferank.learning.families import family
from saferank.learning.learning_inputs import Given, Inputs
from saferank.learning.provenance import versions
from saferank.learning.ranker import Ranker
from saferank.objectives import schedule


class _Digest:
    """A hash of named parts: `a` then `bc` is not `ab` then `c`."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, name: str, value: Any) -> None:
        """Take a part in: an array by type, shape and bytes, anything else as JSON."""
        if isinstance(value, np.ndarray):
            self._header(name, [value.dtype.str, *value.shape])
            self._hash.update(np.ascontiguousarray(value).data)
        else:
            self._header(name, value)

    def _header(self, name: str, value: Any) -> None:
        text = json.dumps([name, value], sort_keys=True)
        self._hash.update(f"{len(text)}:{text}".encode())

    def hexdigest(self) -> str:
        """The hash of all parts so far."""
        return self._hash.hexdigest()


def run_key(
    method: str,
    inputs: Inputs,
    *,
    learned_from: Given,
    validation: Given | None,
    sessions: Sequence[int],
    shown: Floats | None = None,
    shards: str | None = None,
) -> str:
    """Name a run by its inputs; callables go in by what they compute.

    Parameters
    ----------
    method, inputs
        What is learned, from which random numbers, with which click model, production and
        regression.
    learned_from, validation
        Queries and counts; production's scores are with the data.
    sessions
        The numbers of sessions N of everything that is trained on: all queries, then each fold's
        where there are folds. A schedule of the recipe is asked for them.
    shown
        Production's exposures, where they are not those of drawing from its scores.
    shards
        Name of the shards, where items and counts are in shards, of which no process has all.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    recipe, click_model = inputs.recipe, inputs.click_model
    production = inputs.production if isinstance(inputs.production, Ranker) else None
    digest = _Digest()
    digest.add("shown", shown)
    digest.add("versions", versions(inputs.device.name))
    digest.add("method", [method, inputs.seed])
    digest.add("sessions", list(sessions))
    parts = recipe.to_dict()
    if callable(recipe.delta):
        parts["delta"] = [schedule(recipe.delta)(n) for n in sessions]
    if callable(recipe.scorer):
        width = learned_from[0].width
        fresh = family(recipe.scorer).fresh(width, recipe.settings, inputs.seed)
        parts["scorer"] = [fresh.fingerprint()]
    for name in ("gain", "objective"):
        part = getattr(recipe, name)
        if not isinstance(part, str):
            parts[name] = [parts[name], code_fingerprint(part)]
    digest.add("recipe", parts)
    if shards is None:
        for name, part in (("learned from", learned_from), ("validation", validation)):
            _add_log(digest, name, part)
    else:
        policy, divisor = inputs.shown.policy, inputs.shown.divisor
        digest.add("shards", [shards, None if policy is None else policy.kind, divisor])
    digest.add("click model", None if click_model is None else click_model.to_dict())
    for name, ranker in (("production", production), ("predictor", inputs.predictor)):
        digest.add(name, None if ranker is None else ranker.fingerprint())
    return digest.hexdigest()


def _add_log(digest: _Digest, name: str, log: Given | None) -> None:
    digest.add(name, log is not None)
    if log is None:
        return
    data, counts = log
    digest.add("data", data.fingerprint())
    digest.add("production scores", data.production)
    if data.groups is not None:
        digest.add("groups", data.groups.codes)
    digest.add("counts", counts is not None)
    if counts is not None:
        for array in (counts.offsets, counts.impressions, counts.clicks, counts.sessions):
            digest.add("counts", array)
