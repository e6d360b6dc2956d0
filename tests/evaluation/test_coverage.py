import pytest

from benchmarks.coverage import World, coverage

LOGS = 150


@pytest.fixture(scope="module")
def world():
    return World(30)


def by_method(rows):
    return {row.method: row for row in rows}


@pytest.mark.parametrize("estimator", ["affine-ips", "dr"])
def test_bounds_hold_in_their_share_of_simulated_logs(world, estimator):
    found = by_method(coverage(world, 1000, LOGS, estimator=estimator))
    # bounds for any number of sessions may never fail more often than they say
    for method in ("bernstein", "cantelli"):
        assert found[method].covered >= 0.95
        assert found[method].lower_holds >= 0.95
        assert found[method].wrongly_shipped <= 0.05
    # four standard errors around 95 %
    assert found["normal"].covered >= 0.95 - 4 * (0.95 * 0.05 / LOGS) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [300, 1000, 10_000])
@pytest.mark.parametrize("estimator", ["affine-ips", "dr"])
def test_coverage_over_two_thousand_logs(world, sessions, estimator):
    found = by_method(coverage(world, sessions, 2000, estimator=estimator))
    assert found["cantelli"].lower_holds >= 0.95
    assert found["bernstein"].covered >= 0.95
    assert found["cantelli"].wrongly_shipped <= 0.05
    if sessions == 10_000:
        assert 0.93 <= found["normal"].covered <= 0.97
        assert found["normal"].wrongly_shipped <= 0.065


@pytest.mark.slow
def test_intervals_over_queries_cover_the_population():
    pool = World(3000, seed=1)
    found = by_method(coverage(pool, 2000, 2000, sample=200, methods=("clustered",)))
    assert 0.93 <= found["clustered"].covered <= 0.97
    assert found["clustered"].wrongly_shipped <= 0.065
