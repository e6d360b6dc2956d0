"""`saferank data`: look into collections."""

from __future__ import annotations

import typer

app = typer.Typer(help="Look into ranking collections.", no_args_is_help=True)
