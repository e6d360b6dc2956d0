"""Learning under a promise: it is kept on every query that was learned from and stopped by."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from worlds import exposure as enumerated

from saferank.clicks import simulate, trust_bias
from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.learning import RankingEstimator, Settings, learn
from saferank.learning.descent import GoalQueries
from saferank.learning.families import Run, family
from saferank.learning.pointwise_goals import ImitationGoal
from saferank.learning.promises import take_back
from saferank.learning.recipe import METHODS
from saferank.learning.training_run import TrainingRun
from saferank.objectives import OBJECTIVES, Context, Terms
from saferank.objectives.in_exposures import ExposureGoal
from saferank.plackett_luce import exposure
from saferank.scorers.tree_scorer import TreeScorer
from saferank.scorers.tree_text import Forest

USERS = trust_bias()
WEIGHTS = USERS.alpha + USERS.beta
WORLD = synthetic("small", queries=60, seed=0)
QUICK = Settings(steps=200, min_validation_interval=25, hidden=(16,))


@pytest.fixture(scope="module")
def production():
    few = WORLD.train.subset(np.arange(8))
    return learn(few, method="skyline", settings=QUICK, validation=(few, None))


@pytest.fixture(scope="module")
def counts(production):
    shown = production.scores(WORLD.train)
    return simulate(WORLD.train, shown, USERS, sessions=20_000, seed=3, judge=0)


def losses(scores, shown, data, keep):
    """The worst loss of each query as a share of Z, by plain loops over queries."""
    new, old = (exposure(s, WEIGHTS, data.offsets) for s in (scores, shown))
    return [
        sum(max(0.0, keep * o - n) for n, o in zip(new[a:b], old[a:b], strict=True))
        / sum(WEIGHTS[: b - a])
        for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]


@pytest.mark.parametrize("given", ["scores", "ranker", "ranker of another kind"])
@pytest.mark.parametrize("keep", [0.9, 0.4])
def test_the_promise_holds_on_every_query(given, keep, production, counts):
    shown = production.scores(WORLD.train)
    scorer = "linear" if given == "ranker of another kind" else "mlp"
    data = RankingData(WORLD.train.features, WORLD.train.offsets, production=shown)
    ranker = learn(
        data, counts, USERS, production=shown if given == "scores" else production, keep=keep,
        scorer=scorer, settings=QUICK,
    )  # fmt: skip
    assert ranker.adds_production == (given != "ranker")
    scores = ranker.scores(data)
    assert max(losses(scores, shown, data, keep)) <= 0.01 + 1e-9
    assert not np.array_equal(scores, shown)
    assert ranker.provenance.holding == 1
    assert 0 < ranker.provenance.way <= 1
    assert ranker.provenance.method == "keep"
    assert (ranker.provenance.keep, ranker.provenance.slack) == (keep, 0.01)


@pytest.mark.parametrize("scorer", ["linear", "mlp", "trees"])
def test_the_start_is_production_to_the_bit(scorer, counts):
    shown = np.random.default_rng(0).normal(size=WORLD.train.documents) * 3
    data = RankingData(WORLD.train.features, WORLD.train.offsets, production=shown)
    # keep everything, without slack: no step can be better than the start
    ranker = learn(
        data, counts, USERS, production=shown, keep=1.0, slack=0.0, scorer=scorer,
        production_kind="sampled",
        # steps so small that some look better, and are taken back
        settings=Settings(steps=50, min_validation_interval=25, rounds=10, learning_rate=1e-3),
    )  # fmt: skip
    assert np.array_equal(ranker.scores(data), shown)
    assert ranker.provenance.way == 0


class Shift:
    """A scorer of given scores: the way is a straight line in them."""

    def __init__(self, values):
        self.values = values

    def scores(self, features):
        return self.values[: len(features)]

    def towards(self, start, way):
        return Shift((1 - way) * start.values + way * self.values)


def straight(values) -> Any:
    """It has of a scorer what `take_back` needs, and no more."""
    return Shift(values)


def promised_part(shown, gain, weights, offsets, omega0=None):
    data = RankingData(np.zeros((shown.size, 1)), offsets)
    if omega0 is None:
        omega0 = np.concatenate([enumerated(shown[a:b], weights) for a, b in pairwise(offsets)])
    terms = Terms(gain, omega0, np.full(shown.size, weights.sum()))
    objective = OBJECTIVES["utility"].build(Context(100, 1.0, weights, None))
    goal = ExposureGoal(offsets.size - 1, objective, terms, weights, np.full(offsets.size - 1, 0.5))
    return GoalQueries(data, goal)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_learned_is_taken_back_as_far_as_needed_and_no_further(seed):
    rng = np.random.default_rng(seed)
    weights, offsets = np.array([1.0, 0.6]), np.array([0, 4, 8])
    shown = rng.normal(size=8)
    gain = rng.random(8)
    part = promised_part(shown, gain, weights, offsets)
    learned, start = straight(shown + 4 * gain), straight(shown)
    scorer, kept = take_back(learned, start, part, part, (0.8, 0.01))

    def worst(way):
        new, old = (
            [enumerated(s[a:b], weights) for a, b in ((0, 4), (4, 8))]
            for s in (learned.towards(start, way).values, shown)
        )
        return max(
            sum(max(0.0, 0.8 * o - n) for n, o in zip(*pair, strict=True))
            for pair in zip(new, old, strict=True)
        )

    allowed = 0.5 * (0.01 * weights.sum() + 1e-9)  # half of the slack is left to new queries
    assert kept.holding == 1
    assert kept.way == 1 or 0 < kept.way < 1
    assert worst(kept.way) <= allowed
    assert kept.way == 1 or worst(kept.way + 1 / 512) > allowed
    assert np.allclose(scorer.scores(np.zeros((8, 1))), learned.towards(start, kept.way).values)


def test_a_point_of_the_way_that_is_worth_less_than_the_start_is_not_taken():
    rng = np.random.default_rng(1)
    shown, gain = rng.normal(size=4), rng.random(4)
    part = promised_part(shown, gain, np.array([1.0, 0.6]), np.array([0, 4]))
    scorer, kept = take_back(
        straight(shown - 3 * gain), start := straight(shown), part, part, (0.5, 0.01)
    )
    assert (kept.way, kept.holding) == (0.0, 1.0)
    assert scorer is start


def test_where_the_start_breaks_the_promise_no_query_loses_more_than_at_the_start():
    """Production sorts: drawing from its scores keeps 0.9 on no query."""
    weights, offsets = np.array([1.0, 0.6]), np.array([0, 4])
    shown = np.array([2.0, 1.0, 0.0, -1.0])
    omega0 = np.array([1.0, 0.6, 0.0, 0.0])
    part = promised_part(shown, np.array([0.1, 0.2, 0.9, 0.5]), weights, offsets, omega0)
    learned, start = straight(shown + np.array([0.0, 0.0, 3.0, 1.0])), straight(shown)
    scorer, kept = take_back(learned, start, part, part, (0.9, 0.01))
    assert (kept.way, kept.holding) == (0.0, 0.0)
    assert scorer is start


@pytest.mark.parametrize("scorer", ["linear", "mlp", "trees"])
def test_the_way_from_a_start_to_what_was_learned(scorer):
    kind, rng = family(scorer), np.random.default_rng(0)
    data = RankingData(rng.normal(size=(200, 5)), np.arange(0, 201, 10))
    features = data.features
    start = kind.fresh(data.width, Settings(hidden=(4,)), 0)
    part = GoalQueries(data, ImitationGoal(data.queries, rng.normal(size=data.documents)))
    origin = start.copy()
    run = Run(Settings(steps=20, min_validation_interval=10, rounds=5, learning_rate=0.1), 0)
    learned, _ = kind.fit(start, part, part, run)
    ends = origin.scores(features), learned.scores(features)
    assert not np.array_equal(*ends)
    half = learned.towards(origin, 0.5)
    if scorer != "mlp":  # straight in the scores, too
        assert np.allclose(half.scores(features), sum(ends) / 2, atol=1e-5)
    near = learned.towards(origin, 1e-6).scores(features)
    assert np.allclose(near, ends[0], rtol=1e-3, atol=1e-3)
    assert np.array_equal(learned.scores(features), ends[1])
    assert np.array_equal(origin.scores(features), ends[0])
    if scorer == "trees":  # written and read as it is
        assert isinstance(half, TreeScorer)
        again = TreeScorer(Forest.parse(half.text))
        assert np.array_equal(again.scores(features), half.scores(features))


def test_the_price_is_above_every_gain_of_validation_too():
    """Where validation has the larger gains: no document there is paid for leaving its interval."""
    shown = np.zeros(WORLD.train.documents)
    counts = simulate(WORLD.train, shown, USERS, sessions=10**7, seed=0, judge=0)
    run = TrainingRun(
        METHODS["prpo-floor"].replace(gain="affine-ips", delta=0.9), USERS, shown, seed=0
    )
    held = WORLD.validation
    sessions = simulate(held, np.zeros(held.documents), USERS, sessions=40, seed=0, judge=0)
    held = RankingData(held.features, held.offsets, production=np.zeros(held.documents))
    logs = run.logs(WORLD.train, counts, (held, sessions))
    goal, check = run.goals(*logs, None)
    assert isinstance(goal, ExposureGoal)
    assert isinstance(check, ExposureGoal)
    largest = [float(np.abs(one.terms.gain).max()) for one in (goal, check)]
    assert largest[1] > largest[0]
    omega0 = check.terms.omega0
    low = check.objective.reward(0.5 * omega0, check.terms).slope
    high = check.objective.reward(2 * omega0, check.terms).slope
    rest = np.maximum(check.terms.gain, 0), np.minimum(check.terms.gain, 0)
    assert (low - rest[0] > largest[1]).all()
    assert (rest[1] - high > largest[1]).all()


def test_what_does_not_go_with_a_promise_is_one_sentence(counts, production):
    data, shown = WORLD.train, production.scores(WORLD.train)
    given = {"production": shown, "keep": 0.9}
    own = lambda width: None  # noqa: E731
    for options, sentence in (
        ({"method": "prpo"}, "`keep` must be used with keep or prpo-floor.*; got 'prpo'"),
        ({"method": "dr"}, "`keep` must be used with keep or prpo-floor.*; got 'utility'"),
        ({"objective": "lambda-prpo"}, "`keep` must be used with keep or prpo-floor"),
        ({"delta": 0.9}, "`delta` must be left out, as `keep` sets it to 0.5; got 0.9"),
        ({"start": "scratch"}, "`start` must be production or add with `keep`; got 'scratch'"),
        ({"production": None}, "`production` must be given to add to it or to keep a share"),
        ({"scorer": own}, "`scorer` must be linear, mlp or trees with `keep`"),
    ):
        with pytest.raises(InputError, match=sentence):
            learn(data, counts, USERS, **{**given, **options})


def test_the_estimator_takes_a_promise_too(counts, production):
    shown = production.scores(WORLD.train)
    estimator = RankingEstimator(keep=0.9, settings=Settings(steps=2, min_validation_interval=1))
    estimator.fit(WORLD.train, counts, USERS, production=shown)
    assert estimator.ranker_.provenance.method == "keep"


def test_a_correction_is_added_to_what_the_items_carry_or_refused(production, counts):
    """Learned as this ranker plus a correction, it would be scored as another score plus it."""
    other = RankingData(
        WORLD.train.features, WORLD.train.offsets, production=np.zeros(WORLD.train.documents)
    )
    for data in (WORLD.train, other):
        with pytest.raises(InputError, match="production_score"):
            learn(data, counts, USERS, production=production, keep=0.9, scorer="linear")
