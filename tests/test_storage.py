"""Matrices in mapped files: the same bits as in memory, nothing left behind, pages given back."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.many_pairs import generate
from saferank import learn
from saferank._core import storage
from saferank._core.flat import query_ranges
from saferank.clicks import simulate, trust_bias
from saferank.data import RankingData, Scaling, read_items, scaling, synthetic, write_items
from saferank.data.letor import read_letor, write_letor
from saferank.data.matching import match_features
from saferank.errors import InputError
from saferank.learning import Settings

ALL = 8
"""Bytes of memory with which every matrix lies in a file."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Items whose queries are scattered, with gaps, categories, and a text that is no feature."""
    rng = np.random.default_rng(0)
    rows = 2500
    query = rng.permutation(np.arange(rows) % 200)
    price = np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(size=rows))
    columns = {
        "query_id": query, "doc_id": np.arange(rows), "price": price,
        "brand": rng.choice(["b", "a", "c", ""], rows), "text": [f"t{row}" for row in range(rows)],
        "clicks": rng.normal(size=rows), "production_score": rng.normal(size=rows),
    }  # fmt: skip
    path = tmp_path / "items.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=300)
    return path


def in_both(call: Callable[[], RankingData], folder: Path) -> tuple[RankingData, RankingData]:
    """What a call gives in memory, and with its matrices in files."""
    plain = call()
    with storage.within_memory(ALL, folder):
        mapped = call()
    assert storage.is_mapped(mapped.features)
    assert not storage.is_mapped(plain.features)
    return plain, mapped


def same(first: RankingData, second: RankingData) -> None:
    assert first.fingerprint() == second.fingerprint()
    assert first.schema == second.schema
    np.testing.assert_array_equal(first.features, second.features)


def test_items_of_tables_and_text_are_the_same(table: Path, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    items, mapped = in_both(lambda: read_items(table), spill)
    assert items.schema.get("brand") is not None
    assert dict(items.left_out).keys() == {"text"}
    same(items, mapped)
    wanted = replace(items.schema, features=items.schema.features[::-1])
    same(*in_both(lambda: match_features(mapped, wanted), spill))
    same(*in_both(lambda: mapped.subset(np.arange(items.queries)[::-3]), spill))
    write_letor(synthetic("small", queries=20, seed=0).train, tmp_path / "items.txt")
    same(*in_both(lambda: read_letor(tmp_path / "items.txt"), spill))
    assert list(spill.iterdir()) == []


@pytest.mark.parametrize("kind", scaling.KINDS)
@pytest.mark.parametrize("encode", [False, True])
def test_scaling_is_the_same(kind: str, encode: bool, table: Path) -> None:
    items = read_items(table)
    numbers = items.subset(np.arange(50)) if kind != "clip" else items
    fitted = Scaling.fit(numbers, kind, encode=encode)
    with storage.within_memory(ALL):
        mapped = numbers.subset(np.arange(numbers.queries))
        again = Scaling.fit(mapped, kind, encode=encode)
        assert again.to_dict() == fitted.to_dict()
        np.testing.assert_array_equal(again.apply(mapped).features, fitted.apply(numbers).features)


@pytest.mark.parametrize("scorer", ["mlp", "linear"])
def test_a_ranker_learned_from_files_has_the_same_bits(scorer: str, tmp_path: Path) -> None:
    world = synthetic("small", queries=80, seed=0).train
    shown = np.random.default_rng(0).normal(size=world.documents)
    items, model = replace(world, production=shown), trust_bias()
    counts = simulate(items, shown, model, sessions=5000, seed=0)
    write_items(items, tmp_path / "items.parquet")
    settings = Settings(steps=40)

    def learned() -> bytes:
        data = read_items(tmp_path / "items.parquet")
        ranker = learn(
            data, counts, model, method="dr", production=data.production, scorer=scorer,
            settings=settings,
        )  # fmt: skip
        return ranker.scores(data).tobytes() + ranker.fingerprint().encode()

    plain = learned()
    with storage.within_memory(ALL):
        assert learned() == plain


def test_pages_are_given_back_and_come_again() -> None:
    with storage.within_memory(ALL):
        mapped = storage.empty((50_000, 40))
    mapped[:] = np.arange(mapped.size).reshape(mapped.shape)
    before = _resident()
    storage.release(mapped[:25_000])
    half = _resident()
    assert before - half > 3_000_000
    storage.release(mapped)
    assert half - _resident() > 3_000_000
    assert mapped[-1, -1] == np.float32(mapped.size - 1)
    storage.release(np.zeros(3))  # nothing to give back


def test_pages_written_copy_on_write_are_kept(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1000, 10), np.float32))
    array = np.ascontiguousarray(np.load(tmp_path / "a.npy", mmap_mode="c"))
    array[3] = 7
    storage.release(array)
    assert array[3, 0] == 7


def _resident() -> int:
    status = Path("/proc/self/status")
    if not status.is_file():
        pytest.skip("no /proc here")
    return 1024 * sum(int(kb) for kb in re.findall(r"Rss\w+:\s+(\d+) kB", status.read_text()))


def test_more_than_the_disk_has_is_refused(tmp_path: Path) -> None:
    with storage.within_memory(ALL, tmp_path), pytest.raises(OSError, match=r"No space|too large"):
        storage.empty((1 << 44,))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["4", "lots", "1KB", "-1GB"])
def test_sizes_without_sense_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="memory"):
        storage.parse_size(text)


def test_query_ranges_cover_every_query_once() -> None:
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(0, 9, 500))])
    ranges = list(query_ranges(offsets, 20))
    assert [first for first, _ in ranges] == [0, *(last for _, last in ranges[:-1])]
    assert ranges[-1][1] == 500
    assert max(offsets[last] - offsets[first] for first, last in ranges) <= 20


@pytest.mark.slow
def test_memory_stays_below_the_limit(tmp_path: Path) -> None:
    """A million pairs of 136 features, their counts and sums, in processes of 1.5 GB each.

    Features are 544 MB, and every table of documents and ranks 40 MB: all of them lie in files.
    """
    tables = generate(tmp_path, 1_000_000)
    counts = ["--counts", tables.counts, "--production-policy", "sampled"]
    run = tmp_path / "run"
    for name, *options in (
        ("learn", "-o", run, "--bias", "trust-bias", "--steps", 133, *counts),
        ("certify", run, *counts),
        ("rank", run, "-o", tmp_path / "rankings.parquet"),
    ):
        given = [name, *options, "--items", tables.items, "--memory", "1.5GB"]
        done = subprocess.run(
            [sys.executable, "-m", "saferank", *map(str, given)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 3), done.stderr
        peak = re.search(r"Peak memory ([0-9.]+) GB, of 1\.5 GB\.", done.stderr)
        assert peak is not None, done.stderr
        assert 0.2 < float(peak[1]) <= 1.5
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {tables.items.name, tables.counts.name, "run", "rankings.parquet"}


FAULTS = """
import resource
import numpy as np
from saferank.data import within_memory

with within_memory(4_000_000_000):
    ones = np.ones(1 << 20)
    for step in range(40):
        if step == 2:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.sqrt(ones + step)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_temporary_arrays_of_a_loop_are_not_given_new_pages_each_time():
    call = [sys.executable, "-c", FAULTS]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    pages = 38 * 2 * (1 << 23) // 4096  # of all temporaries
    assert int(done.stdout) < pages / 10
