"""What production does by the log, where the log's counts are in shards: a sample of queries tells.

Every process gets the same sample, of all shards, and so takes production for the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from saferank._core import flat
from saferank._core.flat import Array, Floats, Ints
from saferank._core.seeds import generator
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.learning.own_shards import OwnShards
from saferank.learning.portion import Portion, join_rows
from saferank.learning.ranker import Ranker
from saferank.learning.shown import Production, Shown
from saferank.policies import ProductionPolicy, choose_production
from saferank.policies.production import filled_share, inside_share

SAMPLED: Final = 4096
"""Queries that are asked, at most: so many tell, and every process can hold their counts."""


def settle_in_shards(shards: OwnShards, production: Production, kind: str) -> Shown:
    """Ask the log what production does with its scores, as `settle_production` does."""
    data, counts, portion = shards.data, shards.counts, shards.portion
    scores = production.scores(data) if isinstance(production, Ranker) else production
    scores = data.production if scores is None else scores
    given = None if scores is None else flat.check_values("production", scores, data.offsets)
    if kind == "sampled" or (given is None and kind != "uniform" and counts.propensity is None):
        return Shown()
    everything = counts.part("all")
    few, scores, asked = _sample(everything, given, portion)
    require(few.total > 0, "counts", "of at least one session", few.total)
    policy, fit = choose_production(few, scores, kind)
    if fit.kind == "recorded":
        raise InputError(
            "`--production-policy` must be another than recorded where items are in shards; "
            "observed takes production as the log shows it."
        )
    sentence = f"{fit.sentence} (Asked of {few.queries:,} of {asked:,} queries with sessions.)"
    fit = replace(fit, sentence=sentence)
    temperature = 1.0 if fit.temperature is None else fit.temperature
    if policy.kind == "sampled":
        return Shown(None, fit, temperature)
    own = _policy(policy.kind, everything, given)
    own = replace(
        own,
        filled=None if policy.filled is None else filled_share(everything),
        inside=None if policy.inside is None else inside_share(everything),
    )
    return Shown(own, fit, temperature)


def _policy(kind: str, counts: Counts, scores: Floats | None) -> ProductionPolicy:
    """A kind of policy on the own documents."""
    if kind == "sorted" and scores is not None:
        return ProductionPolicy.sorted(scores, counts.offsets)
    if kind == "uniform":
        return ProductionPolicy.uniform(counts.offsets)
    return ProductionPolicy.observed(counts)


def _sample(
    counts: Counts, scores: Floats | None, portion: Portion
) -> tuple[Counts, Floats | None, int]:
    """Counts and scores of some queries of all shards, and how many there are to take them of."""
    us = portion.workers
    visits = join_rows(us, counts.sessions)
    seen = np.flatnonzero(visits > 0)
    chosen = seen
    if seen.size > SAMPLED:
        drawn = generator(0, "production in shards").choice(seen, SAMPLED, replace=False)
        chosen = np.sort(drawn)
    own = portion.local(chosen)
    positions, _ = flat.gather(counts.offsets, own)

    def of_all(values: Array) -> Array:
        return join_rows(us, values)

    sizes = np.diff(portion.offsets)[chosen]
    shown: Ints = of_all(counts.impressions[positions])
    # whether any shard has documents without an item must be known to all
    there = np.zeros((2, own.size, counts.ranks), dtype=np.int64)
    outside = there if counts.outside is None else counts.outside[:, own]
    outside = of_all(outside.transpose(1, 0, 2)).transpose(1, 0, 2)
    few = Counts(
        np.concatenate([[0], np.cumsum(sizes)]),
        shown,
        np.zeros_like(shown),
        visits[chosen],
        outside=outside if outside.any() else None,
        propensity=None if counts.propensity is None else of_all(counts.propensity[positions]),
    )
    return few, None if scores is None else of_all(scores[positions]), seen.size
