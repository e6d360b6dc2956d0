"""Clicks of simulated users on a collection, as counts: as many sessions as one likes.

The result has exactly the distribution that drawing and counting every session would give, and
takes the memory of the counts. Each query has random streams of its own, keyed by seed and query
id: the result depends neither on the number of threads nor on the order of the queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.chance.binomial import binomial
from saferank._core.chance.streams import States, canonical_order, stream, streams
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel
from saferank._core.progress import bar
from saferank._core.threads import threads
from saferank.clicks.models import relevance
from saferank.clicks.simulation.cascades import cascade_counts
from saferank.clicks.simulation.shown_lists import SPLIT_COST, ranking_counts
from saferank.clicks.users import Patience, Users
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require

MOST_SESSIONS = 10**15
_BLOCKS = 200


class Sessions(NamedTuple):
    """What is shown: scores of all documents, and how many sessions each query has."""

    scores: Floats
    offsets: Ints
    numbers: Ints
    deterministic: bool


class Tally(NamedTuple):
    """Impressions and clicks, documents x ranks: what a simulation fills in."""

    shown: Ints
    clicked: Ints


@dataclass(frozen=True, eq=False)
class Policy:
    """How rankings come about: scores, divided by a temperature, or sorted; the first k shown."""

    scores: Floats
    offsets: Ints
    ranks: int
    deterministic: bool = False


def simulate(
    data: RankingData,
    scores: npt.ArrayLike,
    users: Users,
    sessions: int,
    seed: int,
    *,
    temperature: float = 1.0,
    deterministic: bool = False,
    k: int | None = None,
    weights: npt.ArrayLike | None = None,
    highest_grade: float | None = None,
    judge: float = 0.2,
    progress: bool | None = None,
) -> Counts:
    """Counts of simulated sessions: a query at random, a ranking of the policy, users' clicks.

    P(R) is the label as a share of `highest_grade`. The same seed shows the same rankings to any
    users, except to those whose clicks depend on each other.

    Parameters
    ----------
    data
        Labelled items.
    scores
        Production's scores, one per document.
    users
        Who clicks: a click model, or users of another kind.
    sessions
        How many sessions, in all.
    seed
        Of every draw; the same bits for any number of threads.
    temperature
        What scores are divided by before rankings are drawn from Plackett-Luce.
    deterministic
        Sort by score instead of drawing.
    k
        How many ranks are shown; by default as many as users look at.
    weights
        Of the queries, one per query; by default all are as frequent.
    highest_grade
        The grade of relevance 1; by default the largest label of the data.
    judge
        Probability of a session to be set aside to judge by (`Counts.judge`); with 0 all are to
        learn from.
    progress
        Whether to show a bar; None: where there is a terminal.

    Returns
    -------
    Counts
        Impressions and clicks, documents x ranks, and sessions per query.

    Examples
    --------
    >>> from saferank.clicks import position_bias
    >>> data = RankingData(np.zeros((3, 1)), offsets=[0, 2, 3], labels=[0, 1, 1])
    >>> counts = simulate(data, [0.0, 1.0, 0.0], position_bias(2), sessions=10**9, seed=0)
    >>> counts.total, counts.impressions.shape
    (1000000000, (3, 2))
    >>> int(counts.clicks[0].sum())
    0
    >>> counts.part("judge")
    Counts(2 queries, 3 documents, 2 ranks, 200006196 sessions, 186561166 clicks)
    """
    require(0 <= judge < 1, "judge", "in [0, 1)", judge)
    policy = make_policy(data, scores, users, temperature, deterministic, k)
    click = click_probabilities(data, users, policy.ranks, highest_grade)
    numbers = sessions_of_queries(data, sessions, seed, weights)
    query_ids = data.ids()[0]
    judged = _some_of(numbers, judge, streams(seed, "judge", query_ids))
    with bar("Simulating sessions", sessions, show=progress) as advance:

        def simulate_part(part: Ints, *words: str) -> Counts:
            rankings, clicks = (streams(seed, word, query_ids) for word in words)
            task = _Task(policy, click, users.patience, part, rankings, clicks)
            tally = Tally(*np.zeros((2, data.documents, policy.ranks), dtype=np.int64))
            for first, last in _in_threads(task, tally):
                advance(int(part[first:last].sum()))
            return Counts(data.offsets, *tally, part)

        learn = simulate_part(numbers - judged, "rankings", "clicks")
        if judge == 0:
            return learn
        return Counts.of_parts(learn, simulate_part(judged, "judge rankings", "judge clicks"))


def make_policy(
    data: RankingData,
    scores: npt.ArrayLike,
    users: Users,
    temperature: float,
    deterministic: bool,
    k: int | None,
) -> Policy:
    """The policy of checked options."""
    values = flat.check_values("scores", scores, data.offsets)
    require(
        bool(np.isfinite(temperature)) and temperature > 0, "temperature", "positive", temperature
    )
    ranks = users.ranks if k is None else k
    require(1 <= ranks <= users.ranks, "k", f"in 1..{users.ranks}, as users look at", k)
    return Policy(values / temperature, data.offsets, ranks, deterministic)


def click_probabilities(
    data: RankingData, users: Users, ranks: int, highest_grade: float | None
) -> Floats:
    """P(click | looked at) of the data's documents at each rank shown."""
    labels = data.known_labels
    highest = float(labels.max(initial=0)) or 1.0 if highest_grade is None else highest_grade
    click = np.ascontiguousarray(users.probability(relevance(labels, highest))[:, :ranks])
    shape = (data.documents, ranks)
    require(click.shape == shape, "users.probability", f"of shape {shape}", click.shape)
    flat.require_each((click >= 0) & (click <= 1), "users.probability", "in [0, 1]", click)
    return click


def sessions_of_queries(
    data: RankingData, sessions: int, seed: int, weights: npt.ArrayLike | None = None
) -> Ints:
    """How many sessions fall on each query: a multinomial, whatever the order of the queries.

    A query without documents has none.
    """
    check_sessions(sessions)
    share = session_shares(data, weights)
    largest = float(share.max(initial=0.0))
    require(sessions == 0 or largest > 0, "weights", "positive somewhere", largest)
    order = canonical_order(data.ids()[0])
    numbers = np.zeros(data.queries, dtype=np.int64)
    numbers[order] = _multinomial(int(sessions), share[order], stream(seed, "queries"))
    return numbers


def check_sessions(sessions: int) -> None:
    """`InputError` unless that many sessions can be simulated."""
    whole = isinstance(sessions, int | np.integer) and not isinstance(sessions, bool)
    require(whole and 0 <= sessions <= MOST_SESSIONS, "sessions", "in 0..10^15", sessions)


def session_shares(data: RankingData, weights: npt.ArrayLike | None) -> Floats:
    """The weight of each query in the draw of sessions; 0 without documents."""
    share = np.ones(data.queries) if weights is None else np.array(weights, dtype=np.float64)
    require(share.shape == (data.queries,), "weights", f"{data.queries} values", share.shape)
    sane = np.isfinite(share) & (share >= 0)
    flat.require_each(sane, "weights", "finite and at least 0", share)
    share[data.sizes == 0] = 0.0
    return share


@kernel
def _some_of(numbers: Ints, share: float, states: States) -> Ints:
    """A binomial of each number."""
    chosen = np.zeros_like(numbers)
    for index in range(numbers.size):
        chosen[index], _ = binomial(numbers[index], share, states[index])
    return chosen


@kernel
def _multinomial(total: int, share: Floats, state: np.uint64) -> Ints:
    numbers = np.zeros(share.size, dtype=np.int64)
    rest = np.cumsum(share[::-1])[::-1]
    left = total
    for index in range(share.size):
        if left == 0:
            break
        if share[index] > 0.0:
            numbers[index], state = binomial(left, share[index] / rest[index], state)
            left -= numbers[index]
    return numbers


def _in_threads(task: _Task, tally: Tally) -> Iterator[tuple[int, int]]:
    """Run the blocks of a task; those that are done come as they end.

    They come as they end, so that a bar can move; a parallel kernel would return at the end of all.
    """
    blocks = _blocks(task.numbers)
    with ThreadPoolExecutor(min(threads(), max(1, len(blocks)))) as pool:
        running = {pool.submit(task.run, *block, tally): block for block in blocks}
        try:
            for done in as_completed(running):
                done.result()
                yield running[done]
        finally:
            pool.shutdown(cancel_futures=True)


def _blocks(numbers: Ints) -> list[tuple[int, int]]:
    """Runs of queries with about equally many sessions, so that a bar can move between them."""
    done = np.cumsum(numbers)
    marks = np.linspace(0, done[-1], _BLOCKS + 1)[1:-1] if done.size else np.zeros(0)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(done, marks), [numbers.size]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class _Task:
    """What one simulation computes, block by block of queries."""

    policy: Policy
    click: Floats
    patience: Patience | None
    numbers: Ints
    ranking_streams: States
    click_streams: States

    def run(self, first: int, last: int, tally: Tally) -> None:
        """Fill in the counts of the queries from `first` to before `last`."""
        policy = self.policy
        sessions = Sessions(policy.scores, policy.offsets, self.numbers, policy.deterministic)
        if self.patience is None:
            _show(first, last, sessions, SPLIT_COST, self.ranking_streams, tally.shown)
            _click(first, last, policy.offsets, self.click, self.click_streams, tally)
        else:
            on = np.stack([self.patience.after_click, self.patience.after_skip])
            _walk(first, last, sessions, self.click, on, self.click_streams, tally)


@kernel
def _show(
    begin: int, stop: int, sessions: Sessions, split_cost: float, states: States, shown: Ints
) -> None:
    """Impressions of some queries."""
    scores, offsets, numbers, deterministic = sessions
    ranks = shown.shape[1]
    for query in range(begin, stop):
        first = offsets[query]
        order = np.argsort(-scores[first : offsets[query + 1]], kind="mergesort")
        if deterministic:
            for rank in range(min(ranks, order.size)):
                shown[first + order[rank], rank] = numbers[query]
        elif numbers[query] > 0:
            ordered = scores[first : offsets[query + 1]][order]
            counts, _ = ranking_counts(ordered, numbers[query], ranks, split_cost, states[query])
            for position in range(order.size):
                for rank in range(ranks):
                    shown[first + order[position], rank] = counts[position, rank]


@kernel
def _click(
    begin: int, stop: int, offsets: Ints, click: Floats, states: States, tally: Tally
) -> None:
    """Clicks of some queries: a binomial of each impression count."""
    shown, clicked = tally
    for query in range(begin, stop):
        state = states[query]
        for document in range(offsets[query], offsets[query + 1]):
            for rank in range(shown.shape[1]):
                number = shown[document, rank]
                clicked[document, rank], state = binomial(number, click[document, rank], state)


@kernel
def _walk(
    begin: int,
    stop: int,
    sessions: Sessions,
    click: Floats,
    going_on: Floats,
    states: States,
    tally: Tally,
) -> None:
    """Impressions and clicks of some queries whose users' clicks depend on each other."""
    scores, offsets, numbers, deterministic = sessions
    shown, clicked = tally
    for query in range(begin, stop):
        first, last = offsets[query], offsets[query + 1]
        order = np.argsort(-scores[first:last], kind="mergesort")
        impressions, clicks = cascade_counts(
            scores[first:last][order],
            click[first:last][order],
            going_on,
            numbers[query],
            deterministic,
            states[query],
        )
        for position in range(order.size):
            shown[first + order[position]] = impressions[position]
            clicked[first + order[position]] = clicks[position]
