"""`learn`: from data, counts and a click model to a ranker, by a method's recipe."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from saferank._core.flat import Floats
from saferank._core.seeds import derive
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.counts.sketch import Sketch
from saferank.data import RankingData, Scaling
from saferank.data.matching import match_features
from saferank.errors import InputError, require
from saferank.estimators import Evidence
from saferank.estimators.regression import LOSSES
from saferank.estimators.table import estimator_of
from saferank.learning.descent import History, Part
from saferank.learning.families import Run, Scorer, family
from saferank.learning.goals import ImitationGoal, PointwiseGoal
from saferank.learning.problem import Log, label_terms, labelled, terms
from saferank.learning.promises import Kept, settle_start, take_back
from saferank.learning.ranker import Provenance, Ranker, versions
from saferank.learning.recipe import METHODS, Recipe, recipe_of
from saferank.learning.run_key import run_key
from saferank.learning.shown import Production, Shown, settle_production
from saferank.learning.stopping import Curves, Pass, fit_in_passes, folds, split
from saferank.objectives import Context, Objective, Terms, schedule
from saferank.objectives.goals import Goal
from saferank.objectives.in_exposures import Queries
from saferank.objectives.table import objective_entry

Given = tuple[RankingData, Counts | None]


def learn(
    data: RankingData,
    counts: Counts | None = None,
    click_model: ClickModel | None = None,
    *,
    method: str | Recipe | None = None,
    production: Production = None,
    production_kind: str = "auto",
    validation: tuple[RankingData, Counts | None] | None = None,
    seed: int = 0,
    click_model_from: str | None = None,
    predictor: Ranker | None = None,
    checkpoint: str | Path | None = None,
    **changes: Any,
) -> Ranker:
    """Learn a ranker from a click log (or, for `skyline`, from labels).

    DM and DR first fit relevance to the clicks, unless a `predictor` is given; it stays with the
    ranker. Of counts in parts only the sessions to learn from are used: the others remain to judge
    by.

    Parameters
    ----------
    data
        The items.
    counts
        The log on these items.
    click_model
        What a click means.
    method
        A name of `METHODS` or a `Recipe`. It is `prpo` unless given, or `keep` with a promise
        to `keep` a share of production's exposure: it then starts at production to the bit, from
        its model where `production` is a ranker of the same kind, else by adding to its scores,
        which the documents must then carry at serving too; and it goes as far from there as the
        promise allows on every query that is learned from.
    production
        The ranker that showed the log's documents, or its scores (one per document); without it,
        propensities are the log's own averages.
    production_kind
        What production does with its scores: "auto" asks the log, "sampled" believes that they were
        drawn from as they are (`saferank.policies`).
    validation
        Queries and counts to stop by; without it 15 % of the queries seen are held out, or, with at
        most 50 of them, the number of steps is chosen by cross-validation and then taken on all.
    seed
        Of every draw: the same bits for any number of threads.
    click_model_from
        Where the click model comes from, in words; kept with the ranker.
    predictor
        A regression of relevance: of `fit_relevance`, or a model of your own.
    checkpoint
        A folder, so that a run that was killed goes on where it was.
    **changes
        Parts of the method's `Recipe`: `gain=`, `objective=`, `scorer=`, `delta=`, `weights=`,
        `start=`, `keep=`, `settings=` and so on.

    Returns
    -------
    Ranker
        With its provenance: all that is needed to repeat it.

    Examples
    --------
    >>> import saferank as sr
    >>> world = sr.data.synthetic("small", queries=40, seed=0)
    >>> click_model = sr.clicks.trust_bias()
    >>> shown = np.zeros(world.train.documents)
    >>> counts = sr.clicks.simulate(world.train, shown, click_model, sessions=1000, seed=0)
    >>> ranker = sr.learn(world.train, counts, click_model, method="prpo", production=shown,
    ...                   scorer="linear", settings=sr.learning.Settings(steps=50))
    >>> ranker.scores(world.test).shape == (world.test.documents,)
    True
    """
    method, recipe = recipe_of(method, changes)
    shown = settle_production(data, counts, production, production_kind)
    run = _Run(recipe, click_model, production, seed, predictor, shown)
    part = None if counts is None else counts.part("learn")
    log, check_log = run.logs(data, part, validation)
    folder = None if checkpoint is None else Path(checkpoint) / run.key(method, log, check_log)
    scorer, histories = run.scorer(log, check_log, folder)
    if folder is not None:
        _remove(folder)
    provenance = replace(
        run.provenance(method, data, counts, histories),
        click_model_from=click_model_from,
        production=shown.fit,
    )
    scaling = run.scaling_of(data)
    regression = predictor
    if run.fitted is not None:
        relevance = run.provenance("relevance", data, counts, {"ranker": histories["regression"]})
        regression = Ranker(run.fitted, scaling, relevance, features=run.features)
    adds = run.recipe.start == "add"
    temperature = shown.temperature if adds else 1.0
    return Ranker(scorer, scaling, provenance, adds, regression, temperature, run.features)


def fit_relevance(
    data: RankingData,
    counts: Counts,
    click_model: ClickModel,
    *,
    production: Production = None,
    validation: tuple[RankingData, Counts | None] | None = None,
    seed: int = 0,
    **changes: Any,
) -> Ranker:
    r"""The regression behind DM and DR: scores are logits z of :math:`\hat R = \sigma(z)`.

    Fit it once and give it to `learn(predictor=...)` for as many methods as learn from the log.

    Parameters
    ----------
    data
        The items.
    counts
        Of counts in parts only the sessions to learn from are used.
    click_model
        What a click means.
    production
        The ranker that showed the log's documents, or its scores (one per document).
    validation
        Queries and counts to stop by.
    seed
        Of every draw.
    **changes
        Parts of the `Recipe`: `regression=`, `scorer=`, `settings=` and so on.

    Returns
    -------
    Ranker
        Its scores are logits of relevance.

    Examples
    --------
    >>> import saferank as sr
    >>> items, model = sr.data.synthetic("small", queries=40).train, sr.clicks.trust_bias()
    >>> shown = np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=1000, seed=0)
    >>> few = sr.learning.Settings(steps=5)
    >>> fit_relevance(items, counts, model, production=shown, scorer="linear", settings=few).k
    5
    """
    run = _Run(METHODS["dm"].changed(**changes), click_model, production, seed)
    log, check_log = run.logs(data, counts.part("learn"), validation)
    scorer, histories = fit_in_passes(run.regression, log, check_log, seed, None)
    provenance = run.provenance("relevance", data, counts, {"ranker": histories["regression"]})
    return Ranker(scorer, run.scaling_of(data), provenance, features=run.features)


@dataclass
class _Run:
    """One call of `learn`: the recipe, who clicked, and who showed the documents."""

    recipe: Recipe
    click_model: ClickModel | None
    production: Production
    seed: int
    predictor: Ranker | None = None
    shown: Shown = field(default_factory=Shown)

    def __post_init__(self) -> None:
        self.estimator = estimator_of(self.recipe.gain)
        self.weights = self.recipe.rank_weights(self.click_model)
        self.recipe = settle_start(self.recipe, has_model=self._model() is not None)
        self.fitted: Scorer | None = None
        """The regression, once it is fitted."""
        self.kept: Kept | None = None
        """How the promise was kept, where there is one."""
        self._scaling: Scaling | None = None

    # -- what is learned from ------------------------------------------------------------------

    def logs(
        self,
        data: RankingData,
        counts: Counts | None,
        validation: tuple[RankingData, Counts | None] | None,
    ) -> tuple[Log, Log | None]:
        """Training and validation queries, scaled, with production's scores where known."""
        require(data.width > 0, "items", "documents with at least one feature", data.width)
        model = self._model()
        self.features = data.schema if model is None else model.features
        self._check_added(data)
        log = self._log(self._with_production(data, self.production), counts)
        log = replace(log, policy=self.shown.policy)
        self._given: tuple[Given, Given | None] = (log.data, counts), None
        check_log = None
        if validation is not None:
            ranker = self.production if isinstance(self.production, Ranker) else None
            aside = validation[1] and validation[1].part("learn")
            check_log = self._log(self._with_production(validation[0], ranker), aside)
            check_log = replace(
                check_log, policy=self.shown.elsewhere(check_log.data, check_log.counts)
            )
            self._given = self._given[0], (check_log.data, aside)
        train, check_log = split(log, check_log, self.seed, promise=self.recipe.keep is not None)
        clicked = self.estimator.needs == "labels" or bool(log.counts.clicks.any())
        require(clicked, "counts", "of at least one click", 0)
        self._check_start(train, check_log or train)
        scaling = self.scaling_of(log.data)
        return _scaled(train, scaling), None if check_log is None else _scaled(check_log, scaling)

    def _log(self, data: RankingData, counts: Counts | None) -> Log:
        if self.estimator.needs == "labels":
            return labelled(data)
        if counts is None or self.click_model is None:
            raise InputError("`counts` and `click_model` must be given unless the gain is labels.")
        require(
            counts.ranks == self.click_model.ranks,
            "click_model",
            f"of {counts.ranks} ranks",
            self.click_model.ranks,
        )
        predicted = None
        if self.predictor is not None and self.estimator.needs == "predictions":
            # a predictor scales features for itself, so it is asked before they are scaled here
            predicted = expit(self.predictor.scores(data))
        return Log(data, counts, predicted=predicted)

    def _check_start(self, *logs: Log) -> None:
        unknown = any(log.data.production is None for log in logs)
        if self.recipe.start == "add" and unknown:
            raise InputError(
                "`production` must be given to add to it or to keep a share of it: a ranker, or "
                "the scores of all documents, validation's too."
            )

    def _check_added(self, data: RankingData) -> None:
        """What a correction is added to must be with the items when they are scored later."""
        if self.recipe.start != "add" or not isinstance(self.production, Ranker):
            return
        own = data.production
        if own is None or not np.allclose(own, self.production.scores(data), rtol=1e-6, atol=1e-9):
            raise InputError(
                "`production` must be the production_score of the items where a correction is "
                "learned that is added to it: put this ranker's scores there, or take a scorer of "
                "its kind, which starts from its model."
            )

    def _with_production(self, data: RankingData, production: Production) -> RankingData:
        """The data with the features that are learned from, and with production's scores."""
        matched = match_features(data, self.features)
        if production is None:
            if matched.production is None or self.shown.temperature == 1.0:
                return matched
            return replace(matched, production=matched.production / self.shown.temperature)
        scores = production.scores(data) if isinstance(production, Ranker) else production
        values = np.asarray(scores, dtype=np.float64) / self.shown.temperature
        return replace(matched, production=values)

    def scaling_of(self, data: RankingData) -> Scaling:
        """Production's own scaling where learning starts from its model, else fitted on train."""
        if self._scaling is None:
            model = self._model()
            own = family(self.recipe.scorer)
            kind = self.recipe.scaling or own.scaling
            if model is None:
                self._scaling = Scaling.fit(data, kind, encode=own.encodes)
            else:
                self._scaling = model.scaling
        return self._scaling

    def _model(self) -> Ranker | None:
        """Production's model, where learning starts from it."""
        usable = (
            self.recipe.start == "production"
            and isinstance(self.production, Ranker)
            and self.production.scorer.kind == self.recipe.scorer
            and not self.production.adds_production
            and self.shown.temperature == 1.0
        )
        return self.production if usable else None  # type: ignore[return-value]

    # -- what is reached for -------------------------------------------------------------------

    def goals(
        self, log: Log, check_log: Log | None, predictions: tuple[Floats, Floats] | None
    ) -> tuple[Goal, Goal]:
        """The objective on training queries (propensities clipped) and on validation queries."""
        train_terms = validation_terms = self._terms(log, predictions and predictions[0], clip=True)
        if check_log is not None:
            validation_terms = self._terms(check_log, predictions and predictions[1], clip=False)
        entry = objective_entry(self.recipe.objective)
        sessions = log.counts.total
        given = entry.delta if self.recipe.delta is None else self.recipe.delta
        context = Context(
            sessions=sessions,
            delta=schedule(given)(sessions),
            weights=self.weights,
            click_model=self.click_model,
            largest_gain=max(
                float(np.abs(part.gain).max(initial=0.0))
                for part in (train_terms, validation_terms)
            ),
        )
        objective = entry.build(context)
        goal, check = (
            self._goal(part, objective, own_terms)
            for part, own_terms in ((log, train_terms), (check_log or log, validation_terms))
        )
        return goal, check

    def _terms(self, log: Log, predictions: Floats | None, *, clip: bool) -> Terms:
        if self.estimator.needs == "labels":
            highest = float(log.data.known_labels.max(initial=0)) or 1.0
            return label_terms(log.data, self.estimator, self.weights, highest)
        assert self.click_model is not None
        return terms(
            log,
            self.estimator,
            self.click_model,
            self.weights,
            clip=clip,
            averaged=not clip or self.recipe.propensities == "averaged",
            predictions=predictions,
        )

    def _goal(self, log: Log, objective: Objective, terms_: Terms) -> Goal:
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
            Part(part.data, aim, part.data.production if self.recipe.start == "add" else None)
            for part, aim in zip((at.log, at.validation or at.log), goals, strict=True)
        )
        run = Run(self.recipe.settings, derive(self.seed, "learning"))
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
        training, held_out = (expit(self.fitted.scores(log.data.features)) for log in logs)
        return training, held_out

    def regression(self, at: Pass) -> Scorer:
        """A scorer whose scores are logits of relevance, fitted to the clicks."""
        assert self.click_model is not None
        parts = []
        for part, clip in ((at.log, True), (at.validation or at.log, at.validation is None)):
            averaged = not clip or self.recipe.propensities == "averaged"
            propensities = part.propensities(self.click_model, self.weights, averaged=averaged)
            propensities = propensities.clipped(part.counts.total) if clip else propensities
            loss = LOSSES[self.recipe.regression](
                Evidence(part.counts, self.click_model, propensities)
            )
            goal = PointwiseGoal(part.data.queries, loss, 1 / part.counts.total)
            parts.append(Part(part.data, goal))
        kind, seed = family(self.recipe.scorer), derive(self.seed, "regression")
        fresh = kind.fresh(at.log.data.width, self.recipe.settings, seed)
        run = Run(self.recipe.settings, seed, label="regression")
        return at.fit("regression", kind, fresh, parts[0], parts[1], run)

    def _start(self, at: Pass) -> Scorer:
        model = self._model()
        if model is not None:
            return model.scorer.copy()
        kind, seed = family(self.recipe.scorer), derive(self.seed, "start")
        fresh = kind.fresh(at.log.data.width, self.recipe.settings, seed)
        if self.recipe.start == "scratch":
            return fresh
        if self.recipe.start == "add":
            return fresh.silenced()
        train, check = (
            Part(part.data, ImitationGoal(part.data.queries, part.shown_like()))
            for part in (at.log, at.validation or at.log)
        )
        run = Run(self.recipe.settings, seed, label="imitating production")
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
            sessions=0 if part is None else part.total,
            learned_from=None if part is None else part.fingerprint(),
            log=None if counts is None else counts.part("all").fingerprint(),
            **self._part_takers(part),
            weights=self.weights.tolist(),
            click_model=None if self.click_model is None else self.click_model.to_dict(),
            data=data.fingerprint(),
            keep=self.recipe.keep,
            slack=self.recipe.slack,
            way=None if self.kept is None else self.kept.way,
            holding=None if self.kept is None else self.kept.holding,
            history=_plain(histories["ranker"]),
            regression=_plain(histories["regression"]) if "regression" in histories else {},
            versions=versions(),
        )

    def _part_takers(self, part: Counts | None) -> dict[str, Any]:
        """All sessions that had a part: to learn from, to stop by, and those of earlier rankers."""
        aside = None if self._given[1] is None else self._given[1][1]
        before = [r.provenance for r in (self.production, self.predictor) if isinstance(r, Ranker)]
        sketches = [c.sketch for c in (part, aside) if c is not None and c.sketch is not None]
        sketches += [Sketch.from_dict(p.sketch) for p in before if p.sketch is not None]
        also = [] if aside is None else [aside.fingerprint()]
        for provenance in before:
            also += [provenance.learned_from or "", *provenance.also_from]
        return {
            "sketch": reduce(or_, sketches).to_dict() if sketches else None,
            "also_from": sorted({fingerprint for fingerprint in also if fingerprint}),
        }

    def key(self, method: str, log: Log, check_log: Log | None) -> str:
        """Names this run: no run with any other input has its checkpoint."""
        parts = [log] if check_log else [log, *(others for others, _ in folds(log, self.seed))]
        ranker = self.production if isinstance(self.production, Ranker) else None
        return run_key(
            method,
            self.recipe,
            self.seed,
            learned_from=self._given[0],
            validation=self._given[1],
            sessions=[part.counts.total for part in parts],
            shown=None if log.policy is None else log.policy.exposure(self.weights),
            click_model=self.click_model,
            production=ranker,
            predictor=self.predictor,
        )


def _remove(folder: Path) -> None:
    """Remove a finished run's checkpoint, and the folder of checkpoints if it was the last."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.is_dir() and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


def _scaled(log: Log, scaling: Scaling) -> Log:
    return replace(log, data=scaling.apply(log.data))


def _plain(history: History) -> dict[str, list[float]]:
    return {"steps": [float(step) for step in history.steps], "values": list(history.values)}
