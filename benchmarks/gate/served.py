"""What a run would really serve, as a policy that the referee can judge.

The only place that knows how the tool serves: change it when serving changes.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.gate.command_line import run
from benchmarks.gate.preparing import Prepared
from benchmarks.shops import Mixture, World, in_order, sampled
from benchmarks.shops.truth import Policy

EVERY = 100_000
"""More documents than a query has: `rank` then gives the scores of all."""


@dataclass(frozen=True, eq=False)
class Run:
    """A learned ranker in a shop: where it is, and its scores in the truth's order."""

    world: World
    ready: Prepared
    folder: Path
    columns: dict[str, str]
    """Names of the items' columns."""
    scores: np.ndarray


def load(world: World, ready: Prepared, folder: Path, columns: dict[str, str]) -> Run:
    """The scores of a saved ranker, as `saferank rank` writes them."""
    path = folder.with_suffix(".scores.parquet")
    ranked = run(
        "rank", folder, "--items", ready.items, *ready.options, "-k", EVERY, "--sorted", "-o", path
    )
    if ranked.code != 0:
        raise RuntimeError(f"rank: exit {ranked.code}: {ranked.sentence}")
    table = pq.read_table(path)
    scores = world.in_order(table["query_id"], table["doc_id"], table["score"])
    return Run(world, ready, folder, columns, scores)


def alone(ranker: Run, deployed: str) -> Policy:
    """The ranker as it would be served without a guard."""
    return in_order(ranker.scores) if deployed == "sorted" else sampled(ranker.scores)


@dataclass(frozen=True, eq=False)
class Table:
    """Serves documents at ranks with given probabilities, documents x ranks."""

    table: np.ndarray

    def probabilities(self, offsets: np.ndarray, k: int) -> np.ndarray:
        """P(document at rank), documents x k; nothing beyond the ranks that are known."""
        wide = np.zeros((int(offsets[-1]), k))
        known = min(k, self.table.shape[1])
        wide[:, :known] = self.table[:, :known]
        return wide

    def draw(
        self, rng: np.random.Generator, query: np.ndarray, offsets: np.ndarray, k: int
    ) -> np.ndarray:
        """Not needed: the truth of what is served is computed, not drawn."""
        raise NotImplementedError


def guarded(ranker: Run, deployed: str) -> Policy:
    """The ranker behind its certified guard, which mixes it with production or serves the best.

    At serving the production arm is the list that production made.
    """
    import saferank as sr
    from saferank.serving.rankings import Serving

    known = inspect.signature(sr.data.read_items).parameters
    named = ranker.ready.options and "columns" in known
    items = sr.data.read_items(ranker.ready.items, columns=ranker.columns if named else {})
    shown = np.zeros(items.documents) if items.production is None else items.production
    guard = Serving.of_run(ranker.folder, guard=True).guarded(shown)
    query_ids, doc_ids = items.ids()
    if not guard.mixes:
        each = np.repeat(np.asarray(query_ids), items.sizes)
        _, place = ranker.world.positions(each, doc_ids)
        chance = guard.propensities(items)
        table = np.empty(chance.shape)
        table[place] = chance
        return Table(table)
    first = np.asarray(doc_ids)[items.offsets[:-1]]
    query, _ = ranker.world.positions(query_ids, first)
    share = np.empty(items.queries)
    share[query] = guard.mixing(items)
    return Mixture(share, alone(ranker, deployed), ranker.world.truth.production)
