"""Fit a click model by the best way that the log allows, and say which and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from saferank._core.flat import Array
from saferank.clicks import FittedBias, KnownPolicy, fit_position_bias, fit_trust_bias
from saferank.clicks.bias.harvest_trust import LEAST_SHOWN
from saferank.clicks.bias.identifiability import WEAK_LINK, Identifiability, identifiability
from saferank.counts import Counts
from saferank.data import RankingData, Scaling
from saferank.errors import InputError, require
from saferank.learning.like_features import like_documents
from saferank.learning.predicting import cross_fitted, default_scorer
from saferank.policies.known_production import known_policy

FITS = {"trust": fit_trust_bias, "position": fit_position_bias}


def fit_bias(
    counts: Counts,
    data: RankingData | None = None,
    *,
    kind: str = "trust",
    policy: str = "auto",
    method: str | None = None,
    scorer: str | None = None,
    reference: int = 1,
    folds: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> FittedBias:
    """Fit trust or position bias to counts, comparing ranks in the way that the log allows.

    Documents seen at several ranks come first, as they need nothing else; then a policy of
    production that is known, which is enough where every list was seen once; then documents with
    like features.

    Parameters
    ----------
    counts : of the documents of `data`, where it is given. Sessions to judge by are left out.
    data : items, whose features describe relevance and whose production score may have been
        drawn from.
    kind : "trust" or "position".
    policy : what is known of production's policy (`saferank.policies.SAID`): naming one takes that
        way; "auto" takes it where the log confirms a policy and documents do not tell as well.
    method : "harvest" or "em" to insist on documents; with `data` "matching" to insist on like
        documents, or "em" on a logistic model of relevance.
    scorer : predicts relevance by features; by default trees where LightGBM is installed (for like
        documents: if they predict better than a linear one).
    reference, folds, seed, progress : as of `saferank.clicks.fit_position_bias`.

    Returns
    -------
    FittedBias
        With `route` and `why`.

    Raises
    ------
    InputError
        If no way is open; the message says what can be done.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shown = np.eye(3, dtype=int)[np.argsort(rng.random((4000, 3)))].reshape(-1, 3)
    >>> clicks = (rng.random(shown.shape) < [0.4, 0.2, 0.1]) * shown
    >>> once = Counts(np.arange(4001) * 3, shown, clicks)
    >>> fit = fit_bias(once, kind="position", policy="uniform")
    >>> fit.route, bool(abs(fit.canonical.slope[1] - 0.5) < 0.05)
    ('policy', True)
    """
    require(kind in FITS, "kind", f"one of {', '.join(FITS)}", kind)
    options: dict[str, Any] = {
        "reference": reference, "folds": folds, "seed": seed, "progress": progress,
    }  # fmt: skip
    ways = _Ways(counts, data, kind, policy, scorer, reference, seed)
    return FITS[kind](counts, **ways.insisted(method) if method else ways.chosen(), **options)


@dataclass(frozen=True, eq=False)
class _Ways:
    """The ways to compare ranks, as arguments of the fits."""

    counts: Counts
    data: RankingData | None
    kind: str
    policy: str
    scorer: str | None
    reference: int
    seed: int

    def insisted(self, method: str) -> dict[str, Any]:
        """By the method that was asked for."""
        if method == "policy":
            return self._by_policy(self._known(), "")
        if method == "em" and self.data is not None:
            return {"method": method, "features": _encoded(self.data)}
        if method == "matching":
            return self._by_features("")
        return {"method": method}

    def chosen(self) -> dict[str, Any]:
        """The first way that is open, and why it was taken."""
        if self.policy not in ("auto", "none"):
            return self._by_policy(self._known(), "")
        links = self._links()
        weakest = links.weakest
        if links.identified and (weakest is None or weakest[2] >= WEAK_LINK):
            return {}
        policy = self._known()
        if policy is not None and (self.kind == "position" or self._describes()):
            return self._by_policy(policy, _few(links))
        if links.identified:
            return {}
        if self._describes():
            return self._by_features(links.finding)
        raise InputError(links.verdict)

    def _by_features(self, why: str) -> dict[str, Any]:
        if self.data is None or not self._describes():
            raise InputError("`--items` must be given for like documents: features tell them.")
        like = like_documents(
            self.data, self.counts.part("learn"), scorer=self.scorer, reference=self.reference,
            seed=self.seed,
        )  # fmt: skip
        return {"like": like, "why": why}

    def _describes(self) -> bool:
        return self.data is not None and self.data.width > 0

    def _links(self) -> Identifiability:
        least = LEAST_SHOWN if self.kind == "trust" else 1
        return identifiability(self.counts.part("learn"), least=least)

    def _known(self) -> KnownPolicy | None:
        if self.data is None:
            return known_policy(self.counts, None, self.policy)
        return known_policy(
            self.counts, self.data.production, self.policy, features=self.data.features
        )

    def _by_policy(self, policy: KnownPolicy | None, few: str) -> dict[str, Any]:
        if policy is None:
            raise InputError(
                "production's policy is not known: say that lists were in random order (--policy "
                "uniform), or count with recorded propensities (--column propensity=NAME)."
            )
        if not self._describes():
            return {"policy": replace(policy, why=f"{few}{policy.why}")}
        assert self.data is not None
        name = self.scorer or default_scorer()
        learn = self.counts.part("learn")
        predicted = cross_fitted(self.data, learn, scorer=name, units=learn.cluster, seed=self.seed)
        why = (
            f"{few}{policy.why} Relevance is predicted by features ({name}, cross-fitted), and "
            "differs between ranks by no more than chance."
        )
        return {"policy": replace(policy, why=why, predicted=predicted)}


def _few(links: Identifiability) -> str:
    if links.identified:
        return "Documents seen at several ranks link them only weakly. "
    return "Documents seen at several ranks do not link all of them. "


def _encoded(data: RankingData) -> Array:
    """Features with gaps filled in and marked, and categories in columns."""
    features: Array = Scaling.fit(data, "none", encode=True).apply(data).features
    return features
