"""Fitting click models to counts: position bias or trust bias, with intervals and verdicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.clicks.bias import fit_methods
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.fitted import FittedBias, Route
from saferank.clicks.bias.folds import Folds, make_folds
from saferank.clicks.bias.harvest_trust import LEAST_SHOWN
from saferank.clicks.bias.identifiability import Identifiability, identifiability
from saferank.clicks.bias.known_policy import KnownPolicy, weight_sentence
from saferank.clicks.bias.like_documents import FeatureOverlap, LikeDocuments, group_impressions
from saferank.clicks.bias.misfit import best_relevance, misfit
from saferank.clicks.bias.scale import Canonical
from saferank.clicks.bias.uncertainty import Uncertainty, uncertainty
from saferank.clicks.models import ClickModel
from saferank.counts import Counts
from saferank.errors import InputError, require

Method = Literal["em", "harvest", "policy", "matching"]
METHODS = ("em", "harvest", "policy", "matching")


def fit_position_bias(
    counts: Counts,
    *,
    method: Method | None = None,
    features: npt.ArrayLike | None = None,
    policy: KnownPolicy | None = None,
    like: LikeDocuments | None = None,
    why: str = "",
    reference: int = 1,
    folds: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> FittedBias:
    r"""Fit :math:`P(C) = \alpha_k R`; only ratios of alphas are identified: the largest is made 1.

    Parameters
    ----------
    counts
        Documents must have been seen, and clicked, at several ranks, unless `features` are given.
        Sessions to judge by are left out.
    method
        `"harvest"` compares the clicks of documents seen at several ranks; it fits no relevance and
        so is not misled by documents that were shown rarely. `"em"` fits a relevance for each
        document or, with `features`, a logistic model of them. `"policy"` compares what a known
        `policy` has put at each rank by chance, `"matching"` documents that features say are
        `like`. By default what is given decides: the policy, like documents, EM with features,
        harvesting without any.
    features
        Of shape (documents, features).
    policy
        What production is known to do; every list may then have been seen once.
    like
        What features say of documents (`saferank.learning.like_documents` predicts it).
    why
        Why this way was chosen, in one sentence that is printed with the fit.
    reference
        The rank that others are compared with, from 1.
    folds
        Parts of the log that are left out in turn for errors and intervals; 0 for none.
    seed
        For what chance makes of the misfit.
    progress
        Whether to show a bar; by default where a person looks.

    Returns
    -------
    FittedBias
        The click model, its canonical form, and what the log could tell.

    Raises
    ------
    InputError
        If the counts cannot tell alpha at every rank that was shown; the message says why.

    Examples
    --------
    >>> seen = Counts(range(21), [[40, 40]] * 20, [[20, 10], [10, 5]] * 10)
    >>> fit_position_bias(seen).canonical.slope.round(6)
    array([1. , 0.5])
    """
    how = _How(features, policy, like, why)
    return _fit(
        counts, how, _Options("position", how.method(method), reference, folds, seed, progress)
    )


def fit_trust_bias(
    counts: Counts,
    *,
    method: Method | None = None,
    features: npt.ArrayLike | None = None,
    policy: KnownPolicy | None = None,
    like: LikeDocuments | None = None,
    why: str = "",
    reference: int = 1,
    folds: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> FittedBias:
    r"""Fit :math:`P(C) = \alpha_k R + \beta_k`, which is identified up to an affine map of R.

    The canonical form does not depend on that map; `model` has the widest range of R. Parameters
    are those of `fit_position_bias`; documents must differ in clicks at every rank.

    Parameters
    ----------
    counts
        Sessions to fit to; of counts in parts, those to learn from.
    method
        "harvest", "em", "policy" or "matching"; by default what is given decides.
    features
        One row per document, for the route through features.
    policy
        What production is known to do, for the route through its randomness.
    like
        What features say of documents, for the route through like ones.
    why
        Why this route was taken, in words; kept with the fit.
    reference
        The rank whose click probability the others are told by.
    folds
        Number of groups of queries that are left out in turn for standard errors.
    seed
        For the folds.
    progress
        Whether to show a bar; None: where there is a terminal.

    Returns
    -------
    FittedBias
        `fit.model` is the click model, `fit.canonical` what the log identifies.

    Examples
    --------
    >>> seen = Counts(range(21), [[4000, 4000]] * 20, [[2800, 1200], [1200, 400]] * 10)
    >>> fit = fit_trust_bias(seen)
    >>> fit.canonical.slope.round(2), fit.canonical.intercept.round(2)
    (array([1. , 0.5]), array([ 0.  , -0.05]))
    """
    how = _How(features, policy, like, why)
    return _fit(
        counts, how, _Options("trust", how.method(method), reference, folds, seed, progress)
    )


@dataclass(frozen=True, eq=False)
class _How:
    """What beside the counts tells relevance from rank."""

    features: npt.ArrayLike | None
    policy: KnownPolicy | None
    like: LikeDocuments | None
    why: str

    @property
    def route(self) -> Route:
        if self.policy is not None:
            return "policy"
        return "documents" if self.features is None and self.like is None else "features"

    def reason(self, cells: Cells, query: Ints) -> str:
        """Why ranks are compared in this way, and how well that can be."""
        if self.policy is not None:
            heavy = weight_sentence(cells, self.policy, query)
            return " ".join(filter(None, (self.policy.why, heavy)))
        if self.like is None:
            return self.why
        overlap = FeatureOverlap.of(group_impressions(self.like.place, cells.shown))
        return " ".join(filter(None, (overlap.sentence, self.like.why, self.why)))

    def method(self, given: str | None) -> str:
        """The method that was asked for, if it can be, or the one for what was given."""
        by_features = "em" if self.like is None else "matching"
        default = {"policy": "policy", "features": by_features, "documents": "harvest"}[self.route]
        method = given or default
        require(method in METHODS, "method", f"one of {METHODS}", method)
        sane = self.route != "features" or method == by_features
        require(sane, "method", f"{by_features} where features describe relevance", method)
        same = (method == "policy") == (self.route == "policy")
        require(same, "method", "policy if and only if a policy is given", method)
        has_pairs = method != "matching" or self.like is not None
        require(has_pairs, "method", "matching only where `like` documents are given", method)
        return method

    def rows(self, counts: Counts, documents: Ints) -> _How:
        """The same of some documents."""
        features, policy, like = None, None, None
        if self.features is not None:
            features = np.asarray(self.features)
            rule = f"{counts.documents} rows"
            require(features.shape[:1] == (counts.documents,), "features", rule, features.shape)
            features = features[documents]
        if self.policy is not None:
            shape = self.policy.propensity.shape
            require(shape == counts.impressions.shape, "policy", "of the counts' documents", shape)
            policy = self.policy.rows(documents)
        if self.like is not None:
            size = self.like.place.size
            require(size == counts.documents, "like", f"of {counts.documents} documents", size)
            like = self.like.rows(documents)
        return _How(features, policy, like, self.why)


@dataclass(frozen=True)
class _Options:
    kind: str
    method: str
    reference: int
    folds: int
    seed: int
    progress: bool | None

    @property
    def trust(self) -> bool:
        return self.kind == "trust"

    def check(self, counts: Counts, links: Identifiability, route: Route) -> None:
        """`InputError` unless the counts can be fitted this way."""
        require(self.folds == 0 or self.folds >= 2, "folds", "0 or at least 2", self.folds)
        require(bool(links.shown), "counts", "of some impressions", repr(counts))
        shown = self.reference in links.shown
        require(shown, "reference", f"one of the ranks shown, {links.shown}", self.reference)
        require(bool(counts.clicks.any()), "counts", "of some clicks", repr(counts))
        if route == "documents" and not links.identified:
            raise InputError(links.verdict)

    def fit(self, how: _How, query: Ints) -> fit_methods.Fit:
        """The way to fit."""
        trust, reference, progress = self.trust, self.reference, self.progress
        if how.policy is not None:
            return fit_methods.known_policy(how.policy, query, trust=trust, reference=reference)
        if how.like is not None:
            return fit_methods.like_documents(how.like, trust=trust, reference=reference)
        if self.method == "harvest":
            return fit_methods.harvest(trust=trust, reference=reference)
        if how.features is None:
            return fit_methods.em_by_document(trust=trust, reference=reference, progress=progress)
        return fit_methods.em_by_features(how.features, trust=trust, reference=reference)

    def parts(self, cells: Cells, query: Ints, route: Route, cluster: Ints | None) -> Folds | None:
        """Parts of the log to leave out in turn: of users where they are known, else of queries."""
        if not self.folds:
            return None
        linked = route == "documents"
        if cluster is None:
            return make_folds(cells, query, self.folds, linked=linked)
        user = np.unique(cluster, return_inverse=True)[1][query]
        return make_folds(cells, user, self.folds, linked=linked, unit="users")

    def model(self, canonical: Canonical, shown: tuple[int, ...]) -> ClickModel:
        """The click model of a canonical form that has all the ranks shown."""
        missing = [rank for rank in shown if not np.isfinite(canonical.slope[rank - 1])]
        if missing:
            raise InputError(f"the fit has no finite alpha at rank {missing[0]}, which was shown.")
        return canonical.widest(through_zero=not self.trust)


def _fit(counts: Counts, how: _How, options: _Options) -> FittedBias:
    counts = counts.part("learn")  # what judges a ranker has no part in what it learns by
    # A line through noisy click rates needs a document twice at both of its ranks.
    links = identifiability(counts, least=LEAST_SHOWN if options.trust else 1)
    options.check(counts, links, how.route)
    documents = np.flatnonzero(counts.impressions.any(axis=1))
    cells = Cells(
        counts.impressions[documents].astype(np.float64),
        counts.clicks[documents].astype(np.float64),
        np.ones(documents.size),
    )
    query = flat.query_of(counts.offsets)[documents]
    own = how.rows(counts, documents)
    fit = options.fit(own, query)
    folds = options.parts(cells, query, how.route, counts.cluster)
    canonical, left_out = fit(cells, folds)
    model = options.model(canonical, links.shown)
    level_at = _two_digits(counts, options.reference)
    sure = Uncertainty.unknown(counts.ranks)
    if folds is not None and left_out is not None:
        sure = uncertainty(canonical, left_out, folds, level_at, trust=options.trust)
    relevance = np.full(counts.documents, np.nan)
    relevance[documents] = best_relevance(*cells[:2], model.alpha, model.beta)

    def refit(clicked: Floats) -> ClickModel:
        return options.model(fit(cells._replace(clicked=clicked), None)[0], links.shown)

    # EM comes closer to the clicks than the truth does, so without it the test is only too mild.
    again = refit if options.method == "harvest" else None
    return FittedBias(
        kind=options.kind,
        method=options.method,
        reference=options.reference,
        model=replace(model, feedback=counts.feedback.text),
        canonical=canonical,
        level_at=level_at,
        uncertainty=sure,
        relevance=relevance,
        misfit=misfit(*cells[:2], model, seed=options.seed, refit=again),
        identifiability=links,
        route=how.route,
        why=own.reason(cells, query),
        impressions_per_document=float(cells.shown.sum() / documents.size),
    )


def _two_digits(counts: Counts, reference: int) -> float:
    """Clicks per impression at the reference rank, rounded: it serves as a given number."""
    shown, clicked = (
        table[:, reference - 1].sum() for table in (counts.impressions, counts.clicks)
    )
    return float(f"{clicked / shown:.1e}")
