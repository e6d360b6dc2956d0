"""`saferank certify`: is a ranker safe to ship in place of production?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli.assessment_tables import print_assessment
from saferank.cli.judging_options import (
    NOT_TO_SHIP,
    GuardMode,
    HideIds,
    ItemsAndCounts,
    JudgedOptions,
    Keep,
    Run,
    SameSessions,
    Slack,
)
from saferank.cli.log_options import RankFrom, columns_of
from saferank.cli.memory_options import MemoryOptions
from saferank.cli.output import Json, print_json
from saferank.errors import InputError

if TYPE_CHECKING:
    from saferank.clicks import ClickModel
    from saferank.evaluation import LogRows
    from saferank.learning import Ranker
    from saferank.safety import Assessment, Rule


@dataclass(frozen=True)
class PromiseOptions:
    """What is promised for every query."""

    keep: Keep = None
    slack: Slack = None
    floor: Annotated[
        float,
        typer.Option(
            help="Share of its exposure under production that every group of every query keeps, "
            "too (with --group)."
        ),
    ] = 0.0
    floor_of_all: Annotated[
        float,
        typer.Option(
            help="Up to this share of a query's exposure every group keeps what production gives "
            "it (with --group)."
        ),
    ] = 0.0
    weights: Annotated[
        str | None,
        typer.Option(
            help="Rank weights: dcg:K, or numbers such as 1,0.5,0.3. [the ranker's]",
            show_default=False,
        ),
    ] = None
    examination: Annotated[
        str,
        typer.Option(
            "--examination",
            metavar="any|fitted|dcg|FILE",
            help="What the promise is for: the rank weights as fitted, any way of looking down "
            "the list, DCG's, or those of a file (bias.json, or a JSON list). [fitted; any with "
            "--doubt and a promise]",
            show_default=False,
        ),
    ] = "auto"

    def check(self, ranker: Ranker, click_model: ClickModel | None) -> None:
        """Refuse rank weights that nobody gave, or that two options give."""
        if not ranker.provenance.weights and self.weights is None and click_model is None:
            raise InputError(
                "`--weights` must be given: this ranker's file says nothing of rank weights; "
                "--weights dcg:5, for example."
            )
        if self.weights is not None and self.examination not in ("auto", "any", "fitted"):
            raise InputError(
                "`--weights` and `--examination` both give rank weights: leave one out."
            )


@dataclass(frozen=True)
class RuleOptions:
    """By what to decide."""

    by: Annotated[
        str,
        typer.Option(
            help="auto, promise (for any relevance), clicks (a high-confidence test) or both."
        ),
    ] = "auto"
    tolerance: Annotated[
        float, typer.Option(help="Share of production's clicks that may be lost.")
    ] = 0.0
    confidence: Annotated[float, typer.Option(help="Of intervals and of the test.")] = 0.95
    doubt: Annotated[
        float | None,
        typer.Option(
            help="Ship only what is surely good enough though the click model may be wrong by "
            "this: 0.2 is 20 %; with --keep or --guard every query has to keep the promise, too. "
            "[not asked; how far it may be wrong is told]",
            show_default=False,
        ),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            help="normal, clustered, bootstrap, bernstein or cantelli. [clustered; normal with "
            "--log]",
            show_default=False,
        ),
    ] = None
    guard: Annotated[
        bool, typer.Option("--guard", help="Judge the ranker with the guard in place.")
    ] = False
    guard_mode: GuardMode = None
    holdout: Annotated[
        float,
        typer.Option(
            help="With --guard: share of every query's sessions that production keeps at least, so "
            "that `saferank watch` has something to compare with."
        ),
    ] = 0.0
    same_sessions: SameSessions = False

    def rule(self) -> Rule:
        """The ship rule."""
        from saferank.cli.inputs import read_guard_mode
        from saferank.safety import Rule

        return Rule(
            self.by, self.tolerance, self.confidence, self.method, self.guard, self.same_sessions,
            guard_mode=read_guard_mode(self.guard_mode), holdout=self.holdout, doubt=self.doubt,
        )  # fmt: skip


@dataclass(frozen=True)
class JudgedLog:
    """The log's rows, for intervals by its sessions."""

    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            help="The log that was counted; files, folders or globs.",
            show_default=False,
        ),
    ] = None
    log_column: Annotated[
        list[str] | None,
        typer.Option(
            "--log-column",
            metavar="NAME=YOURS",
            help="Your name of a column of the log: rank=position.",
        ),
    ] = None
    rank_from: RankFrom = None

    def rows(self, counts: Path | None) -> LogRows | None:
        """Its rows, of which those to judge by are as the counts were split."""
        from saferank.counts import CountTable
        from saferank.evaluation import LogRows

        if not self.log:
            return None
        if counts is None:
            raise InputError("`--counts` must be given with --log: the counts of its sessions.")
        first = 1 if self.rank_from is None else self.rank_from
        table, columns = CountTable.open(counts), columns_of(self.log_column, "--log-column")
        return LogRows(self.log, table.split, columns, first, table.feedback)


@dataclass(frozen=True)
class _Printing:
    """What is printed."""

    hide_ids: HideIds = False
    json: Json = False


def certify(
    run: Run,
    tables: ItemsAndCounts,
    judged: JudgedOptions,
    promise: PromiseOptions,
    rule: RuleOptions,
    log: JudgedLog,
    memory: MemoryOptions,
    printing: _Printing,
) -> None:
    """Certify a ranker against production: exit code 0 to ship, 3 not to, and why.

    The sessions set aside by `saferank count` make the estimate. The assessment is kept in the
    run's folder, for `saferank report` and `saferank rank`.

    Example: saferank certify run --items items.parquet --counts counts.parquet --guard
    """
    from saferank.safety.hiding import hide_ids

    with memory.limit(run.resolve().parent):
        assessment = assess_run(run, tables, judged, promise, rule.rule(), log.rows(tables.counts))
    assessment = hide_ids(assessment) if printing.hide_ids else assessment
    if run.is_dir():
        former = assessment.keep_former(run)
        if former is not None:
            typer.echo(
                f"The run's assessment was of other items or of another log: it is now {former}; "
                "`saferank report` and `saferank rank` go by the new one.",
                err=True,
            )
        assessment.save(run)
    if printing.json:
        print_json({"verdict": assessment.decision.sentence, **assessment.to_dict()})
    else:
        print_assessment(assessment)
    if not assessment.decision.ship:
        raise typer.Exit(NOT_TO_SHIP)


def assess_run(
    run: Path,
    tables: ItemsAndCounts,
    judged: JudgedOptions,
    promise: PromiseOptions,
    rule: Rule,
    log: LogRows | None,
) -> Assessment:
    """The assessment of a saved ranker on items, and counts where there are any."""
    from saferank.cli.inputs import read_examination, read_weights
    from saferank.learning import Ranker
    from saferank.safety import assess
    from saferank.safety.promise import promise_of

    ranker = Ranker.load(run)
    shards, weights = tables.shards, promise.weights
    floors = (promise.floor, promise.floor_of_all)
    stated = promise.keep is not None or promise.slack is not None or any(floors)
    asked = replace(
        promise_of(ranker, promise.keep, promise.slack), floor=floors[0], floor_of_all=floors[1]
    )
    ranks = None if shards is None else shards.manifest.ranks
    click_model = None
    if tables.counts is not None or shards is not None:
        click_model = _click_model(ranker, judged.bias, tables.counts, ranks)
    promise.check(ranker, click_model)
    data, counted, notes = tables.read(click_model, ranker=ranker)
    for sentence in (*ranker.differences(data), *notes):
        typer.echo(sentence, err=True)
    return assess(
        ranker, data, production=judged.scores(data), counts=counted, click_model=click_model,
        promise=asked if stated else None,
        weights=None if weights is None else read_weights(weights),
        examination=read_examination(promise.examination), deployed=judged.deployed,
        production_kind=judged.production_policy, rule=rule, log=log,
    )  # fmt: skip


def _click_model(
    ranker: Ranker, bias: str | None, counts: Path | None, ranks: int | None
) -> ClickModel:
    """The click model that was asked for, else the one that the ranker was learned with."""
    from saferank.cli.inputs import read_click_model
    from saferank.clicks import ClickModel

    own = ranker.provenance.click_model
    if bias is not None:
        return read_click_model(bias, counts, ranks)
    if own is None:
        raise InputError(
            "`--bias` must be given with counts: this ranker was learned with no click model."
        )
    return ClickModel.from_dict(own)
