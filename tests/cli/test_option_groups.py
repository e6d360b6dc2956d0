"""Groups of options: what users type is what there was, and no command shadows an option."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.cli.option_groups import with_groups


@dataclass(frozen=True)
class Limits:
    """What is allowed.

    Not in the heading.
    """

    least: Annotated[int, typer.Option(help="At least. [one]")]
    most: Annotated[int, typer.Option("-m", "--at-most", help="At most.")] = 9


def _app() -> typer.Typer:
    small = typer.Typer()

    @small.command()
    @with_groups
    def show(
        name: Annotated[str, typer.Argument()],
        limits: Limits,
        loud: Annotated[bool, typer.Option("--loud")] = False,
    ) -> None:
        """Show what was given."""
        typer.echo(f"{name} {limits.least} {limits.most} {loud}")

    return small


def test_options_of_a_group_reach_the_command_as_a_record() -> None:
    result = CliRunner().invoke(_app(), ["x", "--least", "2", "-m", "3", "--loud"])
    assert result.output == "x 2 3 True\n"
    assert CliRunner().invoke(_app(), ["x", "--least", "2"]).output == "x 2 9 False\n"


def test_an_option_without_default_must_be_given() -> None:
    result = CliRunner().invoke(_app(), ["x"])
    assert result.exit_code == 2
    assert "--least" in result.output


def test_help_lists_them_under_the_group_and_keeps_brackets() -> None:
    text = CliRunner().invoke(_app(), ["--help"]).output
    assert "What is allowed " in text
    assert "At least. [one]" in text
    assert "Not in the heading" not in text


def test_no_option_is_declared_twice_in_a_command() -> None:
    root = typer.main.get_command(app)
    commands = dict(root.commands)  # type: ignore[attr-defined]
    for name in ("data", "logs"):
        commands |= commands.pop(name).commands
    assert len(commands) >= 14
    for name, command in commands.items():
        options = Counter(option for part in command.params for option in part.opts)
        assert not [option for option, times in options.items() if times > 1], name
