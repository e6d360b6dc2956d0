import json
from dataclasses import replace

import numpy as np
import pytest

from saferank._core.flat import query_of
from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.data import synthetic
from saferank.errors import InputError
from saferank.evaluation import Interval
from saferank.evaluation.lower_bound import LowerBound
from saferank.plackett_luce import exposure
from saferank.safety import Assessment, Guard, Promise, Rule, assess, certify, genspec
from saferank.safety.decisions import ClickTest, by_clicks, unconditional, verdict

DATA = synthetic("small", queries=80, seed=1).train
USERS = trust_bias()
OLD = np.zeros(DATA.documents)
GOOD = DATA.labels.astype(float)
COUNTS = simulate(DATA, OLD, USERS, sessions=30_000, seed=2, judge=0)


def judge(new, counts=COUNTS, **options):
    return assess(new, DATA, production=OLD, counts=counts, click_model=USERS, **options)


def test_clicks_decide_by_the_bound_not_by_the_estimate():
    good, bad = judge(3 * GOOD), judge(-3 * GOOD)
    assert good.decision.ship
    assert good.bound.lower > 0
    assert not bad.decision.ship
    assert not bad.decision.unsure
    assert "worse than production" in bad.decision.sentence
    few = simulate(DATA, OLD, USERS, sessions=300, seed=3, judge=0)
    neither = np.random.default_rng(0).normal(size=DATA.documents)
    unsure = judge(neither, few)
    assert not unsure.decision.ship
    assert unsure.decision.unsure
    assert unsure.decision.next_step
    lean = judge(neither - 0.2 * GOOD, few)
    assert lean.difference.estimate < 0 < lean.difference.upper
    assert lean.decision.unsure
    assert "it looks worse than production" in lean.decision.sentence
    assert "Keep production" in lean.decision.next_step
    # much of production's utility may go: then even this will do
    assert judge(neither, few, rule=Rule(tolerance=0.6)).decision.ship


def test_the_bound_is_below_the_estimate_and_says_why():
    found = judge(3 * GOOD)
    assert found.bound.lower < found.difference.estimate
    assert found.bound.sampling > 0
    assert found.bound.withheld >= 0
    assert found.new.estimate - found.production.estimate == pytest.approx(
        found.difference.estimate
    )


def test_the_promise_decides_unless_clicks_speak_against_it():
    safe, unsafe = (certify(new, DATA, production=OLD) for new in (OLD + 0.001 * GOOD, 3 * GOOD))
    assert unconditional(safe).ship
    assert not unconditional(unsafe).ship
    guarded = unconditional(unsafe, guard=True)
    assert guarded.ship
    assert guarded.guard == 0.9
    assert guarded.sentence.startswith("Ship with guard 0.9: ")
    assert judge(3 * GOOD, rule=Rule(by="clicks")).decision.ship
    assert judge(3 * GOOD, rule=Rule(by="promise", guard=True)).decision.ship
    assert not judge(3 * GOOD, rule=Rule(by="promise")).decision.ship
    assert not judge(3 * GOOD, rule=Rule(by="both")).decision.ship
    assert judge(3 * GOOD, rule=Rule(by="both", guard=True)).decision.ship
    against = judge(-3 * GOOD, rule=Rule(by="promise", guard=True)).decision
    assert not against.ship
    assert against.rule == "clicks"
    assert all(decision.assumes for decision in (guarded, against))
    with pytest.raises(InputError, match="counts"):
        verdict(safe, rule=Rule(by="clicks"))


def test_with_the_guard_the_numbers_are_of_what_is_served():
    free, guarded = judge(3 * GOOD), judge(3 * GOOD, rule=Rule(guard=True))
    omega, omega0 = (exposure(s, USERS.exposure_weights, DATA.offsets) for s in (3 * GOOD, OLD))
    shares = Guard(3 * GOOD, OLD, weights=USERS.exposure_weights).mixing(DATA)
    truth = shares[query_of(DATA.offsets)] * (omega - omega0) @ (DATA.labels / 4) / DATA.queries
    assert guarded.difference.lower < truth < guarded.difference.upper
    assert 0 < guarded.difference.estimate < free.difference.estimate


def test_what_cannot_be_told_is_not_shipped():
    # production always shows the same five documents: of the others no session tells anything
    order = np.random.default_rng(0).normal(size=DATA.documents)
    fixed = simulate(DATA, order, USERS, sessions=20_000, seed=1, deterministic=True)
    found = assess(-order, DATA, production=order, counts=fixed, click_model=USERS)
    assert found.certificate.production_kind == "sorted"
    assert not found.decision.ship
    assert found.decision.unsure
    assert "ever shows" in found.decision.sentence
    # a policy that is insisted on, and that the log contradicts
    wrong = assess(
        3 * GOOD,
        DATA,
        production=order,
        counts=COUNTS,
        click_model=USERS,
        production_kind="sampled",
    )
    assert wrong.fit.fits is False
    assert not wrong.decision.ship
    assert "does not fit" in wrong.decision.sentence


def test_genspec_specialises_where_the_querys_own_clicks_warrant():
    busy = np.arange(DATA.queries) < 40
    counts = simulate(
        DATA, OLD, USERS, sessions=200_000, seed=3, weights=np.where(busy, 100.0, 1.0), judge=0
    )
    found = genspec(0.5 * GOOD, 6 * GOOD, DATA, counts, USERS, production=OLD, method="normal")
    assert np.mean(found.choice[busy] == 2) > 0.6
    assert np.all(found.choice[found.choice != 2] == 1)
    bad = genspec(-2 * GOOD, -3 * GOOD, DATA, counts, USERS, production=OLD, method="normal")
    assert np.mean(bad.choice == 0) > 0.9
    assert sum(found.shares) == pytest.approx(1)


BOTH = Rule(doubt=0.2)
PROMISE = Promise(0.9, 0.01)


def test_doubt_and_promise_together_ask_for_both():
    """(a) enough for certain on average, (b) every query keeps the promise: four worlds."""
    on_average = judge(3 * GOOD, promise=PROMISE, rule=BOTH).decision
    assert [check.met for check in on_average.checks] == [True, False]
    assert not on_average.ship
    assert on_average.sentence.startswith("Do not ship as it is: ")
    assert "--guard" in on_average.next_step
    every_query = judge(OLD - 0.01 * GOOD, promise=PROMISE, rule=BOTH).decision
    assert [check.met for check in every_query.checks] == [False, True]
    assert not every_query.ship
    assert "The promise holds" in every_query.sentence
    neither = judge(-3 * GOOD, promise=PROMISE, rule=BOTH).decision
    assert [check.met for check in neither.checks] == [False, False]
    assert not neither.ship
    assert not neither.unsure
    both = judge(3 * GOOD, rule=replace(BOTH, guard=True))
    assert [check.met for check in both.decision.checks] == [True, True]
    assert both.decision.ship
    assert both.decision.guard == 0.9
    assert both.decision.rule == "doubt and promise with guard"
    assert both.doubts.share >= 1
    share = f"{int(100 * both.doubts.share)} %"
    assert f"at least {share} of production's utility is certain on average" in (
        both.decision.sentence
    )
    assert both.certificate.examination == "any"
    again = Assessment.from_dict(json.loads(json.dumps(both.to_dict())))
    assert again.decision == both.decision


def test_the_promise_of_the_joined_rule_is_for_every_way_of_looking_unless_said():
    found = judge(0.05 * GOOD, promise=PROMISE, rule=BOTH)
    assert found.certificate.examination == "any"
    assert found.decision.ship
    assert found.decision.rule == "doubt and promise"
    told = judge(0.05 * GOOD, promise=PROMISE, rule=BOTH, examination="fitted")
    assert told.certificate.examination != "any"
    # no promise was asked for: by clicks, as before; no doubt was: as before
    assert judge(3 * GOOD, rule=BOTH).decision.rule == "clicks"
    plain = judge(3 * GOOD, promise=PROMISE)
    assert plain.decision.rule == "clicks"
    assert not plain.decision.checks
    assert plain.certificate.examination != "any"


def test_the_sentence_says_whether_the_doubt_asked_for_is_met():
    met = judge(3 * GOOD, rule=Rule(doubt=0.1))
    assert met.decision.ship
    share = f"{int(100 * met.doubts.share)} %"
    assert f"the doubt of 10 % that was asked for is met: with it at least {share} of" in (
        met.decision.sentence
    )
    missed = judge(3 * GOOD, rule=Rule(doubt=0.99))
    assert not missed.decision.ship
    share = f"{int(100 * missed.doubts.share)} %"
    assert missed.doubts.share < 1
    assert f"the doubt of 99 % that was asked for is not met: with it no more than {share} of" in (
        missed.decision.sentence
    )
    worse = judge(-3 * GOOD, rule=Rule(doubt=0.1)).decision.sentence
    assert "the doubt of 10 % that was asked for is not met" in worse
    guarded = judge(3 * GOOD, rule=Rule(by="clicks", doubt=0.1, guard=True)).decision
    assert guarded.ship
    assert "the doubt of 10 % that was asked for is met" in guarded.sentence
    assert "asked for" not in judge(3 * GOOD).decision.sentence


def test_with_a_doubt_and_no_curve_nothing_is_shipped():
    gap = Interval(0.2, 0.1, 0.3, "clustered", 0.95)
    bound = LowerBound(0.1, 0.95, 10.0, 0.05, 0.05, "clustered")
    test = ClickTest(gap, 1.0, bound, 500)
    assert by_clicks(test).ship
    untold = by_clicks(test, rule=BOTH)
    assert not untold.ship
    assert "whether the doubt of 20 % that was asked for is met cannot be told" in untold.sentence
    safe = certify(OLD, DATA, production=OLD)
    decided = verdict(safe, test, rule=replace(BOTH, by="both"))
    assert [check.met for check in decided.checks] == [False, True]
    assert not decided.ship


@pytest.mark.parametrize("guard", [False, True])
def test_the_next_step_is_one_that_helps(guard):
    """More sessions where sampling error is in the way; another log where that shows too little."""
    gap = Interval(0.1, -0.1, 0.3, "clustered", 0.95)

    def step(sampling: float, withheld: float) -> str:
        bound = LowerBound(-0.1, 0.95, 10.0, sampling, withheld, "clustered")
        decided = by_clicks(ClickTest(gap, 1.0, bound, 500), rule=Rule(guard=guard))
        assert not decided.ship
        return decided.next_step

    assert step(0.2, 0.0).startswith("Judge it by more sessions")
    assert "Let it vary" in step(0.01, 0.19)
    assert ("certify with --guard" in step(0.2, 0.0)) is not guard


def test_no_number_is_told_where_estimates_cannot_be():
    """A click model that takes clicks for ten times as telling as they are."""
    wrong = ClickModel(alpha=USERS.alpha / 10, beta=USERS.beta / 10)
    found = assess(3 * GOOD, DATA, production=OLD, counts=COUNTS, click_model=wrong)
    assert not found.decision.ship
    assert "outside what is possible" in found.decision.sentence
    for name in ("new", "production", "difference", "bound", "clicks", "doubts"):
        assert getattr(found, name) is None, name
    assert found.support is not None
    assert judge(3 * GOOD).new is not None
