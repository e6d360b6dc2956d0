"""An epoch of PRPO at the size of MSLR-WEB30K's training fold, and one training of 900 queries."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from benchmarks.measure import Row, at_least, at_most, info
from benchmarks.one_training import LENGTH, QUERIES, WIDTH, one_training
from benchmarks.samplers import on_threads, torch_reinforce
from saferank.clicks import simulate, trust_bias
from saferank.data import RankingData, Scaling, synthetic
from saferank.data.synthetic import PRESETS
from saferank.estimators.estimator_table import estimator_of
from saferank.learning.descent import GoalQueries, Settings, Training
from saferank.learning.problem import Log, terms
from saferank.objectives import OBJECTIVES, Context
from saferank.objectives.in_exposures import ExposureGoal
from saferank.scorers.networks import make_network

SAMPLED_QUERIES = 300


def rows(queries: int = PRESETS["mslr"].queries[0]) -> Iterator[Row]:
    """Seconds a query of an epoch by the exact gradient, and by REINFORCE with 1000 samples."""
    users, data = trust_bias(), synthetic("mslr", queries=queries, seed=0).train
    shown = np.random.default_rng(0).normal(size=data.documents)
    counts = simulate(data, shown, users, sessions=10**7, seed=0, judge=0)
    data = replace(Scaling.fit(data, "log1p").apply(data), production=shown)
    log, weights = Log(data, counts), users.exposure_weights
    by_log = log.propensities(users, weights).clipped(counts.total)
    known = terms(log, estimator_of("affine-ips"), users, weights, by_log)
    context = Context(counts.total, 0.1, weights, users)
    objective = OBJECTIVES["prpo"].build(context)
    goal = ExposureGoal(data.queries, objective, known, weights, log.share())
    module = make_network(data.width, (64, 64), seed=0)
    training = Training(module, GoalQueries(data, goal), GoalQueries(data, goal), Settings())
    batches = [np.arange(q, min(q + 64, data.queries)) for q in range(0, data.queries, 64)]
    training._step(batches[0])  # compiled by now
    start = time.perf_counter()
    for batch in batches:
        training._step(batch)
    exact = (time.perf_counter() - start) / data.queries
    sampled = min(on_threads(n, _reinforce_epoch, data, goal, module) for n in (1, 2))
    yield info("queries", data.queries, "")
    yield info("documents", data.documents, "")
    yield info("epoch of PRPO by the exact gradient", exact * data.queries, "s")
    yield info("the same by REINFORCE, 1000 samples", sampled * data.queries, "s")
    yield at_least("REINFORCE over exact, a query, with the scorer", sampled / exact, 30)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield at_most("peak memory", peak, 8, "GB")
    yield from _training_rows()


def _training_rows() -> Iterator[Row]:
    """One training of PRPO, regression and imitation included, beside REINFORCE's passes alone."""
    whole = one_training()
    passes = whole["steps"] * Settings().batch_size / whole["queries"]
    module, slope = make_network(WIDTH, (64, 64), seed=0), np.ones(LENGTH)
    features = np.random.default_rng(0).normal(size=(100, LENGTH, WIDTH)).astype(np.float32)
    start = time.process_time()
    for documents in features:
        scores = module(torch.from_numpy(documents)).reshape(-1)
        weights = trust_bias().exposure_weights
        flow = torch_reinforce(scores.detach().numpy(), weights, slope, samples=1000)
        scores.backward(torch.from_numpy(flow.astype(np.float32)))
    sampled = (time.process_time() - start) / len(features) * passes * whole["queries"]
    yield info(f"one training of PRPO, {QUERIES} queries of {LENGTH}", whole["processor"], "s")
    yield info("passes over the queries after regression and imitation", passes, "")
    yield info("as many passes by REINFORCE, 1000 samples", sampled, "s")
    yield at_least("these passes over the whole training", sampled / whole["processor"], 30)


def _reinforce_epoch(data: RankingData, goal: ExposureGoal, module: torch.nn.Module) -> float:
    """Seconds a query: scores, sampled gradient, backward, on some of the queries."""
    start = time.perf_counter()
    for query in range(min(SAMPLED_QUERIES, data.queries)):
        rows_ = slice(int(data.offsets[query]), int(data.offsets[query + 1]))
        scores = module(torch.from_numpy(data.features[rows_])).reshape(-1)
        flow = torch_reinforce(
            scores.detach().numpy(), goal.weights, goal.terms.gain[rows_], samples=1000
        )
        scores.backward(torch.from_numpy(flow.astype(np.float32)))
    return (time.perf_counter() - start) / min(SAMPLED_QUERIES, data.queries)
