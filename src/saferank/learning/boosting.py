"""Boosted trees trained towards any goal: its gradient and a curvature are LightGBM's objective.

Rows stay in the data's order. Base scores are added where the goal is judged, so a booster that
corrects production starts at exactly production; a booster that goes on from a model starts at
exactly that model. Trees are only ever added: the best and a checkpoint are counts of trees.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saferank._core.flat import Floats
from saferank._core.progress import Advance, bar
from saferank._core.threads import free_threads
from saferank.errors import require
from saferank.learning.checkpoints import Progress, load_checkpoint, save_checkpoint
from saferank.learning.curvature import curvature
from saferank.learning.descent import GoalQueries, History, Settings, evaluate
from saferank.objectives.goals import QueryBlock
from saferank.scorers.networks import ModuleFactory
from saferank.scorers.tree_scorer import TreeScorer, lightgbm
from saferank.scorers.tree_text import Forest

if TYPE_CHECKING:
    from saferank.learning.families import Run

EVERY = 5  # rounds between validations
TREES = "scorer.txt"
SMALL = 1_000_000
"""Numbers in the features below which OpenMP's threads wait for each other more than they save."""


class Trees:
    """Gradient-boosted trees, by LightGBM."""

    scaling = "none"  # so that the saved model takes the features as users have them
    encodes = False

    def fresh(self, width: int, settings: Settings, seed: int) -> TreeScorer:
        """A scorer without trees."""
        del settings, seed
        return TreeScorer.empty(width)

    def fit(
        self, start: TreeScorer, train: GoalQueries, validation: GoalQueries, run: Run
    ) -> tuple[TreeScorer, History]:
        """Add trees round by round; as many are kept as are best on validation."""
        boosting = Boosting(start, train, validation, run)
        return boosting.run().named(train.data.schema), boosting.history

    def load(
        self, folder: Path, record: dict[str, Any], module: ModuleFactory | None
    ) -> TreeScorer:
        """Read the trees that a ranker's folder holds."""
        del module
        return TreeScorer.read(folder / "scorer.txt", record["width"])


class Boosting:
    """The state of a run: the trees so far, and what they are worth on the validation queries."""

    def __init__(
        self, start: TreeScorer, train: GoalQueries, validation: GoalQueries, run: Run
    ) -> None:
        require(start.width == train.data.width, "start", "of the data's features", start.width)
        self.start, self.train, self.validation = start, train, validation
        self.settings, self.seed, self.label = run.settings, run.seed, run.label
        self.checkpoint = run.checkpoint
        self.history = History()
        self.threads = 1 if train.data.features.size < SMALL else free_threads()
        self.round = 0
        self.now = start
        self.validation_scores = np.zeros(0)  # scores of the validation documents

    def run(self) -> TreeScorer:
        """Boost to the end, from the checkpoint where there is one; returns the best."""
        with bar(self.label, self.settings.rounds) as advance:
            resumed = self.checkpoint is not None and self._resume(self.checkpoint)
            self.validation_scores = self.now.scores(self.validation.data.features)
            if not resumed:
                self._validate()
            advance(self.round)
            if not self._finished():
                self._boost(advance)
        return self._best()

    def _boost(self, advance: Advance) -> None:
        package = lightgbm()

        def after_round(step: Any) -> None:
            grew = self._look(step.model)
            advance(int(grew), note=f"best {max(self.history.values):.4g}")
            if not grew or self._finished():
                raise package.callback.EarlyStopException(0, [])

        def objective(scores: Floats, data: Any) -> tuple[Floats, Floats]:
            return self._objective(scores, data)

        # a function, as LightGBM deep-copies its parameters: a method would take the data with it
        made = package.train(
            {**self._parameters(), "objective": objective},
            package.Dataset(
                self.train.data.features, params=self._parameters(), free_raw_data=False
            ),
            num_boost_round=self.settings.rounds,
            init_model=self.now.booster if self.now.trees else None,
            keep_training_booster=True,
            callbacks=[after_round],
        )
        self.now = self._scorer(made, self.start.trees + self.round)

    def _look(self, model: Any) -> bool:
        """Take the newest tree into account; was there one? Without a gradient there is none."""
        grew = bool(model.num_trees() > self.start.trees + self.round)
        if grew:
            tree = self.start.trees + self.round
            self.validation_scores = self.validation_scores + self._newest(model, tree)
            self.round += 1
        due = self.round % EVERY == 0 or self.round == self.settings.rounds or not grew
        if due and self.history.steps[-1] != self.round:
            self._validate()
            if self.checkpoint is not None:
                self._save(self.checkpoint, model)
        return grew

    def _newest(self, model: Any, tree: int) -> Floats:
        features = self.validation.data.features
        scores = model.predict(
            features,
            raw_score=True,
            start_iteration=tree,
            num_iteration=1,
            num_threads=self.threads,
        )
        return np.asarray(scores, dtype=np.float64)

    def _parameters(self) -> dict[str, Any]:
        return {
            "num_leaves": self.settings.leaves,
            "learning_rate": self.settings.shrinkage,
            "seed": self.seed % 2**31,
            "deterministic": True,
            # a histogram is then summed by one thread in the order of rows: the same bits for any
            # number of threads
            "force_col_wise": True,
            "feature_pre_filter": False,
            "num_threads": self.threads,
            "metric": "none",
            "verbosity": -1,
        }

    def _objective(self, scores: Floats, _: Any) -> tuple[Floats, Floats]:
        """Gradient and curvature of the loss, which LightGBM keeps in single precision: near 1."""
        data, goal = self.train.data, self.train.goal
        place = QueryBlock(np.arange(data.queries), slice(0, data.documents), data.offsets)
        total = self.train.total(scores, place.positions)
        judged = goal.value_and_gradient(total, place, None)
        bent = curvature(goal, total, place, judged, self.settings.curvature)
        return -judged.gradient * data.queries, bent * data.queries

    def _finished(self) -> bool:
        waited = len(self.history.values) - 1 - self.history.best()
        return self.round >= self.settings.rounds or waited >= self.settings.patience

    def _validate(self) -> None:
        self.history.steps.append(self.round)
        self.history.values.append(evaluate(self.validation, self.validation_scores)[0])

    def _best(self) -> TreeScorer:
        kept = self.history.steps[self.history.best()]
        return self.now.first(self.start.trees + kept) if kept else self.start

    def _scorer(self, model: Any, trees: int) -> TreeScorer:
        return TreeScorer(Forest.parse(model.model_to_string(num_iteration=trees)))

    def _save(self, folder: Path, model: Any) -> None:
        trees = self._scorer(model, self.start.trees + self.round)
        progress = Progress(self.round, self.history.steps, self.history.values)
        save_checkpoint(folder, TREES, trees.save, progress)

    def _resume(self, folder: Path) -> bool:
        progress = load_checkpoint(folder, TREES)
        if progress is None:
            return False
        self.history = History(progress.steps, progress.values)
        self.round = progress.step
        self.now = TreeScorer.read(folder / TREES, self.start.width)
        return True
