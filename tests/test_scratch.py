"""Folders of runs that were killed: removed by the next run, unless a process holds them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from saferank._core import scratch
from saferank._core.scratch import LOCK, OLD, PREFIX, remove_litter, scratch_folder

HOLDER = """
import sys, time
from pathlib import Path
from saferank._core.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        folder = Path(process.stdout.readline().strip())
        yield process, folder
        process.kill()


def test_what_a_process_holds_stays_and_goes_once_it_is_killed(holder, tmp_path):
    process, folder = holder
    assert folder.parent == tmp_path
    assert remove_litter(tmp_path) == 0
    assert (folder / "half").is_file()
    process.send_signal(signal.SIGKILL)
    process.wait()
    with scratch_folder(tmp_path) as mine:
        assert list(tmp_path.iterdir()) == [mine]
    assert list(tmp_path.iterdir()) == []


def test_only_scratch_folders_are_removed(tmp_path):
    for name in (".saferank-cache", f"{PREFIX}file", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("mine")
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "other")
    (tmp_path / f"{PREFIX}text").write_text("mine")
    (tmp_path / f"{PREFIX}empty").mkdir()
    (tmp_path / f"{PREFIX}left").mkdir()
    (tmp_path / f"{PREFIX}left" / LOCK).touch()
    assert remove_litter(tmp_path) == 2
    kept = {".saferank-cache", f"{PREFIX}file", "other", f"{PREFIX}link", f"{PREFIX}text"}
    assert {path.name for path in tmp_path.iterdir()} == kept
    assert (tmp_path / "other" / "mine").read_text() == "mine"


def test_what_was_being_replaced_is_put_back(tmp_path):
    left = tmp_path / f"{PREFIX}left"
    (left / OLD / "run").mkdir(parents=True)
    (left / OLD / "run" / "x").write_text("old")
    (left / LOCK).touch()
    assert remove_litter(tmp_path) == 1
    assert (tmp_path / "run" / "x").read_text() == "old"
    (left / OLD / "run").mkdir(parents=True)
    (left / LOCK).touch()
    assert remove_litter(tmp_path) == 1
    assert (tmp_path / "run" / "x").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_others_who_clear_at_the_same_time_take_nothing_that_is_used(tmp_path):
    """Three processes make and clear folders in one place; each finds its own until it is done."""
    script = """
import sys, time
from pathlib import Path
from saferank._core.scratch import remove_litter, scratch_folder
until = time.monotonic() + 1.5
while time.monotonic() < until:
    with scratch_folder(Path(sys.argv[1])) as folder:
        (folder / "mine").write_text("mine")
        remove_litter(folder.parent)
        assert (folder / "mine").read_text() == "mine"
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script, str(tmp_path)]
    children = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    opened = scratch._open_lock
    first: list[Any] = []

    def swept(folder: Path) -> int:
        lock = opened(folder)
        if not first:
            first.append(folder)
            (folder / LOCK).unlink()
            folder.rmdir()
        return lock

    monkeypatch.setattr(scratch, "_open_lock", swept)
    with scratch_folder(tmp_path) as folder:
        assert first
        assert (folder / LOCK).exists()


@pytest.mark.parametrize("when", ["before the lock", "after the lock"])
def test_a_signal_while_the_folder_is_made_leaves_nothing(tmp_path, monkeypatch, when):
    opened = scratch._open_lock

    def stopped(folder: Path) -> int:
        if when == "after the lock":
            opened(folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(scratch, "_open_lock", stopped)
    with pytest.raises(KeyboardInterrupt), scratch_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_parent_is_cleared_once_per_process(tmp_path):
    with scratch_folder(tmp_path):
        pass
    (tmp_path / f"{PREFIX}late").mkdir()
    before = time.monotonic()
    with scratch_folder(tmp_path):
        assert (tmp_path / f"{PREFIX}late").exists()
    assert time.monotonic() - before < 60
