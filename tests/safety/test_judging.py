"""Sessions to judge by: what was learned from them is refused, and several are judged at once."""

import json

import numpy as np
import pytest
from scipy.stats import t as student

from saferank._core.flat import query_sums
from saferank._core.marks import without_mark
from saferank.clicks import relevance, simulate, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.estimators import Evidence
from saferank.estimators.propensities import exact
from saferank.evaluation import Contrast, lower_bound
from saferank.learning import Ranker, Settings, learn
from saferank.plackett_luce import exposure
from saferank.safety import Assessment, Rule, assess, compare

WORLD = synthetic("small", queries=60, seed=3)
DATA, USERS = WORLD.train, trust_bias()
OLD = np.random.default_rng(1).normal(size=DATA.documents)
W = USERS.exposure_weights
TRUE = relevance(DATA.known_labels, WORLD.highest_grade)


def parts(sessions, seed):
    learned, judged = (
        simulate(DATA, OLD, USERS, sessions=n, seed=seed + i).part("all")
        for i, n in enumerate((int(0.8 * sessions), int(0.2 * sessions)))
    )
    return Counts.of_parts(learned, judged)


COUNTS = parts(10_000, 5)
RANKER = learn(
    DATA, COUNTS, USERS, method="dr", production=OLD, settings=Settings(steps=60), scorer="linear"
)


def judge(counts, **options):
    return assess(RANKER, DATA, production=OLD, counts=counts, **options)


def test_a_ranker_remembers_its_sessions(tmp_path):
    RANKER.save(tmp_path / "run")
    again = Ranker.load(tmp_path / "run")
    assert again.provenance.learned_from == COUNTS.part("learn").fingerprint()
    assert again.provenance.sessions == 8000
    np.testing.assert_array_equal(again.relevance(DATA), RANKER.relevance(DATA))


@pytest.mark.parametrize("guard", [False, True])
def test_an_assessment_scores_each_policy_once(guard):
    scored = {"new": 0, "production": 0}

    def policy(name, column):
        def scores(data):
            scored[name] += data.documents
            return np.clip(data.features[:, column], -1, 1)

        return scores

    new, old = policy("new", 1), policy("production", 0)
    shown = np.clip(DATA.features[:, 0], -1, 1)
    counts = simulate(DATA, shown, USERS, sessions=2000, seed=0)
    assess(new, DATA, production=old, counts=counts, click_model=USERS, rule=Rule(guard=guard))
    assert scored == {"new": DATA.documents, "production": DATA.documents}
    compare({"one": new}, DATA, counts, production=old, click_model=USERS)
    assert scored == {"new": 2 * DATA.documents, "production": 2 * DATA.documents}


def test_the_judge_part_judges_and_nothing_else():
    found = judge(COUNTS)
    assert found.flatters is None
    assert found.support.sessions == 2000
    assert found.estimator == "dr"


@pytest.mark.parametrize(
    "counts",
    [COUNTS.part("learn"), COUNTS.part("all"), Counts.of_parts(COUNTS.judge, COUNTS.part("learn"))],
    ids=["the learn part", "the whole log", "parts exchanged"],
)
def test_sessions_that_taught_the_ranker_are_refused_or_said_to_flatter(counts, tmp_path):
    with pytest.raises(InputError, match="--same-sessions"):
        judge(counts)
    found = judge(counts, rule=Rule(same_sessions=True))
    assert "flatters" in found.flatters
    assert "flatters" in found.decision.sentence
    written = json.loads(found.save(tmp_path).read_text())
    assert "flatters" in Assessment.from_dict(without_mark(written)).flatters


def test_a_log_that_was_split_in_another_way_is_refused():
    log, half = COUNTS.part("all"), np.arange(DATA.documents) < DATA.offsets[30]
    few = COUNTS.judge
    fewer = Counts(
        log.offsets, few.impressions * half[:, None], few.clicks * half[:, None],
        few.sessions * (np.arange(DATA.queries) < 30),
    )  # fmt: skip
    split = Counts(log.offsets, log.impressions, log.clicks, log.sessions, fewer)
    with pytest.raises(InputError, match="split in another way"):
        judge(split)


def test_counts_without_sessions_to_judge_by_are_refused():
    empty = Counts.of_parts(parts(500, 99).part("learn"), Counts.zeros(DATA.offsets, 5))
    with pytest.raises(InputError, match="--judge"):
        judge(empty)


def test_fresh_sessions_are_welcome():
    fresh = simulate(DATA, OLD, USERS, sessions=4000, seed=77).part("all")
    assert judge(fresh).flatters is None


def test_weights_of_certificate_and_estimate_are_one():
    found = judge(COUNTS)
    assert found.certificate.weights == pytest.approx(W)
    assert "click model" in found.certificate.weights_from
    with pytest.raises(InputError, match="same metric"):
        judge(COUNTS, weights=[1.0, 0.5])


# -- the bound ------------------------------------------------------------------------------------


def test_the_bound_by_plain_loops():
    judged = COUNTS.judge
    new = 2.0 * DATA.labels
    omega, omega0 = (exposure(s, W, DATA.offsets) for s in (new, OLD))
    guess = np.clip(0.2 + 0.5 * TRUE, 0, 1)
    known = Evidence(judged, USERS, exact(OLD, DATA.offsets, USERS, W), guess)
    found = lower_bound(Contrast(omega, omega0, known), clip=3.0)
    rho, total, centres = known.propensities.rho, 0.0, []
    for q in range(DATA.queries):
        value = 0.0
        for d in range(DATA.offsets[q], DATA.offsets[q + 1]):
            loss = omega0[d] - omega[d]
            v = min(3.0, max(-3.0, loss / rho[d]))
            value -= max(0.0, loss - rho[d] * v) + rho[d] * v * guess[d]
            for k in range(5):
                n, c = judged.impressions[d, k], judged.clicks[d, k]
                expected = USERS.alpha[k] * guess[d] + USERS.beta[k]
                if judged.sessions[q]:
                    value -= v * (c - n * expected) / judged.sessions[q]
        centres.append(value)
        total += judged.sessions[q] / judged.total * value
    assert found.lower + found.sampling == pytest.approx(total)
    moved = judged.sessions * (np.array(centres) - total) / judged.total
    seen = np.count_nonzero(judged.sessions)
    # at least the variance that the click model expects of the worst relevance of each document
    least = 0.0
    for d in range(DATA.documents):
        v = min(3.0, max(-3.0, (omega0[d] - omega[d]) / rho[d]))
        q = int(np.searchsorted(DATA.offsets, d, side="right")) - 1
        worst = 0.0
        for relevant in (0.0, 1.0):
            square = 0.0
            for k in range(5):
                p = USERS.alpha[k] * relevant + USERS.beta[k]
                m = USERS.alpha[k] * guess[d] + USERS.beta[k]
                share = judged.impressions[d, k] / max(judged.sessions[q], 1)
                square += share * (p * (1 - m) ** 2 + (1 - p) * m**2)
            worst = max(worst, square)
        least += judged.sessions[q] / judged.total * v**2 * worst
    error = np.sqrt(max(seen / (seen - 1) * moved @ moved, least / judged.total))
    assert found.sampling == pytest.approx(student.isf(0.05, seen - 1) * error, rel=1e-6)


@pytest.mark.parametrize("guess", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("clip", [1.5, 10.0, None])
def test_the_bound_holds_whatever_is_predicted_and_clipped(guess, clip):
    """Also for documents that production hardly ever shows."""
    peaked = 4.0 * OLD
    new = -peaked
    omega, omega0 = (exposure(s, W, DATA.offsets) for s in (new, peaked))
    truth = query_sums((omega - omega0) * TRUE, DATA.offsets)
    broken = 0
    for seed in range(60):
        judged = simulate(DATA, peaked, USERS, sessions=600, seed=seed).part("all")
        known = Evidence(
            judged, USERS, exact(peaked, DATA.offsets, USERS, W), np.full(DATA.documents, guess)
        )
        found = lower_bound(Contrast(omega, omega0, known), clip=clip)
        broken += found.lower > truth.mean()
    assert broken <= 9  # 5 % of 60 is 3; nine or more have probability 0.4 %


# -- several at once ------------------------------------------------------------------------------


def test_intervals_of_several_hold_for_all_at_once():
    rng = np.random.default_rng(0)
    news = {f"r{i}": OLD + rng.normal(size=DATA.documents) for i in range(8)}
    seen = USERS.alpha  # of clicks: what users click for trust alone is the same for all
    truth = {
        name: (exposure(s, seen, DATA.offsets) - exposure(OLD, seen, DATA.offsets))
        @ TRUE
        / DATA.queries
        for name, s in news.items()
    }
    misses, lucky = 0, 0
    for seed in range(60):
        judged = simulate(DATA, OLD, USERS, sessions=2000, seed=seed).part("all")
        found = compare(
            news,
            DATA,
            judged,
            click_model=USERS,
            production=OLD,
            production_kind="sampled",
            seed=seed,
        )
        misses += any(not c.lower <= truth[c.name] <= c.upper for c in found.candidates)
        assert all(c.lower <= c.at_least <= c.estimate <= c.upper for c in found.candidates)
        lucky += bool(found.candidates[0].at_least > truth[found.candidates[0].name])
    assert misses <= 9
    assert lucky <= 9


def test_a_comparison_wants_one_click_model_and_honest_sessions():
    other = learn(
        DATA, COUNTS, trust_bias().at(5).__class__(USERS.alpha * 0.9, USERS.beta), method="ips",
        production=OLD, settings=Settings(steps=20), scorer="linear",
    )  # fmt: skip
    with pytest.raises(InputError, match="different click models"):
        compare({"a": RANKER, "b": other}, DATA, COUNTS, production=OLD)
    with pytest.raises(InputError, match="--same-sessions"):
        compare({"a": RANKER}, DATA, COUNTS.part("learn"), production=OLD)
    found = compare({"a": RANKER}, DATA, COUNTS, production=OLD)
    assert found.candidates[0].name == "a"
    assert found.sessions == 2000


def test_a_comparison_gives_no_number_without_support():
    """Production practically sorts; one candidate turns its lists upside down."""
    steep = 200.0 * np.random.default_rng(0).permutation(DATA.documents).astype(float)
    counts = simulate(DATA, steep, USERS, sessions=2000, seed=1)
    news = {"upside down": -steep, "the same": steep}
    found = compare(news, DATA, counts, click_model=USERS, production=steep)
    by_name = {one.name: one for one in found.candidates}
    assert found.candidates[-1].name == "upside down"
    assert by_name["upside down"].estimate is None
    assert "of the new ranker's exposure" in by_name["upside down"].refused
    assert by_name["the same"].estimate == pytest.approx(0, abs=1e-9)
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_comparison_of_one_says_what_its_assessment_says():
    alone = assess(RANKER, DATA, production=OLD, counts=COUNTS)
    (one,) = compare({"a": RANKER}, DATA, COUNTS, production=OLD).candidates
    assert one.estimate == pytest.approx(alone.clicks.difference.estimate, rel=1e-9)
    assert one.at_least == pytest.approx(alone.clicks.bound.lower, abs=0.01)
    assert one.lower == pytest.approx(alone.clicks.difference.lower, abs=0.01)


def test_one_query_cannot_be_compared():
    one = DATA.subset([0])
    counts = simulate(one, OLD[: one.documents], USERS, sessions=200, seed=0).part("all")
    with pytest.raises(InputError, match="at least two queries"):
        compare(
            {"a": -OLD[: one.documents]},
            one,
            counts,
            click_model=USERS,
            production=OLD[: one.documents],
        )


def test_with_few_queries_intervals_of_several_still_hold():
    """Ten queries whose documents are all alike: no ranker changes anything."""
    alike = np.full(60, 2)
    few = RankingData(np.zeros((60, 1)), np.arange(0, 61, 6), labels=alike)
    rng = np.random.default_rng(1)
    news = {f"r{i}": rng.normal(size=60) for i in range(5)}
    misses = 0
    for seed in range(100):
        judged = simulate(few, np.zeros(60), USERS, sessions=600, seed=seed).part("all")
        found = compare(
            news, few, judged, click_model=USERS, production=np.zeros(60),
            production_kind="sampled", seed=seed,
        )  # fmt: skip
        misses += any(not one.lower <= 0 <= one.upper for one in found.candidates)
    assert misses <= 12  # of a hundred, 5 expected; Gaussian quantiles missed one in six


def test_the_interval_of_the_new_ranker_is_its_own():
    """Not that of the difference, moved: production's utility is not known exactly either."""
    items = synthetic("small", queries=40, seed=3).train
    shown, users = np.zeros(items.documents), trust_bias()
    counts = simulate(items, shown, users, sessions=8000, seed=3)
    close = shown + 0.05 * items.labels  # hardly another ranker: the difference is known well
    told = assess(close, items, production=shown, counts=counts, click_model=users)
    assert told.new.estimate == pytest.approx(told.production.estimate + told.difference.estimate)
    widths = [each.upper - each.lower for each in (told.new, told.production, told.difference)]
    assert widths[0] > 0.5 * widths[1] > 2 * widths[2]
