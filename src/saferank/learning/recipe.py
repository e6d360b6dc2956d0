"""The methods by name. A method is a composition: gain x objective x scorer; none has code here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats
from saferank._core.names import part_name
from saferank.clicks import ClickModel
from saferank.errors import InputError, require
from saferank.estimators.estimator_table import EstimatorLike, estimator_of
from saferank.estimators.regression import LOSSES
from saferank.learning.descent import Settings
from saferank.learning.families import SCORERS
from saferank.metrics import dcg_weights
from saferank.objectives.fair_goals import Fairness
from saferank.objectives.objective_table import ObjectiveLike, objective_entry
from saferank.objectives.schedules import Schedule, schedule
from saferank.plackett_luce import GRADIENTS
from saferank.scorers.networks import ModuleFactory

FLOORED = ("keep", "prpo-floor")
"""Objectives that hold every document up, so that a promise to keep a share can be learned."""
LEARNED_FLOOR = 0.5
"""The floor of learning under a promise, if that is higher. What is learned is taken back towards
production until it keeps the promise, which scales every fall alike; with a floor close to
production the first step would break it already, and the start would be all that is learned."""

STARTS = ("production", "sharpened", "add", "scratch")


def check_rank_weights(weights: npt.ArrayLike) -> Floats:
    """Weights of the ranks as float64, finite and at least 0, or `InputError`."""
    vector = np.asarray(weights, dtype=np.float64)
    sane = vector.ndim == 1 and vector.size > 0 and bool(np.isfinite(vector).all())
    require(sane and bool((vector >= 0).all()), "weights", "finite and at least 0", vector)
    return vector


@dataclass(frozen=True)
class Recipe:
    """The parts of a method: names, or values of your own.

    `gain` is an estimator: a name of `estimators.ESTIMATORS`, an `Estimator`, or a function from
    `Evidence` to one value per document. `objective` is a name of `objectives.OBJECTIVES`, or a
    function from what is known of the log (`Context`) to an `Objective`.

    Examples
    --------
    >>> Recipe("dr", "prpo", delta="100/N").objective
    'prpo'
    """

    gain: EstimatorLike
    """The estimator of relevance."""
    objective: ObjectiveLike
    """What is maximised."""
    scorer: str | ModuleFactory = "mlp"
    """"linear", "mlp", "trees", or a function from the number of features to a torch module."""
    delta: str | float | Schedule | None = None
    """None: the objective's own."""
    weights: str | Sequence[float] | Floats = "clicks"
    """Of the ranks: clicks (alpha + beta), examination (alpha), dcg, precision, or a vector."""
    start: Literal["production", "sharpened", "add", "scratch"] = "scratch"
    """From production's model (or a fit to its scores), from the same with scores multiplied as far
    as the log warrants it (where delta is 1, so that a safe objective cannot move), as a correction
    added to production's scores, or from random parameters."""
    scaling: str | None = None
    """None: the scorer's own (log1p for networks; trees take features as they are)."""
    regression: str = "posterior"
    """The loss of the regression behind DM and DR: a name of `estimators.regression.LOSSES`."""
    propensities: Literal["exact", "averaged"] = "exact"
    """In training: of production's scores where they are known, or the log's averages; in
    validation, where nothing is clipped, always the latter."""
    gradient: str = "exact"
    """A name of `plackett_luce.GRADIENTS`."""
    samples: int = 1000
    """Drawn rankings, for sampled gradients and the action-level baselines."""
    k: int = 5
    """Ranks, where no click model says how many."""
    keep: float | None = None
    """A promise to learn with: the share of production's utility that every query keeps."""
    slack: float | None = None
    """What a query may lose beside, as a share of its largest utility; None: 0.01 with `keep`."""
    fairness: str | None = None
    """A term of `objectives.fairness.TERMS` that the objective is to keep low."""
    fairness_weight: float = 0.1
    """What one unit of it costs."""
    fairness_over: Literal["queries", "traffic"] = "queries"
    """Whether exposure is to be fair within each query, or by group over all traffic."""
    settings: Settings = field(default_factory=Settings)
    """How the scorer is trained."""

    def __post_init__(self) -> None:
        for name, table in (
            ("regression", list(LOSSES)),
            ("gradient", list(GRADIENTS)),
            ("start", STARTS),
            ("propensities", ("exact", "averaged")),
        ):
            value = getattr(self, name)
            require(value in table, name, f"one of {', '.join(table)}", value)
        estimator_of(self.gain)
        objective_entry(self.objective)
        if isinstance(self.scorer, str):
            require(self.scorer in SCORERS, "scorer", f"one of {', '.join(SCORERS)}", self.scorer)
        self.fair()
        if self.keep is not None:
            require(0 < self.keep <= 1, "keep", "in (0, 1]", self.keep)
        if self.slack is not None:
            require(0 <= self.slack <= 1, "slack", "in [0, 1]", self.slack)

    def replace(self, **changes: Any) -> Recipe:
        """The recipe with other parts; a promise to keep a share sets the floor."""
        names = {part.name for part in fields(self)}
        unknown = sorted(set(changes) - names)
        require(not unknown, "options", f"among {', '.join(sorted(names))}", unknown)
        recipe = replace(self, **changes)
        return recipe if recipe.keep is None else recipe._promising("start" in changes)

    def _promising(self, start_given: bool) -> Recipe:
        floored = self.objective in FLOORED
        rule = f"used with {' or '.join(FLOORED)}, as no other objective has a floor"
        require(floored, "keep", rule, self.objective)
        assert self.keep is not None
        floor = min(self.keep, LEARNED_FLOOR)
        unset = self.delta in (None, floor)
        require(unset, "delta", f"left out, as `keep` sets it to {floor}", self.delta)
        away = self.start == "sharpened" or (start_given and self.start == "scratch")
        require(not away, "start", "production or add with `keep`", self.start)
        return replace(
            self,
            delta=floor,
            slack=0.01 if self.slack is None else self.slack,
            start="production" if self.start == "scratch" else self.start,
        )

    def fair(self) -> Fairness | None:
        """The fairness term, where there is one."""
        if self.fairness is None:
            return None
        return Fairness(self.fairness, self.fairness_weight, self.fairness_over)

    def delta_at(self, sessions: int) -> float:
        """The delta for so many sessions: its own, or the objective's."""
        given = objective_entry(self.objective).delta if self.delta is None else self.delta
        return schedule(given)(sessions)

    def rank_weights(self, click_model: ClickModel | None) -> Floats:
        """The weight of each rank."""
        if not isinstance(self.weights, str):
            vector = check_rank_weights(self.weights)
            # ranks beyond those that are weighed count nothing
            beyond = 0 if click_model is None else max(0, click_model.ranks - vector.size)
            return np.pad(vector, (0, beyond))
        ranks = self.k if click_model is None else click_model.ranks
        if self.weights == "dcg" or (click_model is None and self.weights == "clicks"):
            return dcg_weights(ranks)
        if self.weights == "precision":
            return np.full(ranks, 1 / ranks)
        if click_model is None or self.weights not in ("clicks", "examination"):
            raise InputError(
                "`weights` must be clicks, examination (both with a click model), dcg, precision "
                f"or a vector; got {self.weights!r}."
            )
        return (
            click_model.alpha + click_model.beta
            if self.weights == "clicks"
            else click_model.alpha.copy()
        )

    def to_dict(self) -> dict[str, Any]:
        """The recipe for JSON; callables by their names."""
        plain: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        for name in ("gain", "objective", "scorer", "delta"):
            if not isinstance(plain[name], str | float | int | None):
                plain[name] = f"callable {part_name(plain[name])}"
        if not isinstance(self.weights, str):
            plain["weights"] = np.asarray(self.weights, dtype=np.float64).tolist()
        plain["settings"] = {p.name: getattr(self.settings, p.name) for p in fields(self.settings)}
        plain["settings"]["hidden"] = list(self.settings.hidden)
        return plain


def check_method(name: str) -> None:
    """Refuse a name that is no method's."""
    require(name in METHODS, "method", f"one of {', '.join(METHODS)}", name)


def recipe_of(method: str | Recipe | None, changes: dict[str, Any]) -> tuple[str, Recipe]:
    """A method's name and recipe, with changes; a recipe of one's own is named by its parts."""
    if isinstance(method, Recipe):
        recipe = method.replace(**changes)
        parts = (recipe.gain, recipe.objective)
        return " x ".join(
            part if isinstance(part, str) else part_name(part) for part in parts
        ), recipe
    name = default_method(changes.get("keep")) if method is None else method
    check_method(name)
    return name, METHODS[name].replace(**changes)


def default_method(keep: float | None) -> str:
    """The method where none is named: PRPO, or with a promise the one that is made for it."""
    return "prpo" if keep is None else "keep"


METHODS: dict[str, Recipe] = {
    "naive": Recipe("naive", "utility"),
    "ips": Recipe("affine-ips", "utility"),
    "bayes-ips": Recipe("bayes-ips", "utility"),
    "dm": Recipe("dm", "utility"),
    "dr": Recipe("dr", "utility"),
    "safe-ips": Recipe("affine-ips", "safe-ips", weights="examination", start="production"),
    "safe-dr": Recipe("dr", "safe-dr", start="production"),
    "prpo": Recipe("dr", "prpo", start="production"),
    "prpo-sharpened": Recipe("dr", "prpo", start="sharpened"),
    "prpo-ips": Recipe("affine-ips", "prpo", start="production"),
    "prpo-lift": Recipe("dr", "prpo-lift", start="production"),
    "prpo-floor": Recipe("dr", "prpo-floor", start="production"),
    "keep": Recipe("dr", "keep", start="production"),
    "evidence": Recipe("evidence-dr", "prpo", delta="30/N", start="production"),
    "lambda": Recipe("dr", "lambda"),
    "lambda-prpo": Recipe("dr", "lambda-prpo", start="production"),
    "ppo": Recipe("dr", "ppo", start="production", samples=100),
    "crm": Recipe("affine-ips", "crm", start="production", samples=100),
    "vcrm": Recipe("affine-ips", "vcrm", start="production", samples=100),
    "skyline": Recipe("labels", "utility"),
}
