"""Commands that are killed at random times: the next run gives the same bytes and clears up."""

import pytest

from benchmarks import topic_kills


@pytest.mark.slow
@pytest.mark.parametrize("command", topic_kills.COMMANDS, ids=lambda command: command.name)
def test_killed_at_random_times(command, inputs, tmp_path):
    tally = topic_kills.kill_often(command, inputs, tmp_path, kills=8, seed=1)
    assert sum(tally.kills.values()) == 8
    assert (tally.changed, tally.litter, tally.wrong_exit) == (0, 0, 0)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return topic_kills.make_inputs(tmp_path_factory.mktemp("kills") / "inputs")
