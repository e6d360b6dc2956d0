"""The cache counts only as long as it is whole and its source is as it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from saferank._core.scratch import PREFIX
from saferank.data import RankingData, cache
from saferank.data.cache import cached, entry_places

OPTIONS = {"features": 3}


def example(seed: int = 0, documents: int = 6) -> RankingData:
    features = np.random.default_rng(seed).normal(size=(documents, 3))
    return RankingData(
        features,
        offsets=[0, 2, documents],
        labels=np.arange(documents) % 3,
        query_ids=["a", "b"],
        doc_ids=np.arange(documents),
        feature_names=("x", "y", "z"),
        production=np.linspace(0, 1, documents),
    )


class Builder:
    """Counts how often it had to build."""

    def __init__(self, data: RankingData) -> None:
        self.data, self.calls = data, 0

    def __call__(self) -> RankingData:
        self.calls += 1
        return self.data


@pytest.fixture
def source(tmp_path: Path, cache_home: Path) -> Path:
    path = tmp_path / "collection" / "train.txt"
    path.parent.mkdir()
    path.write_text("source")
    return path


def load(source: Path, build: Callable[[], RankingData], version: int = 1) -> RankingData:
    return cached(source, build, version=version, options=OPTIONS)


def assert_same(got: RankingData, wanted: RankingData) -> None:
    for name in ("features", "offsets", "labels", "query_ids", "doc_ids", "production"):
        assert getattr(got, name).tobytes() == getattr(wanted, name).tobytes()
        assert getattr(got, name).dtype == getattr(wanted, name).dtype
    assert got.feature_names == wanted.feature_names


def test_a_second_load_builds_nothing(source: Path) -> None:
    build = Builder(example())
    load(source, build)
    assert_same(load(source, build), build.data)
    assert build.calls == 1
    assert entry_places(source, OPTIONS)[0].parent == source.parent / cache.FOLDER


def test_writing_to_loaded_arrays_never_reaches_the_cache(source: Path) -> None:
    build = Builder(example())
    load(source, build)
    load(source, build).features[:] = 7
    assert_same(load(source, build), build.data)
    assert build.calls == 1


def change_text(source: Path) -> None:
    source.write_text("another")


def change_time(source: Path) -> None:
    os.utime(source, ns=(0, source.stat().st_mtime_ns + 1))


@pytest.mark.parametrize("change", [change_text, change_time])
def test_a_changed_source_is_read_again(source: Path, change: Callable[[Path], None]) -> None:
    load(source, Builder(example(0)))
    change(source)
    build = Builder(example(1))
    assert_same(load(source, build), build.data)
    assert_same(load(source, build), build.data)
    assert build.calls == 1


def test_another_version_or_option_is_read_again(source: Path) -> None:
    build = Builder(example())
    load(source, build, version=1)
    load(source, build, version=2)
    cached(source, build, version=2, options={"features": 4})
    assert build.calls == 3


def cut_array(entry: Path) -> None:
    path = entry / "features.npy"
    path.write_bytes(path.read_bytes()[:-4])


def lengthen_array(entry: Path) -> None:
    with (entry / "labels.npy").open("ab") as file:
        file.write(b"1234")


def empty_array(entry: Path) -> None:
    (entry / "offsets.npy").write_bytes(b"")


def other_shape(entry: Path) -> None:
    np.save(entry / "features.npy", np.zeros((3, 6), dtype=np.float32))


def other_type(entry: Path) -> None:
    np.save(entry / "features.npy", np.zeros((6, 3), dtype=np.float64))


def pickled(entry: Path) -> None:
    np.save(entry / "query_ids.npy", np.array([{}, []], dtype=object), allow_pickle=True)


def wrong_offsets(entry: Path) -> None:
    np.save(entry / "offsets.npy", np.array([0, 9, 6]))


def no_array(entry: Path) -> None:
    (entry / "labels.npy").unlink()


def broken_json(entry: Path) -> None:
    (entry / "entry.json").write_text("{")


def foreign_json(entry: Path) -> None:
    (entry / "entry.json").write_text("[1, 2]")


def escaping_json(entry: Path) -> None:
    record = json.loads((entry / "entry.json").read_text())
    record["arrays"]["../outside"] = record["arrays"]["features"]
    shutil.copy(entry / "features.npy", entry.parent / "outside.npy")
    (entry / "entry.json").write_text(json.dumps(record))


def flipped_bit(entry: Path) -> None:
    path = entry / "features.npy"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def swapped_labels(entry: Path) -> None:
    np.save(entry / "labels.npy", np.load(entry / "labels.npy")[::-1].copy())


def renamed_feature(entry: Path) -> None:
    text = (entry / "entry.json").read_text()
    assert '"y"' in text
    (entry / "entry.json").write_text(text.replace('"y"', '"w"'))


def nested_header(entry: Path) -> None:
    path = entry / "labels.npy"
    data = path.read_bytes()
    path.write_bytes(data[:10] + b"(" * 110 + data[120:])


def pipe(entry: Path) -> None:
    (entry / "labels.npy").unlink()
    os.mkfifo(entry / "labels.npy")


@pytest.mark.parametrize(
    "corrupt",
    [
        flipped_bit,
        swapped_labels,
        renamed_feature,
        nested_header,
        pipe,
        cut_array,
        lengthen_array,
        empty_array,
        other_shape,
        other_type,
        pickled,
        wrong_offsets,
        no_array,
        broken_json,
        foreign_json,
        escaping_json,
    ],
)
def test_a_corrupt_entry_is_rebuilt(source: Path, corrupt: Callable[[Path], None]) -> None:
    load(source, Builder(example()))
    corrupt(entry_places(source, OPTIONS)[0])
    build = Builder(example())
    assert_same(load(source, build), build.data)
    assert_same(load(source, build), build.data)
    assert build.calls == 1


def test_where_the_source_cannot_have_a_folder_the_users_cache_is_used(
    source: Path, cache_home: Path
) -> None:
    # A file in its place blocks the folder for every user, root too.
    (source.parent / cache.FOLDER).write_text("")
    build = Builder(example())
    load(source, build)
    assert_same(load(source, build), build.data)
    assert build.calls == 1
    assert entry_places(source, OPTIONS)[1].is_relative_to(cache_home)


def test_without_any_place_there_is_no_cache_and_no_error(source: Path, cache_home: Path) -> None:
    (source.parent / cache.FOLDER).write_text("")
    cache_home.write_text("")
    build = Builder(example())
    load(source, build)
    load(source, build)
    assert build.calls == 2


def test_a_source_that_changes_while_it_is_read_is_not_cached(source: Path) -> None:
    def build() -> RankingData:
        change_text(source)
        return example()

    load(source, build)
    again = Builder(example(1))
    load(source, again)
    assert again.calls == 1


def slow_write(source: Path, started: Path) -> None:
    """Load with a write that stops half-way."""
    write = cache._write

    def half(folder: Path, data: RankingData, stamp: object) -> None:
        np.save(folder / "features.npy", data.features)
        started.write_text("")
        time.sleep(60)
        write(folder, data, stamp)  # type: ignore[arg-type]

    cache._write = half
    load(source, example)


def test_a_killed_writer_leaves_no_entry_and_no_litter(source: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    writer = multiprocessing.get_context("spawn").Process(target=slow_write, args=(source, started))
    writer.start()
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    entry = entry_places(source, OPTIONS)[0]
    assert not entry.exists()
    assert len(list(entry.parent.glob(f"{PREFIX}*"))) == 1

    build = Builder(example())
    load(source, build)
    assert_same(load(source, build), build.data)
    assert build.calls == 1
    assert [path.name for path in entry.parent.iterdir()] == [entry.name]


def test_a_damaged_entry_is_rebuilt_and_foreign_files_are_left_alone(source: Path) -> None:
    build = Builder(example())
    load(source, build)
    entry = entry_places(source, OPTIONS)[0]
    (entry / "entry.json").write_text("{")
    assert_same(load(source, build), build.data)
    assert_same(load(source, build), build.data)
    assert build.calls == 2
    (entry / "entry.json").write_text("{")
    (entry / "notes.txt").write_text("mine")
    load(source, build)
    assert_same(load(source, build), build.data)
    assert (entry / "notes.txt").read_text() == "mine"


def load_many(source: Path, seed: int) -> None:
    for version in range(20):
        data = load(source, lambda: example(seed), version=version // 4)
        assert_same(data, example(seed))


def test_writers_at_the_same_time_do_not_disturb_each_other(source: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=load_many, args=(source, 3)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
