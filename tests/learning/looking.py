"""What tests of learning look at: the quality of a ranker, the files of a run."""

from pathlib import Path

from saferank.data import RankingData
from saferank.learning import Ranker
from saferank.metrics import mean
from saferank.plackett_luce import expected_ndcg


def quality(ranker: Ranker, data: RankingData) -> float:
    """Mean NDCG@5 of the rankings that are drawn from its scores."""
    return mean(expected_ndcg(ranker.scores(data), data.known_labels, data.offsets, 5))


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their names."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
