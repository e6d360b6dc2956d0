"""Scores of sessions: their moments by the sessions themselves."""

import numpy as np
import pytest

from saferank.counts import Counts
from saferank.estimators.session_form import SessionScore, rank_covariances


def test_weights_of_what_was_never_shown_count_for_nothing() -> None:
    """One query, two documents, one rank: the second was never shown, and has a huge weight."""
    counts = Counts([0, 2], [[4], [0]], [[1], [0]], [4])
    weights = np.array([[2.0], [1e200]])
    score = SessionScore(np.zeros(1), np.zeros((2, 1)), weights)
    with np.errstate(all="raise"):
        (variance,) = rank_covariances(score, score, counts)
    values = np.array([2.0, 0.0, 0.0, 0.0])  # of the four sessions
    assert variance == pytest.approx(values.var())
