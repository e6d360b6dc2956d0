"""`saferank learn`: a ranker from items and counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from saferank.cli.certify import ProductionPolicyOption
from saferank.cli.log_options import ItemColumn
from saferank.cli.output import Json, print_json, print_table

ADDS = (
    "This ranker adds a correction to `production_score`: items need that score wherever it is "
    "served or certified."
)

STILL_BETTER = (
    "The last step was the best: it was still improving, and more of them (--steps, or for trees "
    "--rounds) may help."
)


NOT_BY_ITSELF = (
    "By itself this ranker keeps the promise on {:.1%} of the queries it was learned from, as "
    "drawing from scores does not do what production does (a production that sorts, say): serve it "
    "with the guard (certify --guard, rank --guard), which keeps it on every query."
)


def learn(
    items: Annotated[Path, typer.Option(help="Items: Parquet, CSV or LETOR text.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the learned ranker.")],
    column: ItemColumn = None,
    counts: Annotated[
        Path | None, typer.Option(help="Counts, as `saferank count` writes them.")
    ] = None,
    bias: Annotated[
        str | None,
        typer.Option(
            help="bias.json of `saferank bias`, or trust-bias, or position-bias. "
            "[the paper's trust-bias, unless the log contradicts it]",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A method by name. [prpo; with --keep keep]", show_default=False),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            help="Keep this share of every document's exposure under production; takes the method "
            "keep, and goes as far from production as that allows.",
            show_default=False,
        ),
    ] = None,
    slack: Annotated[
        float | None, typer.Option(help="...up to this share of a query's exposure (0.01).")
    ] = None,
    gain: Annotated[str | None, typer.Option(help="Another gain.", show_default=False)] = None,
    objective: Annotated[
        str | None, typer.Option(help="Another objective.", show_default=False)
    ] = None,
    scorer: Annotated[str, typer.Option(help="linear, mlp or trees.")] = "mlp",
    delta: Annotated[
        str | None, typer.Option(help="A number, 'c/N' or '1/log N'.", show_default=False)
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="clicks, examination, dcg, precision; of the first K ranks alone: examination:K, "
            "dcg:K, or numbers such as 1,0.5.",
            show_default=False,
        ),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            help="none, standard, log1p, clip or query_minmax. [log1p; for trees none]",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="production, add or scratch.", show_default=False)
    ] = None,
    regression: Annotated[
        str | None,
        typer.Option(
            help="For dm and dr: posterior, likelihood, cross-entropy.", show_default=False
        ),
    ] = None,
    production: Annotated[
        Path | None,
        typer.Option(help="Production's saved ranker or LightGBM file; else production_score."),
    ] = None,
    production_policy: ProductionPolicyOption = "auto",
    validation_items: Annotated[Path | None, typer.Option(help="Items to stop by.")] = None,
    validation_counts: Annotated[Path | None, typer.Option(help="Their counts.")] = None,
    steps: Annotated[int | None, typer.Option(help="Most steps of training.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Most trees.")] = None,
    seed: Annotated[int, typer.Option(help="Everything random comes from it.")] = 0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave counts without items out, and tell.")
    ] = False,
    json: Json = False,
) -> None:
    """Learn a ranker from a click log; it is written to a folder, whole or not at all.

    A run that was killed goes on where it was when the same command is given again.
    """
    from saferank import learning
    from saferank._core.files import check_folder
    from saferank.cli.inputs import (
        ItemsAndCounts,
        check_default_model,
        click_model_source,
        read_click_model,
        read_weights,
    )
    from saferank.data.items import feature_sentences
    from saferank.errors import require
    from saferank.learning.ranker import FILES

    check_folder(output, FILES)
    both = (validation_items is None) == (validation_counts is None)
    require(both, "validation", "given as items and counts together", "one of them")
    click_model = None if method == "skyline" else read_click_model(bias or "trust-bias", counts)
    tables = ItemsAndCounts(items, counts, column, skip_bad)
    data, counted, notes = tables.read(click_model)
    notes = [*feature_sentences(data), *notes]
    source = None if click_model is None else click_model_source(bias)
    if click_model is not None and counted is not None and bias is None:
        notes = [*notes, check_default_model(counted, click_model)]
    shown = data.production if production is None else learning.Ranker.load(production)
    validation = None
    if validation_items is not None:
        beside = ItemsAndCounts(validation_items, validation_counts, column, skip_bad)
        validation = beside.read(click_model, schema=data.schema)[:2]
    own_weights: str | list[float] | None = weights
    if weights is not None and not weights.isalpha():
        own_weights = read_weights(weights, click_model)
    sizes: dict[str, Any] = {"steps": steps, "rounds": rounds}
    changes: dict[str, Any] = {
        "gain": gain, "objective": objective, "delta": delta, "weights": own_weights,
        "start": start, "keep": keep, "slack": slack, "scorer": scorer, "regression": regression,
        "scaling": scaling,
        "settings": learning.Settings(**{k: v for k, v in sizes.items() if v is not None}),
    }  # fmt: skip
    folder = output.resolve()
    ranker = learning.learn(
        data,
        counted,
        click_model,
        method=method,
        production=shown,
        production_kind=production_policy,
        validation=validation,
        seed=seed,
        click_model_from=source,
        checkpoint=folder.parent / f".{folder.name}.checkpoint",
        **{name: value for name, value in changes.items() if value is not None},
    )
    ranker.save(output)
    if ranker.provenance.production is not None:
        notes = [*notes, ranker.provenance.production.sentence]
    if ranker.adds_production:
        notes = [*notes, ADDS]
    again = ["saferank certify", str(output), "--items", str(items), "--counts"]
    again += [str(counts or "COUNTS"), *(f"--column '{name}'" for name in column or ())]
    again += ["--skip-bad"] if skip_bad else []
    _tell(ranker.provenance, output, notes, " ".join(again), json)


def _tell(provenance: Any, output: Path, notes: list[str], following: str, json: bool) -> None:
    history = provenance.history
    best = max(range(len(history["values"])), key=history["values"].__getitem__)
    facts: dict[str, Any] = {
        "method": provenance.method,
        "delta": str(provenance.recipe["delta"] or "the method's own"),
        "click model": provenance.click_model_from or "none",
        "sessions learned from": provenance.sessions,
        "steps": int(history["steps"][-1]),
        "best step": int(history["steps"][best]),
        "validation value at the start": history["values"][0],
        "validation value at its best": history["values"][best],
        "promise": "none"
        if provenance.keep is None
        else f"keep {provenance.keep:g}, slack {provenance.slack:g}",
    }
    if provenance.way is not None:
        facts["way from production that it allows"] = provenance.way
        facts["queries that keep it by themselves"] = provenance.holding
        if provenance.holding < 1:
            notes = [*notes, NOT_BY_ITSELF.format(provenance.holding)]
    limit = provenance.recipe["settings"][
        "rounds" if provenance.recipe["scorer"] == "trees" else "steps"
    ]
    taken_back = provenance.way is not None and provenance.way < 1
    if history["steps"][best] == history["steps"][-1] >= limit and not taken_back:
        notes = [*notes, STILL_BETTER]
    if json:
        print_json({"output": str(output), "notes": notes, **facts})
        return
    for sentence in notes:
        typer.echo(sentence)
    print_table("Learned", ("what", "value"), facts.items())
    typer.echo(f"Written to {output}. Next: {following}")
