"""The ways to fit a click model, with one call shape: cells and parts of the log to an estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats, Ints
from saferank._core.progress import bar
from saferank.clicks.bias.em import (
    Cells,
    Estimate,
    PerDocument,
    Relevance,
    estimate_near,
    expectation_maximisation,
    first_estimate,
)
from saferank.clicks.bias.feature_groups import Logistic, standardised
from saferank.clicks.bias.folds import Folds
from saferank.clicks.bias.harvest_position import harvest_position
from saferank.clicks.bias.harvest_trust import harvest_trust
from saferank.clicks.bias.known_policy import KnownPolicy, fit_known_policy
from saferank.clicks.bias.left_out import estimates_without
from saferank.clicks.bias.like_documents import LikeDocuments, fit_like_documents
from saferank.clicks.bias.misfit import best_relevance
from saferank.clicks.bias.scale import Canonical, LeftOut
from saferank.errors import InputError

Fit = Callable[[Cells, Folds | None], tuple[Canonical, LeftOut | None]]
"""The canonical form that fits the cells, and those without each part of the log."""


def harvest(*, trust: bool, reference: int) -> Fit:
    """Clicks of the same documents at several ranks."""
    estimate = harvest_trust if trust else harvest_position

    def fit(cells: Cells, folds: Folds | None) -> tuple[Canonical, LeftOut | None]:
        shown = cells.shown.any(axis=0)
        if np.count_nonzero(shown) == 1:
            return _only_rank(np.where(shown, 1.0, np.nan), folds)
        return estimate(cells, reference, folds)

    return fit


def _only_rank(slope: Floats, folds: Folds | None) -> tuple[Canonical, LeftOut | None]:
    """The form of a log with one rank: relevance is its click probability there."""
    form = Canonical(slope, slope - 1)
    rows = 0 if folds is None else folds.count
    left_out = LeftOut(np.tile(form.slope, (rows, 1)), np.tile(form.intercept, (rows, 1)))
    return form, left_out if rows else None


def known_policy(policy: KnownPolicy, query: Ints, *, trust: bool, reference: int) -> Fit:
    """Clicks where chance has put documents, whose probabilities are known."""
    return lambda cells, folds: fit_known_policy(
        cells, policy, query, trust=trust, reference=reference, folds=folds
    )


def like_documents(like: LikeDocuments, *, trust: bool, reference: int) -> Fit:
    """Clicks of documents that features say are alike."""
    return lambda cells, folds: fit_like_documents(
        cells, like, trust=trust, reference=reference, folds=folds
    )


def em_by_document(*, trust: bool, reference: int, progress: bool | None) -> Fit:
    """EM with a relevance for each document, begun where harvesting ends."""
    begin = harvest(trust=trust, reference=reference)

    def fit(cells: Cells, start: Estimate | None) -> Estimate:
        tolerance = 1e-7 if start is None else 1e-6
        if start is None:
            try:
                model = begin(cells, None)[0].widest(through_zero=not trust)
                values = best_relevance(*cells[:2], model.alpha, model.beta)
                start = estimate_near(cells, model, values, trust=trust)
            except InputError:  # too few clicks to compare: begin anywhere
                start = first_estimate(cells, PerDocument(), trust=trust)
        return expectation_maximisation(cells, PerDocument(), start, tolerance=tolerance)

    return lambda cells, folds: _repeat(fit, cells, folds, reference, progress)


def em_by_features(features: npt.ArrayLike, *, trust: bool, reference: int) -> Fit:
    """EM with relevance by features; parts are left out by one step of Fisher scoring."""
    x = standardised(features)

    def fit(cells: Cells, start: Estimate | None) -> Estimate:
        relevance: Relevance = Logistic(x, cells)
        start = start or first_estimate(cells, relevance, trust=trust)
        return expectation_maximisation(cells, relevance, start, tolerance=1e-6)

    def fit_all(cells: Cells, folds: Folds | None) -> tuple[Canonical, LeftOut | None]:
        estimate = fit(cells, None)
        whole = _canonical(estimate, cells, reference)
        if folds is None:
            return whole, None
        values = Logistic(x, cells).values(estimate.parameters)
        part = np.asarray(folds.of_document)
        without = estimates_without(estimate, x, values, cells, part, folds.count)
        return whole, _left_out(without, cells, folds, reference)

    return fit_all


def _left_out(without: Sequence[Estimate], cells: Cells, folds: Folds, reference: int) -> LeftOut:
    """Canonical forms without each part; NaN where there is none, and the caller says so."""
    slope, intercept = np.full((2, folds.count, cells.shown.shape[1]), np.nan)
    for part, estimate in enumerate(without):
        rest = cells._replace(weight=cells.weight * (folds.of_document != part))
        try:
            form = _canonical(estimate, rest, reference)
        except InputError:
            continue
        slope[part], intercept[part] = form.slope, form.intercept
    return LeftOut(slope, intercept)


def _repeat(
    fit: Callable[[Cells, Estimate | None], Estimate],
    cells: Cells,
    folds: Folds | None,
    reference: int,
    progress: bool | None,
) -> tuple[Canonical, LeftOut | None]:
    """The fit, and the fits without each part, which begin where it ended."""
    estimate = fit(cells, None)
    whole = _canonical(estimate, cells, reference)
    if folds is None:
        return whole, None
    slope, intercept = np.full((2, folds.count, whole.ranks), np.nan)
    with bar("Leaving out parts of the log", folds.count, show=progress) as advance:
        for part in range(folds.count):
            rest = cells._replace(weight=cells.weight * (folds.of_document != part))
            try:
                without = _canonical(fit(rest, estimate), rest, reference)
                slope[part], intercept[part] = without.slope, without.intercept
            except InputError:
                pass  # stays NaN: the caller says so
            advance()
    return whole, LeftOut(slope, intercept)


def _canonical(estimate: Estimate, cells: Cells, reference: int) -> Canonical:
    """Slopes and intercepts of an estimate; NaN at ranks that were never shown."""
    alpha = estimate.relevant - estimate.other
    base = reference - 1
    if alpha[base] <= 0:
        raise InputError(f"clicks at rank {reference} do not vary with relevance: choose another.")
    shown = cells.weight @ cells.shown > 0
    slope = np.where(shown, alpha / alpha[base], np.nan)
    return Canonical(slope, estimate.other - slope * estimate.other[base])
