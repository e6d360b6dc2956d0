"""`saferank bias`: fit a click model to counts, and say whether the log can tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli.log_options import Documents, ItemColumn, PolicySaid, columns_of, item_source
from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs

if TYPE_CHECKING:
    from saferank.clicks import FittedBias
    from saferank.counts import Counts
    from saferank.data import RankingData


@dataclass(frozen=True)
class _Tables:
    """Items, whose features describe relevance."""

    counts: Annotated[Path, typer.Argument(help="Counts, as `saferank count` writes them.")]
    items: Annotated[
        Path | None,
        typer.Option(
            help="Items whose features describe relevance: needed by a fixed ranking, and by trust "
            "bias where lists were seen once."
        ),
    ] = None
    documents: Documents = None
    column: ItemColumn = None
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="With --items: leave out counts without an item.")
    ] = False

    def read(self) -> tuple[Counts, RankingData | None, list[str]]:
        """Counts, their items where they are given, and how the two match."""
        from saferank import logs
        from saferank.counts import CountTable
        from saferank.data import read_items

        if self.items is None:
            return logs.read_counts(self.counts), None, []
        source = item_source(self.items, self.documents)
        data = read_items(source, columns=columns_of(self.column))
        table, matched = logs.align(CountTable.open(self.counts), data, skip_bad=self.skip_bad)
        return table, data, [table.feedback.say(line) for line in matched.sentences()]


@dataclass(frozen=True)
class _Fit:
    """How it is fitted."""

    kind: Annotated[str, typer.Option(help="trust (alpha R + beta) or position (alpha R).")] = (
        "trust"
    )
    method: Annotated[
        str | None,
        typer.Option(
            help="Insist on harvest or em (documents seen at several ranks; em with --items: a "
            "logistic model of features), matching (like features) or policy. [default: what the "
            "log allows]"
        ),
    ] = None
    policy: PolicySaid = "auto"
    scorer: Annotated[
        str | None,
        typer.Option(
            help="With --items: linear, mlp or trees predicts relevance. [default: trees where "
            "LightGBM is installed, else linear; of like features whichever predicts better]",
            show_default=False,
        ),
    ] = None
    reference: Annotated[int, typer.Option(help="The rank others are compared with.", min=1)] = 1
    folds: Annotated[
        int,
        typer.Option(help="Parts of the log left out in turn for the intervals; 0: none.", min=0),
    ] = 50
    seed: Annotated[int, typer.Option(help="For what chance makes of the misfit.")] = 0


def bias(
    tables: _Tables,
    how: _Fit,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where to write the click model (bias.json)."),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(help="Draw the curve: .svg, .png, .pdf or .html.")
    ] = None,
    json: Json = False,
) -> None:
    """Fit alpha and beta to counts, with 95 % intervals, and say whether the log can tell.

    Sessions that were set aside to judge a ranker by are left out.

    Example: saferank bias counts.parquet -o bias.json --chart bias.html
    """
    from saferank._core.charts import save_chart
    from saferank.clicks.bias.rank_curves import chart as bias_chart
    from saferank.learning.bias_route import fit_bias

    check_outputs([output, chart], [tables.counts, tables.items], ["click model"])
    table, data, matched = tables.read()
    fit = fit_bias(table, data, **vars(how))
    if output is not None:
        fit.save(output)
    if chart is not None:
        save_chart(bias_chart(fit), chart)
    learn, judge = table.part("learn"), table.part("judge")
    if json:
        sessions = {"used": learn.total, "left_out_to_judge_by": judge.total}
        print_json({**fit.to_dict(), "sessions": sessions, "matched": matched})
        return
    aside = f"; {judge.total:,} to judge by were left out" if judge.total else ""
    for line in (
        *matched,
        f"{learn.total:,} sessions of {_asked(learn):,} queries were used{aside}.",
    ):
        typer.echo(line)
    _print(fit)
    if output is not None:
        typer.echo(f"The click model is in {output}.")


def _asked(counts: Counts) -> int:
    return int((counts.sessions > 0).sum())


def _print(fit: FittedBias) -> None:
    from saferank.clicks.bias.rank_curves import columns, explanation, sketch

    say = fit.feedback.say
    heads, rows = columns(fit)
    sure = "with 95 % intervals"
    if fit.route == "features":
        sure = "intervals hold only if features say what production knew of relevance"
        if fit.method == "em":
            sure = "intervals hold only if relevance is as the features' model says"
    print_table(f"{fit.kind} bias by {fit.method}, {sure}", [say(head) for head in heads], rows)
    if fit.feedback.note():
        typer.echo(fit.feedback.note())
    for line in (*explanation(fit), sketch(fit), *fit.sentences()):
        typer.echo(say(line))
