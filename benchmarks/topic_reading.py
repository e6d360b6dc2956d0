"""Reading a LETOR file of over 100 MB: speed against scikit-learn, memory, and the cache."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.measure import Row, at_least, at_most, best_seconds, info
from saferank.data import RankingData, load, read_letor

FEATURES = 136
QUERIES = 1100
BYTES = 100_000_000


def write_collection(folder: Path) -> Path:
    """A collection in the form of MSLR: heavy tails, whole numbers, six decimals, many zeros."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for part in ("vali", "test"):
        (folder / f"{part}.txt").write_text(f"1 qid:1 {FEATURES}:1\n")
    path = folder / "train.txt"
    whole = rng.random(FEATURES) < 0.4
    with path.open("w") as file:
        for query in range(QUERIES):
            values = rng.lognormal(0, 3, size=(120, FEATURES)) * (rng.random((120, FEATURES)) < 0.7)
            for label, row in zip(rng.integers(0, 5, size=120), values, strict=True):
                words = (
                    f"{index}:{value:.0f}" if whole[index - 1] else f"{index}:{value:.6f}"
                    for index, value in enumerate(row.tolist(), start=1)
                )
                file.write(f"{label} qid:{query} {' '.join(words)}\n")
    assert path.stat().st_size >= BYTES
    return path


def same_values(data: RankingData, path: Path) -> bool:
    """Are features, labels and queries those that scikit-learn reads (in float64, then cast)?"""
    matrix, labels, queries = load_svmlight_file(str(path), query_id=True, zero_based=False)
    same = np.array_equal(matrix.toarray().astype(np.float32), data.features)
    same &= np.array_equal(labels, data.labels)
    return bool(same and np.array_equal(queries, np.repeat(data.query_ids, data.sizes)))


CHILD = """
import sys
from saferank.data import read_letor

def anonymous():
    with open("/proc/self/status") as file:
        facts = dict(line.split(":", 1) for line in file)
    return int(facts["RssAnon"].split()[0]) * 1024

import threading, time
peak, done = 0, False

def watch():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.002)

read_letor(sys.argv[1])  # compiled code is loaded, and not counted
before = anonymous()
thread = threading.Thread(target=watch)
thread.start()
data = read_letor(sys.argv[2])
done = True
thread.join()
arrays = (data.features, data.offsets, data.labels, data.query_ids)
print(peak - before, sum(array.nbytes for array in arrays))
"""


def peak_ratio(small: Path, path: Path) -> float:
    """Peak memory of a fresh process that reads the file, over the size of the arrays."""
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(small), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, size = map(int, run.stdout.split())
    return peak / size


def seconds(call: object) -> float:
    """The time of one call."""
    start = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - start


def rows() -> Iterator[Row]:
    """The figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_collection(Path(folder) / "MSLR")
        small = path.with_name("test.txt")
        read_letor(small)
        yield info("size of the file", path.stat().st_size / 1e6, "MB")
        ours, theirs = best_seconds(
            lambda: read_letor(path),
            lambda: load_svmlight_file(str(path), query_id=True),
            repeats=3,
        )
        yield info("read_letor", ours, "s")
        yield info("speed of read_letor", path.stat().st_size / ours / 1e6, "MB/s")
        yield at_least("faster than scikit-learn's load_svmlight_file", theirs / ours, 5)
        yield at_least(
            "same values as scikit-learn (1: yes)", same_values(read_letor(path), path), 1, ""
        )
        yield at_most("peak memory over the arrays", peak_ratio(small, path), 2, "x")
        first = seconds(lambda: load(path.parent))
        (again,) = best_seconds(lambda: load(path.parent), repeats=5)
        yield info("load of the collection from its cache", again * 1e3, "ms")
        yield at_least("second load over the first", first / again, 100)
