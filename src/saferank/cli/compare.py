"""`saferank compare`: candidates and production side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saferank.cli.certify import JudgedLog
from saferank.cli.judging_options import ItemsAndCounts, JudgedOptions, SameSessions
from saferank.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from saferank.clicks import ClickModel
    from saferank.learning import Ranker
    from saferank.safety import Comparison


@dataclass(frozen=True, kw_only=True)
class _Judged(ItemsAndCounts):
    """Items and the counts to judge by."""

    counts: Annotated[Path, typer.Option(help="Counts with sessions to judge by.")] = field()


@dataclass(frozen=True)
class _Intervals:
    """How intervals are made."""

    confidence: Annotated[float, typer.Option(help="That all intervals hold at once.")] = 0.95
    same_sessions: SameSessions = False
    seed: Annotated[int, typer.Option(help="For the bootstrap.")] = 0
    estimator: Annotated[
        str | None,
        typer.Option(
            help="Estimate clicks by ipm, ipm-dr, interpol, cips, cdr (fixed rankings: cips, cdr), "
            "rips or cascade-dr (with --log) in place of exposures by the click model.",
            show_default=False,
        ),
    ] = None


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of learned rankers.", show_default=False)
    ],
    tables: _Judged,
    judged: JudgedOptions,
    intervals: _Intervals,
    log: JudgedLog,
    chart: Annotated[
        Path | None, typer.Option(help="Draw the intervals: .svg, .png, .pdf or .html.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare candidates with production by sessions that none of them learned from.

    The intervals hold for all candidates at once, so that the best may be chosen by them.

    Example: saferank compare run-prpo run-dr --items items.parquet --counts counts.parquet
    """
    from saferank._core.charts import save_chart
    from saferank.cli.inputs import read_click_model
    from saferank.errors import require
    from saferank.learning import Ranker
    from saferank.safety import compare as compare_rankers
    from saferank.safety.comparing_clicks import compare_clicks
    from saferank.safety.comparison_chart import comparison_chart

    names = [str(run) for run in runs]
    require(len(set(names)) == len(names), "runs", "different folders", names)
    rankers = {name: Ranker.load(name) for name in names}
    click_model = None if judged.bias is None else read_click_model(judged.bias, tables.counts)
    model = click_model or _own_model(rankers.values())
    data, counted, notes = tables.read(model, ranker=rankers[names[0]])
    typer.echo("\n".join(notes), err=True, nl=bool(notes))
    assert counted is not None
    common: dict[str, Any] = {
        "production": judged.scores(data), "production_kind": judged.production_policy,
        "deployed": judged.deployed, "confidence": intervals.confidence,
        "same_sessions": intervals.same_sessions,
    }  # fmt: skip
    if intervals.estimator is None:
        require(not log.log, "--log", "given with --estimator rips or cascade-dr", log.log)
        comparison = compare_rankers(
            rankers, data, counted, click_model=click_model, seed=intervals.seed, **common
        )
    else:
        comparison = compare_clicks(
            rankers, data, counted, estimator=intervals.estimator, click_model=model,
            log=log.rows(tables.counts), **common,
        )  # fmt: skip
    if chart is not None:
        save_chart(comparison_chart(comparison), chart)
    if json:
        print_json(comparison.to_dict())
    else:
        _tell(comparison, chart)


def _own_model(rankers: Iterable[Ranker]) -> ClickModel:
    """The click model of the first candidate that was learned with one."""
    from saferank.clicks import ClickModel
    from saferank.errors import InputError

    for candidate in rankers:
        if candidate.provenance.click_model is not None:
            return ClickModel.from_dict(candidate.provenance.click_model)
    raise InputError("`--bias` must be given: no candidate was learned with a click model.")


def _tell(comparison: Comparison, chart: Path | None) -> None:
    typer.echo(comparison.sentence())
    typer.echo(comparison.fit.sentence)
    share, worth, say = comparison.change, comparison.feedback.worth, comparison.feedback.say
    rows: list[tuple[Any, ...]] = [
        ("production", f"{worth(comparison.production):.4f}", "", "", "")
    ]
    for candidate in comparison.candidates:
        if candidate.refused is not None:
            rows.append((candidate.name, "", "", "", "the log cannot tell"))
            continue
        rows.append(
            (
                candidate.name,
                f"{worth(candidate.clicks or 0.0):.4f}", f"{share(candidate.estimate):+.1%}",
                f"{share(candidate.lower):+.1%} to {share(candidate.upper):+.1%}",
                f"{share(candidate.at_least):+.1%}",
            )
        )  # fmt: skip
    print_table(
        f"By {comparison.sessions:,} sessions to judge by; intervals hold for all at once "
        f"({comparison.confidence:.0%}); ordered by what is certain (at least)",
        ("ranker", say("clicks per session"), "change", "interval", "at least"), rows,
    )  # fmt: skip
    for candidate in comparison.candidates:
        if candidate.refused is not None:
            typer.echo(
                f"{candidate.name}: the log cannot tell: {candidate.refused}. saferank explore "
                "plans a next log that can."
            )
        if candidate.flatters is not None:
            typer.echo(f"Warning: {candidate.name}: {candidate.flatters}")
    if chart is not None:
        typer.echo(f"Chart: {chart}.")
