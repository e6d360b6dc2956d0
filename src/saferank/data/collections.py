"""Known collections: which files, how many features, which grades; one line each.

A folder is recognised by its files, then by `name`, by a word in its path, or by its number of
features. A folder of folds stands for its first. Where a collection comes without validation
queries, the last fifth of the training queries takes their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from saferank.data.cache import cached
from saferank.data.letor.reading import VERSION, count_features, read_letor
from saferank.data.ranking import Collection, RankingData
from saferank.errors import InputError, require

HELD_OUT: Final = 0.2
"""Share of the training queries that validate where a collection has no part for it."""

PARTS: Final = ("train", "validation", "test")
_FILES: Final[tuple[Mapping[str, str], ...]] = (
    {"train": "train.txt", "validation": "vali.txt", "test": "test.txt"},
    {"train": "train.txt", "validation": "valid.txt", "test": "test.txt"},
    {"train": "set1.train.txt", "validation": "set1.valid.txt", "test": "set1.test.txt"},
    {"train": "set2.train.txt", "validation": "set2.valid.txt", "test": "set2.test.txt"},
    {"train": "train.txt", "test": "test.txt"},
)
_INNER: Final = (".", "Fold1", "sample", "full")
"""Where the files may lie inside the folder that a user names."""


@dataclass(frozen=True)
class Known:
    """A collection that `load` knows.

    `words`: any of them in the path names it; `features`: None takes the largest index;
    `highest_grade`: None takes the highest label of train; `beyond`: see `read_letor`.
    """

    name: str
    words: tuple[str, ...]
    features: int | None
    highest_grade: float | None
    beyond: float | None = None


KNOWN: Final = (
    Known("mslr", ("mslr",), 136, 4),
    Known("yahoo", ("yahoo", "set1.", "set2."), 700, 4),
    # Istella writes 1.79769313486e+308 where a feature has no value: as others do, a million.
    Known("istella", ("istella",), 220, 4, beyond=1e6),
    Known("mq2007", ("mq2007",), 46, 2),
    Known("mq2008", ("mq2008",), 46, 2),
    Known("ohsumed", ("ohsumed",), 45, 2),
    Known("lightgbm", ("lightgbm",), 300, 4),
    Known("letor", (), None, None),
)


def load(path: str | Path, *, name: str | None = None, cache: bool = True) -> Collection:
    """Load a known collection from its folder; `name` overrides what the folder looks like.

    `name="letor"` takes any folder with `train.txt`, `vali.txt` and `test.txt` (or no `vali.txt`):
    as many features as the largest index, grades up to the highest label of train.

    Parameters
    ----------
    path
        The collection's folder.
    name
        Which collection it is, where its path and number of features do not tell.
    cache
        Whether to keep the parsed arrays beside the files.

    Returns
    -------
    Collection
        `train`, `validation` and `test`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "MQ2008" / "Fold1"
    >>> folder.mkdir(parents=True)
    >>> for part in ("train", "vali", "test"):
    ...     _ = (folder / f"{part}.txt").write_text("2 qid:1 1:0.5 46:1\\n0 qid:1 2:0.5\\n")
    >>> load(folder)
    Collection(mq2008: queries train 1, validation 1, test 1; grades 0..2)
    """
    folder = Path(path)
    require(folder.is_dir(), "path", "a folder that exists", str(path))
    files = find_files(folder)
    entry = _recognise(folder, files, name)
    width = entry.features
    if width is None:
        width = max(count_features(file) for file in files.values())
    parts = {part: _read(file, width, entry.beyond, cache) for part, file in files.items()}
    return assemble(parts, entry)


def find_files(folder: Path) -> dict[str, Path]:
    """The file of each part, plain or gzipped, or `InputError` with the layouts that are known."""
    for inner in _INNER:
        for layout in _FILES:
            files = {part: _existing(folder / inner / file) for part, file in layout.items()}
            if all(files.values()):
                return {part: file for part, file in files.items() if file is not None}
    layouts = "; ".join(", ".join(layout.values()) for layout in _FILES)
    raise InputError(
        f"`{folder}` must hold the files of a known collection, each plain or .gz, itself or in "
        f"{', '.join(_INNER[1:])} ({layouts}); it holds none of these sets."
    )


def _existing(file: Path) -> Path | None:
    zipped = file.with_name(f"{file.name}.gz")
    return next((place for place in (file, zipped) if place.is_file()), None)


def _recognise(folder: Path, files: Mapping[str, Path], name: str | None) -> Known:
    names = [entry.name for entry in KNOWN]
    if name is not None:
        require(name in names, "name", f"one of {names}", name)
        return KNOWN[names.index(name)]
    # The innermost part of the path that names a collection decides.
    for part in (files["train"].name, *reversed(folder.resolve().parts[-2:])):
        for entry in KNOWN:
            if any(word in part.lower() for word in entry.words):
                return entry
    width = count_features(files["train"])
    fitting = [entry for entry in KNOWN if entry.features == width]
    if len(fitting) != 1:
        raise InputError(
            f"`{Path(folder).name}` must be recognisable by its path or its number of features; "
            f"{width} features fit {[entry.name for entry in fitting] or 'none'}: give `name`, "
            f"one of {names} (saferank data inspect: --name)."
        )
    return fitting[0]


def _read(file: Path, features: int, beyond: float | None, cache: bool) -> RankingData:
    def build() -> RankingData:
        return read_letor(file, features=features, beyond=beyond)

    options = {"features": features, "beyond": beyond}
    return cached(file, build, version=VERSION, options=options) if cache else build()


def assemble(parts: Mapping[str, RankingData], entry: Known) -> Collection:
    """The collection of these parts; without validation queries, some of train become these."""
    train, validation = parts["train"], parts.get("validation")
    if validation is None:
        train, validation = _hold_out(train)
    highest = entry.highest_grade
    if highest is None:
        highest = float(train.known_labels.max(initial=0))
    for part in (train, validation, parts["test"]):
        top = float(part.known_labels.max(initial=0))
        require(top <= highest, "labels", f"at most {highest:g}, the highest of {entry.name}", top)
    return Collection(train, validation, parts["test"], highest, entry.name)


def _hold_out(train: RankingData) -> tuple[RankingData, RankingData]:
    """Train without its last queries, and these: views, so that nothing is copied."""
    require(train.queries >= 2, "train", "at least 2 queries, as some must validate", train.queries)
    cut = min(max(round(train.queries * (1 - HELD_OUT)), 1), train.queries - 1)
    return _between(train, 0, cut), _between(train, cut, train.queries)


def _between(data: RankingData, first: int, last: int) -> RankingData:
    cuts = data.offsets[first : last + 1]
    rows = slice(int(cuts[0]), int(cuts[-1]))
    return replace(
        data,
        features=data.features[rows],
        offsets=cuts - cuts[0],
        labels=None if data.labels is None else data.labels[rows],
        query_ids=None if data.query_ids is None else data.query_ids[first:last],
        doc_ids=None if data.doc_ids is None else data.doc_ids[rows],
        production=None if data.production is None else data.production[rows],
    )
