r"""A promise graded by doubt: the share of production's utility that is certain at each doubt.

The doubt says how far each :math:`\alpha_k, \beta_k` of the click model may be from its fitted
value. Shares :math:`\kappa` are tested upwards by the bound of `saferank.evaluation.doubted_loss`,
each with click weights of its own that were chosen before the clicks to judge by are seen, until
the first failure: so all that is certified holds at once, with the stated confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank.errors import require
from saferank.evaluation.bias_set import BiasSet
from saferank.evaluation.document_weights import Multipliers
from saferank.evaluation.doubted_loss import DoubtedLoss

DOUBTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0)
"""Where the curve is computed."""
STEP = 0.01
"""Doubts between these are rounded up to whole steps."""
SHARES = (0.3, 0.6, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5, 3, 4)
"""Shares of production's utility that are tested in turn."""
NEAR, LOOKS = 1 / 64, 6
"""How near to its crossing a bound is looked for between two shares, and how often at most."""


@dataclass(frozen=True)
class DoubtCurve:
    """The share of production's utility that is certain at each doubt, with the same confidence."""

    doubts: tuple[float, ...]
    shares: tuple[float, ...]
    unbounded: float
    """The share that needs no click model: for any user behaviour, on these queries."""
    stated: float
    """The doubt that was asked for; `share` is what is certain with it."""
    share: float
    wanted: float
    breakdown: float | None
    """The largest doubt (at most 1) at which `wanted` is certain; None where it is not even if the
    click model is right."""
    slack: float
    confidence: float
    method: str
    per_document: bool = False

    @property
    def holds(self) -> bool:
        """Whether the wanted share is certain with the stated doubt."""
        return self.share >= self.wanted

    @property
    def for_any_users(self) -> bool:
        """Whether the wanted share needs no click model at all."""
        return self.unbounded >= self.wanted

    def to_dict(self) -> dict[str, Any]:
        """The curve for JSON."""
        return asdict(self)


def doubt_curve(
    loss: DoubtedLoss, *, doubt: float = 0.2, wanted: float = 1.0, slack: float = 0.0
) -> DoubtCurve:
    """What share of production's utility is certain if the click model is right to within a doubt.

    Parameters
    ----------
    loss
        What the sessions to judge by say of the loss, with which confidence.
    doubt
        The stated doubt: alpha and beta of each rank lie within a factor of 1 +- doubt.
    wanted
        The share that a breakdown is looked for.
    slack
        Loss that is let pass, as a share of the largest utility; 0 for a plain promise.

    Returns
    -------
    DoubtCurve
        Shares over doubts, the share at the stated one, and the breakdown.

    Examples
    --------
    >>> import saferank as sr
    >>> from saferank.evaluation import Contrast
    >>> items = sr.data.synthetic("small", queries=60, seed=0).train
    >>> model, scores = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, scores, model, sessions=20_000, seed=0)
    >>> shown = sr.policies.ProductionPolicy.sampled(scores, items.offsets)
    >>> weights = model.exposure_weights
    >>> evidence = sr.estimators.Evidence(
    ...     counts, model, sr.estimators.by_policy(shown, model, weights),
    ...     shown=shown.rank_probabilities(5),
    ... )
    >>> better = sr.plackett_luce.exposure(items.labels, weights, items.offsets)
    >>> contrast = Contrast(better, shown.exposure(weights), evidence)
    >>> curve = doubt_curve(DoubtedLoss(contrast))
    >>> curve.share > 1, curve.breakdown > 0.2, curve.unbounded < 0.5
    (True, True, True)
    """
    require(bool(np.isfinite(doubt)) and doubt >= 0, "doubt", "at least 0", doubt)
    require(0 <= slack < 1, "slack", "in [0, 1)", slack)
    shares = _Shares(loss, slack, wanted)
    return DoubtCurve(
        doubts=DOUBTS,
        shares=tuple(shares.at(each) for each in DOUBTS),
        unbounded=shares.unbounded,
        stated=doubt,
        share=shares.at(doubt),
        wanted=wanted,
        breakdown=shares.breakdown(),
        slack=slack,
        confidence=loss.confidence,
        method=loss.method,
        per_document=loss.per_document,
    )


class _Shares:
    """The largest share that is certain at each doubt; never more at a larger one."""

    def __init__(self, loss: DoubtedLoss, slack: float, wanted: float) -> None:
        self.loss, self.wanted = loss, wanted
        self.allowed = slack * loss.largest
        self.tested = sorted({*map(float, SHARES), wanted})
        self.unbounded = self._unbounded()
        self._certain: dict[float, float] = {}
        self._starts: dict[float, Multipliers] = {}
        # tables of all documents and ranks are taken again: fresh pages cost more than the sums
        self._weights, self._before, self._mixed = (np.empty_like(loss.shown) for _ in range(3))

    def at(self, doubt: float) -> float:
        """What is certain with a doubt, whatever doubts are asked for besides."""
        if doubt > DOUBTS[-1]:
            return self.unbounded
        above = next(number for number, each in enumerate(DOUBTS) if each >= doubt)
        certain = min(map(self._tested, DOUBTS[: above + (DOUBTS[above] == doubt)]))
        if DOUBTS[above] > doubt:
            between = (self._tested(each) for each in _steps(DOUBTS[above - 1], doubt))
            certain = min([certain, *between])
            certain = max(certain, self.at(DOUBTS[above]))
        return max(self.unbounded, certain)

    def breakdown(self) -> float | None:
        """The largest doubt at which the wanted share is certain."""
        failing = [doubt for doubt in DOUBTS if self.at(doubt) < self.wanted]
        if not failing:
            return DOUBTS[-1]
        if failing[0] == 0:
            return None
        low = DOUBTS[DOUBTS.index(failing[0]) - 1]
        for doubt in _steps(low, failing[0] - STEP):
            if self.at(doubt) < self.wanted:
                break
            low = doubt
        return low

    def _tested(self, doubt: float) -> float:
        if doubt not in self._certain:
            self._certain[doubt] = self._test(doubt)
        return self._certain[doubt]

    def _test(self, doubt: float) -> float:
        """Shares upwards until the first that fails, each with weights of its own.

        Between two of them weights lie on the straight line. The bound is convex in share and
        weights together: what holds at both ends holds between them, and where one end fails there
        is one crossing.
        """
        bias = self.loss.bias(doubt)
        start = self._starts.get(max((each for each in DOUBTS if each < doubt), default=-1.0))
        certain, spare = 0.0, -self.allowed
        self._before.fill(0.0)
        for share in self.tested:
            weights, start = self.loss.weights(share, doubt, start, self._weights)
            self._starts.setdefault(doubt, start)
            excess = self.loss.upper(share, bias, weights) - self.allowed
            if excess > 0:
                weights -= self._before
                between = partial(self._between, bias, (certain, share), weights)
                return certain + _crossing(between, spare, excess) * (share - certain)
            certain, spare = share, excess
            self._weights, self._before = self._before, weights
        return certain

    def _between(
        self, bias: BiasSet, shares: tuple[float, float], change: Floats, at: float
    ) -> float:
        """What the bound exceeds on the line from one share's weights, by its change, to others."""
        low, high = shares
        np.multiply(change, at, out=self._mixed)
        self._mixed += self._before
        return self.loss.upper(low + at * (high - low), bias, self._mixed) - self.allowed

    def _unbounded(self) -> float:
        """The share for any user behaviour: of these queries, where production is known exactly."""
        loss, nothing = self.loss, np.zeros_like(self.loss.shown)
        anything = loss.bias(np.inf)

        def passes(kappa: float) -> bool:
            exact = loss.observed is None
            worst = loss.worst(kappa) if exact else loss.upper(kappa, anything, nothing)
            return worst <= self.allowed + 1e-9 * loss.largest

        return 1.0 if passes(1.0) else _largest(passes, 0.0, 1.0, steps=40)


def _steps(low: float, high: float) -> list[float]:
    """Doubts above `low` in whole steps, up to the first that is at least `high`."""
    first, last = round(low / STEP) + 1, int(np.ceil(high / STEP - 1e-9))
    return [number * STEP for number in range(first, last + 1)]


def _largest(passes: Callable[[float], bool], low: float, high: float, *, steps: int) -> float:
    """The largest value that passes, from one that does to one that does not; rather too low."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def _crossing(excess: Callable[[float], float], first: float, last: float) -> float:
    """The largest place in [0, 1] seen at which a convex function is at most 0; rather too low.

    Parameters
    ----------
    excess
        The function.
    first, last
        Its values at 0, which is not positive, and at 1, which is.

    Returns
    -------
    float
        A place that was looked at (or 0), within `NEAR` of the crossing unless it took too long.
    """
    low, high, beyond = (0.0, first), (1.0, last), 1.0
    for _ in range(LOOKS):
        if beyond - low[0] <= NEAR:
            break
        # a chord lies above a convex function between its ends, and below it outside of them;
        # a little below its zero rounding cannot make the function positive
        at = max(_zero(low, high) - NEAR / 8, low[0] + (beyond - low[0]) / 4)
        here = (at, excess(at))
        if here[1] > 0:
            high, beyond = here, min(beyond, at)
        else:
            beyond = min(beyond, _zero(low, here)) if here[1] > low[1] else beyond
            low = here
    return low[0]


def _zero(low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where the line through two points, the second of them higher, is 0."""
    return low[0] - low[1] * (high[0] - low[0]) / (high[1] - low[1])
