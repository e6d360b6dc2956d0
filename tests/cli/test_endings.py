"""How commands end: one sentence and an exit code, whatever happens to them."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from saferank.cli import ending
from saferank.cli.app import app
from saferank.cli.help_pages import PAGES, page_of
from saferank.errors import EngineError, InputError
from saferank.scorers.tensors import write_tensors

STOPPED = "saferank: stopped; the same command goes on, or starts again.\n"
SOURCES = Path(__file__).parents[2] / "src"


def start(*arguments: object, wrap: str = "", **options: Any) -> subprocess.Popen[str]:
    """`saferank` in a process of its own; `wrap` is shell around it."""
    command = [sys.executable, "-m", "saferank", *map(str, arguments)]
    if wrap:
        command = ["sh", "-c", wrap, "sh", *command]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "COLUMNS": "80"}
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True,
        **{"stdout": subprocess.PIPE, **options},
    )  # fmt: skip


def ended(*arguments: object, **options: Any) -> tuple[int, str]:
    with start(*arguments, **options) as process:
        _, said = process.communicate(timeout=120)
    return process.returncode, said


def one_sentence(said: str) -> None:
    assert said.startswith("saferank: ")
    assert said.count("\n") == 1
    assert len(said) <= len("saferank: ") + 300 + 1


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    rows = pa.table({"query_id": [1], "doc_id": [1], "rank": [1], "click": [1]})
    pq.write_table(rows, path)
    return path


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("bad"), 2, "bad"),
        (EngineError("broken"), 1, "broken"),
        (MemoryError(), 1, "not enough memory"),
        (RecursionError("maximum recursion depth"), 2, "nested too deeply"),
        (OSError(28, "No space left on device"), 1, "No space left on device."),
        (PermissionError(13, "Permission denied", "x" * 5000), 1, "Permission denied: 'xxx"),
        (FileNotFoundError(2, "No such file or directory", "none"), 2, "directory: 'none'."),
        (IsADirectoryError(21, "Is a directory", b"a\xff"), 2, "Is a directory"),
        (InputError("x" * 10**6), 2, "xxx"),
    ],
)
def test_each_kind_of_fault(
    error: Exception, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*, standalone_mode: bool) -> None:
        raise error

    assert ending.run(command) == code
    said = capsys.readouterr().err
    one_sentence(said)
    assert words in said


def test_a_fault_of_saferank_itself_is_not_hidden() -> None:
    def command(*, standalone_mode: bool) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ending.run(command)


def test_exit_codes_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert ending.run(lambda *, standalone_mode: 3) == 3
    assert ending.run(lambda *, standalone_mode: None) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_the_stack(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before, done = signal.getsignal(number), []

    def command(*, standalone_mode: bool) -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        except BaseException as error:
            raise RuntimeError("as engines do") from error
        finally:
            done.append(True)

    assert ending.run(command) == 128 + number
    assert done
    assert capsys.readouterr().err == STOPPED
    assert signal.getsignal(number) == before


def test_a_signal_in_code_made_of_text_ends_as_any_other(tmp_path: Path) -> None:
    """Python notes a `KeyboardInterrupt` that leaves `exec`, and would end by SIGINT later on."""
    (tmp_path / "program.py").write_text(
        "import signal, sys\n"
        "from saferank.cli import ending\n"
        "sys.exit(ending.run(lambda **_: exec('signal.raise_signal(signal.SIGTERM)')))\n"
    )
    end = subprocess.run(
        [sys.executable, "-m", "program"], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert (end.returncode, end.stderr) == (128 + signal.SIGTERM, STOPPED)


def test_options_that_are_not_known(log: Path) -> None:
    for arguments in (
        ["count", log, "--nonsense", "1"],
        ["count", log],
        ["nonsense"],
        ["count", log, "-o", "c.parquet", "--top", "9" * 5000],
        ["count", log, "-o", "c.parquet", "--top", "x" * 10_000],
    ):
        code, said = ended(*arguments)
        assert code == 2
        one_sentence(said)


def test_standard_output_that_takes_nothing(log: Path, tmp_path: Path) -> None:
    for number, wrap, code in ((0, '"$@" > /dev/full', 1), (1, '"$@" >&-', 0)):
        out = tmp_path / f"{number}.parquet"
        got, said = ended("count", log, "-o", out, wrap=wrap)
        assert (got, out.is_file()) == (code, True), said
        if code:
            one_sentence(said)
            assert "No space left" in said
    with Path(os.devnull).open() as nothing:  # not open for writing
        code, said = ended("count", log, "-o", tmp_path / "2.parquet", stdout=nothing)
    assert code == 1
    one_sentence(said)


def test_names_that_the_terminal_cannot_show(log: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"out\xff.parquet")
    code, said = ended("count", log, "-o", odd)
    assert (code, said, odd.is_file()) == (0, "", True)
    log.rename(tmp_path / os.fsdecode(b"in\xff.parquet"))
    code, said = ended("count", tmp_path / os.fsdecode(b"in\xff.parquet"), "-o", tmp_path / "c")
    assert code == 2
    one_sentence(said)


def test_a_reader_that_goes_away(log: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code, said = ended("logs", "check", log, "--json", stdout=writing)
    os.close(writing)
    assert said == ""
    assert code in (0, 1)


def limited(kind: int, size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (size, size))


def test_a_disk_that_is_full(log: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for it."""
    signal_ignored = "trap '' XFSZ; \"$@\""
    for arguments in (
        ["simulate", "-o", tmp_path / "o", "--sessions", 20_000, "--rows"],
        ["simulate", "-o", tmp_path / "o", "--sessions", 20_000],
    ):
        code, said = ended(
            *arguments, wrap=signal_ignored, preexec_fn=limited(resource.RLIMIT_FSIZE, 5000)
        )
        assert code == 1, said
        one_sentence(said)
    assert {path.name for path in tmp_path.iterdir()} == {"log.parquet"}


def test_parameters_on_a_disk_that_is_full() -> None:
    """The library that makes the file has an error of its own for it, which is no `OSError`."""
    with pytest.raises(OSError, match="No space left"):
        write_tensors({"bias": torch.ones(100_000)}, Path("/dev/full"))


def test_outputs_that_cannot_be(log: Path, tmp_path: Path) -> None:
    for output in (log / "below" / "a.file", Path("/proc/none/c.parquet"), tmp_path / ("n" * 300)):
        code, said = ended("count", log, "-o", output)
        assert code in (1, 2), said
        one_sentence(said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_count_that_is_stopped_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    import duckdb

    log, folder = tmp_path / "log.parquet", tmp_path / "out"
    duckdb.sql(
        f"""COPY (SELECT i // 10 AS query_id, hash(i) % 1000 AS doc_id, i % 10 + 1 AS rank,
        hash(i + 1) % 5 = 0 AS click FROM range(5_000_000) t(i)) TO '{log}'"""
    )
    with start("count", log, "-o", folder / "counts.parquet") as process:
        until = time.monotonic() + 60
        while not (folder.is_dir() and list(folder.iterdir())) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert said == STOPPED
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_of_a_study_end_with_it(number: signal.Signals, tmp_path: Path) -> None:
    """Two workers are at work when the parent is ended, or killed, and are gone soon after."""
    arguments = ("--data", "synthetic:small:60", "--sessions", "1000", "--seeds", "2")
    command = ("reproduce", "2", *arguments, "--workers", "2", "-o", tmp_path / "study")
    with start(*command) as process:
        parent = psutil.Process(process.pid)
        workers: list[psutil.Process] = []
        until = time.monotonic() + 120
        while len(workers) < 2 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
            workers = [one for one in parent.children(recursive=True) if _is_working(one)]
        assert len(workers) >= 2, "the study ended, or never had two workers"
        process.send_signal(number)
        process.communicate(timeout=120)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    _, left = psutil.wait_procs(workers, timeout=30)
    assert left == []
    names = [path.name for path in tmp_path.rglob("*")]
    if number == signal.SIGTERM:
        assert [name for name in names if name.startswith(".saferank-tmp-")] == []


def _is_working(process: psutil.Process) -> bool:
    """It has begun: starting Python takes about a second."""
    try:
        times = process.cpu_times()
        return times.user + times.system > 2 and "resource_tracker" not in str(process.cmdline())
    except psutil.Error:
        return False


@pytest.mark.parametrize("terminal", [True, False])
def test_a_person_is_told_where_to_read_on(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*, standalone_mode: bool) -> None:
        del standalone_mode
        raise InputError("`keep` must be in [0, 1]; got 2.")

    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "argv", ["saferank", "certify", "run"])
    assert ending.run(refuse) == ending.BAD_INPUT
    lines = stream.getvalue().splitlines()
    assert lines[0] == "saferank: `keep` must be in [0, 1]; got 2."
    assert lines[1:] == (["More: docs/safety.md"] if terminal else [])


def test_every_command_has_a_page() -> None:
    names = {command.name for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert names == set(PAGES)
    assert all((SOURCES.parent / str(page_of([name]))).is_file() for name in PAGES)
