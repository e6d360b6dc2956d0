"""Simulated sessions as a row log, for trying the way from a log to counts.

The same law as `simulate`, drawn by another route: every session has a stream of its own, and its
ranking comes from a race of exponential clocks over all documents of the query. Sessions are
written in batches, so memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from saferank._core.chance.streams import after, canonical_order, numbered, stream, uniform
from saferank._core.files import atomic_file
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank._core.marks import parquet_mark
from saferank._core.progress import bar
from saferank.clicks.simulation.simulating import (
    Policy,
    check_sessions,
    click_probabilities,
    make_policy,
    session_shares,
)
from saferank.clicks.users import Users
from saferank.data import RankingData
from saferank.errors import require

BATCH = 1 << 16


class Sessions(NamedTuple):
    """Some sessions: the query of each, the documents shown (-1: none) and which were clicked."""

    query: Ints
    shown: Ints
    clicked: npt.NDArray[np.bool_]


class _Traffic(NamedTuple):
    """Queries in an order of their own, and their shares of the sessions added up in it."""

    order: Ints
    bounds: Floats


class _World(NamedTuple):
    """What is shown, and what users do with it."""

    scores: Floats
    offsets: Ints
    deterministic: bool
    click: Floats
    going_on: Floats
    """Chances to look on after a click and after none, 2 x ranks."""


def simulate_rows(
    data: RankingData,
    scores: npt.ArrayLike,
    users: Users,
    sessions: int,
    seed: int,
    path: str | Path,
    *,
    temperature: float = 1.0,
    deterministic: bool = False,
    k: int | None = None,
    weights: npt.ArrayLike | None = None,
    highest_grade: float | None = None,
    progress: bool | None = None,
) -> int:
    """Write a Parquet log of `session_id, query_id, doc_id, rank, click`; returns its rows.

    Options are those of `simulate`. The file is there whole or not at all.

    Parameters
    ----------
    data, scores, users, sessions, seed
        As in `simulate`.
    path
        The Parquet file, written whole or not at all.
    temperature, deterministic, k, weights, highest_grade, progress
        As in `simulate`.

    Returns
    -------
    int
        How many rows were written.

    Examples
    --------
    >>> import tempfile
    >>> from saferank.clicks import position_bias
    >>> data = RankingData(np.zeros((2, 1)), offsets=[0, 2], labels=[0, 1])
    >>> path = Path(tempfile.mkdtemp()) / "log.parquet"
    >>> simulate_rows(data, [0.0, 1.0], position_bias(2), sessions=10, seed=0, path=path)
    20
    """
    import pyarrow.parquet as pq

    policy = make_policy(data, scores, users, temperature, deterministic, k)
    click = click_probabilities(data, users, policy.ranks, highest_grade)
    shares = session_shares(data, weights)
    batches = _batches(data, policy, click, users, shares, sessions, seed)
    rows = 0
    with (
        atomic_file(Path(path)) as temporary,
        pq.ParquetWriter(temporary, _schema(data), compression="zstd") as out,
        bar("Writing sessions", sessions, show=progress) as advance,
    ):
        for first, batch in batches:
            table = _table(data, first, batch)
            out.write_table(table)
            rows += table.num_rows
            advance(batch.query.size)
    return rows


def _batches(
    data: RankingData,
    policy: Policy,
    click: Floats,
    users: Users,
    shares: Floats,
    sessions: int,
    seed: int,
) -> Iterator[tuple[int, Sessions]]:
    check_sessions(sessions)
    largest = float(shares.max(initial=0.0))
    require(sessions == 0 or largest > 0, "weights", "positive somewhere", largest)
    order = canonical_order(data.ids()[0])
    traffic = _Traffic(order, np.cumsum(shares[order]))
    patience = users.patience
    going_on = np.ones((2, policy.ranks))
    if patience is not None:
        going_on = np.stack([patience.after_click, patience.after_skip])[:, : policy.ranks]
    world = _World(policy.scores, policy.offsets, policy.deterministic, click, going_on)
    start = stream(seed, "rows")
    for first in range(0, sessions, BATCH):
        size = min(BATCH, sessions - first)
        batch = Sessions(
            np.empty(size, dtype=np.int64),
            np.full((size, policy.ranks), -1, dtype=np.int64),
            np.zeros((size, policy.ranks), dtype=np.bool_),
        )
        _fill(size, first, start, traffic, world, batch)
        yield first, batch


@parallel_kernel
def _fill(
    start: int,
    stop: int,
    first: int,
    seed: np.uint64,
    traffic: _Traffic,
    world: _World,
    batch: Sessions,
) -> None:
    """Draw the sessions of a batch, each from a stream that its number alone decides."""
    order, bounds = traffic
    scores, offsets, deterministic, click, going_on = world
    query, shown, clicked = batch.query, batch.shown, batch.clicked
    for index in range(start, stop):
        state = numbered(seed, first + index)
        at = np.searchsorted(bounds, uniform(state) * bounds[-1], side="right")
        query[index] = order[min(at, order.size - 1)]
        begin, end = offsets[query[index]], offsets[query[index] + 1]
        state = _race(scores, begin, end, deterministic, shown[index], state)
        _look(shown[index], click, going_on, clicked[index], state)


@kernel
def _race(
    scores: Floats, begin: int, end: int, deterministic: bool, shown: Ints, state: np.uint64
) -> np.uint64:
    """The first documents to arrive: each at log E - score, E exponential (or at -score)."""
    arrival = np.full(shown.size, np.inf)
    for document in range(begin, end):
        time = -scores[document]
        if not deterministic:
            state = after(state)
            time += np.log(-np.log1p(-uniform(state)))
        if time >= arrival[-1]:
            continue
        place = shown.size - 1
        while place > 0 and arrival[place - 1] > time:
            arrival[place], shown[place] = arrival[place - 1], shown[place - 1]
            place -= 1
        arrival[place], shown[place] = time, document
    return state


@kernel
def _look(
    shown: Ints, click: Floats, going_on: Floats, clicked: npt.NDArray[np.bool_], state: np.uint64
) -> None:
    for rank in range(shown.size):
        if shown[rank] < 0:
            return
        state = after(state)
        clicked[rank] = uniform(state) < click[shown[rank], rank]
        state = after(state)
        if uniform(state) >= going_on[0 if clicked[rank] else 1, rank]:
            return


def _schema(data: RankingData) -> Any:
    import pyarrow as pa

    kinds = [pa.string() if ids.dtype.kind == "U" else pa.int64() for ids in data.ids()]
    types = [pa.int64(), *kinds, pa.int32(), pa.int8()]
    names = ("session_id", "query_id", "doc_id", "rank", "click")
    return pa.schema(list(zip(names, types, strict=True)), metadata=parquet_mark("log"))


def _table(data: RankingData, first: int, batch: Sessions) -> Any:
    import pyarrow as pa

    query_ids, doc_ids = data.ids()
    session, rank = np.nonzero(batch.shown >= 0)
    columns = [
        first + session,
        query_ids[batch.query[session]],
        doc_ids[batch.shown[session, rank]],
        (rank + 1).astype(np.int32),
        batch.clicked[session, rank].astype(np.int8),
    ]
    return pa.table([pa.array(column) for column in columns], schema=_schema(data))
