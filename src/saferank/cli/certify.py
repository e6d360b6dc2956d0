"""`saferank certify`: is a ranker safe to ship in place of production?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saferank.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from saferank.safety import Assessment

Run = Annotated[Path, typer.Argument(help="Folder of a learned ranker.", show_default=False)]
Items = Annotated[Path, typer.Option(help="Items: Parquet, CSV or LETOR text.")]
CountsFile = Annotated[
    Path | None, typer.Option(help="Counts: traffic of queries, and estimates from clicks.")
]
Production = Annotated[
    Path | None,
    typer.Option(help="Production's saved ranker or LightGBM file; else production_score."),
]
Keep = Annotated[
    float | None, typer.Option(help="Share of production's utility to keep. [the ranker's; 0.9]")
]
Slack = Annotated[
    float | None, typer.Option(help="...up to this share of the largest. [the ranker's; 0.01]")
]
Sorted = Annotated[bool, typer.Option("--sorted", help="Rankings are sorted by score, not drawn.")]

NOT_TO_SHIP = 3


def certify(
    run: Run,
    items: Items,
    counts: CountsFile = None,
    production: Production = None,
    keep: Keep = None,
    slack: Slack = None,
    sorted_: Sorted = False,
    guard: Annotated[
        bool, typer.Option("--guard", help="Judge the ranker with the guard in place.")
    ] = False,
    by: Annotated[
        str, typer.Option(help="promise (whoever clicks) or clicks (a high-confidence test).")
    ] = "promise",
    tolerance: Annotated[
        float, typer.Option(help="Loss of utility a session that clicks may allow.")
    ] = 0.0,
    confidence: Annotated[float, typer.Option(help="Of intervals and of the test.")] = 0.95,
    method: Annotated[
        str, typer.Option(help="normal, clustered, bootstrap, bernstein or cantelli.")
    ] = "clustered",
    bias: Annotated[
        str | None, typer.Option(help="bias.json or a click model by name. [the ranker's]")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave counts without items out.")
    ] = False,
    json: Json = False,
) -> None:
    """Certify a ranker against production: exit code 0 to ship, 3 not to, and why.

    The assessment is kept in the run's folder, for `saferank report`.
    """
    found = assessed(
        run, items, counts, production, bias=bias, skip_bad=skip_bad, keep=keep, slack=slack,
        deployed="sorted" if sorted_ else "sampled", guard=guard, by=by, tolerance=tolerance,
        confidence=confidence, method=method,
    )  # fmt: skip
    found.save(run)
    if json:
        print_json({"verdict": found.decision.sentence, **found.record()})
    else:
        typer.echo(found.decision.sentence)
        print_table("Certificate", ("what", "value"), _rows(found))
        typer.echo("This assumes:")
        for sentence in found.decision.assumes:
            typer.echo(f"  - {sentence}")
    if not found.decision.ship:
        raise typer.Exit(NOT_TO_SHIP)


def assessed(
    run: Path,
    items: Path,
    counts: Path | None,
    production: Path | None,
    *,
    bias: str | None = None,
    skip_bad: bool = False,
    **options: Any,
) -> Assessment:
    """The assessment of a saved ranker on items, and counts where there are any."""
    from saferank.cli.inputs import read_click_model, read_logged
    from saferank.clicks import ClickModel
    from saferank.rankers import Ranker
    from saferank.safety import assess

    ranker = Ranker.load(run)
    users = None
    if counts is not None:
        own = None if ranker.card.users is None else ClickModel.from_record(ranker.card.users)
        users = own if bias is None and own else read_click_model(bias or "trust-bias", counts)
    data, counted, told = read_logged(items, counts, users, skip_bad)
    for sentence in told:
        typer.echo(sentence, err=True)
    shown = data.production if production is None else Ranker.load(production)
    return assess(ranker, data, production=shown, counts=counted, users=users, **options)


def _rows(found: Assessment) -> list[tuple[str, object]]:
    one = found.certificate
    rows: list[tuple[str, object]] = [
        ("promise", str(one.promise)),
        ("rankings", one.deployed),
        ("queries", one.queries),
        ("promise holds for every query", "yes" if one.holds else "no"),
        ("promise holds on average", "yes" if one.holds_on_average else "no"),
        ("traffic on queries that keep it", f"{one.share_holding:.1%}"),
        ("worst loss beyond the share given up, mean", f"{one.mean_loss / one.mean_total:.2%}"),
        ("worst loss beyond the share given up, worst query", f"{one.distribution.loss[-1]:.2%}"),
        ("largest loss at all, mean", f"{one.curve.mean[-1] / one.mean_total:.2%}"),
        ("with the guard: queries it steps in on", f"{one.guard_share:.1%}"),
        ("with the guard: traffic of the new ranker", f"{one.guard_mixing:.1%}"),
    ]
    for name in ("production", "new", "difference"):
        part = getattr(found, name)
        if part is not None:
            text = f"{part.estimate:.4f} ({part.lower:.4f} to {part.upper:.4f})"
            rows.append((f"estimated utility: {name}", text))
    return rows
