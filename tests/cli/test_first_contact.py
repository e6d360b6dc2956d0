"""What somebody meets who has never used it: the bare command, help with examples, completion."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer

from saferank.cli.app import START_HERE, app, main


def commands(group: Any = None, prefix: str = "") -> dict[str, Any]:
    """Every command by its full name."""
    named: dict[str, Any] = {}
    root: Any = group or typer.main.get_command(app)
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            named |= commands(command, f"{prefix}{name} ")
        else:
            named[prefix + name] = command
    return named


COMMANDS = commands()


def test_the_bare_command_says_where_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["saferank"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().out.strip() == START_HERE


@pytest.mark.parametrize("line", [line for line in START_HERE.splitlines() if "  saferank" in line])
def test_what_it_names_exists(line: str) -> None:
    words = line.split()[1:]
    assert any(name.startswith(words[0]) for name in (*COMMANDS, "COMMAND", "--help"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_with_options_that_exist(name: str) -> None:
    command = COMMANDS[name]
    example = (command.help or "").partition("Example: ")[2]
    assert example, f"the help of {name} has no example"
    known = {opt for option in command.params for opt in (*option.opts, *option.secondary_opts)}
    for one in example.split("; "):
        words = shlex.split(one)
        assert " ".join(words).startswith(f"saferank {name}")
        assert {word for word in words if word.startswith("-")} <= known
        arguments = words[1 + len(name.split()) :]
        command.make_context(name, arguments).close()  # every value is of its option's kind


def test_shells_can_complete() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "saferank", "--show-completion", "bash"],
        capture_output=True, text=True, check=True,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )  # fmt: skip
    assert "complete" in shown.stdout
