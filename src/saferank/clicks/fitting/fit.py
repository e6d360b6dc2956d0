"""Fitting click models to counts: position bias or trust bias, with errors and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from saferank import flat
from saferank.clicks.fitting.em import (
    Cells,
    Estimate,
    PerDocument,
    estimate_near,
    expectation_maximisation,
    first_estimate,
)
from saferank.clicks.fitting.features import Logistic, standardised
from saferank.clicks.fitting.harvest import (
    harvest_position,
    harvest_trust,
    position_pairs,
    trust_pairs,
)
from saferank.clicks.fitting.misfit import Misfit, best_relevance, misfit
from saferank.clicks.fitting.scale import Canonical
from saferank.clicks.identifiability import Identifiability, identifiability
from saferank.clicks.models import ClickModel
from saferank.errors import InputError, require
from saferank.files import write_json
from saferank.flat import Array, Floats, Ints
from saferank.logs import Counts
from saferank.progress import bar
from saferank.seeds import generator

Method = Literal["em", "harvest"]
METHODS = ("em", "harvest")
_Fit = Callable[[Floats], Canonical]


@dataclass(frozen=True, eq=False)
class FittedBias:
    """A click model fitted to counts, on the scale that clicks identify and on one that is usable.

    `canonical` is what the log tells: click probability at each rank from that at `reference`.
    `model` is the same with the widest range of relevance (see `Canonical.widest`); another range
    is `canonical.model(low, high)`. Errors are standard errors by bootstrap over queries (NaN
    without).
    """

    kind: str
    method: str
    reference: int
    model: ClickModel
    canonical: Canonical
    slope_error: Floats
    intercept_error: Floats
    alpha_error: Floats
    beta_error: Floats
    relevance: Floats
    """Of each document on the scale of `model`; NaN where it was never shown."""
    misfit: Misfit
    identifiability: Identifiability

    def record(self) -> dict[str, Any]:
        """The fit for JSON; `ClickModel.load` reads it as a click model."""
        return {
            **self.model.record(),
            "alpha_error": _finite(self.alpha_error),
            "beta_error": _finite(self.beta_error),
            "canonical": {
                "reference": self.reference,
                "slope": _finite(self.canonical.slope),
                "slope_error": _finite(self.slope_error),
                "intercept": _finite(self.canonical.intercept),
                "intercept_error": _finite(self.intercept_error),
            },
            "kind": self.kind,
            "method": self.method,
            "converged": self.canonical.converged,
            "misfit": self.misfit.record(),
            "identifiability": self.identifiability.record(),
        }

    def save(self, path: str | Path) -> None:
        """Write the fit as JSON (`bias.json`)."""
        write_json(Path(path), self.record())


def fit_position_bias(
    counts: Counts,
    *,
    method: Method | None = None,
    features: npt.ArrayLike | None = None,
    reference: int = 1,
    bootstrap: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> FittedBias:
    r"""Fit :math:`P(C) = \alpha_k R`; only ratios of alphas are identified: the largest is made 1.

    `method="harvest"` compares click rates of documents seen at several ranks; it fits no relevance
    and so is not misled by documents that were shown rarely. `"em"` fits a relevance for each
    document or, with `features`, a logistic model of them. By default EM is used with features,
    harvesting without.
    """
    method = method or ("harvest" if features is None else "em")
    options = _Options("position", method, reference, bootstrap, seed, progress)
    return _fit(counts, features, options)


def fit_trust_bias(
    counts: Counts,
    *,
    method: Method | None = None,
    features: npt.ArrayLike | None = None,
    reference: int = 1,
    bootstrap: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> FittedBias:
    r"""Fit :math:`P(C) = \alpha_k R + \beta_k`, which is identified up to an affine map of R.

    The canonical form does not depend on that map; `model` has the widest range of R. Options are
    those of `fit_position_bias`.
    """
    method = method or ("harvest" if features is None else "em")
    options = _Options("trust", method, reference, bootstrap, seed, progress)
    return _fit(counts, features, options)


@dataclass(frozen=True)
class _Options:
    kind: str
    method: str
    reference: int
    bootstrap: int
    seed: int
    progress: bool | None

    @property
    def trust(self) -> bool:
        return self.kind == "trust"

    def check(self, counts: Counts, links: Identifiability, by_features: bool) -> None:
        """`InputError` unless the counts can be fitted this way."""
        require(self.method in METHODS, "method", f"one of {METHODS}", self.method)
        sane = not by_features or self.method == "em"
        require(sane, "method", "em where features describe relevance", self.method)
        require(self.bootstrap >= 0, "bootstrap", "at least 0", self.bootstrap)
        require(bool(links.shown), "counts", "of some impressions", repr(counts))
        shown = self.reference in links.shown
        require(shown, "reference", f"one of the ranks shown, {links.shown}", self.reference)
        require(bool(counts.clicks.any()), "counts", "of some clicks", repr(counts))
        if not links.identified and not by_features:
            raise InputError(links.verdict)


def _fit(counts: Counts, features: npt.ArrayLike | None, options: _Options) -> FittedBias:
    links = identifiability(counts)
    options.check(counts, links, features is not None)
    documents = np.flatnonzero(counts.impressions.any(axis=1))
    cells = Cells(
        counts.impressions[documents].astype(np.float64),
        counts.clicks[documents].astype(np.float64),
        np.ones(documents.size),
    )
    fit = _harvester(counts, options)
    if options.method == "em":
        query = flat.query_of(counts.offsets)[documents]
        if features is None:
            fit = _by_document(cells, query, fit, options)
        else:
            x = _matching(features, counts.documents)[documents]
            fit = _by_features(cells, query, x, options)
    found = fit(np.ones(counts.queries))
    model = found.widest(through_zero=not options.trust)
    relevance = np.full(counts.documents, np.nan)
    relevance[documents] = best_relevance(*cells[:2], model.alpha, model.beta)
    errors = _bootstrap(fit, counts.queries, options)
    return FittedBias(
        kind=options.kind,
        method=options.method,
        reference=options.reference,
        model=model,
        canonical=found,
        slope_error=errors[0],
        intercept_error=errors[1],
        alpha_error=errors[2],
        beta_error=errors[3],
        relevance=relevance,
        misfit=misfit(*cells[:2], model, seed=options.seed),
        identifiability=links,
    )


def _harvester(counts: Counts, options: _Options) -> _Fit:
    pairs = trust_pairs(counts) if options.trust else position_pairs(counts)
    combine = harvest_trust if options.trust else harvest_position
    return lambda weight: combine(pairs, weight, counts.ranks, options.reference)


def _matching(features: npt.ArrayLike, documents: int) -> Array:
    given = np.asarray(features)
    require(given.shape[:1] == (documents,), "features", f"{documents} rows", given.shape)
    return given


def _by_document(cells: Cells, query: Ints, harvest: _Fit, options: _Options) -> _Fit:
    """EM with a relevance for each document, begun where harvesting ends."""

    def fit(weight: Floats) -> Canonical:
        weighted, relevance = cells._replace(weight=weight[query]), PerDocument()
        try:
            model = harvest(weight).widest(through_zero=not options.trust)
            values = best_relevance(*cells[:2], model.alpha, model.beta)
            start = estimate_near(weighted, model, values, trust=options.trust)
        except InputError:  # too few clicks to compare: begin anywhere
            start = first_estimate(weighted, relevance, trust=options.trust)
        found = expectation_maximisation(weighted, relevance, start)
        return _canonical(*found, weighted, options.reference)

    return fit


def _by_features(cells: Cells, query: Ints, features: Array, options: _Options) -> _Fit:
    """EM with relevance by features; fits with other weights begin where the first one ended."""
    x = standardised(features)
    relevance = Logistic(x, cells)
    start = first_estimate(cells, relevance, trust=options.trust)
    best, _ = expectation_maximisation(cells, relevance, start, tolerance=1e-6)

    def fit(weight: Floats) -> Canonical:
        weighted = cells._replace(weight=weight[query])
        relevance = Logistic(x, weighted)
        found = expectation_maximisation(weighted, relevance, best, tolerance=1e-6)
        return _canonical(*found, weighted, options.reference)

    return fit


def _canonical(estimate: Estimate, converged: bool, cells: Cells, reference: int) -> Canonical:
    """Slopes and intercepts of an estimate; NaN at ranks that were never shown."""
    alpha = estimate.relevant - estimate.other
    base = reference - 1
    if alpha[base] <= 0:
        raise InputError(f"clicks at rank {reference} do not vary with relevance: choose another.")
    shown = cells.weight @ cells.shown > 0
    slope = np.where(shown, alpha / alpha[base], np.nan)
    return Canonical(slope, estimate.other - slope * estimate.other[base], converged)


def _bootstrap(fit: _Fit, queries: int, options: _Options) -> list[Floats]:
    """Standard errors of slopes, intercepts, alphas and betas: the fit of resampled queries.

    Where a tenth of the samples or more cannot be fitted, errors are unknown: NaN.
    """
    rng = generator(options.seed, "bootstrap")
    fits = []
    with bar("Bootstrap", options.bootstrap, show=options.progress) as advance:
        for _ in range(options.bootstrap):
            drawn = rng.multinomial(queries, np.full(queries, 1 / queries)).astype(np.float64)
            try:
                found = fit(drawn)
                model = found.widest(through_zero=not options.trust)
            except InputError:
                continue
            finally:
                advance()
            fits.append([found.slope, found.intercept, model.alpha, model.beta])
    if len(fits) < max(2, 0.9 * options.bootstrap):
        unknown = np.full(fit(np.ones(queries)).ranks, np.nan)
        return [unknown] * 4
    return list(np.std(np.array(fits), axis=0, ddof=1))


def _finite(values: Floats) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
