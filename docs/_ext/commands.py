"""`{commands}`: every command of `saferank` with its options, read from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from saferank.cli.app import app as command_line


def commands(group: Any = None, prefix: str = "saferank") -> Iterator[tuple[str, Any]]:
    """Names and commands, those of groups such as `data inspect` among them."""
    for name, command in (group or typer.main.get_command(command_line)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _option(option: Any) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.param_type_name == "argument":
        names = f"`{option.name.upper()}`"
    help_ = (option.help or "").replace("|", "\\|").replace("[", "\\[")
    plain = isinstance(option.default, int | float | str) and not isinstance(option.default, bool)
    notes = ["required"] if option.required else [f"default `{option.default}`"] if plain else []
    return names, " ".join([help_, *(f"({note})" for note in notes)])


def page() -> Iterator[str]:
    """The reference of all commands, in Markdown."""
    for name, command in commands():
        yield f"## {name}\n"
        text, _, example = (command.help or "").partition("Example: ")
        yield f"{text.strip()}\n"
        if example:
            lines = "\n$ ".join(example.strip().split("; "))
            yield f"```console\n$ {lines}\n```\n"
        yield "| option | what it does |\n| --- | --- |"
        for option in command.params:
            if not option.hidden and option.name != "help":
                yield "| {} | {} |".format(*_option(option))
        yield ""


class Commands(SphinxDirective):
    """The directive."""

    def run(self) -> list[nodes.Node]:
        """Parse what `page` says in place."""
        lines = "\n".join(page()).splitlines()
        section = nodes.section()
        section.document = self.state.document
        nested_parse_with_titles(self.state, StringList(lines, "commands"), section)
        return section.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Name the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
