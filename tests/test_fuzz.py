"""The fuzzer sees what it is there to see, and inputs that once broke a reader are read again."""

import ctypes
import faulthandler
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuzz import parent
from fuzz.__main__ import TARGETS
from fuzz.outcomes import ensure
from fuzz.target import Target
from fuzz.worker import read_one
from saferank.errors import InputError

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"
NAMES = {target.name: target for target in TARGETS}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where seeds are made once: some of them are rankers that are learned."""
    folder = tmp_path_factory.mktemp("fuzz")
    for name in ("seeds", *NAMES):
        (folder / name).mkdir()
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_accepted(name, place):
    target = NAMES[name]
    for seed in target.seeds(place / "seeds"):
        assert read_one(target, seed, place / name) == ("accepted", "")


LIGHTGBM = ("trees", "ranker-trees")
"""Targets that load trees: LightGBM hangs in a fork of a process that has used OpenMP."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.iterdir()))
def test_inputs_that_once_broke_a_reader(name, place):
    inputs = sorted((CORPUS / name).iterdir())
    if name not in LIGHTGBM:
        assert parent.replay(NAMES[name], inputs, place) == []
        return
    root = CORPUS.parents[1]
    paths = os.pathsep.join(map(str, (root, root / "src", root / "tests")))
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.replaying", name, str(place), *map(str, inputs)],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "", done.stdout
    assert done.returncode == 0, done.stderr[-500:]


def test_every_reader_has_kept_inputs():
    assert {path.name for path in CORPUS.iterdir()} | {"ranker-trees"} == set(NAMES)
    assert sum(target.share for target in TARGETS) == pytest.approx(1, abs=0.02)


def crash(data, folder):
    faulthandler.disable()  # pytest's, which would print
    ctypes.string_at(0)


def stop(data, folder):
    os._exit(7)


def hang(data, folder):
    while True:
        time.sleep(0)


def take_memory(data, folder):
    bytearray(1 << 40)


def trip(data, folder):
    raise ValueError("no sentence of ours")


def ramble(data, folder):
    raise InputError("x" * 200 + "\n" + "y" * 200)


def count_wrongly(data, folder):
    ensure(False, "a sum")


def refuse(data, folder):
    raise InputError("`x` must be y; got z.")


FAULTS = {
    crash: "SIGSEGV",
    stop: "exit code 7",
    hang: "no end in sight",
    take_memory: "MemoryError",
    trip: "exception: ValueError",
    count_wrongly: "wrong: ",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faults_are_found(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(parent, "STUCK", 0.2)
    target = Target("fault", 1.0, lambda _: [b"seed"], fault)
    report = parent.run([target], 2, 1, 0, tmp_path, 1)
    assert report.inputs == 2
    assert [FAULTS[fault] in one["what"] for one in report.findings] == [True, True]
    (one,) = parent.distinct(report.findings)
    parent.save([one], tmp_path / "found")
    kept = [path for path in (tmp_path / "found" / "fault").iterdir() if path.suffix != ".what"]
    assert [path.read_bytes().hex() for path in kept] == [one["data"]]
    if fault is not hang:
        assert parent.replay(target, kept, tmp_path / "again") != []


@pytest.mark.parametrize("read", [refuse, ramble, lambda data, folder: None])
def test_sentences_and_good_inputs_are_no_findings(read, tmp_path):
    report = parent.run([Target("good", 1.0, lambda _: [b"seed"], read)], 50, 2, 0, tmp_path, 1)
    assert (report.inputs, report.findings) == (50, [])
    assert sum(report.tallies["good"][kind] for kind in ("accepted", "refused")) == 50
