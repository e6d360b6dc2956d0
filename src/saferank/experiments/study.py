"""What a study is: one record, and the presets; which collection it runs on and how it is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from saferank._core.files import write_json
from saferank.clicks import USERS, ClickModel, Users, position_bias, trust_bias
from saferank.clicks.models import blend
from saferank.clicks.users import epsilon_adversarial
from saferank.data import Collection, RankingData, load, synthetic
from saferank.data.cache import cached
from saferank.data.synthetic import PRESETS as SHAPES
from saferank.errors import InputError, require
from saferank.learning import Settings

_SYNTHETIC_VERSION = 1

STUDY_USERS: dict[str, Callable[[int], Users]] = USERS | {
    # half of the way to users without trust bias, while the learner believes in all of it
    "misspecified": lambda k: blend(trust_bias(k), position_bias(k), 0.5),
    "quarter-adversarial": lambda k: epsilon_adversarial(trust_bias(k), 0.25),
}
"""Users who click in a study, by name; each made for K ranks."""

LEARNERS: dict[str, Callable[[int], ClickModel]] = {"trust": trust_bias, "position": position_bias}
"""Click models that a learner may believe in."""


@dataclass(frozen=True)
class Conditions:
    """What all jobs of a curve share: how production came about and what the learner is."""

    fraction: float = 0.03
    """Share of the training queries whose labels production was trained on (at least 5 queries)."""
    peak: float = 1.0
    """Production's scores are multiplied by this: below 1 flatter policies, above it peaked ones
    (networks only)."""
    ranks: int = 5
    learner: str = "trust"
    """The click model that the learner believes in."""
    scorer: str = "mlp"
    shown_by: str | None = None
    """The scorer of production, if not the learner's; safe methods then learn a correction that
    is added to production's scores."""
    regression: str = "posterior"
    """How the regression behind DM and DR is fitted."""
    validation: float = 0.15
    """Sessions on validation queries, as a share of N (at least one session)."""
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        require(0 < self.fraction <= 1, "fraction", "in (0, 1]", self.fraction)
        require(self.ranks >= 1, "ranks", "at least 1", self.ranks)
        sane = self.peak == 1 or (self.peak > 0 and self.production_scorer != "trees")
        require(sane, "peak", "positive, and 1 for trees", self.peak)
        names = ", ".join(LEARNERS)
        require(self.learner in LEARNERS, "learner", f"one of {names}", self.learner)
        require(0 < self.validation <= 1, "validation", "in (0, 1]", self.validation)

    @property
    def production_scorer(self) -> str:
        """The scorer of production."""
        return self.shown_by or self.scorer

    def click_model(self) -> ClickModel:
        """What the learner believes of users."""
        return LEARNERS[self.learner](self.ranks)


@dataclass(frozen=True)
class Study:
    """A study: on which collection, over which numbers of sessions, how often, and how.

    `data` is a folder that `saferank.data.load` knows, or `synthetic:PRESET[:QUERIES]`.

    >>> PRESETS["quick"].data, len(PRESETS["paper"].sessions), PRESETS["paper"].seeds
    ('synthetic:small:200', 8, 10)
    """

    data: str
    """The collection."""
    sessions: tuple[int, ...]
    """Numbers of sessions: one point of a curve each."""
    seeds: int
    """How often each point is repeated, with other users and clicks."""
    conditions: Conditions = field(default_factory=Conditions)
    """How production came about, and what the learner is."""
    strong: float = 0.5
    """The fraction of a strong production ranker (figure 7)."""

    def __post_init__(self) -> None:
        sessions = tuple(sorted({int(number) for number in self.sessions}))
        require(bool(sessions) and sessions[0] >= 1, "sessions", "at least 1 each", sessions)
        require(self.seeds >= 1, "seeds", "at least 1", self.seeds)
        object.__setattr__(self, "sessions", sessions)

    def replace(self, **changes: Any) -> Study:
        """The study with other parts; None leaves a part as it is."""
        return replace(self, **{name: it for name, it in changes.items() if it is not None})


_QUICK = Settings(
    learning_rate=3e-3, steps=300, min_validation_interval=25, patience=5, hidden=(32,)
)

PRESETS: dict[str, Study] = {
    "quick": Study(
        "synthetic:small:200", (100, 1000, 10**4, 10**6, 10**8), 3, Conditions(settings=_QUICK)
    ),
    "paper": Study(
        "synthetic:mslr",
        tuple(10**power for power in range(2, 10)),
        10,
        Conditions(settings=Settings(learning_rate=3e-3)),
    ),
}


def open_collection(data: str, folder: Path) -> Collection:
    """The collection of a study, memory-mapped; synthetic ones are written to `folder` once."""
    if not data.startswith("synthetic:"):
        return load(data)
    words = data.split(":")
    numbered = len(words) == 2 or (len(words) == 3 and words[2].isdigit())
    if not numbered or words[1] not in SHAPES:
        raise InputError(
            f"`data` must be a folder or synthetic:PRESET[:QUERIES] with one of "
            f"{', '.join(SHAPES)}; got {data!r}."
        )
    preset, queries = words[1], int(words[2]) if len(words) == 3 else None
    return _kept(folder / "-".join(words), preset, queries)


def _kept(folder: Path, preset: Any, queries: int | None) -> Collection:
    made: list[Collection] = []

    def build(part: str) -> RankingData:
        if not made:
            made.append(synthetic(preset, queries=queries, seed=0))
        return made[0].parts()[part]

    parts = {}
    for part in ("train", "validation", "test"):
        # the cache asks for a source whose time and size say whether an entry is up to date
        source = folder / f"{part}.json"
        if not source.is_file():
            write_json(source, {"synthetic": preset, "queries": queries, "part": part})
        parts[part] = cached(source, partial(build, part), version=_SYNTHETIC_VERSION, options={})
    highest = len(SHAPES[preset].grades) - 1
    return Collection(**parts, highest_grade=highest, name=f"synthetic {preset}")


def fingerprint(collection: Collection) -> str:
    """A short hash of a collection, wherever it lies: part of the address of each result."""
    digest = hashlib.blake2b(str(collection.highest_grade).encode(), digest_size=16)
    for part in collection.parts().values():
        digest.update(part.fingerprint().encode())
        digest.update(repr(part.ids()[0].tolist()).encode())
    return digest.hexdigest()
