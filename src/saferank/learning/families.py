"""Scorers by name: how each kind is made, trained towards a goal, and read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import torch

from saferank._core.flat import Floats
from saferank.learning.boosting import Trees
from saferank.learning.descent import GoalQueries, History, Settings, Training
from saferank.scorers.networks import ModuleFactory, NetworkScorer, make_network


class Scorer(Protocol):
    """Turns features into one score per document."""

    @property
    def kind(self) -> str:
        """The scorer's name in the table of scorers."""

    @property
    def width(self) -> int:
        """Number of features."""

    def scores(self, features: Any) -> Floats:
        """One score per document."""

    def copy(self) -> Self:
        """The same scorer with parameters of its own."""

    def silenced(self) -> Self:
        """A scorer that says 0 for every document and can still learn."""

    def towards(self, start: Any, way: float) -> Self:
        """The scorer at a share of the way from its start, where training began, to itself."""

    def fingerprint(self) -> str:
        """A name for its parameters and what it computes from them."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the parameters; returns what loading needs beside them."""


@dataclass(frozen=True)
class Run:
    """How a scorer is trained: settings, seed, where to keep checkpoints, what the bar says."""

    settings: Settings
    seed: int
    checkpoint: Path | None = None
    label: str = "learning"
    device: str = "cpu"
    """Where networks are trained."""


class Family(Protocol):
    """A kind of scorer."""

    @property
    def scaling(self) -> str:
        """The scaling of features that it is trained with unless told otherwise."""

    @property
    def encodes(self) -> bool:
        """Whether missing values and categories must be encoded for it."""

    def fresh(self, width: int, settings: Settings, seed: int) -> Scorer:
        """A scorer that has learned nothing."""

    def fit(
        self, start: Any, train: GoalQueries, validation: GoalQueries, run: Run
    ) -> tuple[Scorer, History]:
        """Train towards the parts' goals; the best on validation is kept."""

    def load(self, folder: Path, record: dict[str, Any], module: ModuleFactory | None) -> Scorer:
        """Read what the scorer's `save` wrote."""


@dataclass(frozen=True)
class Networks:
    """Torch modules: with hidden layers, without, or a user's own."""

    deep: bool = True
    own: ModuleFactory | None = None
    scaling: str = "log1p"
    encodes: bool = True

    def fresh(self, width: int, settings: Settings, seed: int) -> Scorer:
        """A network with random parameters."""
        if self.own is not None:
            # torch draws initial parameters from its global generator: for this call a seeded one
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                return NetworkScorer(self.own(width), width, None)
        hidden = settings.hidden if self.deep else ()
        return NetworkScorer(make_network(width, hidden, seed), width, hidden)

    def fit(
        self, start: NetworkScorer, train: GoalQueries, validation: GoalQueries, run: Run
    ) -> tuple[Scorer, History]:
        """Train by gradient steps on minibatches of queries."""
        training = Training(start.module.to(run.device), train, validation, run.settings)
        history = training.run(run.seed, run.checkpoint, run.label)
        start.module.to("cpu")
        return start, history

    def load(self, folder: Path, record: dict[str, Any], module: ModuleFactory | None) -> Scorer:
        """Read a network's parameters."""
        return NetworkScorer.load(folder, record, module)


SCORERS: dict[str, Family] = {"linear": Networks(deep=False), "mlp": Networks(), "trees": Trees()}


def family(scorer: str | ModuleFactory) -> Family:
    """The kind of scorer that a name, or a user's own factory of modules, stands for."""
    return SCORERS[scorer] if isinstance(scorer, str) else Networks(own=scorer)
