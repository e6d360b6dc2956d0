r"""Which policy made a log: sorting, sampling at a fitted temperature, or what the log shows.

A score is believed only where it is shown to fit. The temperature T of Plackett-Luce over the score
is that of the largest composite likelihood :math:`\sum n(d,k) \log P_T(d,k)`; then the log is
compared with :math:`P_T` twice: query by query (`check_production`), and pooled over all queries by
the place that the score gives to the documents shown at each rank, which tells even where every
query was seen but once. Where no score fits, production is what the log shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.minimum import bounded_minimum
from saferank._core.seeds import generator
from saferank._core.tails import normal_tail
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.plackett_luce import rank_probabilities
from saferank.policies import check_production
from saferank.policies.production import (
    Kind,
    ProductionPolicy,
    check_kind,
    filled_ranks,
    inside_ranks,
)
from saferank.policies.production_fit import ProductionFit
from saferank.policies.recorded import by_propensities

LEVEL = 0.01
"""Of the tests that decide whether a score fits."""
SORTED = 0.999
"""Share of the impressions at their sorted place from which production is taken to sort."""
SAMPLED_QUERIES = 400
"""Queries that the temperature is fitted on, at most."""
UNKNOWN = 0.5
"""Standard error of the temperature's logarithm from which it is not known at all."""
_BOUNDS = (float(np.log(0.02)), float(np.log(50.0)))
_LEAST = 5.0


def choose_production(
    counts: Counts, scores: npt.ArrayLike | None = None, kind: str = "auto"
) -> tuple[ProductionPolicy, ProductionFit]:
    """Production's policy by the log, and why it was taken for that.

    Parameters
    ----------
    counts : the log's counts, of all its sessions.
    scores : production's scores, one per document, where they are known.
    kind : "auto", or one of `KINDS` to insist on; the log is compared with it all the same.

    Returns
    -------
    The policy on the documents of the counts, and what speaks for it.

    Examples
    --------
    >>> counts = Counts([0, 2], [[40, 0], [0, 40]], [[9, 0], [0, 5]])
    >>> policy, fit = choose_production(counts, [2.0, 1.0])
    >>> policy.kind, fit.fits
    ('sorted', True)
    """
    everything = counts.part("all")
    require(everything.total > 0, "counts", "of at least one session", everything.total)
    values = None if scores is None else flat.check_values("scores", scores, counts.offsets)
    if kind != "auto":
        policy, fit = _insisted(everything, values, check_kind(kind))
    else:
        policy, fit = _by_log(everything, values)
    filled, inside = filled_ranks(everything), inside_ranks(everything)
    return replace(policy, filled=filled, inside=inside), fit


def _by_log(everything: Counts, values: Floats | None) -> tuple[ProductionPolicy, ProductionFit]:
    """The first kind that the log agrees with."""
    if everything.propensity is not None:
        recorded = by_propensities(everything)
        if recorded[1].fits:
            return recorded
        policy, fit = _by_log(replace(everything, propensity=None), values)
        return policy, replace(fit, sentence=f"{recorded[1].sentence} {fit.sentence}")
    if values is None:
        return _without_scores(everything)
    in_place = _sorted_share(everything, values)
    if in_place >= SORTED:
        return _sorted(everything, values, in_place)
    tried = _sampled(everything, values)
    if tried[1].fits:
        return tried
    policy = ProductionPolicy.observed(everything)
    how = "" if tried[1].fits is None else f": {_lower_first(tried[1].sentence)}"
    sentence = (
        f"Production is taken as the log shows it (frequencies of {everything.total:,} sessions), "
        f"as its score is not shown to fit{how}"
    )
    return policy, ProductionFit("observed", True, _stop(sentence), tried[1].temperature)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _stop(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _insisted(
    counts: Counts, scores: Floats | None, kind: Kind
) -> tuple[ProductionPolicy, ProductionFit]:
    if kind == "recorded":
        policy, fit = by_propensities(counts)
    elif kind == "observed":
        policy, fit = ProductionPolicy.observed(counts), _plain_observed(counts)
    elif kind == "uniform":
        policy, fit = _uniform(counts)
    elif scores is None:
        raise InputError(
            f"`production policy` {kind} needs production's scores; the items have none."
        )
    elif kind == "sorted":
        policy, fit = _sorted(counts, scores, _sorted_share(counts, scores))
    else:
        policy, fit = _sampled(counts, scores)
    return policy, ProductionFit(**{**fit.to_dict(), "asked_for": True})


def _plain_observed(counts: Counts) -> ProductionFit:
    sentence = (
        f"Production is taken as the log shows it (frequencies of {counts.total:,} sessions)."
    )
    return ProductionFit("observed", True, sentence)


def _without_scores(counts: Counts) -> tuple[ProductionPolicy, ProductionFit]:
    policy, fit = _uniform(counts)
    if fit.fits:
        return policy, fit
    return ProductionPolicy.observed(counts), _plain_observed(counts)


def _uniform(counts: Counts) -> tuple[ProductionPolicy, ProductionFit]:
    policy = ProductionPolicy.uniform(counts.offsets)
    assert policy.scores is not None
    # without a score, documents have no place that could be pooled: only queries can tell
    fits = check_production(counts, policy.scores).fits
    said = {True: "fits", False: "does not fit", None: "can neither confirm nor contradict"}[fits]
    return policy, ProductionFit("uniform", fits, f"The log {said} uniformly random rankings.")


# -- sorted ------------------------------------------------------------------------------------


def _sorted_share(counts: Counts, scores: Floats) -> float:
    """Share of the impressions at the place that sorting by score gives, ties as in the items."""
    order = np.lexsort((-scores, flat.query_of(counts.offsets)))
    place = np.empty(scores.size, np.int64)
    place[order] = np.arange(scores.size) - flat.repeat_per_document(
        counts.offsets[:-1], counts.offsets
    )
    in_place = counts.impressions[np.arange(counts.ranks) == place[:, None]].sum()
    return float(in_place / max(int(counts.impressions.sum()), 1))


def _sorted(
    counts: Counts, scores: Floats, in_place: float
) -> tuple[ProductionPolicy, ProductionFit]:
    fits = in_place >= SORTED
    sentence = (
        f"Production {'sorts' if fits else 'does not sort'} by its score: {in_place:.1%} of the "
        f"impressions are where sorting puts them."
    )
    return ProductionPolicy.sorted(scores, counts.offsets), ProductionFit("sorted", fits, sentence)


# -- sampled -----------------------------------------------------------------------------------


def _sampled(counts: Counts, scores: Floats) -> tuple[ProductionPolicy, ProductionFit]:
    temperature, error = fit_temperature(counts, scores)
    policy = ProductionPolicy.sampled(scores, counts.offsets, temperature)
    assert policy.scores is not None
    identified = error < UNKNOWN
    if not identified:
        sentence = "The log is too small to tell at which temperature the score was drawn from."
        return policy, ProductionFit("sampled", None, sentence, temperature)
    low, high = (float(temperature * np.exp(sign * 1.96 * error)) for sign in (-1, 1))
    each, pooled = check_production(counts, policy.scores), pooled_p_value(counts, policy.scores)
    fits = each.fits is not False and pooled > LEVEL
    sentence = (
        f"{'The log fits' if fits else 'The log does not fit'} rankings drawn by Plackett-Luce "
        f"over production's score at temperature {temperature:.3g} ({low:.3g} to {high:.3g})"
    )
    if not fits:
        sentence += (
            f" ({each.rejected:,} of {each.tested:,} queries differ at level {each.level:g}, "
            f"pooled p = {pooled:.2g})"
        )
    return policy, ProductionFit("sampled", fits, _stop(sentence), temperature, (low, high))


def fit_temperature(counts: Counts, scores: Floats) -> tuple[float, float]:
    """The temperature of the largest composite likelihood, and the standard error of its log.

    A temperature that cannot be told from 1 is 1: the score is then taken as it is.
    """
    chosen = _some_queries(counts)
    if chosen.size == 0:
        return 1.0, 0.0  # lists of one document: every temperature draws alike
    few, values = counts.subset(chosen), scores[flat.gather(counts.offsets, chosen)[0]]

    def likelihood(log_temperature: float) -> Floats:
        probability = rank_probabilities(values * np.exp(-log_temperature), few.ranks, few.offsets)
        terms = few.impressions * np.log(np.maximum(probability, 1e-300))
        return flat.query_sums(terms.sum(axis=1), few.offsets)

    best = bounded_minimum(lambda t: -float(likelihood(t).sum()), *_BOUNDS, tolerance=1e-3)
    at, error = _newton(likelihood, best)
    # the error is that of the best one: elsewhere the slopes of queries differ for another reason
    alike = error == 0 or abs(at) <= 3.3 * error
    return (1.0 if alike else float(np.exp(best))), error


def _newton(likelihood: Callable[[float], Floats], at: float) -> tuple[float, float]:
    """Where a Newton step from `at` leads, and the standard error there, clustered by query."""
    step = 0.02
    before, here, after = (likelihood(at + shift) for shift in (-step, 0.0, step))
    slopes = (after - before) / (2 * step)
    bend = -float((after - 2 * here + before).sum()) / step**2
    scale = 1e-9 * max(1.0, float(np.abs(here).sum()))
    if abs(float(slopes.sum())) < scale and abs(bend) < scale:
        return at, 0.0  # equal scores: every temperature draws alike
    if bend <= 0:
        return float("inf"), float("inf")
    # sessions are independent; slopes of queries tell how far, and one query alone by its bend
    off = slopes - slopes.mean()
    many = slopes.size > 1
    error = np.sqrt(slopes.size / (slopes.size - 1) * float(off @ off) if many else bend)
    return at + float(slopes.sum()) / bend, float(error / bend)


def _some_queries(counts: Counts) -> Ints:
    seen = np.flatnonzero((counts.sessions > 0) & (flat.sizes(counts.offsets) > 1))
    if seen.size <= SAMPLED_QUERIES:
        return seen
    return np.sort(generator(0, "temperature").choice(seen, SAMPLED_QUERIES, replace=False))


def pooled_p_value(counts: Counts, scores: Floats) -> float:
    """How surprising the places (by score) of the documents at each rank are, over all queries.

    Of each rank and place: how often a document of that place was shown there, less the expected
    number, over its standard deviation; the smallest p-value times their number (Bonferroni).
    """
    places = 2 * counts.ranks + 1
    sums = np.zeros((3, places, counts.ranks))
    for first, last in flat.table_ranges(counts.offsets, counts.ranks):
        cuts = counts.offsets[first : last + 1]
        own = slice(int(cuts[0]), int(cuts[-1]))
        _add_places(counts.impressions[own], scores[own], cuts - cuts[0], sums)
    observed, expected, variance = sums
    tested = variance >= _LEAST
    if not tested.any():
        return 1.0
    surprise = np.abs(observed - expected)[tested] / np.sqrt(variance[tested])
    # half a session for the continuity of a count
    corrected = np.maximum(surprise - 0.5 / np.sqrt(variance[tested]), 0.0)
    return float(min(1.0, 2 * normal_tail(corrected.max()) * int(tested.sum())))


def _add_places(impressions: Ints, scores: Floats, offsets: Ints, sums: Floats) -> None:
    """Add what was shown of some queries at each place and rank, its expectation and variance."""
    observed, expected, variance = sums
    places, ranks = observed.shape
    order = np.lexsort((-scores, flat.query_of(offsets)))
    place = np.empty(scores.size, dtype=np.int64)
    place[order] = np.arange(scores.size) - flat.repeat_per_document(offsets[:-1], offsets)
    place = np.minimum(place, places - 1)
    at_rank = flat.repeat_per_document(flat.query_sums(impressions, offsets), offsets)
    # documents of one query that share the last place are one cell of it
    cells, index = np.unique(flat.query_of(offsets) * places + place, return_inverse=True)
    chance = np.zeros((cells.size, ranks))
    np.add.at(chance, index, rank_probabilities(scores, ranks, offsets))
    shown = np.zeros((cells.size, ranks))
    shown[index] = at_rank
    np.add.at(observed, place, impressions)
    np.add.at(expected, cells % places, shown * chance)
    np.add.at(variance, cells % places, shown * chance * (1 - np.minimum(chance, 1)))
