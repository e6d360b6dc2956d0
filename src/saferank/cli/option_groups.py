"""Groups of options: a command takes a record, and users type its fields."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer takes it: a parameter that is a dataclass becomes its fields.

    `--help` lists the options of a record under the first line of its docstring.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Limits:
    ...     '''What is allowed.'''
    ...     least: Annotated[int, typer.Option(help="At least.")] = 1
    ...     most: Annotated[int, typer.Option(help="At most.")] = 9
    >>> def show(limits: Limits, json: bool = False) -> None:
    ...     print(limits, json)
    >>> list(inspect.signature(with_groups(show)).parameters)
    ['least', 'most', 'json']
    >>> with_groups(show)(least=2, most=3, json=True)
    Limits(least=2, most=3) True
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _options(groups[name])
        else:
            parameters.append(_keyword(name, hints[name], parameter.default))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        records = {
            name: group(**{part.name: given.pop(part.name) for part in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **records)

    vars(run).update(__signature__=inspect.Signature(parameters))
    run.__annotations__ = {}
    return run


def _options(group: Any) -> list[inspect.Parameter]:
    """The fields of a record as parameters."""
    hints = get_type_hints(group, include_extras=True)
    panel = (inspect.getdoc(group) or "").partition("\n")[0].rstrip(".")
    return [
        _keyword(
            part.name,
            hints[part.name],
            inspect.Parameter.empty if part.default is MISSING else part.default,
            panel,
        )
        for part in fields(group)
    ]


def _keyword(name: str, hint: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    """A parameter whose option is listed under a heading."""
    kind, *infos = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    for info in infos:
        shown = copy.copy(info)
        shown.help = escape(info.help or "")  # else [the ranker's] would be taken for a style
        if isinstance(info, typer.models.OptionInfo):  # arguments have a heading of their own
            shown.rich_help_panel = panel
        hint = Annotated[kind, shown]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
