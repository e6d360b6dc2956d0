"""What more workers would bring, from the measured cost of a step and of its messages.

    python -m benchmarks.simulated_workers [--queries 400] [--batch 64]

A step is B blocks of whole queries (`saferank.learning.descent.TOGETHER` documents each, about). A
worker computes its blocks one after the other and adds up its part of the tree; one message gathers
the gradients of these subtrees, P parameters each, and all add up the rest. So with n workers

    step(n) = ceil(B / n) block + messages(n) + B add + rest,

where block, add and rest (cutting the step, Adam) are measured here on one thread, and messages
go at a latency and a bandwidth that are given. Validation is shared as the blocks are, and left
out.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from saferank._core.flat import gather, halve_queries
from saferank._core.storage import take
from saferank._core.threads import use_threads
from saferank.clicks import simulate, trust_bias
from saferank.data import Scaling, synthetic
from saferank.estimators.estimator_table import estimator_of
from saferank.learning.descent import TOGETHER, GoalQueries, Settings, Training
from saferank.learning.problem import Log, terms
from saferank.learning.shares import share_out, subtrees
from saferank.objectives import OBJECTIVES, Context
from saferank.objectives.goals import QueryBlock
from saferank.objectives.in_exposures import ExposureGoal
from saferank.scorers.networks import (
    forward,
    gradients,
    make_network,
    one_thread_each,
    to_scores,
)

WORKERS = (1, 2, 4, 16, 64)
NETWORKS = {
    "one machine (gloo, shared memory)": (50e-6, 2e9),
    "10 Gbit/s Ethernet": (100e-6, 1.25e9),
    "100 Gbit/s": (20e-6, 12.5e9),
}
"""Seconds of latency, and bytes per second, of one message."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 512])
    given = parser.parse_args()
    with use_threads(1), one_thread_each():  # as training has it
        training = _training(given.queries)
        size = sum(p.numel() for p in training.parameters)
        for batch in given.batch:
            _table(training, batch, size)


def _training(queries: int) -> Training:
    users, data = trust_bias(), synthetic("mslr", queries=queries, seed=0).train
    shown = np.random.default_rng(0).normal(size=data.documents)
    counts = simulate(data, shown, users, sessions=100 * queries, seed=0, judge=0)
    log = Log(Scaling.fit(data, "log1p").apply(data), counts)
    weights = users.exposure_weights
    by_log = log.propensities(users, weights).clipped(counts.total)
    known = terms(log, estimator_of("affine-ips"), users, weights, by_log)
    objective = OBJECTIVES["prpo"].build(Context(counts.total, 0.1, weights, users))
    goal = ExposureGoal(data.queries, objective, known, weights, log.share())
    module = make_network(data.width, (64, 64), seed=0)
    part = GoalQueries(log.data, goal)
    return Training(module, part, part, Settings())


def _table(training: Training, batch: int, size: int) -> None:
    data = training.train.data
    queries = np.arange(data.queries)[:batch]
    cuts = halve_queries(gather(data.offsets, queries)[1], TOGETHER)
    blocks = len(cuts)
    block = _seconds(lambda: [_block(training, queries[a:b]) for a, b in cuts]) / blocks
    parts = [torch.randn(1, size) for _ in range(blocks)]
    add = _seconds(lambda: sum(parts[1:], parts[0])) / blocks
    rest = _seconds(lambda: _rest(training, queries, parts[0][0]))
    print(
        f"{batch} queries a step, {blocks} blocks of {block * 1e3:.2f} ms, {size:,} parameters, "
        f"adding {add * 1e6:.0f} µs a block, rest {rest * 1e3:.2f} ms; "
        f"message of a subtree {size * 4 / 1e3:.0f} kB"
    )
    print("workers".ljust(36) + "".join(f"{n:>8}" for n in WORKERS))
    for name, (latency, speed) in NETWORKS.items():
        steps = [
            -(-blocks // n) * block + _messages(n, blocks, size, latency, speed)
            + blocks * add + rest
            for n in WORKERS
        ]  # fmt: skip
        print(name.ljust(36) + "".join(f"{steps[0] / step:>7.1f}x" for step in steps))


def _block(training: Training, queries: np.ndarray) -> None:
    data = training.train.data
    place = QueryBlock(queries, *gather(data.offsets, queries))
    outputs = forward(training.module, [take(data.features, place.positions)])  # type: ignore[arg-type]
    judged = training.train.goal.value_and_gradient(
        training.train.total(to_scores(outputs[0]), place.positions), place, 0.0
    )
    gradients(training.module, outputs, [-judged.gradient])


def _rest(training: Training, queries: np.ndarray, gradient: torch.Tensor) -> None:
    """What every worker does of a step, whoever computes its blocks."""
    training.train.step_blocks(queries)
    training.adam.step(gradient, 0.0)


def _messages(workers: int, blocks: int, size: int, latency: float, speed: float) -> float:
    """A ring: each worker sends on what it has got, n - 1 times."""
    if workers == 1:
        return 0.0
    ranges = share_out(np.arange(blocks + 1), workers)
    sent = max(len(subtrees(own, (0, blocks))) for own in ranges) * size * 4
    return (workers - 1) * (latency + sent / speed)


def _seconds(call: object, repeats: int = 15) -> float:
    assert callable(call)
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
