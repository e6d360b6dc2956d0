"""`learn`: from data, counts and a click model to a ranker, by a method's recipe."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require
from saferank.learning.devices import Device, find_device
from saferank.learning.own_shards import OwnShards, check_recipe
from saferank.learning.ranker import Ranker
from saferank.learning.recipe import METHODS, Recipe, recipe_of
from saferank.learning.shown import Production, settle_production, sharpened
from saferank.learning.shown_in_shards import settle_in_shards
from saferank.learning.stopping import fit_in_passes
from saferank.learning.training_run import TrainingRun
from saferank.learning.workers import workers
from saferank.policies import ProductionPolicy


def learn(
    data: RankingData | OwnShards,
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
    logged_by: ProductionPolicy | None = None,
    device: str | Device = "cpu",
    **changes: Any,
) -> Ranker:
    """Learn a ranker from a click log (or, for `skyline`, from labels).

    DM and DR first fit relevance to the clicks, unless a `predictor` is given; it stays with the
    ranker. Of counts in parts only the sessions to learn from are used: the others remain to judge
    by.

    Parameters
    ----------
    data
        The items; or the shards of this process, with their counts (`read_shards`).
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
    logged_by
        What made the log, where that was not `production` alone: logs of several rounds are that of
        a mixture (`policies.mix_policies`). Clicks are then weighted by it, and `production` is
        what learning starts at and stays near to.
    device
        Where networks learn, as torch names it: "cpu", "cuda", "cuda:1", "mps". The ranker itself
        is on the CPU, and its files are the same.
    **changes
        Parts of the method's `Recipe`: `gain=`, `objective=`, `scorer=`, `delta=`, `weights=`,
        `start=`, `keep=`, `settings=` and so on.

    Returns
    -------
    Ranker
        With its provenance: all that is needed to repeat it.

    Examples
    --------
    >>> import numpy as np
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
    place = find_device(device)
    method, recipe = recipe_of(method, changes)
    shards = data if isinstance(data, OwnShards) else None
    if isinstance(data, OwnShards):
        check_recipe(recipe)
        _refuse_beside_shards(counts=counts, validation=validation, predictor=predictor,
                              logged_by=logged_by)  # fmt: skip
        shown = settle_in_shards(data, production, production_kind)
        counts, data = data.counts, data.data
    else:
        shown = settle_production(data, counts, production, production_kind, logged_by)
    part = None if counts is None else counts.part("learn")
    few = part is not None and recipe.delta_at(max(part.total, 1)) >= 1
    if recipe.start == "sharpened" and few:
        weights = recipe.rank_weights(click_model)
        shown = sharpened(shown, data, part, click_model, production=production, weights=weights)
    run = TrainingRun(recipe, click_model, production, seed, predictor, shown, place, shards)
    log, check_log = run.logs(data, part, validation)
    folder = None if checkpoint is None else Path(checkpoint) / run.key(method, log, check_log)
    scorer, histories = run.scorer(log, check_log, folder)
    if folder is not None:
        _remove(folder)
    made = run.provenance(method, data, counts, histories)
    provenance = replace(made, click_model_from=click_model_from, production=shown.fit)
    scaling = run.scaling_of(data)
    regression = predictor
    if run.fitted is not None:
        relevance = replace(made, method="relevance", history=made.regression, regression={})
        regression = Ranker(run.fitted, scaling, relevance, features=run.features)
    adds = run.recipe.start == "add"
    temperature = shown.temperature if adds else 1.0
    return Ranker(scorer, scaling, provenance, adds, regression, temperature, run.features)


def _refuse_beside_shards(**given: object) -> None:
    for name, value in given.items():
        require(value is None, name, "left out where items are in shards", value)


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
    >>> import numpy as np
    >>> import saferank as sr
    >>> items, model = sr.data.synthetic("small", queries=40).train, sr.clicks.trust_bias()
    >>> shown = np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=1000, seed=0)
    >>> few = sr.learning.Settings(steps=5)
    >>> fit_relevance(items, counts, model, production=shown, scorer="linear", settings=few).k
    5
    """
    run = TrainingRun(METHODS["dm"].replace(**changes), click_model, production, seed)
    log, check_log = run.logs(data, counts.part("learn"), validation)
    scorer, histories = fit_in_passes(run.regression, log, check_log, seed, None)
    provenance = run.provenance("relevance", data, counts, {"ranker": histories["regression"]})
    return Ranker(scorer, run.scaling_of(data), provenance, features=run.features)


def _remove(folder: Path) -> None:
    """Remove a finished run's checkpoint, and the folder of checkpoints if it was the last."""
    if not workers().writes:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.is_dir() and not any(folder.parent.iterdir()):
        folder.parent.rmdir()
