"""`saferank bias`: fit a click model to counts, and say whether the log can tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs
from saferank.errors import require

if TYPE_CHECKING:
    from saferank.clicks import FittedBias


def bias(
    counts: Annotated[Path, typer.Argument(help="Counts, as `saferank count` writes them.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where to write the click model (bias.json)."),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="trust (alpha R + beta) or position (alpha R).")
    ] = "trust",
    method: Annotated[
        str | None,
        typer.Option(
            help="harvest (documents seen at several ranks) or em. [default: em with --items]"
        ),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(help="Items whose features describe relevance (needed by a fixed ranking)."),
    ] = None,
    reference: Annotated[int, typer.Option(help="The rank others are compared with.", min=1)] = 1,
    bootstrap: Annotated[
        int, typer.Option(help="Resamplings of queries for the intervals; 0: none.", min=0)
    ] = 50,
    seed: Annotated[int, typer.Option(help="For the resampling.")] = 0,
    chart: Annotated[
        Path | None, typer.Option(help="Draw the curve: .svg, .png, .pdf or .html.")
    ] = None,
    json: Json = False,
) -> None:
    """Fit alpha and beta to counts, with 95 % intervals, and say whether the log can tell."""
    from saferank import clicks, logs
    from saferank.clicks.curves import save_chart
    from saferank.data import Scaling, read_items

    fits = {"trust": clicks.fit_trust_bias, "position": clicks.fit_position_bias}
    require(kind in fits, "kind", f"one of {', '.join(fits)}", kind)
    check_outputs([output, chart], [counts, items])
    data = None if items is None else read_items(items)
    features = None
    if data is not None:  # gaps filled in and marked, categories in columns
        features = Scaling.fit(data, "none", encode=True).apply(data).features
    if data is None:
        table = logs.read_counts(counts)
    else:
        table, _ = logs.align(logs.CountTable.open(counts), data)
    fit = fits[kind](
        table,
        method=method,  # type: ignore[arg-type]
        features=features,
        reference=reference,
        bootstrap=bootstrap,
        seed=seed,
    )
    if output is not None:
        fit.save(output)
    if chart is not None:
        save_chart(fit, chart)
    if json:
        print_json(fit.record())
    else:
        _print(fit)
        if output is not None:
            typer.echo(f"The click model is in {output}.")


def _print(fit: FittedBias) -> None:
    from saferank.clicks.curves import curve_rows, sketch

    ranks = fit.model.ranks
    rows = curve_rows(fit)
    cells = [f"{row['value']:.4f}{_interval(row['low'], row['high'])}" for row in rows]
    title = f"{fit.kind} bias by {fit.method}, with 95 % intervals"
    table = [(rank + 1, cells[rank], cells[ranks + rank]) for rank in range(ranks)]
    print_table(title, ["rank", "alpha", "beta"], table)
    typer.echo(sketch(fit))
    typer.echo(fit.identifiability.verdict)
    typer.echo(fit.misfit.verdict)
    if not fit.canonical.converged:
        typer.echo("EM was still moving when it was stopped: try --method harvest beside it.")
    typer.echo(
        "Clicks identify alpha and beta up to the scale of relevance only: "
        "`canonical` in the JSON does not depend on it."
    )


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None else f"  [{low:.4f}, {high:.4f}]"
