"""The command line, called in this process: what a shell would see, without starting Python."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import traceback
from dataclasses import dataclass
from functools import cache
from typing import Any

PROBLEM = 2
DO_NOT_SHIP = 3


@dataclass(frozen=True)
class Result:
    """What a command did: its exit code, what it printed, and how long it took."""

    arguments: tuple[str, ...]
    code: int
    out: str
    error: str
    seconds: float
    """Of processor time: wall time says little on a shared machine."""

    @property
    def sentence(self) -> str:
        """The last line of standard error: why it failed."""
        lines = [line for line in self.error.strip().splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def json(self) -> dict[str, Any]:
        """The JSON document that it printed; nothing where there is none."""
        start = self.out.find("{")
        if start < 0:
            return {}
        record: dict[str, Any] = json.loads(self.out[start:])
        return record


def run(*arguments: object) -> Result:
    """Run `saferank` with arguments; a crash is exit code 1, as for a shell."""
    from saferank.cli.app import main

    words = tuple(str(word) for word in arguments)
    out, error, code = io.StringIO(), io.StringIO(), 0
    before, sys.argv = sys.argv, ["saferank", *words]
    start = time.process_time()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception:
        code = 1
        error.write(traceback.format_exc())
    finally:
        sys.argv = before
    seconds = time.process_time() - start
    return Result(words, code, out.getvalue(), error.getvalue(), seconds)


@cache
def supports(command: str, option: str) -> bool:
    """Whether a command (such as "logs check") has an option today."""
    import typer

    from saferank.cli.app import app

    known: Any = typer.main.get_command(app)
    for word in command.split():
        known = getattr(known, "commands", {}).get(word)
        if known is None:
            return False
    return any(option in parameter.opts for parameter in known.params)
