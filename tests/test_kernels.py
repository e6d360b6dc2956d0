"""Compiled code that was kept is fresh only while every module with kernels is as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import saferank
from saferank._core import kernels

PACKAGE = {
    "inner.py": (
        "from saferank._core.kernels import kernel\n@kernel\ndef inner(x):\n    return x + {n}\n"
    ),
    "outer.py": (
        "from saferank._core.kernels import kernel\nfrom inner import inner\n"
        "@kernel\ndef outer(x):\n    return inner(x)\n"
    ),
}
RUN = """
from pathlib import Path
from saferank._core import kernels
kernels._SOURCES = kernels._sources(Path("."))
from outer import outer
print(outer(1), sum(outer.stats.cache_hits.values()))
"""


def run(folder, code=RUN, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**kept, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def write(folder, n):
    for name, text in PACKAGE.items():
        path = folder / name
        if not path.exists() or "{n}" in text:
            path.write_text(text.replace("{n}", str(n)))


def test_a_kernel_is_compiled_again_when_one_that_it_calls_from_another_file_changed(tmp_path):
    write(tmp_path, 10)
    assert run(tmp_path) == [11, 0]
    assert run(tmp_path) == [11, 1]
    write(tmp_path, 200)
    assert run(tmp_path) == [201, 0]


UNWRITABLE = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"}


def test_constants_of_callers_do_not_compile_a_kernel_again(tmp_path):
    (tmp_path / "inner.py").write_text(
        "from saferank._core.kernels import kernel\n"
        "@kernel\ndef inner(x, step):\n    return x + step\n"
    )
    (tmp_path / "outer.py").write_text(
        "from saferank._core.kernels import kernel\nfrom inner import inner\n"
        "@kernel\ndef outer(x):\n    count = 0\n    for _ in range(3):\n"
        "        count = inner(count, 1)\n    return inner(x, 7) + count\n"
    )
    code = "from outer import inner, outer\nprint(outer(1), inner.signatures)"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, "."])},
    )  # fmt: skip
    assert shown.stdout == "11 [(int64, int64)]\n"


def run_in_a_package_that_cannot_be_written(folder, **environment):
    """A file in place of `__pycache__`, as permissions do not hold a superuser back."""
    write(folder, 10)
    (folder / "__pycache__").touch()
    return run(folder, **UNWRITABLE, **environment)


def test_without_a_place_beside_the_source_or_at_home_a_private_temporary_folder_is_used(tmp_path):
    place = tmp_path / "tmp"
    place.mkdir()
    for hits in (0, 1):
        found = run_in_a_package_that_cannot_be_written(tmp_path, TMPDIR=str(place))
        assert found == [11, hits]
    (kept,) = place.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o700


def test_code_is_not_loaded_from_a_folder_that_others_can_write_to(tmp_path):
    place = tmp_path / "tmp"
    shared = place / f"saferank-{os.getuid()}"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    for _ in range(2):
        found = run_in_a_package_that_cannot_be_written(tmp_path, TMPDIR=str(place))
        assert found == [11, 0]
    assert list(shared.iterdir()) == []


def test_a_folder_of_the_environment_comes_first(tmp_path):
    write(tmp_path, 10)
    for hits in (0, 1):
        assert run(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == [11, hits]
    assert list((tmp_path / "kept").rglob("*.nbi"))


@pytest.mark.parametrize(
    ("kind", "damage"), [("*.nbi", b""), ("*.nbi", b"no pickle"), ("*.nbc", b"\x80\x04\x95")]
)
def test_damaged_code_is_compiled_again(tmp_path, kind, damage):
    write(tmp_path, 10)
    assert run(tmp_path) == [11, 0]
    for path in (tmp_path / "__pycache__").glob(kind):
        path.write_bytes(damage)
    assert run(tmp_path) == [11, 0]
    assert run(tmp_path) == [11, 1]


def test_compiled_code_that_cannot_be_kept_is_still_run(tmp_path):
    write(tmp_path, 10)
    full = RUN.replace("from outer", "import shutil\nshutil.rmtree('kept')\nfrom outer").replace(
        "print(", "Path('kept').touch()\nprint("
    )
    (tmp_path / "kept").mkdir()
    assert run(tmp_path, full, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == [11, 0]


def test_a_process_without_a_home_gets_a_temporary_one(tmp_path):
    code = """
import os, pwd
def nobody(uid):
    raise KeyError(uid)
pwd.getpwuid = nobody
import saferank
import altair
from saferank.data.cache import entry_places
from pathlib import Path
print(os.environ["HOME"], entry_places(Path("a.txt"), {})[1].is_relative_to(os.environ["HOME"]))
"""
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert shown.stdout.split() == [str(tmp_path / f"saferank-{os.getuid()}"), "True"]
    assert not (tmp_path / "~").exists()


def test_the_stamp_is_of_all_kernels_of_the_package():
    """A kernel holds the code of those it calls, in whichever room: all of them are looked at."""
    package = Path(saferank.__file__).parent
    assert kernels._sources(package) == kernels._SOURCES
    rooms = {path.parent for path in package.rglob("*.py") if b"\n@kernel" in path.read_bytes()}
    assert len(rooms) > 3
    assert all(kernels._sources(room) != kernels._SOURCES for room in rooms)
