import math

import numpy as np
import pytest

from saferank.experiments import FIGURES, Study
from saferank.experiments.claims import CLAIMS, judge
from saferank.experiments.figure_drawing import clipped_ratios, draw
from saferank.experiments.learning_curves import CURVES, plan
from saferank.experiments.results import Results, mean_interval, prediction_interval
from saferank.experiments.study_page import claims_table, write_page

STUDY = Study("synthetic:small", (100, 10**3, 10**4, 10**6, 10**9), 3)


def results(value, *, drop=(), distance=lambda job: 0.1, study=STUDY):
    """Results by a rule for the expected NDCG of a job; seeds differ a little."""
    jobs = plan(FIGURES, study, "abc")
    measures = {}
    for job in jobs:
        if job in drop:
            continue
        level = value(job) + 1e-4 * job.log.production.seed
        measures[job] = {
            "expected": level,
            "sorted": level + 0.01,
            "utility": level,
            "production_utility": 0.5,
            "bound": 0.5,
            "distance": distance(job),
        }
    return Results(study, "abc", measures)


def as_the_paper_says(job):
    """A world in which what the paper says of figures 2 and 4 is so."""
    n, share = job.log.sessions, math.log10(max(job.log.sessions, 1)) / 9
    if job.method in ("production", "skyline"):
        return {"production": 0.5, "skyline": 0.6}[job.method]
    if job.log.users != "trust":
        if job.method == "prpo":
            return 0.5 if job.delta == "1" else 0.47
        return 0.5 - 0.3 * share
    if job.method == "prpo" and job.delta == "1":
        return 0.5
    if job.method in ("prpo", "safe-dr"):
        return 0.5 + 0.1 * share
    if job.method == "dr":
        return 0.3 if n < 10**5 else 0.6
    return 0.4 if n < 10**5 else 0.55


def as_it_is_not(job):
    """A world in which safety is lost and IPS is best."""
    if job.method in ("production", "skyline"):
        return {"production": 0.5, "skyline": 0.6}[job.method]
    if job.method in ("ips", "safe-dr"):
        return {"ips": 0.61, "safe-dr": 0.45}[job.method]
    if job.method == "dr" and job.log.production.conditions.fraction != STUDY.strong:
        return 0.62 if job.log.sessions < 10**5 else 0.5
    return 0.3


def verdicts(found, figure):
    return {claim.sentence: finding.verdict for claim, finding in judge(found, (figure,))}


def test_in_the_papers_world_its_claims_hold():
    found = results(as_the_paper_says)
    for figure in (2, 4):
        assert set(verdicts(found, figure).values()) == {"holds"}


def test_in_another_world_they_do_not():
    found = results(as_it_is_not)
    assert set(verdicts(found, 4).values()) == {"does not hold"}
    second = verdicts(found, 2)
    assert second["IPS fails to reach the optimal performance even after 10^9 clicks."] == (
        "does not hold"
    )
    assert second["DR converges to the skyline much faster than IPS."] == "does not hold"
    for sentence, verdict in second.items():
        if "within ~500" in sentence or "at convergence" in sentence:
            assert verdict == "does not hold"


def test_figure_one_is_arithmetic():
    rows = {(r["original"], r["rank"]): r for r in clipped_ratios(1.0)}
    # log2(8 + 1) / log2(6 + 1) is below 1.15 and log2(8 + 1) / log2(5 + 1) above it
    assert rows["8", 6]["clipped"] == pytest.approx(math.log2(9) / math.log2(7))
    assert rows["8", 5]["clipped"] == pytest.approx(1.15)
    assert rows["8", 5]["plain"] == pytest.approx(math.log2(9) / math.log2(6))
    worst = {(r["original"], r["rank"]): r for r in clipped_ratios(-1.0)}
    assert worst["2", 10]["clipped"] == pytest.approx(-1 / 1.15)
    assert worst["2", 1]["clipped"] == pytest.approx(-math.log2(3))
    (claim,) = judge(results(as_the_paper_says), (1,))
    assert claim[1].verdict == "does not hold"
    assert claim[1].numbers.startswith("from rank 8: 0.021 to gain above rank 6")
    assert "from rank 6: 0.000" in claim[1].numbers


def test_a_lost_bound_is_seen():
    sound = results(as_the_paper_says)
    assert set(verdicts(sound, 6).values()) == {"holds"}
    job = next(job for job in sound.measures if job.method == "dr")
    broken = dict(sound.measures) | {job: sound.measures[job] | {"bound": 0.0, "utility": 0.1}}
    assert set(verdicts(Results(STUDY, "abc", broken), 6).values()) == {"does not hold"}


def test_half_of_the_utility_is_kept_or_not():
    for level, verdict in ((0.26, "holds"), (0.24, "does not hold")):
        found = results(lambda job, level=level: 0.5 if job.method == "production" else level)
        assert set(verdicts(found, 5).values()) == {verdict}


def test_without_results_nothing_can_be_told():
    found = Results(STUDY, "abc", {})
    for claim, finding in judge(found, FIGURES):
        if claim.figure != 1:
            assert finding.verdict == "cannot be told"
            assert finding.numbers.startswith("no results")


def test_smaller_numbers_say_nothing_of_the_largest():
    missing = [job for job in plan(FIGURES, STUDY, "abc") if job.log.sessions == 10**9]
    found = verdicts(results(as_the_paper_says, drop=missing), 2)
    for sentence, verdict in found.items():
        if "at convergence" in sentence or "10^9" in sentence:
            assert verdict == "cannot be told"


def test_a_short_grid_says_nothing_of_the_end():
    short = Study("x", (100, 1000), STUDY.seeds)
    ends = ("at convergence", "10^9", "10^3", "converges to DR", "as the click data", "time")
    for figure in (2, 3, 4):
        for sentence, verdict in verdicts(results(as_the_paper_says, study=short), figure).items():
            if any(word in sentence for word in ends):
                assert verdict == "cannot be told", sentence


def test_one_seed_gives_no_sign():
    found = results(as_the_paper_says, study=Study("x", STUDY.sessions, 1))
    sentence = "With limited click data DR degrades compared to IPS."
    assert verdicts(found, 2)[sentence] == "cannot be told"


def test_distances_decide_the_claims_of_figure_three():
    def moved(job):
        return {"1/log N": 0.2, "1": 0.0}.get(job.delta or "", 0.3)

    found = verdicts(results(as_the_paper_says, distance=moved), 3)
    assert found["With δ = 1/log N PRPO is more conservative throughout."] == "holds"
    assert found["With δ = 1 PRPO sticks closely to the logging policy."] == "holds"
    found = verdicts(results(as_the_paper_says, distance=lambda job: 0.1 + (job.delta == "1")), 3)
    assert found["With δ = 1 PRPO sticks closely to the logging policy."] == "does not hold"


def test_intervals():
    values = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    it = prediction_interval(values)
    assert (it.mean, it.low, it.high) == pytest.approx((0.5, 0.1, 0.9))
    two = mean_interval(np.array([1.0, 3.0]))
    # Student's t with one degree of freedom is Cauchy: its 90 % point is tan(0.4 pi)
    assert two.high - two.mean == pytest.approx(math.tan(0.4 * math.pi))
    assert mean_interval(np.array([1.0])).low == -math.inf


def test_every_job_is_planned_once_and_shared_between_figures():
    jobs = plan(FIGURES, STUDY, "abc")
    assert len(jobs) == len(set(jobs))
    main = set(plan((2,), STUDY, "abc"))
    # PRPO with 100/N and safe DR with 0.95 are in figures 2 and 3
    shared = main & set(plan((3,), STUDY, "abc"))
    assert {(job.method, job.delta) for job in shared if job.log.sessions} == {
        ("prpo", "100/N"),
        ("safe-dr", "0.95"),
    }
    assert plan((1,), STUDY, "abc") == []
    assert max(job.log.sessions for job in plan((7,), STUDY, "abc")) == 10**6
    assert all(curve.label for curves in CURVES.values() for curve in curves)


def test_the_page_holds_every_figure_and_claim_and_nothing_from_outside(tmp_path):
    found = results(as_the_paper_says)
    lost = next(iter(found.measures))
    found = Results(STUDY, "abc", found.measures, {lost: "InputError: <script>alert(1)</script>"})
    written = write_page(found, FIGURES, "a <b>collection</b>", tmp_path)
    page = written.page.read_text()
    assert page.count("data:image/svg+xml;base64,") == len(FIGURES)
    assert "<script" not in page
    assert "a &lt;b&gt;collection&lt;/b&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert sum(written.tally().values()) == len(CLAIMS)
    for figure in FIGURES:
        for ending in ("svg", "png", "html"):
            assert (tmp_path / f"figure-{figure}.{ending}").stat().st_size > 1000
    assert claims_table(written.claims).count("\n") == len(CLAIMS) + 2
    svg = (tmp_path / "figure-2.svg").read_text()
    assert all(label in svg for label in ("plain clicks", "safe DR", "production", "skyline"))


def test_lines_are_told_apart_without_colour():
    for figure in (2, 3, 4, 5, 7):
        for panel in draw(figure, results(as_the_paper_says)).to_dict()["hconcat"]:
            found = [
                layer["encoding"][channel]["scale"]["range"]
                for layer in panel["layer"]
                for channel in ("strokeDash", "shape")
                if channel in layer["encoding"]
            ]
            assert len(found) == 2
            for values in found:
                assert len({str(value) for value in values}) == len(values) > 1
