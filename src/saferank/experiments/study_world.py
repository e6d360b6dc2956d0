"""What the jobs of a study share: features that are scaled once, scores that are computed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path

from saferank._core.files import read_json, write_json
from saferank._core.flat import Floats
from saferank.data import Collection, RankingData, Scaling
from saferank.data.cache import cached
from saferank.data.frames import ArrowTable
from saferank.data.ranking import Features
from saferank.experiments.study import open_collection
from saferank.learning import Ranker

SCALED_BY = "log1p"
"""How the features of a collection are scaled, by what its training queries say."""
SCALING = "none"
"""How a learner scales them again."""
_SCALED_VERSION = 1


def open_scaled(address: str, data: str, folder: Path) -> Collection:
    """The collection of a study with scaled features, memory-mapped; they are written once.

    Parameters
    ----------
    address
        The collection's `fingerprint`: what is kept for it lies under this name.
    data
        As of `Study`.
    folder
        That of the results.

    Returns
    -------
    Collection
        Its features are those of `open_collection`, scaled as the training queries say.

    Examples
    --------
    >>> import tempfile
    >>> from saferank.experiments.study import fingerprint
    >>> place = Path(tempfile.mkdtemp())
    >>> address = fingerprint(open_collection("synthetic:small:30", place / "data"))
    >>> scaled = open_scaled(address, "synthetic:small:30", place)
    >>> float(abs(scaled.train.features.mean(axis=0)).max()) < 1e-6
    True
    """
    place, source = folder / "scaled" / address, _Source(data, folder / "data")
    facts = place / "collection.json"
    if not facts.is_file():
        collection = source.collection
        write_json(
            facts, {"name": collection.name, "highest_grade": float(collection.highest_grade)}
        )
    record = read_json(facts, limit=1 << 16)
    parts = {}
    for part in ("train", "validation", "test"):
        # the cache asks for a source whose time and size say whether an entry is up to date
        mark = place / f"{part}.json"
        if not mark.is_file():
            write_json(mark, {"data": data, "part": part, "scaling": SCALED_BY})
        parts[part] = cached(
            mark, partial(source.scaled, part), version=_SCALED_VERSION, options={}
        )
    return Collection(**parts, highest_grade=record["highest_grade"], name=record["name"])


@dataclass(frozen=True)
class _Source:
    """The collection as it is, opened only where something is missing."""

    data: str
    folder: Path

    @cached_property
    def collection(self) -> Collection:
        return open_collection(self.data, self.folder)

    @cached_property
    def scaling(self) -> Scaling:
        return Scaling.fit(self.collection.train, SCALED_BY)

    def scaled(self, part: str) -> RankingData:
        scaled: RankingData = self.scaling.apply(self.collection.parts()[part])
        return scaled


@dataclass(frozen=True, eq=False)
class ScoredRanker(Ranker):
    """A ranker that has its scores of some documents at hand, and computes those of any other."""

    at_hand: tuple[tuple[Features, Floats], ...] = ()
    """Features, and the scores of their documents."""

    @classmethod
    def of(cls, ranker: Ranker, parts: Iterable[RankingData]) -> ScoredRanker:
        """The ranker with its scores of these documents."""
        own = {field.name: getattr(ranker, field.name) for field in fields(Ranker)}
        return cls(**own, at_hand=tuple((part.features, ranker.scores(part)) for part in parts))

    def scores(self, data: RankingData | ArrowTable) -> Floats:
        """One score per document; scores of the very same features are not computed again."""
        if isinstance(data, RankingData):
            for features, scores in self.at_hand:
                if features is data.features:
                    return scores
        return super().scores(data)
