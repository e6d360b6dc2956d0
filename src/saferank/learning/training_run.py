"""One call of `learn`: goals of the objective, the stages of training, and provenance."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from saferank._core.flat import Floats
from saferank._core.seeds import derive
from saferank.counts import Counts
from saferank.counts.additive_print import added
from saferank.counts.sketch import Sketch
from saferank.data import RankingData
from saferank.estimators import Evidence, Propensities
from saferank.estimators.regression import LOSSES
from saferank.learning.descent import GoalQueries, History
from saferank.learning.families import Run, Scorer, family
from saferank.learning.learning_inputs import Inputs
from saferank.learning.pointwise_goals import ImitationGoal, PointwiseGoal
from saferank.learning.portion import merge
from saferank.learning.problem import Log, label_terms, terms
from saferank.learning.promises import take_back
from saferank.learning.provenance import Provenance, versions
from saferank.learning.ranker import Ranker
from saferank.learning.run_key import run_key
from saferank.learning.stopping import Curves, Pass, fit_in_passes, folds
from saferank.objectives import Context, Objective, Terms
from saferank.objectives.goals import Goal
from saferank.objectives.in_exposures import Queries
from saferank.objectives.objective_table import objective_entry
from saferank.scorers.networks import NetworkScorer

GRADIENT_TOLERANCE = 1e-6
"""Of exact gradients in training: a step's own noise is far above it, and fewer nodes do."""


@dataclass
class TrainingRun(Inputs):
    """The objective on the inputs, and how it is reached."""

    known_propensities: dict[tuple[int, bool], tuple[Log, Propensities]] = field(
        default_factory=dict, init=False
    )

    # -- what is reached for -------------------------------------------------------------------

    def goals(
        self, log: Log, check_log: Log | None, predictions: tuple[Floats, Floats] | None
    ) -> tuple[Goal, Goal]:
        """The objective on training queries (propensities clipped) and on validation queries."""
        train_terms = validation_terms = self._terms(log, predictions and predictions[0], clip=True)
        if check_log is not None:
            validation_terms = self._terms(check_log, predictions and predictions[1], clip=False)
        entry = objective_entry(self.recipe.objective)
        sessions = log.total
        context = Context(
            sessions=sessions,
            delta=self.recipe.delta_at(sessions),
            weights=self.weights,
            click_model=self.click_model,
            largest_gain=_largest(log, train_terms, validation_terms),
        )
        fair = self.recipe.fair()
        objective = entry.build(context) if fair is None else fair.on(entry.build)(context)
        predicted = (None, None) if predictions is None else predictions
        goal, check = (
            self._goal(part, objective, own_terms, merit)
            for part, own_terms, merit in (
                (log, train_terms, predicted[0]),
                (check_log or log, validation_terms, predicted[1]),
            )
        )
        return goal, check

    def _terms(self, log: Log, predictions: Floats | None, *, clip: bool) -> Terms:
        if self.estimator.needs == "labels":
            highest = float(log.data.known_labels.max(initial=0)) or 1.0
            return label_terms(log.data, self.estimator, self.weights, highest)
        assert self.click_model is not None
        propensities = self._propensities(log, clip=clip)
        return terms(log, self.estimator, self.click_model, self.weights, propensities, predictions)

    def _propensities(self, log: Log, *, clip: bool) -> Propensities:
        """Propensities of a log: clipped and as the recipe says in training, else averages.

        The regression and the gains need the same ones, which are computed once.
        """
        key = (id(log), clip)
        if key not in self.known_propensities:
            assert self.click_model is not None
            averaged = not clip or self.recipe.propensities == "averaged"
            own = log.propensities(self.click_model, self.weights, averaged=averaged)
            own = own.clipped(log.total) if clip else own
            self.known_propensities[key] = (log, own)
        return self.known_propensities[key][1]

    def _goal(self, log: Log, objective: Objective, terms_: Terms, merit: Floats | None) -> Goal:
        return objective.on(
            Queries(
                log.data.offsets,
                terms_,
                self.weights,
                log.share(),
                log.data.production,
                gradient=self.recipe.gradient,
                samples=self.recipe.samples,
                seed=self.seed,
                gradient_tol=GRADIENT_TOLERANCE,
                merit=merit,
                groups=None if log.data.groups is None else log.data.groups.codes,
                kernels=self.device.kernels,
            )
        )

    # -- how it is reached ---------------------------------------------------------------------

    def scorer(self, log: Log, check_log: Log | None, folder: Path | None) -> tuple[Scorer, Curves]:
        """The learned scorer, and the histories of what was trained."""
        return fit_in_passes(self._learn, log, check_log, self.seed, folder)

    def _learn(self, at: Pass) -> Scorer:
        """One pass: the regression where gains need one, the start, the ranker."""
        predictions = None
        if self.estimator.needs == "predictions":
            predictions = self._predictions(at)
        goals = self.goals(at.log, at.validation, predictions)
        start = self._start(at)
        train, check = (
            GoalQueries(
                part.data,
                aim,
                part.data.production if self.recipe.start == "add" else None,
                part.portion,
            )
            for part, aim in zip((at.log, at.validation or at.log), goals, strict=True)
        )
        run = Run(self.recipe.settings, derive(self.seed, "learning"), device=self.device.name)
        origin = start.copy()
        scorer = at.fit("ranker", family(self.recipe.scorer), start, train, check, run)
        if self.recipe.keep is None or self.recipe.slack is None:
            return scorer
        promise = self.recipe.keep, self.recipe.slack
        scorer, self.kept = take_back(scorer, origin, train, check, promise)
        return scorer

    def _predictions(self, at: Pass) -> tuple[Floats, Floats]:
        """Predicted relevance of training and validation documents."""
        logs = (at.log, at.validation or at.log)
        if self.predictor is not None:
            training, held_out = (log.predicted for log in logs)
            assert training is not None
            assert held_out is not None
            return training, held_out
        self.fitted = self.regression(at)
        scorer = self.fitted
        training, held_out = (
            merge([[expit(scorer.scores(shard.data.features))] for shard in log.shards()])[0]
            for log in logs
        )
        return training, held_out

    def regression(self, at: Pass) -> Scorer:
        """A scorer whose scores are logits of relevance, fitted to the clicks."""
        assert self.click_model is not None
        parts = []
        for part, clip in ((at.log, True), (at.validation or at.log, at.validation is None)):
            propensities = self._propensities(part, clip=clip)
            evidence = Evidence(part.counts, self.click_model, propensities)
            loss = LOSSES[self.recipe.regression](evidence)
            goal = PointwiseGoal(part.queries, loss, 1 / part.total)
            parts.append(GoalQueries(part.data, goal, portion=part.portion))
        kind, seed = family(self.recipe.scorer), derive(self.seed, "regression")
        fresh = kind.fresh(at.log.data.width, self.recipe.settings, seed)
        run = Run(self.recipe.settings, seed, label="regression", device=self.device.name)
        return at.fit("regression", kind, fresh, parts[0], parts[1], run)

    def _start(self, at: Pass) -> Scorer:
        model = self._model()
        if model is not None:
            scorer, sharper = model.scorer, self.shown.sharper
            if isinstance(scorer, NetworkScorer) and sharper != 1.0:
                return scorer.scaled(sharper)
            return scorer.copy()
        kind, seed = family(self.recipe.scorer), derive(self.seed, "start")
        fresh = kind.fresh(at.log.data.width, self.recipe.settings, seed)
        if self.recipe.start == "scratch":
            return fresh
        if self.recipe.start == "add":
            return fresh.silenced()
        train, check = (
            GoalQueries(
                part.data,
                ImitationGoal(part.queries, part.shown_like()),
                portion=part.portion,
            )
            for part in (at.log, at.validation or at.log)
        )
        run = Run(self.recipe.settings, seed, label="imitating production", device=self.device.name)
        return at.fit("start", kind, fresh, train, check, run)

    def provenance(
        self, method: str, data: RankingData, counts: Counts | None, histories: Curves
    ) -> Provenance:
        """Where the ranker comes from."""
        part = None if counts is None else counts.part("learn")
        return Provenance(
            method=method,
            recipe=self.recipe.to_dict(),
            seed=self.seed,
            **self._prints(data, counts, part),
            **self._part_takers(part),
            weights=self.weights.tolist(),
            click_model=None if self.click_model is None else self.click_model.to_dict(),
            sharper=self.shown.sharper,
            keep=self.recipe.keep,
            slack=self.recipe.slack,
            way=None if self.kept is None else self.kept.way,
            holding=None if self.kept is None else self.kept.holding,
            history=_plain(histories["ranker"]),
            regression=_plain(histories["regression"]) if "regression" in histories else {},
            versions=versions(self.device.name),
        )

    def _prints(
        self, data: RankingData, counts: Counts | None, part: Counts | None
    ) -> dict[str, Any]:
        """Fingerprints of items and sessions, and the number of sessions."""
        if self.shards is not None:
            prints = self.shards.prints
            return {
                "data": prints.together(prints.data),
                "learned_from": prints.together(prints.learn),
                "log": prints.together(prints.log),
                "sessions": int(self.shards.portion.sessions.sum()),
            }
        return {
            "data": data.fingerprint(),
            "learned_from": None if part is None else part.fingerprint(),
            "log": None if counts is None else counts.part("all").fingerprint(),
            "sessions": 0 if part is None else part.total,
        }

    def _part_takers(self, part: Counts | None) -> dict[str, Any]:
        """All sessions that had a part: to learn from, to stop by, and those of earlier rankers."""
        aside = None if self._given[1] is None else self._given[1][1]
        before = [r.provenance for r in (self.production, self.predictor) if isinstance(r, Ranker)]
        sketches = [c.sketch for c in (part, aside) if c is not None and c.sketch is not None]
        sketches += [Sketch.from_dict(p.sketch) for p in before if p.sketch is not None]
        also = [] if aside is None else [aside.fingerprint()]
        if self.shards is not None:
            also += [*self.shards.prints.learn, added(self.shards.prints.sums)]
        for provenance in before:
            also += [provenance.learned_from or "", *provenance.also_from]
        return {
            "sketch": reduce(or_, sketches).to_dict() if sketches else None,
            "also_from": sorted({fingerprint for fingerprint in also if fingerprint}),
        }

    def key(self, method: str, log: Log, check_log: Log | None) -> str:
        """Names this run: no run with any other input has its checkpoint."""
        parts = [log] if check_log else [log, *(others for others, _ in folds(log, self.seed))]
        return run_key(
            method,
            self,
            learned_from=self._given[0],
            validation=self._given[1],
            sessions=[part.total for part in parts],
            shown=self._exposures(log),
            shards=None if self.shards is None else self.shards.portion.key,
        )

    def _exposures(self, log: Log) -> Floats | None:
        """Of production and of what made the log, where scores do not tell them; else zeros."""
        policies = (log.policy, log.logged_by)
        if policies == (None, None) or log.portion is not None:
            return None
        nothing = np.zeros(log.data.documents)
        return np.stack([nothing if it is None else it.exposure(self.weights) for it in policies])


def _largest(log: Log, *terms_: Terms) -> float:
    """The largest gain by its size."""
    own = max(float(np.abs(part.gain).max(initial=0.0)) for part in terms_)
    return own if log.portion is None else log.portion.most(own)


def _plain(history: History) -> dict[str, list[float]]:
    return {"steps": [float(step) for step in history.steps], "values": list(history.values)}
