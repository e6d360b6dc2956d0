"""What makes a certificate stale: traffic that is no longer what was certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from saferank._core import flat
from saferank._core.scratch import scratch_folder
from saferank.clicks import ClickModel, check_click_model
from saferank.data import RankingData
from saferank.errors import require
from saferank.logs import align, count
from saferank.logs.counting import EngineChoice
from saferank.logs.engines.running import opened
from saferank.logs.sources import LogName, find
from saferank.serving.watching.experiment import PRODUCTION

STALE: Final = 0.05
"""Share of the rows from which a change asks for a new certificate."""
_SAME: Final = 1e-6
"""How far a score may be off, as a share of itself, and still be the same."""
_NAMES: Final = ("query_id", "doc_id", "rank", "arm", "score")


@dataclass(frozen=True)
class Drift:
    """How far what is served now is from the items that were certified, as shares of rows."""

    rows: int
    new_queries: float
    """Rows of queries that are not among the items."""
    new_documents: float
    """Rows of known queries with documents that are not among their items."""
    other_scores: float | None = None
    """Of production's rows with a known document, those whose score is another than the items';
    None where the log or the items have no scores."""
    misfit: str | None = None
    """What speaks against the click model, where anything does."""

    def to_dict(self) -> dict[str, Any]:
        """The drift for JSON."""
        return {**asdict(self), "sentences": self.sentences()}

    def sentences(self) -> list[str]:
        """What a user should know, one sentence each."""
        said = [
            _said(self.new_queries, "are of queries that are not among the items"),
            _said(self.new_documents, "show documents that are not among their query's items"),
        ]
        if self.other_scores is not None:
            what = "by production have another production score than the items"
            said.append(_said(self.other_scores, what))
        if self.misfit is not None:
            said.append(f"The click model does not fit: {self.misfit} Fit it again (bias).")
        return said


def _said(share: float, what: str) -> str:
    advice = " The certificate is stale: certify again with today's items." if share > STALE else ""
    return f"{share:.1%} of the rows {what}.{advice}"


def find_drift(
    log: LogName,
    items: RankingData,
    *,
    columns: Mapping[str, str] | None = None,
    click_model: ClickModel | None = None,
    engine: str | EngineChoice = "duckdb",
) -> Drift:
    """Hold what was served against the items that were certified.

    Parameters
    ----------
    log : one row per shown document with `query_id`, `doc_id`; `arm` and `score` where there are,
        and `rank`, `click` for the click model.
    items : that the run was certified on.
    columns : your names of the log's columns.
    click_model : the one that the run was learned with; its fit is tested, too.
    engine : as in `count`.

    Examples
    --------
    >>> items = RankingData(np.eye(2), [0, 2], query_ids=np.array([7]), doc_ids=np.array([1, 2]))
    >>> rows = {"query_id": [7, 7, 8], "doc_id": [1, 3, 1]}
    >>> drift = find_drift(pa.table(rows), items)
    >>> round(drift.new_queries, 3), round(drift.new_documents, 3)
    (0.333, 0.333)
    """
    names = {name: (columns or {}).get(name, name) for name in _NAMES}
    choice = engine if isinstance(engine, EngineChoice) else EngineChoice(engine)
    with (
        scratch_folder(choice.spill) as folder,
        opened(choice.name, memory=choice.memory, spill=folder) as running,
    ):
        table = running.read(find(log))
        for name in ("query_id", "doc_id"):
            require(names[name] in table.columns, "log", f"with a column {name}", table.columns)
        certified = running.bring(_pairs(items), "certified_items")
        sums = running.fetch(_compared(table, certified, names)).to_pylist()[0]
    rows = max(int(sums["rows"]), 1)
    scored = int(sums["scored"])
    return Drift(
        int(sums["rows"]),
        sums["new_queries"] / rows,
        sums["new_documents"] / rows,
        sums["other"] / scored if scored else None,
        None if click_model is None else _misfit(log, items, columns, click_model, choice),
    )


def _pairs(items: RankingData) -> pa.Table:
    query_ids, doc_ids = (np.asarray(ids).astype(str) for ids in items.ids())
    scores = np.full(items.documents, np.nan) if items.production is None else items.production
    return pa.table(
        {
            "query": query_ids[flat.query_of(items.offsets)],
            "doc": doc_ids,
            "certified": pa.array(scores, from_pandas=True),
        }
    )


def _compared(table: Any, known: Any, names: Mapping[str, str]) -> Any:
    """One row of counts: rows, and those that are not as certified."""
    import ibis

    score: Any = ibis.null("float64")
    if names["arm"] in table.columns and names["score"] in table.columns:
        by_production = table[names["arm"]].cast("string") == PRODUCTION
        score = by_production.ifelse(table[names["score"]].cast("float64"), None)
        if names["rank"] in table.columns:  # rows of lists have minus their rank for a score
            listed = score == -table[names["rank"]].cast("float64")
            score = listed.ifelse(ibis.null("float64"), score)
    rows = table.select(
        query=table[names["query_id"]].cast("string"),
        doc=table[names["doc_id"]].cast("string"),
        score=score,
    )
    pairs = known.mutate(is_known=True)
    queries = known.select("query").distinct().mutate(has_items=True)
    joined = rows.left_join(pairs, ["query", "doc"]).select(
        query=rows.query, score=rows.score, certified=pairs.certified, is_known=pairs.is_known
    )
    both = joined.left_join(queries, "query").select(
        score=joined.score, certified=joined.certified, is_known=joined.is_known,
        has_items=queries.has_items,
    )  # fmt: skip
    scored = both.score.notnull() & both.certified.notnull()
    apart = (both.score - both.certified).abs() > _SAME * (1 + both.certified.abs())
    return both.agg(
        rows=both.count(),
        new_queries=both.count(where=both.has_items.isnull()),
        new_documents=both.count(where=both.has_items.notnull() & both.is_known.isnull()),
        scored=both.count(where=scored),
        other=both.count(where=scored & apart),
    )


def _misfit(
    log: LogName,
    items: RankingData,
    columns: Mapping[str, str] | None,
    click_model: ClickModel,
    engine: EngineChoice,
) -> str | None:
    """What today's clicks say against a click model; None where nothing does."""
    wanted = ("query_id", "doc_id", "rank", "click", "session_id")
    own = {name: yours for name, yours in (columns or {}).items() if name in wanted}
    table = count(log, columns=own, engine=engine, skip_bad=True)
    counts, _ = align(table, items, ranks=click_model.ranks, skip_bad=True)
    check = check_click_model(counts.part("all"), click_model)
    return check.verdict if check.rejected else None
