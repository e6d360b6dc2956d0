"""`saferank explore`: which randomisation to serve so that the next log can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli.judging_options import Items
from saferank.cli.log_options import Documents, ItemColumn, columns_of, item_source
from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs

if TYPE_CHECKING:
    from saferank.clicks import ClickModel
    from saferank.counts import Counts
    from saferank.data import RankingData
    from saferank.data.items.two_tables import ItemStream
    from saferank.safety.exploring import Aim, ExplorationPlan


@dataclass(frozen=True)
class _Production:
    """What is served today."""

    items: Items
    documents: Documents = None
    column: ItemColumn = None
    production: Annotated[
        Path | None,
        typer.Option(
            help="Production: its saved ranker or LightGBM file, or its lists (.parquet or .csv of "
            "query_id, doc_id, rank); else production_score.",
            show_default=False,
        ),
    ] = None
    production_policy: Annotated[
        str,
        typer.Option(
            "--production-policy",
            help="What production does with its scores: auto (by the counts; without: sorted), "
            "sorted or sampled.",
        ),
    ] = "auto"


@dataclass(frozen=True)
class _Clicks:
    """What is known of clicks."""

    counts: Annotated[
        Path | None, typer.Option(help="Counts of production's log: traffic and clicks.")
    ] = None
    bias: Annotated[
        str | None,
        typer.Option(help="bias.json or a click model by name. [position-bias: alpha is 1/rank]"),
    ] = None
    click_rate: Annotated[
        float, typer.Option(help="Clicks per impression at rank 1, without counts.")
    ] = 0.1
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave counts without items out.")
    ] = False

    def model(self, k: int) -> ClickModel | None:
        """The click model that was asked for."""
        from saferank.cli.inputs import NAMED, read_click_model

        if self.bias is None:
            return None
        return NAMED[self.bias](k) if self.bias in NAMED else read_click_model(self.bias, None)

    def read(self, data: RankingData, k: int, listed: bool) -> tuple[Counts | None, list[str]]:
        """The counts on the items, and how the two match.

        Of items that are production's lists (`listed`), what else the log has shown is left out.
        """
        from saferank.counts import CountTable
        from saferank.logs import align

        if self.counts is None:
            return None, []
        table = CountTable.open(self.counts)
        aligned, report = align(table, data, ranks=k, skip_bad=self.skip_bad or listed)
        said = report.sentences()
        return aligned, [_on_lists(line) for line in said] if listed else said


@dataclass(frozen=True)
class _Cost:
    """What it may cost."""

    keep: Annotated[float, typer.Option(help="Share of production's utility to keep.")] = 0.9
    slack: Annotated[float, typer.Option(help="...up to this share of the largest.")] = 0.01
    examination: Annotated[
        str,
        typer.Option(
            metavar="any|fitted|dcg|FILE",
            help="What the promise is for: any way of looking down the list, alpha + beta of "
            "--bias, DCG's, or the rank weights of a file.",
        ),
    ] = "any"


@dataclass(frozen=True)
class _Purpose:
    """What the next log is for."""

    kind: Annotated[
        str, typer.Option(help="The click model that the log is for: trust or position.")
    ] = "trust"
    target: Annotated[
        float, typer.Option(help="Standard error asked for: 0.1 is 10 % of alpha at every rank.")
    ] = 0.1
    depth: Annotated[
        int | None,
        typer.Option(help="Documents that matter: production's first so many. [those shown]"),
    ] = None
    coverage: Annotated[
        float,
        typer.Option(help="With --depth beyond -k: of the most that can be shown, the least."),
    ] = 0.2
    judge: Annotated[
        float, typer.Option(help="Share of the sessions that will be set aside to judge by.")
    ] = 0.2

    def aim(self) -> Aim:
        """The same for the planner."""
        from saferank.safety.exploring import Aim

        return Aim(self.kind, self.target, self.depth, self.coverage, self.judge)


@dataclass(frozen=True)
class _NextLog:
    """How large the next log will be, and what is served for it."""

    sessions: Annotated[float, typer.Option(help="Sessions to come.", min=1)]
    k: Annotated[int, typer.Option("-k", help="Ranks that are shown.", min=1)] = 10
    choose: Annotated[
        str | None, typer.Option(help="Take this candidate. [the fewest sessions needed]")
    ] = None
    seed: Annotated[int, typer.Option(help="For impressions that are drawn.")] = 0


@dataclass(frozen=True)
class _Outputs:
    """Where the plan goes."""

    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder to write the plan to, for `saferank rank`."),
    ] = None
    chart: Annotated[
        Path | None, typer.Option(help="Draw errors, sessions and cost: .html, .svg, .png, .pdf.")
    ] = None


def explore(
    shown: _Production,
    clicks: _Clicks,
    cost: _Cost,
    purpose: _Purpose,
    log: _NextLog,
    made: _Outputs,
    json: Json = False,
) -> None:
    """Which randomisation to serve so that the next log can tell alpha, at a certified cost.

    Every candidate keeps the promise on every query, whatever relevance is. Serve the plan with
    `saferank rank PLAN --items ITEMS --sessions SESSIONS -o rankings.parquet`, and log its column
    `propensity`.

    Example: saferank explore --items items.parquet -k 10 --sessions 1e6 -o plan
    """
    from saferank._core.charts import save_chart
    from saferank.cli.inputs import read_examination
    from saferank.safety.exploring import explore as plan_next_log
    from saferank.safety.exploring.explore_chart import explore_chart
    from saferank.safety.exploring.plan import LISTS
    from saferank.safety.exploring.taken_production import take_production
    from saferank.safety.promise import Promise

    k = log.k
    check_outputs([made.chart], [shown.items, shown.production, clicks.counts])
    source = item_source(shown.items, shown.documents)
    data, production_from = read_production(source, shown.production, columns_of(shown.column))
    counts, notes = clicks.read(data, k, production_from == LISTS)
    taken = take_production(data, counts, shown.production_policy)
    plan = plan_next_log(
        data, taken.policy, k=k, sessions=log.sessions, counts=counts, click_model=clicks.model(k),
        click_rate=clicks.click_rate, promise=Promise(cost.keep, cost.slack),
        examination=read_examination(cost.examination), aim=purpose.aim(), choose=log.choose,
        production_from=production_from, production_temperature=taken.temperature, seed=log.seed,
    )  # fmt: skip
    if made.output is not None:
        plan.save(made.output)
    if made.chart is not None:
        save_chart(explore_chart(plan), made.chart)
    if json:
        print_json({**plan.to_dict(), "production": taken.sentence, "matched": notes})
        return
    for line in (*notes, taken.sentence):
        typer.echo(line)
    _tell(plan, made.output)


def _on_lists(sentence: str) -> str:
    """A sentence about items where these are the documents that production lists."""
    said = sentence.replace("have no item and are", "are on none of production's lists and are")
    return said.replace("items were shown", "listed documents were shown")


def read_production(
    items: Path | ItemStream, production: Path | None, columns: Mapping[str, str]
) -> tuple[RankingData, str]:
    """Items with production's scores, and where these come from."""
    from dataclasses import replace

    from saferank.data import read_items
    from saferank.data.table_files import read_table
    from saferank.learning import Ranker
    from saferank.safety.exploring.plan import ITEMS, LISTS
    from saferank.serving.production_lists import listed_items

    if production is None:
        return read_items(items, columns=columns), ITEMS
    if production.suffix in (".parquet", ".csv"):
        return listed_items(read_table(production), read_items(items, columns=columns)), LISTS
    ranker = Ranker.load(production)
    data = ranker.read_items(items, columns=columns)
    return replace(data, production=ranker.scores(data)), ranker.fingerprint()


def _tell(plan: ExplorationPlan, output: Path | None) -> None:
    heads = ["way", "can lose", "error: position", "error: trust", "sessions needed", "least shown"]
    rows = [
        [
            f"*{one.name}" if one.name == plan.chosen else one.name,
            f"{one.largest_loss:.1%}",
            _error(one.worst("position")),
            _error(one.worst("trust")),
            "-" if one.sessions_needed is None else f"{one.sessions_needed:,.0f}",
            f"{one.coverage:,.0f}",
        ]
        for one in plan.outlooks
    ]
    print_table(f"Ways to explore in {plan.sessions:,.0f} sessions", heads, rows)
    for line in plan.sentences():
        typer.echo(line)
    if output is not None:
        typer.echo(
            f"The plan is in {output}; serve it: saferank rank {output} --items ITEMS "
            "--sessions SESSIONS -o rankings.parquet"
        )


def _error(value: float) -> str:
    return f"{value:.3g}" if value != float("inf") else "-"
