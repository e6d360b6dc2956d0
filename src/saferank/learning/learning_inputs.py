"""What `learn` is given: training and validation queries, scaled, with production's scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from saferank._core import storage
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData, Scaling
from saferank.data.matching import match_features
from saferank.errors import InputError, require
from saferank.estimators.estimator_table import estimator_of
from saferank.learning.devices import Device
from saferank.learning.families import Scorer, family
from saferank.learning.own_shards import OwnShards
from saferank.learning.portion import Portion
from saferank.learning.problem import Log, labelled
from saferank.learning.promises import Kept, settle_start
from saferank.learning.ranker import Ranker
from saferank.learning.recipe import Recipe
from saferank.learning.shown import Production, Shown
from saferank.learning.stopping import split

SCALED = ("linear", "mlp")
"""Scorers that can be multiplied, so that a sharper start is made of production's model, too."""
Given = tuple[RankingData, Counts | None]


@dataclass
class Inputs:
    """What one call of `learn` is given: the recipe, who clicked, who showed the documents."""

    recipe: Recipe
    click_model: ClickModel | None
    production: Production
    seed: int
    predictor: Ranker | None = None
    shown: Shown = field(default_factory=Shown)
    device: Device = field(default_factory=Device)
    """Where networks learn."""
    shards: OwnShards | None = None
    """Where items and counts are in shards."""

    def __post_init__(self) -> None:
        on_cpu = self.device.name == "cpu" or self.recipe.scorer != "trees"
        require(on_cpu, "device", "cpu for trees", self.device.name)
        self.estimator = estimator_of(self.recipe.gain)
        self.weights = self.recipe.rank_weights(self.click_model)
        self.recipe = settle_start(self.recipe, has_model=self._model() is not None)
        self.fitted: Scorer | None = None
        """The regression, once it is fitted."""
        self.kept: Kept | None = None
        """How the promise was kept, where there is one."""
        self._scaling: Scaling | None = None

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
        log = replace(
            log, policy=self.shown.policy, logged_by=self.shown.logged_by, portion=self._portion
        )
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
        clicked = self.estimator.needs == "labels" or log.clicked()
        require(clicked, "counts", "of at least one click", 0)
        self._check_start(train, check_log or train)
        scaling = self.scaling_of(log.data)
        return _scaled(train, scaling), None if check_log is None else _scaled(check_log, scaling)

    @property
    def _portion(self) -> Portion | None:
        return None if self.shards is None else self.shards.portion

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
            if matched.production is None or self.shown.divisor == 1.0:
                return matched
            return replace(matched, production=matched.production / self.shown.divisor)
        scores = production.scores(data) if isinstance(production, Ranker) else production
        values = np.asarray(scores, dtype=np.float64) / self.shown.divisor
        return replace(matched, production=values)

    def scaling_of(self, data: RankingData) -> Scaling:
        """Production's own scaling where learning starts from its model, else fitted on train."""
        if self._scaling is None:
            model = self._model()
            own = family(self.recipe.scorer)
            kind = self.recipe.scaling or own.scaling
            if model is None:
                parts = None if self._portion is None else self._portion.parts()
                self._scaling = Scaling.fit(data, kind, encode=own.encodes, parts=parts)
            else:
                self._scaling = model.scaling
        return self._scaling

    def _model(self) -> Ranker | None:
        """Production's model, where learning starts from it."""
        starts = self.recipe.start in ("production", "sharpened")
        if not starts or not isinstance(self.production, Ranker):
            return None
        usable = (
            self.production.scorer.kind == self.recipe.scorer
            and not self.production.adds_production
            and self.shown.temperature == 1.0
            and (self.shown.sharper == 1.0 or self.production.scorer.kind in SCALED)
        )
        return self.production if usable else None


def _scaled(log: Log, scaling: Scaling) -> Log:
    if log.portion is None:
        return replace(log, data=scaling.apply(log.data))
    scaled = storage.empty((log.data.documents, scaling.outputs))
    start = 0
    for shard in log.shards():
        own = scaling.apply(shard.data).features
        storage.put(scaled, slice(start, start + len(own)), own)
        start += len(own)
    return replace(log, data=log.data.with_features(scaled))
