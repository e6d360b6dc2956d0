"""Errors and 95 % intervals of a fitted click model, from fits without parts of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks.bias.folds import Folds
from saferank.clicks.bias.scale import Canonical, LeftOut
from saferank.clicks.models import ClickModel
from saferank.errors import InputError


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Errors (one value per rank) and 95 % intervals (rank x 2); NaN where they are not known.

    Slopes are positive, so their intervals are made for logarithms. The errors of alpha and beta
    are those on the scale of the fitted model: where the scale sets a value, it has no error.
    """

    slope_error: Floats
    intercept_error: Floats
    level_error: Floats
    alpha_error: Floats
    beta_error: Floats
    slope: Floats
    intercept: Floats
    level: Floats
    parts: int = 0
    unit: str = "queries"
    freedom: float = 0.0

    @classmethod
    def unknown(cls, ranks: int) -> Uncertainty:
        """Nothing is known of the errors."""
        error, pair = np.full(ranks, np.nan), np.full((ranks, 2), np.nan)
        return cls(error, error, error, error, error, pair, pair, pair)

    @property
    def known(self) -> bool:
        """Whether there are intervals."""
        return self.parts > 0

    @property
    def sentence(self) -> str:
        """How the intervals were made."""
        if not self.known:
            return "There are no intervals: nothing was left out of the fit."
        said = f"95 % intervals: fits that leave out one of {self.parts} parts of the {self.unit}"
        if self.unit != "documents":
            return f"{said}."
        return (
            f"{said} (a few queries have most of the sessions, so that clicks of one session are "
            "taken as independent)."
        )

    def to_dict(self) -> dict[str, Any]:
        """How the intervals were made, for JSON."""
        return {"parts": self.parts, "of": self.unit, "degrees_of_freedom": self.freedom}


def uncertainty(
    estimate: Canonical, left_out: LeftOut, folds: Folds, level_at: float, *, trust: bool
) -> Uncertainty:
    """Errors and intervals; `InputError` if the fit cannot do without some part of the log."""
    shown = np.isfinite(estimate.slope)
    lost = np.flatnonzero(~np.isfinite(left_out.slope[:, shown]).all(axis=1))
    if lost.size:
        raise InputError(
            f"the click model cannot be told with any certainty: without one of {folds.count} "
            f"parts of the {folds.unit} it cannot be fitted (so for {lost.size} of them); take "
            "more sessions, count fewer ranks, or let features describe relevance."
        )
    reach = folds.reach()
    models = [_model(slope, intercept, trust) for slope, intercept in zip(*left_out, strict=True)]
    centre = _model(estimate.slope, estimate.intercept, trust)
    with np.errstate(invalid="ignore"):
        logs = folds.error(np.log(estimate.slope), np.log(left_out.slope))
    level = estimate.level(level_at)
    intercept_error = folds.error(estimate.intercept, left_out.intercept)
    level_error = folds.error(level, left_out.slope * level_at + left_out.intercept)
    sides = np.array([-reach, reach])
    return Uncertainty(
        slope_error=folds.error(estimate.slope, left_out.slope),
        intercept_error=intercept_error,
        level_error=level_error,
        alpha_error=folds.error(centre[0], np.array([alpha for alpha, _ in models])),
        beta_error=folds.error(centre[1], np.array([beta for _, beta in models])),
        slope=estimate.slope[:, None] * np.exp(logs[:, None] * sides),
        intercept=estimate.intercept[:, None] + intercept_error[:, None] * sides,
        level=_between(level, left_out.slope * level_at + left_out.intercept, folds),
        parts=folds.count,
        unit=folds.unit,
        freedom=folds.freedom,
    )


def _between(level: Floats, left_out: Floats, folds: Folds) -> Floats:
    """Intervals of click rates, for logarithms where all are positive, since rates are skewed."""
    sides = folds.reach() * np.array([-1.0, 1.0])
    positive = np.isfinite(level) & (level > 0) & (left_out > 0).all(axis=0)
    safe = np.where(positive, level, 1.0), np.where(positive, left_out, 1.0)
    ratio = np.exp(folds.error(np.log(safe[0]), np.log(safe[1]))[:, None] * sides)
    plain = level[:, None] + folds.error(level, left_out)[:, None] * sides
    return np.clip(np.where(positive[:, None], level[:, None] * ratio, plain), 0.0, 1.0)


def _model(slope: Floats, intercept: Floats, trust: bool) -> tuple[Floats, Floats]:
    """Alpha and beta on the widest scale; NaN where there is none."""
    try:
        model: ClickModel = Canonical(slope, intercept).widest(through_zero=not trust)
    except InputError:
        unknown = np.full(slope.size, np.nan)
        return unknown, unknown
    return model.alpha, model.beta
