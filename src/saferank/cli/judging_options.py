"""Options that commands on rankers share: items and counts, production, promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli.log_options import Documents, ItemColumn, columns_of, item_source
from saferank.errors import InputError

if TYPE_CHECKING:
    from saferank._core.flat import Array
    from saferank.clicks import ClickModel
    from saferank.counts import Counts
    from saferank.data import RankingData
    from saferank.data.features import FeatureSchema
    from saferank.evaluation.scored_policies import Deployed
    from saferank.learning import Ranker
    from saferank.logs.shard_folder import ShardFolder

NOT_TO_SHIP = 3
"""The exit code of a ranker that should not replace production."""

Run = Annotated[Path, typer.Argument(help="Folder of a learned ranker.", show_default=False)]
Items = Annotated[
    Path, typer.Option(help="Items: Parquet, CSV or LETOR text, or a folder of shards.")
]
Production = Annotated[
    Path | None,
    typer.Option(help="Production's saved ranker or LightGBM file; else production_score."),
]
ProductionPolicyOption = Annotated[
    str,
    typer.Option(
        "--production-policy",
        help="What production does: auto (by the log), sampled, sorted, observed, "
        "recorded or uniform.",
    ),
]
Keep = Annotated[
    float | None, typer.Option(help="Share of production's utility to keep. [the ranker's; 0.9]")
]
Slack = Annotated[
    float | None, typer.Option(help="...up to this share of the largest. [the ranker's; 0.01]")
]
GuardMode = Annotated[
    str | None,
    typer.Option(
        "--guard-mode",
        help="What the guard serves: best (most gain within the promise) or mix (the new ranker "
        "to some sessions, production to others). [best]",
        show_default=False,
    ),
]
HideIds = Annotated[
    bool,
    typer.Option("--hide-ids", help="Short hashes in place of query and document ids."),
]
SameSessions = Annotated[
    bool,
    typer.Option(
        "--same-sessions",
        help="Estimate from the sessions that it was learned from: this flatters it.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ItemsAndCounts:
    """Items and their counts."""

    items: Items
    documents: Documents = None
    column: ItemColumn = None
    counts: Annotated[
        Path | None, typer.Option(help="Counts, as `saferank count` writes them.")
    ] = None
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave counts without items out, and tell.")
    ] = False
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column of the items that names each document's group: a brand, a seller.",
            show_default=False,
        ),
    ] = None

    @property
    def shards(self) -> ShardFolder | None:
        """The shards with counts of their own, where the items are a folder of them."""
        from saferank.logs.shard_folder import ShardFolder, is_shard_folder

        own = self.counts is None and is_shard_folder(self.items)
        return ShardFolder.open(self.items) if own else None

    def read(
        self,
        click_model: ClickModel | None,
        *,
        ranker: Ranker | None = None,
        schema: FeatureSchema | None = None,
        leave_out: Sequence[str] = (),
    ) -> tuple[RankingData, Counts | None, list[str]]:
        """Items and counts on the same documents, and what a user should know of the match.

        Features are read as the `ranker`, or the `schema`, knows them; else without the columns
        to leave out.
        """
        from saferank.counts import CountTable
        from saferank.data import read_items
        from saferank.data.items import read_groups
        from saferank.logs import align

        columns, source = columns_of(self.column), item_source(self.items, self.documents)
        if ranker is None:
            data = read_items(
                source, columns=columns, schema=schema, leave_out=leave_out, group=self.group
            )
        else:
            data = ranker.read_items(source, columns=columns, group=self.group)
        if self.group is not None:
            data = replace(data, groups=read_groups(source, self.group, data, columns=columns))
        if click_model is None:
            return data, None, []
        shards = self.shards
        if shards is not None:
            table = shards.counts()
        elif self.counts is not None:
            table = CountTable.open(self.counts)
        else:
            raise InputError("`--counts` must be given unless the method is skyline.")
        aligned, report = align(table, data, ranks=click_model.ranks, skip_bad=self.skip_bad)
        return data, aligned, [table.feedback.say(line) for line in report.sentences()]


@dataclass(frozen=True)
class ProductionOptions:
    """What production does."""

    production: Production = None
    production_policy: ProductionPolicyOption = "auto"

    def scores(self, data: RankingData) -> Ranker | Array | None:
        """Production's ranker where one is named, else the items' production_score."""
        from saferank.learning import Ranker

        return data.production if self.production is None else Ranker.load(self.production)


@dataclass(frozen=True)
class JudgedOptions(ProductionOptions):
    """What is compared, and what clicks mean."""

    sorted_: Annotated[
        bool, typer.Option("--sorted", help="Rankings are sorted by score, not drawn.")
    ] = False
    bias: Annotated[
        str | None, typer.Option(help="bias.json or a click model by name. [the ranker's]")
    ] = None

    @property
    def deployed(self) -> Deployed:
        """How the new ranker's scores become rankings."""
        return "sorted" if self.sorted_ else "sampled"
