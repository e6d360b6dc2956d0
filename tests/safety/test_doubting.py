"""The doubt in an assessment: what it says, what it decides, and what is kept of it."""

import json

import numpy as np
import pytest

import saferank as sr
from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.evaluation.doubt import DoubtCurve
from saferank.safety import Assessment, Rule, assess
from saferank.safety.doubt_words import assumption, breakdown, certainty, percent, shortfall, wanted
from saferank.safety.unchecked import not_checked

MODEL = trust_bias()
DATA = synthetic("small", queries=60, seed=0).train
OLD = np.random.default_rng(0).normal(size=DATA.documents)
COUNTS = simulate(DATA, OLD, MODEL, sessions=20_000, seed=0, judge=0.2, progress=False)
GOOD = 0.5 * OLD + DATA.labels
NOISY = 0.6 * OLD + 0.35 * DATA.labels + np.random.default_rng(5).normal(size=OLD.size)


def told(scores, **rule):
    return assess(scores, DATA, production=OLD, counts=COUNTS, click_model=MODEL, rule=Rule(**rule))


def test_a_better_ranker_ships_with_a_doubt_and_says_how_much_it_stands():
    assessment = told(GOOD, doubt=0.2)
    assert assessment.decision.ship
    assert assessment.doubts.stated == 0.2
    assert assessment.doubts.share >= 1
    assert breakdown(assessment.doubts) in assessment.decision.sentence
    assert "within 20 % of the click model's" in assessment.decision.assumes[0]
    again = Assessment.from_dict(json.loads(json.dumps(assessment.to_dict())))
    assert again.doubts == assessment.doubts


def test_what_a_doubt_leaves_open_is_not_shipped_until_the_doubt_is_smaller():
    trusting = told(NOISY)
    assert trusting.decision.ship
    assert certainty(trusting.doubts) in trusting.decision.sentence
    assert "parameters given" in trusting.decision.assumes[0]
    limit = trusting.doubts.breakdown
    assert 0 < limit < 0.9
    doubtful = told(NOISY, doubt=limit + 0.1)
    assert not doubtful.decision.ship
    assert doubtful.decision.unsure
    assert "it rests on the click model" in doubtful.decision.sentence
    assert f"{limit:g} would do" in doubtful.decision.next_step
    assert told(NOISY, doubt=limit).decision.ship


def test_a_tolerance_is_that_of_the_doubted_share_too():
    strict, lenient = told(NOISY), told(NOISY, tolerance=0.3)
    assert lenient.doubts.wanted == pytest.approx(0.7)
    assert lenient.doubts.breakdown > strict.doubts.breakdown
    assert wanted(lenient.doubts) == "at least 70 % of production's utility"


def test_where_the_click_model_is_contradicted_no_doubt_is_graded():
    users = sr.clicks.USERS["adversarial"](5)
    counts = simulate(DATA, OLD, users, sessions=20_000, seed=0, judge=0.2, progress=False)
    assessment = assess(GOOD, DATA, production=OLD, counts=counts, click_model=MODEL)
    assert not assessment.decision.ship
    assert assessment.doubts is None


def test_with_the_guard_the_doubt_is_of_what_is_served():
    guarded = told(GOOD, guard=True)
    assert guarded.decision.ship
    assert 1 < guarded.doubts.share < told(GOOD).doubts.share


def curve(**changes):
    points = {"doubts": (0.0, 1.0), "shares": (1.2, 0.5), "unbounded": 0.1, "stated": 0.2}
    rest = {"share": 0.98, "wanted": 1.0, "breakdown": 0.17, "slack": 0.0, "confidence": 0.95}
    return DoubtCurve(**{**points, **rest, "method": "clustered", **changes})


def test_words_say_what_the_curve_says():
    assert percent(0.9999) == "99 %"
    assert certainty(curve()).endswith("as long as the click model is right to within 17 %")
    assert "no more than 98 %" in shortfall(curve())
    assert breakdown(curve(breakdown=None)) == "not certain even if the click model is right"
    assert breakdown(curve(breakdown=0.0)) == "only if the click model is right"
    assert breakdown(curve(unbounded=1.0, breakdown=1.0)) == "however users behave"
    assert breakdown(curve(breakdown=1.0)) == "even if the click model is wrong by 100 %"
    assert "parameters given" in assumption(0.0)


def test_what_was_not_checked_depends_on_what_was_there():
    alone = assess(GOOD, DATA, production=OLD, rule=Rule(by="promise"))
    assert "No clicks were given" in not_checked(alone)[0]
    assert any("Single queries" in each for each in not_checked(told(GOOD)))
