"""Clicks per session of a new ranker from whole lists: RIPS and cascade-DR, by a log's rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.scratch import scratch_folder
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators.list_form import (
    LIST_ESTIMATORS,
    NOWHERE,
    log_chances,
    prefix_weights,
)
from saferank.evaluation.click_evaluation import ClickEvaluation
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.scored_policies import Deployed
from saferank.evaluation.sessions import LogRows, check_same_sessions, query_keys, shown_rows
from saferank.evaluation.support import Support
from saferank.logs.engines.running import opened
from saferank.logs.sources import find
from saferank.policies import ProductionPolicy
from saferank.policies.production import chances_of_lists


@dataclass(frozen=True, eq=False)
class SessionLists:
    """What sessions showed, from the first rank down, and what was clicked: sessions x ranks."""

    query: Ints
    lists: Ints
    """Documents on the flat axis; `NOWHERE` beyond the end of a list."""
    clicked: Floats

    @property
    def shown(self) -> Floats:
        """1 where a session shows a document."""
        shown: Floats = (self.lists != NOWHERE).astype(np.float64)
        return shown


@dataclass(frozen=True, eq=False)
class ListEvidence:
    """What lists are judged by."""

    data: RankingData
    counts: Counts
    production: ProductionPolicy
    rates: Floats
    """Predicted click rates, documents x ranks; 0 where there are none."""


def read_lists(rows: LogRows, data: RankingData, counts: Counts) -> SessionLists:
    """The lists of a log's sessions; refused where a list has a gap, or documents without items."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = {"query_number": flat.query_of(data.offsets), "doc_key": data.ids()[1].astype(str),
           "document": np.arange(data.documents)}  # fmt: skip
    with scratch_folder() as folder, opened("duckdb", spill=folder) as engine:
        for name, table in (("queries", query_keys(data)), ("documents", ids)):
            pq.write_table(pa.table(table), folder / f"{name}.parquet")
        queries, documents = (
            engine.read(find(folder / f"{name}.parquet")) for name in ("queries", "documents")
        )
        joined = shown_rows(engine, rows, counts.ranks).inner_join(queries, "query_key")
        joined = joined.left_join(documents, ["query_number", "doc_key"])
        wanted = joined.order_by("query_number", "session_id", "rank").select(
            "query_number", "session_id", "rank", "clicked", "document"
        )
        table = engine.fetch(wanted)
    unknown = int(table["document"].null_count)
    if unknown:
        raise InputError(
            f"`log` must show items only, as lists are weighed as a whole; {unknown:,} of its rows "
            f"show documents without an item."
        )
    query, rank = (np.asarray(table[name]).astype(np.int64) for name in ("query_number", "rank"))
    session = np.asarray(table["session_id"].to_pylist())
    starts = np.ones(query.size, dtype=np.bool_)
    starts[1:] = (query[1:] != query[:-1]) | (session[1:] != session[:-1])
    number = np.cumsum(starts) - 1
    place = np.arange(query.size) - np.flatnonzero(starts)[number]
    gaps = int(np.unique(number[place + 1 != rank]).size)
    if gaps:
        raise InputError(
            f"`log` must show every rank of a list from the first on, as lists are weighed as a "
            f"whole; {gaps:,} of {int(number[-1]) + 1:,} sessions have gaps."
        )
    shape = (int(starts.sum()), counts.ranks)
    lists, clicked = np.full(shape, NOWHERE), np.zeros(shape)
    lists[number, place] = np.asarray(table["document"])
    clicked[number, place] = np.asarray(table["clicked"])
    seen = SessionLists(query[starts], lists, clicked)
    of_query = np.bincount(seen.query, minlength=counts.queries)
    check_same_sessions(counts, np.arange(counts.queries), of_query)
    return seen


def evaluate_lists(
    scores: Floats,
    evidence: ListEvidence,
    lists: SessionLists,
    *,
    estimator: str,
    control: str,
    deployed: Deployed,
) -> ClickEvaluation:
    """Clicks of the new ranker by lists that production showed; refused without support."""
    form, offsets = LIST_ESTIMATORS[estimator], evidence.data.offsets
    production, ranks = evidence.production, evidence.counts.ranks
    if production.scores is None:
        raise InputError(
            f"`production` must draw or sort by scores for {estimator}, which weighs whole lists; "
            f"got {production.kind}: chances at ranks alone do not tell those of lists."
        )
    in_order = production.kind == "sorted"
    old = log_chances(production.scores, offsets, lists.query, lists.lists, in_order=in_order)
    strange = int(np.count_nonzero(~np.isfinite(old)))
    require(strange == 0, "log", "of lists that production makes", f"{strange} that it never does")
    new = log_chances(scores, offsets, lists.query, lists.lists, in_order=deployed == "sorted")
    weights = prefix_weights(new, old) * lists.shown
    seen = _support_by_rank(scores, evidence, in_order, deployed)[lists.query] * lists.shown
    support = _support(weights, seen, lists.shown, evidence.counts)
    refusal = support.refusal()
    if refusal is not None:
        raise InputError(f"The log cannot tell by this estimator: {refusal}.")
    rates = evidence.rates if form.predicts else np.zeros_like(evidence.rates)
    at = np.maximum(lists.lists, 0), np.arange(ranks)
    said = weights * (lists.clicked - rates[at] * lists.shown)
    policy = chances_of_lists(
        scores, ranks, offsets, in_order=deployed == "sorted", filled=production.filled
    )
    base = flat.query_sums((policy * rates).sum(axis=1), offsets)[lists.query]
    value = base + CONTROLS[control](said, weights, seen, lists.query).sum(axis=1)
    own = lists.clicked.sum(axis=1)
    lost = float((lists.shown - seen).sum(axis=1).mean())
    filled_in = float((base - (seen * rates[at]).sum(axis=1)).mean()) if in_order else 0.0
    parts = [_per_query(each, lists.query, evidence.counts) for each in (value, own, value - own)]
    return ClickEvaluation(
        new=parts[0], production=parts[1], difference=parts[2],
        support=support, estimator=estimator, assumes=form.assumes,
        unknown=(filled_in, lost - filled_in),
    )  # fmt: skip


def _support_by_rank(
    scores: Floats, evidence: ListEvidence, in_order: bool, deployed: Deployed
) -> Floats:
    """Chance that the new ranker's first documents are ones that production shows: by query."""
    offsets, ranks = evidence.data.offsets, evidence.counts.ranks
    if not in_order:
        return np.ones((evidence.data.queries, ranks))
    assert evidence.production.scores is not None
    order = np.lexsort((-evidence.production.scores, flat.query_of(offsets)))
    lists = np.full((evidence.data.queries, ranks), NOWHERE)
    for rank in range(ranks):
        there = evidence.data.sizes > rank
        lists[there, rank] = order[offsets[:-1][there] + rank]
    query = np.arange(evidence.data.queries)
    new = log_chances(scores, offsets, query, lists, in_order=deployed == "sorted")
    return prefix_weights(new, np.zeros_like(new))


def _support(weights: Floats, seen: Floats, shown: Floats, counts: Counts) -> Support:
    """Weights of sessions are their sums over ranks."""
    whole = weights.sum(axis=1)
    square = float((whole**2).mean()) if whole.size else 0.0
    effective = counts.total * float(whole.mean()) ** 2 / square if square > 0 else 0.0
    lost = float((shown - seen).sum() / max(counts.total, 1))
    return Support(
        sessions=counts.total, effective=effective, unsupported=lost,
        share=float(seen.sum() / max(shown.sum(), 1.0)),
    )  # fmt: skip


def _per_query(value: Floats, query: Ints, counts: Counts) -> QueryScores:
    """Mean of each query's sessions, and the variance between them.

    A query of one session does not tell its own: its distance to the mean of all stands for it.
    """
    sessions = counts.sessions
    mean = np.bincount(query, value, minlength=sessions.size) / np.maximum(sessions, 1)
    off = np.bincount(query, (value - mean[query]) ** 2, minlength=sessions.size)
    variance = off / np.maximum(sessions - 1, 1)
    overall = float(value.mean()) if value.size else 0.0
    variance = np.where(sessions == 1, (mean - overall) ** 2, variance)
    boundless = np.full(sessions.size, np.inf)
    return QueryScores(
        sessions, mean, variance, -boundless, boundless, boundless, "sessions",
        cluster=counts.cluster,
    )  # fmt: skip


def _plain(said: Floats, weights: Floats, seen: Floats, query: Ints) -> Floats:
    del weights, seen, query
    return said


def _by_rank(said: Floats, weights: Floats, seen: Floats, query: Ints) -> Floats:
    """x - b (W - E W) at each rank, b fitted on the other half of the queries."""
    away = weights - seen
    steadied = said.copy()
    for side in (0, 1):
        mine, others = query % 2 == side, query % 2 != side
        both = (away[others] * (said[others] - said[others].mean(axis=0))).sum(axis=0)
        own = (away[others] ** 2).sum(axis=0)
        b = np.divide(both, own, out=np.zeros_like(own), where=own > 0)
        steadied[mine] -= b * away[mine]
    return steadied


def _normalised(said: Floats, weights: Floats, seen: Floats, query: Ints) -> Floats:
    """E W x / W at each rank, linear around its own value: biased by order 1/N."""
    del query
    x, w, wanted = (each.mean(axis=0) for each in (said, weights, seen))
    ratio = np.divide(x, w, out=np.zeros_like(x), where=w > 0)
    scale = np.divide(wanted, w, out=np.ones_like(w), where=w > 0)
    steadied: Floats = wanted * ratio + (said - ratio * weights) * scale
    return steadied


CONTROLS = {"none": _plain, "by-rank": _by_rank, "normalised": _normalised}


def list_evidence(
    data: RankingData,
    counts: Counts,
    production: ProductionPolicy,
    click_model: ClickModel | None,
    predictions: Floats | None,
    estimator: str,
) -> ListEvidence:
    """What lists are judged by; cascade-DR needs predictions, and a click model to place them."""
    rates = np.zeros((data.documents, counts.ranks))
    if LIST_ESTIMATORS[estimator].predicts:
        if predictions is None or click_model is None:
            raise InputError(
                f"`predictions` and `click_model` must be given for {estimator}: predicted "
                f"click rates lower its variance, and need not be right."
            )
        rates = np.clip(click_model.alpha * predictions[:, None] + click_model.beta, 0.0, 1.0)
    return ListEvidence(data, counts, production, rates)
