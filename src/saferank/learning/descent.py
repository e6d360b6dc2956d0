"""The one training loop: minibatches of queries, Adam, the weights of the best validation value.

Steps are large at first. Once validations bring nothing notable, training goes back to the best
weights and on from there with smaller steps; after the last such fall it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from saferank._core.flat import Floats, Ints, gather
from saferank._core.progress import Advance, bar
from saferank._core.seeds import generator
from saferank._core.storage import take
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.learning.adam import Adam
from saferank.learning.checkpoints import Progress, load_checkpoint, save_checkpoint
from saferank.learning.curvature import CURVATURES
from saferank.learning.portion import Portion
from saferank.learning.shares import Shares
from saferank.learning.workers import Workers, workers
from saferank.objectives.goals import Goal, QueryBlock, RiskPenalised
from saferank.scorers.networks import forward, gradients, one_thread_each, score_all, to_scores
from saferank.scorers.tensors import write_tensors

STATE = "state.safetensors"

TOGETHER = 4096
"""Documents of a block of a step, about: blocks are what workers and threads share."""
EVALUATED = 1 << 14
"""Documents of a block of an evaluation."""


@dataclass(frozen=True)
class Settings:
    """How a scorer is trained.

    Examples
    --------
    >>> Settings(steps=100, hidden=(16,)).steps
    100
    """

    learning_rate: float = 1e-2
    """At first; it falls when validations bring nothing notable. With few queries, where steps are
    chosen by cross-validation, a tenth of it from the start."""
    batch_size: int = 64
    """Queries per step."""
    steps: int = 4000
    """At most."""
    patience: int = 10
    """Validations without a better value after which training ends."""
    plateau: int = 3
    """Validations that bring nothing notable after which the learning rate falls."""
    rate_falls: int = 1
    """How often the rate falls before training ends instead."""
    min_validation_interval: int = 25
    """Steps between validations are at least this many, and at least one pass over the queries."""
    max_grad_norm: float = 1.0
    """Largest norm of a step's gradient."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the network's hidden layers."""
    rounds: int = 300
    """Trees, where the scorer has them."""
    leaves: int = 31
    """Of a tree, at most."""
    shrinkage: float = 0.1
    """Share of each tree's step that is taken."""
    curvature: str = "gradient"
    """What stands for the second derivative in a tree's leaves (`saferank.learning.curvature`)."""

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "learning_rate", "positive", self.learning_rate)
        for name in (
            "batch_size",
            "steps",
            "patience",
            "plateau",
            "min_validation_interval",
            "rounds",
        ):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(self.rate_falls >= 0, "rate_falls", "at least 0", self.rate_falls)
        require(self.leaves >= 2, "leaves", "at least 2", self.leaves)
        require(0 < self.shrinkage <= 1, "shrinkage", "in (0, 1]", self.shrinkage)
        valid = self.curvature in CURVATURES
        require(valid, "curvature", f"one of {', '.join(CURVATURES)}", self.curvature)
        object.__setattr__(self, "hidden", tuple(self.hidden))


@dataclass
class History:
    """Value on the validation queries at each validation; the first is before any step."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def best(self) -> int:
        """Which validation was best; the earliest of equals."""
        return int(np.argmax(self.values))


FALL = 0.25
"""What the learning rate is multiplied by when it falls."""
NOTABLE = 0.002
"""An improvement is notable from this share of all that training has gained so far."""


def falls(values: Sequence[float], plateau: int) -> int:
    """How often the learning rate has fallen after these validations, the first at the start.

    >>> falls([0.0, 1.0, 2.0, 2.001, 2.002, 2.003], plateau=3), falls([0.0, 1.0, 2.0], plateau=3)
    (1, 0)
    """
    count = waited = 0
    mark = best = values[0]
    for value in values[1:]:
        best = max(best, value)
        waited += 1
        if value > mark + NOTABLE * (best - values[0]):
            mark, waited = value, 0
        elif waited >= plateau:
            count, mark, waited = count + 1, best, 0
    return count


@dataclass(frozen=True)
class GoalQueries:
    """Queries (already scaled), the goal on them, and scores that the scorer's are added to."""

    data: RankingData
    goal: Goal
    base: Floats | None = None
    portion: Portion | None = None
    """All queries, where these are those of some shards: the goal knows the own by their place."""

    @property
    def queries(self) -> int:
        """Number of queries, those of other processes too."""
        return self.data.queries if self.portion is None else self.portion.queries

    @property
    def offsets(self) -> Ints:
        """Where the documents of each of them begin."""
        return self.data.offsets if self.portion is None else self.portion.offsets

    @property
    def first(self) -> int:
        """The first of them that is here."""
        return 0 if self.portion is None else self.portion.first

    def goal_has_risk(self) -> bool:
        """Whether the goal needs to know of all queries what is no sum over them."""
        return not (isinstance(self.goal, RiskPenalised) and self.goal.risk_weight == 0)

    def total(self, scores: Floats, positions: Ints | slice) -> Floats:
        """The scorer's scores of some documents with what they are added to."""
        return scores if self.base is None else scores + self.base[positions]

    def shares(self, workers: Workers) -> Shares:
        """All queries, some at a time; the cuts depend on the data alone."""
        if self.portion is None:
            return Shares.of(self.offsets, EVALUATED, workers)
        return Shares.of_shards(self.offsets, self.portion.borders, EVALUATED, self.portion)

    def blocks(self, shares: Shares) -> list[QueryBlock]:
        """Those of the queries that are this worker's own."""
        return [
            QueryBlock(np.arange(first, last), slice(int(cuts[0]), int(cuts[-1])), cuts - cuts[0])
            for first, last in (np.array(shares.own, dtype=np.int64).reshape(-1, 2) - self.first)
            for cuts in (self.data.offsets[first : last + 1],)
        ]

    def order(self, seed: int, epoch: int) -> Ints:
        """All of them in the order of an epoch."""
        if self.portion is None:
            drawn = generator(seed, "epoch", epoch).permutation(self.queries)
            return drawn.astype(np.int64)
        return self.portion.order(seed, epoch)

    def batch(self, order: Ints, number: int, size: int) -> Ints:
        """The queries of a step of an epoch; of every shard as large a share as of the others."""
        if self.portion is None:
            return order[number * size : (number + 1) * size]
        return order[number :: steps_of_epoch(self.queries, size)]

    def step_blocks(self, queries: Ints) -> tuple[Shares, list[QueryBlock]]:
        """The blocks of a step, and of those the own."""
        sizes = self.offsets[queries + 1] - self.offsets[queries]
        cuts = np.concatenate([[0], np.cumsum(sizes)])
        if self.portion is None:
            shares = Shares.of(cuts, TOGETHER, workers())
        else:
            borders = self.portion.shard_borders(queries)
            shares = Shares.of_shards(cuts, borders, TOGETHER, self.portion)
        mine = [queries[first:last] - self.first for first, last in shares.own]
        return shares, [QueryBlock(one, *gather(self.data.offsets, one)) for one in mine]

    def values(self, scores: Floats, block: QueryBlock) -> Tensor:
        """Reward and risks of a block's queries: a row for each."""
        reward, risk = self.goal.values(self.total(scores, block.positions), block)
        return torch.from_numpy(np.column_stack([reward, risk]))

    def sum_up(self, values: Tensor) -> tuple[float, Floats]:
        """The goal's value from reward and risks of all queries, and the risk of each."""
        table = values.numpy()
        risk = np.ascontiguousarray(table[:, 1] if table.shape[1] == 2 else table[:, 1:])
        reward = float(np.ascontiguousarray(table[:, 0]).sum())
        return self.goal.value(reward, risk.sum(axis=0)), risk


def evaluate(part: GoalQueries, scores: Floats) -> tuple[float, Floats]:
    """The goal's value on all queries, and the risk of each."""
    shares = part.shares(Workers())
    blocks = part.blocks(shares)
    return part.sum_up(shares.join([part.values(scores[b.positions], b) for b in blocks]))


def steps_of_epoch(queries: int, size: int) -> int:
    """Steps that take every query once."""
    return max(1, -(-queries // size))


class Training:
    """The state of a run: what a checkpoint holds, so that a killed run goes on where it was."""

    def __init__(
        self, module: nn.Module, train: GoalQueries, validation: GoalQueries, settings: Settings
    ) -> None:
        self.module, self.train, self.validation = module, train, validation
        self.settings = settings
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.adam = Adam(self.parameters, settings.max_grad_norm)
        self.falls = 0
        self.history = History()
        self.step = 0
        self.best: dict[str, torch.Tensor] = {}
        self.risks = np.zeros(train.queries)

    def run(self, seed: int, checkpoint: Path | None, label: str) -> History:
        """Train to the end, from the checkpoint where there is one; the module keeps the best."""
        train, settings = self.train, self.settings
        batches = steps_of_epoch(train.queries, settings.batch_size)
        every = max(settings.min_validation_interval, batches)
        with one_thread_each(), _bar(label, settings.steps) as advance:
            resumed = checkpoint is not None and self._resume(checkpoint)
            if not workers().agree(self.step):
                raise InputError("`checkpoint` must be a folder that all workers share.")
            if not resumed:
                if self.train.goal_has_risk():
                    self.risks = self._evaluate(self.train)[1]
                self._validate()
            advance(self.step)
            epoch, order = -1, np.empty(0, dtype=np.int64)
            while self.step < settings.steps and not self._finished():
                if self.step // batches != epoch:
                    epoch = self.step // batches
                    order = train.order(seed, epoch)
                self._step(train.batch(order, self.step % batches, settings.batch_size))
                self.step += 1
                advance(note=f"best {max(self.history.values):.4g}")
                if self.step % every == 0 or self.step == settings.steps:
                    self._validate()
                    if checkpoint is not None:
                        self._save(checkpoint)
        self.module.load_state_dict(self.best)
        return self.history

    def _finished(self) -> bool:
        waited = len(self.history.values) - 1 - self.history.best()
        over = waited >= self.settings.patience or self.falls > self.settings.rate_falls
        return over or self._stands_still()

    def _stands_still(self) -> bool:
        """Whether a whole pass had no gradient at all: no step will ever change anything.

        PRPO with delta 1 has none at production. Where the rate never falls, passes are compared
        step by step, and go on.
        """
        passed = len(self.history.values) > 1 and self.settings.rate_falls > 0
        return passed and not self.adam.moved

    def _step(self, queries: Ints) -> None:
        data = self.train.data
        shares, own = self.train.step_blocks(queries)
        outputs = forward(self.module, [take(data.features, b.positions) for b in own])  # type: ignore[arg-type]
        total = self.risks.sum(axis=0)
        judged = [
            self.train.goal.value_and_gradient(
                self.train.total(to_scores(output), block.positions), block, total
            )
            for output, block in zip(outputs, own, strict=True)
        ]
        # the whole-data gradient, estimated from the batch; Adam goes down, goals go up
        scale = self.train.queries / queries.size
        gradient, risks = shares.add_up(
            gradients(self.module, outputs, [-it.gradient * scale for it in judged]),
            [torch.from_numpy(it.risk.reshape(len(it.reward), -1)) for it in judged],
            blank=(self.adam.first, self.risks.reshape(len(self.risks), -1).shape[1]),
        )
        self.risks[queries] = risks.numpy().reshape(self.risks[queries].shape)
        self.adam.step(gradient, self.settings.learning_rate * FALL**self.falls)

    def _evaluate(self, part: GoalQueries) -> tuple[float, Floats]:
        """As `evaluate`, by all workers."""
        shares = part.shares(workers())
        values = [
            part.values(score_all(self.module, part.data.features[block.positions]), block)
            for block in part.blocks(shares)
        ]
        return part.sum_up(shares.join(values))

    def _validate(self) -> None:
        value = self._evaluate(self.validation)[0]
        if not self.history.values or value > max(self.history.values):
            self.best = {k: v.detach().clone() for k, v in self.module.state_dict().items()}
        self.history.steps.append(self.step)
        self.history.values.append(value)
        fallen = falls(self.history.values, self.settings.plateau)
        if fallen > self.falls:
            self.falls = fallen
            self.module.load_state_dict(self.best)
            self.adam.forget_direction()

    def _save(self, folder: Path) -> None:
        state = {f"now.{k}": v.cpu().contiguous() for k, v in self.module.state_dict().items()}
        state |= {f"best.{k}": v.cpu().contiguous() for k, v in self.best.items()}
        state |= {f"adam.{k}": v for k, v in self.adam.state().items()}
        state["risks"] = torch.from_numpy(self.risks)
        progress = Progress(self.step, self.history.steps, self.history.values)
        save_checkpoint(
            folder, STATE, lambda inside: write_tensors(state, inside / STATE), progress
        )

    def _resume(self, folder: Path) -> bool:
        """Go on from a checkpoint; False where there is none that is whole and of this module."""
        progress = load_checkpoint(folder, STATE)
        if progress is None:
            return False
        state = load_file(folder / STATE)
        if not self._fits(state):
            return False
        self.step = progress.step
        self.history = History(progress.steps, progress.values)
        self.module.load_state_dict(_under("now.", state))
        self.best = _under("best.", state)
        self.adam.restore(_under("adam.", state))
        self.falls = falls(progress.values, self.settings.plateau)
        self.risks = state["risks"].numpy()
        return True

    def _fits(self, state: dict[str, torch.Tensor]) -> bool:
        own = {name: value.shape for name, value in self.module.state_dict().items()}
        shapes = [{k: v.shape for k, v in _under(p, state).items()} for p in ("now.", "best.")]
        risks = state.get("risks")
        fits = shapes == [own, own] and self.adam.fits(_under("adam.", state))
        return fits and risks is not None and len(risks) == len(self.risks)


def _bar(label: str, steps: int) -> AbstractContextManager[Advance]:
    """A bar, of one worker only."""
    return bar(label, steps, show=None if workers().writes else False)


def _under(prefix: str, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
