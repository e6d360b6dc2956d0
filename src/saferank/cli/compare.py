"""`saferank compare`: candidates and production side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saferank.cli.certify import Items, Production, ProductionPolicyOption, SameSessions, Sorted
from saferank.cli.log_options import ItemColumn
from saferank.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from saferank.safety import Comparison


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of learned rankers.", show_default=False)
    ],
    items: Items,
    counts: Annotated[Path, typer.Option(help="Counts with sessions to judge by.")],
    column: ItemColumn = None,
    production: Production = None,
    production_policy: ProductionPolicyOption = "auto",
    bias: Annotated[
        str | None, typer.Option(help="bias.json or a click model by name. [the rankers']")
    ] = None,
    sorted_: Sorted = False,
    confidence: Annotated[float, typer.Option(help="That all intervals hold at once.")] = 0.95,
    same_sessions: SameSessions = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave counts without items out.")
    ] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Draw the intervals: .svg, .png, .pdf or .html.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For the bootstrap.")] = 0,
    json: Json = False,
) -> None:
    """Compare candidates with production by sessions that none of them learned from.

    The intervals hold for all candidates at once, so that the best may be chosen by them.

    Example: saferank compare run-prpo run-dr --items items.parquet --counts counts.parquet
    """
    from saferank._core.charts import save_chart
    from saferank.cli.inputs import ItemsAndCounts, read_click_model
    from saferank.clicks import ClickModel
    from saferank.errors import InputError, require
    from saferank.learning import Ranker
    from saferank.safety import compare as compare_rankers
    from saferank.safety.comparison_chart import comparison_chart

    names = [str(run) for run in runs]
    require(len(set(names)) == len(names), "runs", "different folders", names)
    rankers = {str(run): Ranker.load(run) for run in runs}
    click_model = None if bias is None else read_click_model(bias, counts)
    own_models = [
        candidate.provenance.click_model
        for candidate in rankers.values()
        if candidate.provenance.click_model is not None
    ]
    model = click_model or (ClickModel.from_dict(own_models[0]) if own_models else None)
    if model is None:
        raise InputError("`--bias` must be given: no candidate was learned with a click model.")
    first = next(iter(rankers.values()))
    tables = ItemsAndCounts(items, counts, column, skip_bad)
    data, counted, notes = tables.read(model, ranker=first)
    for sentence in notes:
        typer.echo(sentence, err=True)
    assert counted is not None
    shown = data.production if production is None else Ranker.load(production)
    comparison = compare_rankers(
        rankers, data, counted, click_model=click_model, production=shown,
        production_kind=production_policy, deployed="sorted" if sorted_ else "sampled",
        confidence=confidence, same_sessions=same_sessions, seed=seed,
    )  # fmt: skip
    if chart is not None:
        save_chart(comparison_chart(comparison), chart)
    if json:
        print_json(comparison.to_dict())
        return
    _tell(comparison, chart)


def _tell(comparison: Comparison, chart: Path | None) -> None:
    typer.echo(comparison.sentence())
    typer.echo(comparison.fit.sentence)
    rows: list[tuple[Any, ...]] = [("production", f"{comparison.production:.4f}", "", "", "")]
    share = comparison.change
    for candidate in comparison.candidates:
        if candidate.refused is not None:
            rows.append((candidate.name, "", "", "", "the log cannot tell"))
            continue
        rows.append(
            (
                candidate.name, f"{candidate.clicks:.4f}", f"{share(candidate.estimate):+.1%}",
                f"{share(candidate.lower):+.1%} to {share(candidate.upper):+.1%}",
                f"{share(candidate.at_least):+.1%}",
            )
        )  # fmt: skip
    print_table(
        f"By {comparison.sessions:,} sessions to judge by; intervals hold for all at once "
        f"({comparison.confidence:.0%})",
        ("ranker", "clicks per session", "change", "interval", "at least"), rows,
    )  # fmt: skip
    for candidate in comparison.candidates:
        if candidate.refused is not None:
            typer.echo(f"{candidate.name}: the log cannot tell: {candidate.refused}.")
        if candidate.flatters is not None:
            typer.echo(f"Warning: {candidate.name}: {candidate.flatters}")
    if chart is not None:
        typer.echo(f"Chart: {chart}.")
