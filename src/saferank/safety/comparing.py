"""Several candidates and production side by side, with intervals that hold for all at once.

Choosing the best of several by the same sessions flatters it, unless the intervals allow for the
choice: here the largest deviation of all candidates together is bounded (max-t), by a multiplier
bootstrap over queries, with Student's t for their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank._core.records import from_dict
from saferank._core.seeds import generator
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.counts.feedback import CLICKS, Feedback
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.lower_bound import bound_scores
from saferank.evaluation.scored_policies import Deployed, Policy
from saferank.learning import Ranker
from saferank.policies.production_fit import ProductionFit
from saferank.safety.judging import (
    Served,
    evidence_for,
    find_misfits,
    judged_counts,
    production_of,
    scores_on,
)

RESAMPLES = 10_000


@dataclass(frozen=True)
class Candidate:
    """One ranker: its clicks per session beside production's, all intervals holding at once."""

    name: str
    clicks: float | None = None
    """Clicks per session; the rest are differences to production's. None: the log cannot tell."""
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    at_least: float | None = None
    """One-sided lower bound of the difference, for all candidates at once."""
    flatters: str | None = None
    refused: str | None = None
    """Why the log cannot tell, where it cannot."""


@dataclass(frozen=True)
class Comparison:
    """Candidates by the sessions to judge by, best bound first.

    See Also
    --------
    compare : makes one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=20_000, seed=0)
    >>> candidates = {"labels": items.labels, "same": shown}
    >>> comparison = sr.compare(candidates, items, counts, click_model=model, production=shown)
    >>> [candidate.name for candidate in comparison.candidates]
    ['labels', 'same']
    """

    candidates: tuple[Candidate, ...]
    """Each with its clicks and bound, best bound first."""
    production: float
    """Production's clicks per session, as counted."""
    sessions: int
    """How many they are judged by."""
    confidence: float
    """Of all bounds at once."""
    fit: ProductionFit
    """What production was taken for."""
    problems: tuple[str, ...] = ()
    """What speaks against all of these numbers."""
    feedback: Feedback = CLICKS
    """What clicks are: their numbers are in units of `feedback.unit`."""

    @property
    def best(self) -> Candidate | None:
        """The candidate that is surely better by most; None where none is surely better."""
        first = self.candidates[0]
        sure = first.at_least is not None and first.at_least > 0 and not self.problems
        return first if sure else None

    def change(self, value: float | None) -> float:
        """A difference as a share of production's clicks."""
        if value is None or not self.production > 0:
            return float("nan")
        return value / self.production

    def sentence(self) -> str:
        """The outcome in one sentence."""
        return self.feedback.say(self._sentence())

    def _sentence(self) -> str:
        if self.problems:
            return f"The log cannot tell which is better: {'; '.join(self.problems)}."
        if self.best is None:
            return (
                f"None of {len(self.candidates)} candidates is surely better than production "
                f"(all at once, confidence {self.confidence:.0%})."
            )
        return (
            f"{self.best.name} is better than production: clicks per session change by "
            f"{self.change(self.best.estimate):+.1%}, and by at least "
            f"{self.change(self.best.at_least):+.1%} (all {len(self.candidates)} candidates at "
            f"once, confidence {self.confidence:.0%})."
        )

    def to_dict(self) -> dict[str, Any]:
        """The comparison for JSON."""
        best = None if self.best is None else self.best.name
        return {"verdict": self.sentence(), "best": best, **asdict(self)}

    @classmethod
    def from_dict(cls, record: Any) -> Comparison:
        """The comparison of a JSON record."""
        require(isinstance(record, dict), "comparison", "a JSON object", type(record).__name__)
        own = {key: value for key, value in record.items() if key not in ("verdict", "best")}
        return from_dict(cls, own, "comparison")


def compare(
    rankers: Mapping[str, Policy],
    data: RankingData,
    counts: Counts,
    *,
    click_model: ClickModel | None = None,
    production: Policy | None = None,
    production_kind: str = "auto",
    deployed: Deployed = "sampled",
    confidence: float = 0.95,
    same_sessions: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compare candidates with production by sessions that none of them learned from.

    Parameters
    ----------
    rankers : candidates by name.
    data, counts : items and their log; of counts in parts the sessions to judge by are used.
    click_model : the click model; by default that of the candidates, which must then agree.
    production, production_kind, deployed : as in `assess`.
    confidence : that all intervals hold at once.
    same_sessions : compare although some candidate was learned from the same sessions.
    seed : of the bootstrap.

    Returns
    -------
    Comparison
        `comparison.best` is the candidate that is surely better by most.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=50, seed=0).train
    >>> shown, click_model = np.zeros(items.documents), sr.clicks.trust_bias()
    >>> counts = sr.clicks.simulate(items, shown, click_model, sessions=20_000, seed=0)
    >>> candidates = {"labels": items.labels, "same": shown}
    >>> comparison = compare(
    ...     candidates, items, counts, click_model=click_model, production=shown
    ... )
    >>> comparison.best.name
    'labels'
    """
    require(len(rankers) > 0, "rankers", "at least one", 0)
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    model = click_model if click_model is not None else _common_model(rankers)
    new_scores = {name: scores_on(one, data, "ranker") for name, one in rankers.items()}
    shown, fit = production_of(
        production, data, counts, production_kind, deployed, list(new_scores.values())
    )
    assert fit is not None
    weights = model.exposure_weights
    scored, refused = [], []
    for name, ranker in rankers.items():
        judged, flatters = judged_counts(ranker, counts, same_sessions)
        own = evidence_for(ranker, data, judged, model, shown, weights)
        served = Served(new_scores[name], data, shown, weights, deployed)
        contrast = served.compared(own, model.alpha)
        refusal = contrast.support().refusal()
        if refusal is not None:
            refused.append(Candidate(name, flatters=flatters, refused=refusal))
            continue
        # clipped as `assess` clips, so that both say the same of one candidate
        scores = bound_scores(contrast, tail=1 - confidence)
        scored.append((name, *scores, flatters))
    seen = int(np.count_nonzero(judged.sessions))
    require(seen >= 2, "counts", "of at least two queries to judge by", seen)
    clicks = float(contrast.evidence.counts.clicks.sum() / judged.total)
    candidates = _at_once(scored, clicks, 1 - confidence, seed)
    return Comparison(
        (*candidates, *refused),
        clicks,
        judged.total,
        confidence,
        fit,
        find_misfits(model, fit, judged),
        counts.feedback,
    )


_Scored = tuple[str, QueryScores, QueryScores, QueryScores, str | None]
"""Name, scores of lower bound, estimate and upper bound, and a warning where they flatter."""


def _at_once(scored: list[_Scored], clicks: float, tail: float, seed: int) -> list[Candidate]:
    """Candidates of which the log can tell, best bound first."""
    if not scored:
        return []
    lows, highs = [one[1] for one in scored], [one[3] for one in scored]
    under, over = (_widths(scores, tail, seed, two_sided=True) for scores in (lows, highs))
    below = _widths(lows, tail, seed, two_sided=False)
    candidates = [
        (
            low.estimate - least,
            Candidate(
                name, clicks + middle.estimate, middle.estimate, low.estimate - down,
                high.estimate + up, low.estimate - least, flatters,
            ),
        )
        for (name, low, middle, high, flatters), down, up, least in zip(
            scored, under, over, below, strict=True
        )
    ]  # fmt: skip
    return [one for _, one in sorted(candidates, key=lambda pair: -pair[0])]


def _common_model(rankers: Mapping[str, Policy]) -> ClickModel:
    provenances = [
        candidate.provenance for candidate in rankers.values() if isinstance(candidate, Ranker)
    ]
    models = [
        ClickModel.from_dict(provenance.click_model)
        for provenance in provenances
        if provenance.click_model is not None
    ]
    if not models:
        raise InputError("`click_model` must be given: no candidate names a click model.")
    first = models[0]
    same = all(
        candidate.ranks == first.ranks
        and np.allclose(candidate.alpha, first.alpha)
        and np.allclose(candidate.beta, first.beta)
        for candidate in models
    )
    if not same:
        raise InputError(
            "the candidates were learned with different click models; say by which one they are "
            "to be compared with --bias (click_model= in Python)."
        )
    return first


def _widths(scores: list[QueryScores], tail: float, seed: int, *, two_sided: bool) -> list[float]:
    """How far each estimate may be off, so that all hold at once: quantile of max-t x its error."""
    shifts = np.stack([_influence(one) for one in scores], axis=1)
    count = int(np.count_nonzero(scores[0].sessions))
    least = np.array([one.least_variance / max(one.total, 1) for one in scores])
    errors = np.sqrt(np.maximum(count / (count - 1) * (shifts**2).sum(axis=0), least))
    own = np.sqrt((shifts**2).sum(axis=0))
    scaled = np.divide(shifts, own, out=np.zeros_like(shifts), where=own > 0)
    rng = generator(seed, "max-t")
    at_a_time = max(1, (1 << 22) // max(1, shifts.shape[0]))
    largest = []
    for first in range(0, RESAMPLES, at_a_time):
        rows = min(at_a_time, RESAMPLES - first)
        drawn = rng.standard_normal((rows, shifts.shape[0])) @ scaled
        # errors are estimated too: with few queries Student's t, as of a single candidate
        drawn /= np.sqrt(rng.chisquare(count - 1, size=(rows, 1)) / (count - 1))
        largest.append((np.abs(drawn) if two_sided else drawn).max(axis=1))
    quantile = float(np.quantile(np.concatenate(largest), 1 - tail))
    return [float(quantile * error) for error in errors]


def _influence(scores: QueryScores) -> Floats:
    """What each query moves the estimate by."""
    moved: Floats = scores.sessions * (scores.mean - scores.estimate) / max(scores.total, 1)
    return moved
