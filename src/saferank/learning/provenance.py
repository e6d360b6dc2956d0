"""Where a ranker comes from: everything needed to repeat it."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import saferank
from saferank._core.records import from_dict
from saferank.policies.production_fit import ProductionFit


@dataclass(frozen=True)
class Provenance:
    """Where a ranker comes from: everything needed to repeat it.

    See Also
    --------
    learn : writes it.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=1000, seed=0)
    >>> settings = sr.learning.Settings(steps=20)
    >>> ranker = sr.learn(
    ...     items, counts, model, production=shown, scorer="linear", settings=settings
    ... )
    >>> ranker.provenance.method, ranker.provenance.seed
    ('prpo', 0)
    """

    method: str
    """Name of the method, or of its parts."""
    recipe: dict[str, Any]
    """The parts, as JSON has them."""
    seed: int
    """Of everything random."""
    sessions: int
    """How many sessions it learned from."""
    weights: list[float]
    """Of the ranks: K values."""
    click_model: dict[str, Any] | None
    """Alpha and beta as JSON has them; None where labels were learned from."""
    data: str
    """Fingerprint of the training data."""
    learned_from: str | None = None
    """Fingerprint of the sessions that the ranker and its regression learned from."""
    log: str | None = None
    """Fingerprint of all sessions of that log, those to judge by included."""
    sketch: dict[str, Any] | None = None
    """A sample of all sessions that had a part in it (`counts.sketch`), where the log had ids."""
    also_from: list[str] = field(default_factory=list)
    """Fingerprints of other sessions that had a part: it was stopped by them, or began from a
    ranker or a regression that learned from them."""
    click_model_from: str | None = None
    """Where the click model comes from, in words; None: it was given."""
    production: ProductionFit | None = None
    """What production was taken for, and why."""
    sharper: float = 1.0
    """What production's scores were multiplied by where learning started."""
    keep: float | None = None
    """With a promise: the share of production's utility that was asked for."""
    slack: float | None = None
    """With a promise: what may be lost beside, as a share of the largest utility."""
    way: float | None = None
    """With a promise: the share of the way from production to what was learned that it allows."""
    holding: float | None = None
    """With a promise: the share of the queries learned from that keep it by themselves."""
    history: dict[str, list[float]] = field(default_factory=dict)
    """Validated values, and the steps they are of."""
    regression: dict[str, list[float]] = field(default_factory=dict)
    """The same of the regression behind DM and DR."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of this package and those that it computes with."""

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Provenance:
        """The provenance within a ranker's JSON record, of any format."""
        if "card" not in record:
            return from_dict(cls, record["provenance"], "provenance")
        former = record["card"]
        if isinstance(former, dict):
            former = {("click_model" if key == "users" else key): v for key, v in former.items()}
        return from_dict(cls, former, "card")


def versions(device: str = "cpu") -> dict[str, str]:
    """Versions of what a ranker is made with, and the device where that is not the CPU."""
    import torch

    return {
        "saferank": saferank.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
    } | ({} if device == "cpu" else {"device": device})
