"""Messages say the value that came, and where."""

import re
from pathlib import Path

import numpy as np
import pytest

import saferank
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.plackett_luce import log_probability


def test_no_message_says_others():
    sources = Path(saferank.__file__).parent.rglob("*.py")
    assert not [path.name for path in sources if re.search(r'"others"', path.read_text())]


def test_the_value_and_its_place_are_told():
    with pytest.raises(InputError, match=r"labels.*got -1.0 at position 2"):
        RankingData(np.zeros((3, 1)), [0, 3], labels=[0, 2, -1])
    data = RankingData(np.zeros((3, 1)), [0, 2, 3])
    with pytest.raises(InputError, match=r"queries.*got 7 at position 1"):
        data.subset([0, 7])
    with pytest.raises(InputError, match=r"rankings.*got 9 at"):
        log_probability(np.array([[[0, 9]]]), np.zeros(3), [0, 3])
