"""What commands read: items with their counts, and click models by name or from a file."""

from __future__ import annotations

from pathlib import Path

from saferank.clicks import ClickModel, position_bias, trust_bias
from saferank.data import RankingData, read_items
from saferank.errors import InputError, require
from saferank.logs import Counts, CountTable, align

NAMED = {"trust-bias": trust_bias, "position-bias": position_bias}


def read_click_model(bias: str, counts: Path | None) -> ClickModel:
    """A click model by name, with as many ranks as the counts (at most 10), or from bias.json."""
    if bias not in NAMED:
        require(Path(bias).is_file(), "bias", f"a bias.json or one of {', '.join(NAMED)}", bias)
        return ClickModel.load(bias)
    if counts is None:
        return NAMED[bias]()
    import pyarrow.compute as pc

    ranks = pc.max(CountTable.open(counts).to_arrow(["rank"])["rank"]).as_py()
    return NAMED[bias](min(int(ranks or 1), 10))


def read_logged(
    items: Path, counts: Path | None, users: ClickModel | None, skip_bad: bool
) -> tuple[RankingData, Counts | None, list[str]]:
    """Items and their counts on the same documents, and what a user should know of the match."""
    data = read_items(items)
    if users is None:
        return data, None, []
    if counts is None:
        raise InputError("`--counts` must be given unless the method is skyline.")
    aligned, report = align(CountTable.open(counts), data, ranks=users.ranks, skip_bad=skip_bad)
    return data, aligned, report.sentences()
