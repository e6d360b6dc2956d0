"""How a command ends: one place that turns faults and signals into a sentence and an exit code."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final, Protocol

from saferank.cli.help_pages import page_of
from saferank.errors import SaferankError, shorten

BAD_INPUT: Final = 2
MACHINE_FAILED: Final = 1
_BAD_PATHS: Final = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
}  # fmt: skip


class Stopped(KeyboardInterrupt):
    """A signal has come: like Ctrl-C, but of a class of its own.

    Where a `KeyboardInterrupt` itself leaves `exec` (dataclasses and kernels are made by it),
    Python remembers it, and `python -m` ends by SIGINT later on, whatever the exit code.
    """


class Command(Protocol):
    """What Typer makes of an app."""

    def __call__(self, *, standalone_mode: bool) -> Any:
        """Run the command; without `standalone_mode` errors are raised, exit codes returned."""


def run(command: Command) -> int:
    """Run a command line and return its exit code; what went wrong is told in one sentence.

    A signal that ends the process does so as Ctrl-C does: everything is put away first.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names that the terminal cannot show are escaped
            stream.reconfigure(errors="backslashreplace")
    with _signals() as received:
        code = _guarded(lambda: command(standalone_mode=False), received)
        flushed = _guarded(_flush, received)
    if received:
        _say("stopped; the same command goes on, or starts again.")
        return 128 + received[0]
    return code or flushed


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP unwind the stack like SIGINT; the list tells which have come.

    Engines replace what is raised inside them by errors of their own, hence the list.
    """
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        raise Stopped

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, stop)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _guarded(work: Callable[[], Any], received: list[int]) -> int:
    try:
        result = work()
        return result if isinstance(result, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else MACHINE_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        sentence, code = _explained(error)
        if received:  # what came of the signal is not told
            return code
        if sentence is None:
            raise
        _say(sentence)
        _point_to_page()
        return code


def _say(sentence: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"saferank: {shorten(sentence)}\n")


def _point_to_page() -> None:
    """Where to read on, for a person: scripts get the one sentence."""
    page = page_of(sys.argv[1:])
    if page is not None and sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"More: {page}\n")


def _explained(error: Exception) -> tuple[str | None, int]:
    """What to say of an error, and the exit code; no sentence for a fault of saferank itself."""
    if isinstance(error, SaferankError):
        return str(error), error.exit_code
    if hasattr(error, "format_message"):  # Typer's own: an option it does not know, and so on
        return f"{shorten(error.format_message(), 260)} Try --help.", BAD_INPUT
    if isinstance(error, MemoryError):
        return "there is not enough memory for this.", MACHINE_FAILED
    if isinstance(error, RecursionError):
        return "the input is nested too deeply.", BAD_INPUT
    if isinstance(error, OSError):
        return _of_system(error), BAD_INPUT if error.errno in _BAD_PATHS else MACHINE_FAILED
    return None, MACHINE_FAILED


def _of_system(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    place = "" if error.filename is None else f": {os.fsdecode(error.filename)!r}"
    return f"{reason}{place}."


def _flush() -> None:
    """Write what is still in the buffer, while errors are still told in a sentence.

    Python flushes again at the very end, outside of any handler: it must not meet them again.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            raise
