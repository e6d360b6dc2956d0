r"""Click models by expectation-maximisation: relevance is what is not seen.

A shown document is relevant with probability R_d; a relevant one is clicked with probability
:math:`a_k = \alpha_k + \beta_k`, another with :math:`\beta_k`. Given a click or none, the expected
relevance of each impression follows by Bayes (E); rates and relevances are then shares of these
expectations (M). beta = 0 stays 0: position bias is the same procedure. Steps are extrapolated
(SQUAREM, Varadhan & Roland 2008) whenever that does not lower the likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from saferank._core.flat import Floats
from saferank._core.kernels import kernel, parallel_kernel
from saferank.clicks.models import ClickModel
from saferank.errors import InputError

MOST_STEPS = 3000
_BLOCK = 1 << 14


class Cells(NamedTuple):
    """Impressions and clicks of documents (rows) at ranks, and how often each document counts."""

    shown: Floats
    clicked: Floats
    weight: Floats


class _Expected(NamedTuple):
    """What an E step fills in: of each document, of each block and rank, and of each block."""

    relevant: Floats
    sums: Floats
    likelihood: Floats


class Relevance(Protocol):
    """How relevance is described: by a number a document, or by a model of features."""

    def start(self, cells: Cells) -> Floats:
        """First parameters."""

    def values(self, parameters: Floats) -> Floats:
        """R of each document."""

    def updated(self, parameters: Floats, expected: Floats, cells: Cells) -> Floats:
        """Better parameters, given how many impressions of each document are expected relevant."""

    def allowed(self, parameters: Floats, observed: Floats) -> Floats:
        """The parameters, or, where they cannot be, something between them and `known` ones."""


class PerDocument:
    """Every document has a relevance of its own."""

    def start(self, cells: Cells) -> Floats:
        """The same relevance for all."""
        return np.full(cells.shown.shape[0], 0.5)

    def values(self, parameters: Floats) -> Floats:
        """The parameters are the relevances."""
        return parameters

    def updated(self, parameters: Floats, expected: Floats, cells: Cells) -> Floats:
        """The share of impressions that are expected to be relevant."""
        del parameters
        share: Floats = expected / cells.shown.sum(axis=1)
        return share

    def allowed(self, parameters: Floats, observed: Floats) -> Floats:
        """Relevances are probabilities."""
        return inside(parameters, observed)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Click rates of relevant documents and of others at each rank, and relevance parameters."""

    relevant: Floats
    other: Floats
    parameters: Floats

    @property
    def ranks(self) -> int:
        """K, the number of ranks."""
        return int(self.relevant.size)

    @property
    def rates(self) -> Floats:
        """The click rates, of relevant documents first."""
        return np.concatenate([self.relevant, self.other])

    def lines(self, base: int) -> Floats:
        """How click rates at each rank follow from those at `base`: slopes, then intercepts."""
        alpha = self.relevant - self.other
        slope = alpha / max(float(alpha[base]), 1e-12)
        return np.concatenate([slope, self.other - slope * self.other[base]])

    def vector(self) -> Floats:
        """All parameters in one array."""
        return np.concatenate([self.rates, self.parameters])


def inside(probabilities: Floats, observed: Floats) -> Floats:
    """Probabilities that come no nearer to 0 or 1 than a tenth of where `known` ones are.

    EM never leaves 0 or 1 again, so an extrapolation must not end there.
    """
    return np.clip(probabilities, 0.1 * observed, 1 - 0.1 * (1 - observed))


def first_estimate(cells: Cells, relevance: Relevance, *, trust: bool) -> Estimate:
    """Where to begin: relevant documents clicked more than the average of a rank, others less."""
    rate = _click_rates(cells)
    return Estimate(
        np.clip(1.5 * rate, 0.01, 0.99),
        0.5 * rate if trust else np.zeros(rate.size),
        relevance.start(cells),
    )


def estimate_near(cells: Cells, model: ClickModel, values: Floats, *, trust: bool) -> Estimate:
    """Begin near a click model and relevances, but not where EM could not move: at 0 or 1."""
    rate = _click_rates(cells)
    return Estimate(
        np.clip(model.exposure_weights, 1e-3, 0.999),
        np.maximum(model.beta, 1e-3 * rate) if trust else np.zeros(rate.size),
        np.clip(values, 1e-3, 0.999),
    )


def _click_rates(cells: Cells) -> Floats:
    shown, clicked = cells.weight @ cells.shown, cells.weight @ cells.clicked
    return _share(clicked, shown, np.zeros(shown.size))


def expectation_maximisation(
    cells: Cells, relevance: Relevance, start: Estimate, *, tolerance: float = 1e-7
) -> Estimate:
    """Repeat E and M until a step moves no line between ranks by more than `tolerance`.

    Lines, since rates move on along the scales of relevance that fit equally. `InputError` if it
    does not come to rest: where it was stopped says nothing of where it goes.
    """
    now, steps = start, 0
    base = int(np.argmax(start.relevant - start.other))
    while steps < MOST_STEPS:
        once, _ = step(cells, relevance, now)
        twice, likelihood = step(cells, relevance, once)
        steps += 2
        if np.abs(twice.lines(base) - once.lines(base)).max() <= tolerance:
            return twice
        further, further_likelihood = step(
            cells, relevance, _extrapolated(relevance, now, once, twice)
        )
        steps += 1
        now = further if further_likelihood >= likelihood else twice
    raise InputError(
        f"EM had not come to rest after {MOST_STEPS} steps: harvest instead, or take more sessions."
    )


def step(cells: Cells, relevance: Relevance, now: Estimate) -> tuple[Estimate, float]:
    """One E and M step, and the log-likelihood of where it started."""
    values = relevance.values(now.parameters)
    expected, sums, likelihood = _expected(cells, now.relevant, now.other, values)
    clicks, relevant_clicks, shown, relevant_shown = sums
    relevant = _share(relevant_clicks, relevant_shown, now.relevant)
    other = _share(clicks - relevant_clicks, shown - relevant_shown, now.other)
    other = np.where(now.other > 0, np.clip(other, 0.0, 1.0), 0.0)  # no trust out of rounding
    mixed = other > relevant  # relevance cannot lower clicks: the two are then one rate
    pooled = _share(clicks, shown, now.other)
    return Estimate(
        np.where(mixed, pooled, relevant),
        np.where(mixed, pooled, other),
        relevance.updated(now.parameters, expected, cells),
    ), likelihood


def _share(part: Floats, whole: Floats, otherwise: Floats) -> Floats:
    return np.divide(part, whole, out=otherwise.copy(), where=whole > 0)


def _extrapolated(relevance: Relevance, zero: Estimate, one: Estimate, two: Estimate) -> Estimate:
    """Along the curve through three estimates, as far as their shrinking steps suggest."""
    x0, x1, x2 = zero.vector(), one.vector(), two.vector()
    first, bend = x1 - x0, x2 - 2 * x1 + x0
    length = float(np.linalg.norm(bend))
    far = max(1.0, float(np.linalg.norm(first)) / length) if length > 0 else 1.0
    rates, parameters = np.split(x0 + 2 * far * first + far * far * bend, [2 * zero.ranks])
    relevant, other = np.split(inside(rates, two.rates), 2)
    return Estimate(relevant, other, relevance.allowed(parameters, two.parameters))


def _expected(
    cells: Cells, relevant: Floats, other: Floats, values: Floats
) -> tuple[Floats, Floats, float]:
    """Relevant impressions expected of each document; their sums by rank; the log-likelihood.

    Sums are made block by block; blocks are the same whatever the number of threads.
    """
    documents, ranks = cells.shown.shape
    blocks = max(1, -(-documents // _BLOCK))
    out = _Expected(np.zeros(documents), np.zeros((blocks, 4, ranks)), np.zeros(blocks))
    _expect_blocks(blocks, cells, relevant, other, values, out)
    total: Floats = out.sums.sum(axis=0)
    return out.relevant, total, float(np.sum(out.likelihood))


@parallel_kernel
def _expect_blocks(
    start: int,
    stop: int,
    cells: Cells,
    relevant: Floats,
    other: Floats,
    values: Floats,
    out: _Expected,
) -> None:
    for block in range(start, stop):
        _expect_block(block, cells, relevant, other, values, out)


@kernel
def _expect_block(
    block: int, cells: Cells, relevant: Floats, other: Floats, values: Floats, out: _Expected
) -> None:
    """Bayes' rule in every cell of a block: how many impressions, clicked or not, are relevant."""
    shown, clicked, weight = cells
    expected, sums, likelihood = out
    documents, ranks = shown.shape
    for document in range(block * _BLOCK, min(documents, (block + 1) * _BLOCK)):
        r, w = values[document], weight[document]
        for rank in range(ranks):
            n, c = shown[document, rank], clicked[document, rank]
            if n == 0.0:
                continue
            yes = r * relevant[rank] + (1 - r) * other[rank]
            no = 1 - yes
            clicks = c * r * relevant[rank] / yes if yes > 0.0 else 0.0
            relevant_seen = clicks + ((n - c) * r * (1 - relevant[rank]) / no if no > 0.0 else 0.0)
            expected[document] += relevant_seen
            sums[block, 0, rank] += w * c
            sums[block, 1, rank] += w * clicks
            sums[block, 2, rank] += w * n
            sums[block, 3, rank] += w * relevant_seen
            if w > 0.0 and c > 0.0:
                likelihood[block] += w * c * np.log(yes)
            if w > 0.0 and c < n:
                likelihood[block] += w * (n - c) * np.log(no)
