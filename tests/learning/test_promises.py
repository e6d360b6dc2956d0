"""Learning under a promise: it is kept on every query that was learned from and stopped by."""

import numpy as np
import pytest
from worlds import exposure as enumerated

from saferank.clicks import simulate, trust_bias
from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.learning import RankingEstimator, Settings, learn
from saferank.learning.descent import Part, Training, evaluate
from saferank.learning.learning import _Run
from saferank.learning.promises import PromisedGoal
from saferank.learning.recipe import METHODS
from saferank.objectives import OBJECTIVES, Context, Terms
from saferank.objectives.goals import QueryBlock
from saferank.objectives.in_exposures import ExposureGoal
from saferank.plackett_luce import exposure

USERS = trust_bias()
WEIGHTS = USERS.alpha + USERS.beta
WORLD = synthetic("small", queries=60, seed=0)
QUICK = Settings(steps=200, least=25, hidden=(16,))


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
@pytest.mark.parametrize("keep", [0.9, 0.6])
def test_the_promise_holds_on_every_query(given, keep, production, counts):
    shown = production.scores(WORLD.train)
    scorer = "linear" if given == "ranker of another kind" else "mlp"
    ranker = learn(
        WORLD.train, counts, USERS, production=shown if given == "scores" else production,
        keep=keep, scorer=scorer, settings=QUICK,
    )  # fmt: skip
    assert ranker.adds_production == (given != "ranker")
    data = RankingData(WORLD.train.features, WORLD.train.offsets, production=shown)
    scores = ranker.scores(data)
    assert max(losses(scores, shown, data, keep)) <= 0.01 + 1e-9
    assert not np.array_equal(scores, shown)
    assert ranker.provenance.method == "prpo-floor"
    assert (ranker.provenance.keep, ranker.provenance.slack) == (keep, 0.01)


@pytest.mark.parametrize("scorer", ["linear", "mlp", "trees"])
def test_the_start_is_production_to_the_bit(scorer, counts):
    shown = np.random.default_rng(0).normal(size=WORLD.train.documents) * 3
    data = RankingData(WORLD.train.features, WORLD.train.offsets, production=shown)
    # keep everything, without slack: no step can be better than the start
    ranker = learn(
        data, counts, USERS, production=shown, keep=1.0, slack=0.0, scorer=scorer,
        production_kind="sampled",
        settings=Settings(steps=50, least=25, rounds=10),
    )  # fmt: skip
    assert np.array_equal(ranker.scores(data), shown)
    assert (
        ranker.provenance.history["steps"][int(np.argmax(ranker.provenance.history["values"]))] == 0
    )


def test_no_step_is_taken_that_breaks_it_where_the_start_keeps_it(monkeypatch, production, counts):
    """Steps that pay well on validation and break the promise there: the start remains."""
    shown = production.scores(WORLD.train)
    data = RankingData(WORLD.train.features, WORLD.train.offsets, production=shown)
    settings = Settings(steps=60, least=20, hidden=(16,), learning_rate=0.3)
    free = learn(data, counts, USERS, method="dr", start="add", settings=settings)
    assert max(losses(free.scores(data), shown, data, 0.9)) > 0.01
    monkeypatch.setattr(Training, "_step", _towards(free))
    ranker = learn(data, counts, USERS, keep=0.9, settings=settings)
    assert np.array_equal(ranker.scores(data), shown)


def _towards(other):
    """A step that jumps to another ranker's parameters, whatever the goal."""

    def step(self, queries):
        del queries
        self.module.load_state_dict(other.scorer.module.state_dict())

    return step


@pytest.mark.parametrize("seed", range(20))
def test_a_broken_promise_is_worth_less_than_production(seed):
    """Whatever the gains: also where the objective alone would rather break it."""
    rng = np.random.default_rng(seed)
    weights, offsets = np.array([1.0, 0.6]), np.array([0, 4, 8])
    shown = rng.normal(size=8)
    omega0 = np.concatenate([enumerated(shown[:4], weights), enumerated(shown[4:], weights)])
    gain = rng.normal(size=8) * 10 ** rng.uniform(-3, 3)
    terms = Terms(gain, omega0, np.full(8, weights.sum()))
    objective = OBJECTIVES["utility"].build(Context(100, 1.0, weights, None))
    goal = ExposureGoal(2, objective, terms, weights, np.array([0.999, 0.001]))
    data = RankingData(np.zeros((8, 1)), offsets)
    best = np.where(gain > 0, 5.0, -5.0) + shown
    part = Part(data, PromisedGoal(goal, 0.9, 0.01))
    start, end = (evaluate(part, scores)[0] for scores in (shown, best))
    place = QueryBlock(np.arange(2), slice(0, 8), offsets)
    assert evaluate(Part(data, goal), best)[0] > evaluate(Part(data, goal), shown)[0]
    assert part.goal.broken(best, place).any()
    assert start == evaluate(Part(data, goal), shown)[0]
    assert end < start


def test_the_price_is_above_every_gain_of_validation_too():
    """Where validation has the larger gains: no document there is paid for leaving its interval."""
    shown = np.zeros(WORLD.train.documents)
    counts = simulate(WORLD.train, shown, USERS, sessions=10**7, seed=0, judge=0)
    run = _Run(METHODS["prpo-floor"].changed(gain="affine-ips", delta=0.9), USERS, shown, seed=0)
    held = WORLD.validation
    sessions = simulate(held, np.zeros(held.documents), USERS, sessions=40, seed=0, judge=0)
    held = RankingData(held.features, held.offsets, production=np.zeros(held.documents))
    logs = run.logs(WORLD.train, counts, (held, sessions))
    goal, check = run.goals(*logs, None)
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
        ({"method": "prpo"}, "`keep` must be used with prpo-floor .*; got 'prpo'"),
        ({"method": "dr"}, "`keep` must be used with prpo-floor .*; got 'utility'"),
        ({"objective": "lambda-prpo"}, "`keep` must be used with prpo-floor"),
        ({"delta": 0.5}, "`delta` must be left out, as `keep` sets it to 0.9; got 0.5"),
        ({"start": "scratch"}, "`start` must be production or add with `keep`; got 'scratch'"),
        ({"production": None}, "`production` must be given to add to it or to keep a share"),
        ({"scorer": own}, "`scorer` must be linear, mlp or trees with `keep`"),
    ):
        with pytest.raises(InputError, match=sentence):
            learn(data, counts, USERS, **{**given, **options})


def test_the_estimator_takes_a_promise_too(counts, production):
    shown = production.scores(WORLD.train)
    estimator = RankingEstimator(keep=0.9, settings=Settings(steps=2, least=1))
    estimator.fit(WORLD.train, counts, USERS, production=shown)
    assert estimator.ranker_.provenance.method == "prpo-floor"
