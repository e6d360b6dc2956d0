"""`saferank learn`: a ranker from items and counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saferank.cli.judging_options import ItemsAndCounts, ProductionOptions
from saferank.cli.memory_options import MemoryOptions
from saferank.cli.output import Json, print_json, print_table
from saferank.errors import InputError, require

if TYPE_CHECKING:
    from saferank.clicks import ClickModel
    from saferank.counts import Counts
    from saferank.data import RankingData
    from saferank.data.features import FeatureSchema
    from saferank.learning import OwnShards, Ranker, Settings

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


@dataclass(frozen=True, kw_only=True)
class _Tables(ItemsAndCounts):
    """Items and their counts."""

    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of the items that the ranker must not see: no feature of it, here or "
            "wherever it is certified or served; may be given again.",
            show_default=False,
        ),
    ] = None

    def ranks_of_shards(self, bias: str | None, labels: bool) -> int | None:
        """K of the counts, where the items are a folder of shards; None: they are not."""
        from saferank.logs.shard_folder import ShardFolder, is_shard_folder

        if not is_shard_folder(self.items):
            return None
        asked = {
            "counts": self.counts, "documents": self.documents, "column": self.column,
            "group": self.group,
        }  # fmt: skip
        for name, value in asked.items():
            if value is not None:
                raise InputError(f"`--{name}` must be left out where items are shards.")
        if bias is None or labels:
            raise InputError(
                "`--bias` must be given where items are shards, and the method learn from clicks."
            )
        return ShardFolder.open(self.items).manifest.ranks

    def read_all(
        self, click_model: ClickModel | None, bias: str | None
    ) -> tuple[RankingData | OwnShards, Counts | None, list[str]]:
        """Items and counts, or this process's shards of both, and what a user should know."""
        from saferank.cli.inputs import check_default_model
        from saferank.data.items import feature_sentences
        from saferank.learning import read_shards
        from saferank.logs.shard_folder import is_shard_folder

        leave_out = self.leave_out or ()
        if click_model is not None and is_shard_folder(self.items):
            shards = read_shards(
                self.items, ranks=click_model.ranks, skip_bad=self.skip_bad, leave_out=leave_out
            )
            lines = shards.alignment.sentences()
            return shards, None, [shards.counts.feedback.say(line) for line in lines]
        data, counted, notes = self.read(click_model, leave_out=leave_out)
        notes = [*feature_sentences(data), *self.notes_on_group(data), *notes]
        if click_model is not None and counted is not None and bias is None:
            notes = [*notes, check_default_model(counted, click_model)]
        return data, counted, notes

    def notes_on_group(self, data: RankingData) -> list[str]:
        """Whether the column that names groups is a feature, too."""
        if self.group is None or data.schema.get(self.group) is None:
            return []
        return [
            f"`{self.group}` names the groups and is a feature, too: the ranker sees it. "
            f"--leave-out {quote(self.group)} leaves it out of the features."
        ]


@dataclass(frozen=True)
class _Recipe:
    """What is learned, and by which method."""

    method: Annotated[
        str | None,
        typer.Option(help="A method by name. [prpo; with --keep keep]", show_default=False),
    ] = None
    keep: Annotated[
        float | None,
        typer.Option(
            help="Keep this share of every document's exposure under production; takes the method "
            "keep, and goes as far from production as that allows.",
            show_default=False,
        ),
    ] = None
    slack: Annotated[
        float | None, typer.Option(help="...up to this share of a query's exposure (0.01).")
    ] = None
    gain: Annotated[str | None, typer.Option(help="Another gain.", show_default=False)] = None
    objective: Annotated[
        str | None, typer.Option(help="Another objective.", show_default=False)
    ] = None
    scorer: Annotated[str, typer.Option(help="linear, mlp or trees.")] = "mlp"
    delta: Annotated[
        str | None, typer.Option(help="A number, 'c/N' or '1/log N'.", show_default=False)
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            help="clicks, examination, dcg, precision; of the first K ranks alone: examination:K, "
            "dcg:K, or numbers such as 1,0.5.",
            show_default=False,
        ),
    ] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            help="none, standard, log1p, clip or query_minmax. [log1p; for trees none]",
            show_default=False,
        ),
    ] = None
    start: Annotated[
        str | None, typer.Option(help="production, sharpened, add or scratch.", show_default=False)
    ] = None
    regression: Annotated[
        str | None,
        typer.Option(
            help="For dm and dr: posterior, likelihood, cross-entropy.", show_default=False
        ),
    ] = None
    gradient: Annotated[
        str | None,
        typer.Option(
            help="exact, or by sampling: reinforce, pl-rank, stochastic-rank, "
            "stochastic-rank-gumbel. [exact]",
            show_default=False,
        ),
    ] = None
    fairness: Annotated[
        str | None,
        typer.Option(
            help="Keep exposure fair to documents, or with --group to groups: disparity, "
            "treatment (as merit), parity (as numbers) or expected-exposure.",
            show_default=False,
        ),
    ] = None
    fairness_weight: Annotated[
        float | None, typer.Option(help="What unfairness costs. [0.1]", show_default=False)
    ] = None
    fairness_over: Annotated[
        str | None,
        typer.Option(
            help="Fair within queries, or by group over all traffic. [queries]",
            metavar="queries|traffic",
            show_default=False,
        ),
    ] = None

    def changes(self, click_model: ClickModel | None) -> dict[str, Any]:
        """What is asked for, as parts of a `Recipe`."""
        from saferank.cli.inputs import read_weights

        asked: dict[str, Any] = dict(vars(self))
        del asked["method"]
        if self.weights is not None and not self.weights.isalpha():
            asked["weights"] = read_weights(self.weights, click_model)
        return {name: part for name, part in asked.items() if part is not None}


@dataclass(frozen=True)
class _Training:
    """How long it is trained."""

    validation_items: Annotated[Path | None, typer.Option(help="Items to stop by.")] = None
    validation_counts: Annotated[Path | None, typer.Option(help="Their counts.")] = None
    steps: Annotated[int | None, typer.Option(help="Most steps of training.")] = None
    rounds: Annotated[int | None, typer.Option(help="Most trees.")] = None
    seed: Annotated[int, typer.Option(help="Everything random comes from it.")] = 0
    device: Annotated[
        str, typer.Option(help="Where networks learn, as torch names it: cpu, cuda, mps.")
    ] = "cpu"

    def __post_init__(self) -> None:
        both = (self.validation_items is None) == (self.validation_counts is None)
        require(both, "validation", "given as items and counts together", "one of them")

    def settings(self) -> Settings:
        """The settings of the training loop."""
        from saferank.learning import Settings

        sizes: dict[str, Any] = {"steps": self.steps, "rounds": self.rounds}
        return Settings(**{name: size for name, size in sizes.items() if size is not None})

    def validation(
        self, tables: ItemsAndCounts, click_model: ClickModel | None, schema: FeatureSchema | None
    ) -> tuple[RankingData, Counts | None] | None:
        """Queries and counts to stop by, read as those to learn from are."""
        if self.validation_items is None:
            return None
        beside = replace(tables, items=self.validation_items, counts=self.validation_counts)
        return beside.read(click_model, schema=schema)[:2]


Bias = Annotated[
    str | None,
    typer.Option(
        help="bias.json of `saferank bias`, or trust-bias, or position-bias. "
        "[the paper's trust-bias, unless the log contradicts it]",
        show_default=False,
    ),
]


def learn(
    tables: _Tables,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the learned ranker.")],
    recipe: _Recipe,
    production: ProductionOptions,
    training: _Training,
    memory: MemoryOptions,
    bias: Bias = None,
    json: Json = False,
) -> None:
    """Learn a ranker from a click log; it is written to a folder, whole or not at all.

    A run that was killed goes on where it was when the same command is given again. Networks learn
    on several processes, to the same bits: torchrun --nproc-per-node 2 -m saferank learn ...
    With --items SHARDS, a folder of `saferank shard`, each of them reads its own shards only.

    Example: saferank learn --items items.parquet --counts counts.parquet --bias bias.json -o run
    """
    from saferank import learning
    from saferank._core.files import check_folder
    from saferank.cli.inputs import click_model_source, read_click_model
    from saferank.data import RankingData
    from saferank.learning.devices import find_device
    from saferank.learning.ranker import FILES
    from saferank.learning.recipe import check_method
    from saferank.learning.workers import together

    check_folder(output, FILES)
    if recipe.method is not None:
        check_method(recipe.method)
    replaces = output.is_dir() and any(output.iterdir())
    device = find_device(training.device)
    labels = recipe.method == "skyline"
    ranks = tables.ranks_of_shards(bias, labels)
    click_model = None if labels else read_click_model(bias or "trust-bias", tables.counts, ranks)
    folder = output.resolve()
    with memory.limit(folder.parent), together() as all_of_us:
        given, counted, notes = tables.read_all(click_model, bias)
        items = given if isinstance(given, RankingData) else given.data
        ranker = learning.learn(
            given,
            counted,
            click_model,
            method=recipe.method,
            production=production.scores(items),
            production_kind=production.production_policy,
            validation=training.validation(tables, click_model, items.schema),
            seed=training.seed,
            click_model_from=None if click_model is None else click_model_source(bias),
            checkpoint=folder.parent / f".{folder.name}.checkpoint",
            settings=training.settings(),
            device=device,
            **recipe.changes(click_model),
        )
    if not all_of_us.writes:
        return
    ranker.save(output)
    notes = [*notes, *_notes_on_production(ranker)]
    notes += [f"The ranker that was in {output} is replaced."] if replaces else []
    _tell(ranker.provenance, output, notes, _next_command(output, tables), json)


def _notes_on_production(ranker: Ranker) -> list[str]:
    shown = ranker.provenance.production
    return [
        *([] if shown is None else [shown.sentence]),
        *([ADDS] if ranker.adds_production else []),
    ]


def _next_command(output: Path, tables: ItemsAndCounts) -> str:
    from saferank.logs.shard_folder import is_shard_folder

    words = [str(output), "--items", str(tables.items)]
    if is_shard_folder(tables.items):
        return f"saferank certify {join(words)}"
    words += [] if tables.documents is None else ["--documents", str(tables.documents)]
    words += ["--counts", str(tables.counts or "COUNTS")]
    words += [word for pair in tables.column or () for word in ("--column", pair)]
    words += ["--group", tables.group] if tables.group else []
    words += ["--skip-bad"] if tables.skip_bad else []
    return f"saferank certify {join(words)}"


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
    if provenance.recipe["start"] == "sharpened":
        facts["production's scores multiplied by, to start"] = provenance.sharper
    if provenance.way is not None:
        facts["way from production that it allows"] = provenance.way
        facts["share of queries that keep it by themselves"] = provenance.holding
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
