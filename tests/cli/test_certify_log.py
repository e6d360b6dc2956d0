"""`certify --log`: intervals by the sessions to judge by, and by no others."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from splits import is_judged
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import simulate_rows, trust_bias
from saferank.counts import CountTable, Split
from saferank.data import read_items, synthetic, write_items
from saferank.errors import InputError
from saferank.evaluation import LogRows
from saferank.learning import Ranker, Settings, learn
from saferank.logs import align, count
from saferank.safety import assess

USERS = trust_bias()
SHARE, SEED = 0.3, 4


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    place = tmp_path_factory.mktemp("log")
    train = synthetic("small", queries=25, seed=0).train
    shown = 0.5 * np.random.default_rng(0).normal(size=train.documents)
    write_items(replace(train, production=shown), place / "items.parquet")
    items = read_items(place / "items.parquet")
    simulate_rows(items, items.production, USERS, 3000, 0, place / "log.parquet")
    count(place / "log.parquet", output=place / "counts.parquet", judge=SHARE, seed=SEED)
    counts, _ = align(CountTable.open(place / "counts.parquet"), items, ranks=USERS.ranks)
    quick = Settings(steps=40, min_validation_interval=20)
    learn(items, counts, USERS, method="dr", scorer="linear", settings=quick).save(place / "run")
    return place, items, counts


def certify(place, *options):
    arguments = [
        "certify", place / "run", "--items", place / "items.parquet",
        "--counts", place / "counts.parquet", "--production-policy", "sampled", *options,
    ]  # fmt: skip
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def difference(place, *options):
    return json.loads(certify(place, *options, "--json").stdout)["difference"]


def test_only_sessions_to_judge_by_are_read(world, tmp_path):
    """The same as a log from which all other sessions were taken out by hand, in plain Python."""
    place, items, counts = world
    rows = pq.read_table(place / "log.parquet")
    judged = [is_judged(session, SHARE, SEED) for session in rows["session_id"].to_pylist()]
    assert 0 < sum(judged) < len(judged)
    pq.write_table(rows.filter(pa.array(judged)), tmp_path / "judged.parquet")
    alone, _ = align(count(tmp_path / "judged.parquet", judge=0), items, ranks=USERS.ranks)
    assert np.array_equal(alone.impressions, counts.part("judge").impressions)
    expected = assess(
        Ranker.load(place / "run"), items, production=items.production, counts=alone,
        click_model=USERS, production_kind="sampled", log=tmp_path / "judged.parquet",
    ).difference  # fmt: skip
    found = difference(place, "--log", place / "log.parquet")
    for name in ("estimate", "lower", "upper"):
        assert found[name] == pytest.approx(getattr(expected, name), rel=1e-9)
    assert found["method"] == "normal"


def test_rows_change_the_interval_and_not_the_estimate(world):
    place = world[0]
    with_log = difference(place, "--log", place / "log.parquet", "--method", "bernstein")
    without = difference(place, "--method", "bernstein")
    assert with_log["estimate"] == without["estimate"]
    assert with_log["upper"] != without["upper"]
    assert difference(place)["method"] == "clustered"


def test_names_and_ranks_of_the_log(world, tmp_path):
    place = world[0]
    rows = pq.read_table(place / "log.parquet")
    rank = rows.schema.get_field_index("rank")
    other = rows.set_column(rank, "position", pc.subtract(rows["rank"], 1))
    pq.write_table(other, tmp_path / "other.parquet")
    options = ("--log", tmp_path / "other.parquet", "--log-column", "rank=position")
    found = difference(place, *options, "--rank-from", 0)
    assert found == difference(place, "--log", place / "log.parquet")


def test_another_log_is_refused(world, tmp_path):
    place, items, counts = world
    rows = pq.read_table(place / "log.parquet")
    pq.write_table(rows.slice(0, rows.num_rows // 2), tmp_path / "half.parquet")
    with pytest.raises(InputError, match="`log` must be the rows that the counts are of; it has"):
        certify(place, "--log", tmp_path / "half.parquet")
    ranker = Ranker.load(place / "run")
    given = {"production": items.production, "counts": counts, "click_model": USERS}
    with pytest.raises(InputError, match="LogRows with the split of the counts"):
        assess(ranker, items, log=place / "log.parquet", **given)
    otherwise = LogRows(place / "log.parquet", Split("session", SHARE, SEED + 1))
    with pytest.raises(InputError, match="queries differ"):
        assess(ranker, items, log=otherwise, **given)
    bare = CliRunner().invoke(
        app, ["certify", str(place / "run"), "--items", str(place / "items.parquet"),
              "--log", str(place / "log.parquet")],
    )  # fmt: skip
    assert "`--counts` must be given with --log" in str(bare.exception)
