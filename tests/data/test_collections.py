"""Known collections in their layouts, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from saferank.data import inspect, load
from saferank.data.collections import HELD_OUT, KNOWN
from saferank.errors import InputError

pytestmark = pytest.mark.usefixtures("cache_home")


def write(path: Path, *, queries: int, features: int, grade: int = 2, first: int = 0) -> None:
    """A small part: three documents per query."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(
        f"{grade if document == 2 else 0} qid:{first + query} 1:{query}.5 {features}:{document}\n"
        for query in range(queries)
        for document in range(3)
    )
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


LAYOUTS = {
    "MSLR-WEB30K/Fold3": ("mslr", 136, 4, ("train.txt", "vali.txt", "test.txt")),
    "MSLR-WEB10K/Fold1": ("mslr", 136, 4, ("train.txt.gz", "vali.txt.gz", "test.txt.gz")),
    "ltrc_yahoo": ("yahoo", 700, 4, ("set1.train.txt", "set1.valid.txt", "set1.test.txt")),
    "unnamed": ("yahoo", 699, 4, ("set2.train.txt", "set2.valid.txt", "set2.test.txt")),
    "istella-s-letor/sample": ("istella", 220, 4, ("train.txt", "vali.txt", "test.txt")),
    "istella-letor/full": ("istella", 220, 4, ("train.txt", "", "test.txt")),
    "MQ2007/Fold2": ("mq2007", 46, 2, ("train.txt", "vali.txt", "test.txt")),
    "MQ2008/Fold5": ("mq2008", 46, 2, ("train.txt", "vali.txt", "test.txt")),
    "OHSUMED/Fold1": ("ohsumed", 45, 2, ("train.txt", "vali.txt", "test.txt")),
    "lightgbm-rank": ("lightgbm", 300, 4, ("train.txt", "", "test.txt")),
}


@pytest.mark.parametrize("folder", LAYOUTS)
def test_every_known_layout_is_recognised(tmp_path: Path, folder: str) -> None:
    name, features, highest, files = LAYOUTS[folder]
    for file, queries, first in zip(files, (10, 3, 4), (0, 100, 200), strict=True):
        if file:
            write(tmp_path / folder / file, queries=queries, features=features, first=first)
    for cache in (True, True, False):
        collection = load(tmp_path / folder, cache=cache)
        assert (collection.name, collection.highest_grade) == (name, highest)
        expected = next(known.features for known in KNOWN if known.name == name)
        assert {part.width for part in collection.parts().values()} == {expected}
        read = [part.queries for part in collection.parts().values()]
        assert read == ([10, 3, 4] if files[1] else [8, 2, 4])
        assert collection.test.query_ids.tolist() == [200, 201, 202, 203]
        assert collection.train.features[:3, 0].tolist() == [0.5, 0.5, 0.5]


def test_the_folder_above_the_folds_is_its_first_fold(tmp_path: Path) -> None:
    for part in ("train", "vali", "test"):
        write(tmp_path / "MQ2008" / "Fold1" / f"{part}.txt", queries=2, features=46)
    assert load(tmp_path / "MQ2008").train.queries == 2


def test_held_out_queries_are_the_last_of_train_and_not_copied(tmp_path: Path) -> None:
    write(tmp_path / "lightgbm" / "train.txt", queries=10, features=300)
    write(tmp_path / "lightgbm" / "test.txt", queries=2, features=300)
    collection = load(tmp_path / "lightgbm", cache=False)
    assert collection.validation.queries == round(10 * HELD_OUT)
    assert collection.train.query_ids.tolist() == list(range(8))
    assert collection.validation.query_ids.tolist() == [8, 9]
    assert collection.validation.offsets.tolist() == [0, 3, 6]
    assert np.shares_memory(collection.validation.features, collection.train.features.base)


def test_the_number_of_features_recognises_a_folder_without_a_name(tmp_path: Path) -> None:
    for part in ("train", "vali", "test"):
        write(tmp_path / "somewhere" / f"{part}.txt", queries=2, features=136)
    assert load(tmp_path / "somewhere").name == "mslr"


def test_name_overrides_and_letor_takes_what_there_is(tmp_path: Path) -> None:
    for part, features in (("train", 5), ("vali", 4), ("test", 6)):
        write(tmp_path / "MSLR" / f"{part}.txt", queries=2, features=features, grade=3)
    assert load(tmp_path / "MSLR", name="istella").train.width == 220
    collection = load(tmp_path / "MSLR", name="letor")
    assert collection.train.width == collection.test.width == 6
    assert collection.highest_grade == 3


def test_unknown_folders_are_refused_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"set1.train.txt, set1.valid.txt, set1.test.txt"):
        load(tmp_path)
    for part in ("train", "vali", "test"):
        write(tmp_path / "own" / f"{part}.txt", queries=2, features=46)
    with pytest.raises(InputError, match=r"46 features fit \['mq2007', 'mq2008'\]: give `name`"):
        load(tmp_path / "own")
    with pytest.raises(InputError, match=r"`name` must be one of \['mslr', .*; got 'mine'"):
        load(tmp_path / "own", name="mine")
    with pytest.raises(InputError, match="a folder that exists"):
        load(tmp_path / "nothing")


def test_a_grade_above_the_highest_is_refused(tmp_path: Path) -> None:
    for part in ("train", "vali", "test"):
        write(tmp_path / "MQ2008" / f"{part}.txt", queries=2, features=46, grade=4)
    with pytest.raises(InputError, match="at most 2, the highest of mq2008; got 4"):
        load(tmp_path / "MQ2008")


def test_values_beyond_float32_of_istella_become_a_million(tmp_path: Path) -> None:
    for part in ("train", "vali", "test"):
        path = tmp_path / "istella" / f"{part}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("1 qid:1 1:1.79769313486e+308 220:3\n")
    assert load(tmp_path / "istella").train.features[0, 0] == 1e6


# Figures of the README of the real data: queries and documents a part, features, grades.
REAL = {
    "MSLR-mini/Fold1": (
        {"train": (127, 14348), "vali": (20, 1868), "test": (36, 3833)},
        136,
        [11153, 5974, 2503, 304, 115],
    ),
    "MQ2008/Fold1": (
        {"train": (471, 9630), "vali": (157, 2707), "test": (156, 2874)},
        46,
        [12279, 2001, 931],
    ),
    "lightgbm-rank": (
        {"train": (201, 3005), "test": (50, 768)},
        300,
        [851, 1467, 1110, 266, 79],
    ),
}


@pytest.mark.parametrize("folder", REAL)
def test_real_collections_have_the_figures_of_their_readme(
    shared_data: Path, tmp_path: Path, folder: str
) -> None:
    parts, features, grades = REAL[folder]
    copy = tmp_path / folder
    shutil.copytree(shared_data / folder, copy, copy_function=shutil.copyfile)
    copy.chmod(0o755)
    collection = load(copy)
    found = {name: inspect(part) for name, part in collection.parts().items()}
    assert {facts.features for facts in found.values()} == {features}
    assert [
        sum(facts.grades.get(float(grade), 0) for facts in found.values())
        for grade in range(len(grades))
    ] == grades
    if "vali" not in parts:
        queries = found["train"].queries + found["validation"].queries
        documents = found["train"].documents + found["validation"].documents
        assert (queries, documents) == parts["train"]
    else:
        for name, part in (("train", "train"), ("validation", "vali")):
            assert (found[name].queries, found[name].documents) == parts[part]
    assert (found["test"].queries, found["test"].documents) == parts["test"]
    assert all(facts.non_finite_values == 0 for facts in found.values())


def test_real_documents_a_query(shared_data: Path) -> None:
    mslr = load(shared_data / "MSLR-mini" / "Fold1", cache=False)
    sizes = np.concatenate([part.sizes for part in mslr.parts().values()])
    assert round(sizes.mean()) == 110
    mq2008 = load(shared_data / "MQ2008" / "Fold1", cache=False)
    sizes = np.concatenate([part.sizes for part in mq2008.parts().values()])
    assert (round(sizes.mean()), np.median(sizes)) == (19, 8)
    assert mq2008.train.doc_ids[0] == "GX008-86-4444840"
    lightgbm = load(shared_data / "lightgbm-rank", cache=False)
    rows = np.concatenate([part.features for part in lightgbm.parts().values()])
    assert np.count_nonzero(rows.any(axis=0)) == 218
