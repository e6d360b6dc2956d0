"""NumPy's arrays in files: the same values, whatever becomes of them, and memory kept to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from saferank import learn
from saferank._core import array_memory, storage
from saferank._core.array_memory import arrays_in_files
from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.learning import Settings
from saferank.safety import assess

FOREVER = 1 << 60
pytestmark = pytest.mark.skipif(
    not array_memory._can_hold(Path("/tmp")), reason="no files without names here"
)


def in_file(array: np.ndarray) -> bool:
    """Whether an array's first byte lies in a mapped file that has no name."""
    address = array.ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return line.endswith("(deleted)")
    return False


def test_large_arrays_lie_in_files_and_small_ones_do_not(tmp_path: Path) -> None:
    with arrays_in_files(10_000, tmp_path, FOREVER):
        large, small = np.arange(2000.0), np.arange(1000.0)
        zeros, product = np.zeros((50, 50)), large * 2
    after = np.arange(2000.0)
    assert [in_file(a) for a in (large, zeros, product)] == [True] * 3
    assert [in_file(a) for a in (small, after)] == [False] * 2
    assert not zeros.any()
    np.testing.assert_array_equal(product, 2 * after)
    assert list(tmp_path.iterdir()) == []


def test_arrays_change_their_size(tmp_path: Path) -> None:
    with arrays_in_files(10_000, tmp_path, FOREVER):
        for sizes in ((3000, 6000, 10), (10, 6000, 3000), (3000, 2000, 7000)):
            array = np.arange(float(sizes[0]))
            for size in sizes:
                array.resize(size, refcheck=False)
            kept = min(sizes)
            np.testing.assert_array_equal(array[:kept], np.arange(float(kept)))
            assert not array[kept : min(sizes[1:])].any() or sizes[1] < sizes[2]


def test_blocks_nest_and_end(tmp_path: Path) -> None:
    with arrays_in_files(10_000, tmp_path, FOREVER):
        with arrays_in_files(100_000, tmp_path, FOREVER):
            assert not in_file(np.zeros(2000))
        assert in_file(np.zeros(2000))
        with pytest.raises(ZeroDivisionError), arrays_in_files(1, tmp_path, FOREVER):
            raise ZeroDivisionError
        assert not in_file(np.zeros(1000))


def test_more_arrays_than_slots_lie_in_memory(tmp_path: Path) -> None:
    with arrays_in_files(1, tmp_path, FOREVER):
        arrays = [np.full(3, number) for number in range(array_memory._SLOTS + 50)]
        assert all((array == number).all() for number, array in enumerate(arrays))
        del arrays[::2]
        again = np.full(3, 7)
        assert in_file(again)
    assert all((array == 2 * number + 1).all() for number, array in enumerate(arrays))


def test_without_such_a_folder_arrays_lie_in_memory(tmp_path: Path) -> None:
    with arrays_in_files(1, tmp_path / "missing", FOREVER):
        assert not in_file(np.zeros(10_000))


def test_rankers_and_verdicts_have_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SMALLEST_MAPPED", 4096)
    world = synthetic("small", queries=80, seed=0).train
    shown = np.random.default_rng(0).normal(size=world.documents)
    model = trust_bias()
    counts = simulate(world, shown, model, sessions=5000, seed=0)

    def learned() -> tuple[bytes, object]:
        ranker = learn(
            world, counts, model, method="dr", production=shown, settings=Settings(steps=20)
        )
        verdict = assess(ranker, world, production=shown, counts=counts, click_model=model)
        return ranker.scores(world).tobytes(), verdict.to_dict()

    plain = learned()
    with storage.within_memory(8, tmp_path):
        assert learned() == plain


_MANY = """
import sys
from pathlib import Path
import numpy as np
from saferank._core.array_memory import arrays_in_files
from saferank._core.storage import peak_memory
before = peak_memory()
with arrays_in_files(1 << 20, Path(sys.argv[1]), before + 100_000_000):
    arrays = [np.arange(10_000_000.0) + number for number in range(10)]
    total = sum(float(array[-1]) for array in arrays)
assert total == 10 * 9_999_999 + 45
print((peak_memory() - before) / 1e6)
"""


def test_pages_beyond_the_limit_are_given_back(tmp_path: Path) -> None:
    """800 MB of arrays in some 100 MB; two of them, 160 MB, may be made between two looks."""
    done = subprocess.run(
        [sys.executable, "-c", _MANY, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 500
