"""One small shop through the whole command line, each verdict beside the truth."""

import numpy as np
import pytest

from benchmarks.gate import cases, command_line
from benchmarks.shops import Shop

pytestmark = pytest.mark.slow
SHOP = Shop(
    seed=4, production="sampled", queries=30, products=(5, 8), k=3, sessions=3000,
    rank_from=0, users="position",
)  # fmt: skip


@pytest.fixture(scope="module")
def records():
    (found,) = cases.cases("tiny", SHOP, ("dr",), steps=20)
    return found


def test_every_kind_of_verdict_is_there(records):
    assert [cases.key(record)[1:] for record in records] == [("dr", c) for c in cases.checks()]
    for record in records:
        assert record["learn"]["exit"] == 0
        assert record["exit"] in (0, command_line.DO_NOT_SHIP)
        assert record["ship"] == (record["exit"] == 0)
        assert record["difference"]["lower"] <= record["difference"]["upper"]


def test_the_truth_is_of_what_would_be_served(records):
    by_check = {record["check"]: record for record in records}
    plain, guarded = by_check["default"]["truth"], by_check["guard"]["truth"]
    assert plain["production"] == guarded["production"]
    assert np.isfinite([plain["difference"], guarded["difference"]]).all()
    if by_check["guard"]["guarded"]:
        assert guarded["difference"] != plain["difference"]
        assert by_check["guard"]["promise_broken"] == 0.0  # it was drawn from its score


def test_what_got_in_the_way_is_told(records):
    assert all(isinstance(text, str) for record in records for text in record["frictions"])
