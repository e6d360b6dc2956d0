"""`compare --estimator` on a log of fixed rankings, beside the truth."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import saferank as run_saferank

import saferank as sr
from saferank._core.flat import Floats
from saferank.clicks import ClickModel, simulate
from saferank.counts.counts_file import save_counts
from saferank.data import RankingData
from saferank.learning import Settings
from saferank.safety.comparing_clicks import _candidate

K = 5


@pytest.fixture
def saferank(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command line; gives exit code, standard output and standard error."""
    return partial(run_saferank, monkeypatch, capsys)


CURVE = ClickModel(np.arange(1, K + 1) ** -0.8, np.zeros(K))


def shop(folder: Path, size: int, shift: float) -> tuple[RankingData, Floats, Floats]:
    """Fixed lists of five out of `size`, and a ranker that differs from production by `shift`."""
    rng = np.random.default_rng(0)
    queries = 80
    x = rng.normal(size=(queries * size, 2))
    relevance = 0.3 / (1 + np.exp(-x[:, 0]))
    production = np.round(x[:, 1] + x[:, 0] * (1 - shift), 6)
    items = RankingData(
        x, np.arange(queries + 1) * size, labels=relevance, production=production,
        query_ids=[f"q{i}" for i in range(queries)],
        doc_ids=[f"d{i}" for i in range(queries * size)],
    )  # fmt: skip
    counts = simulate(items, production, CURVE, sessions=10**6, seed=1, deterministic=True,
                      highest_grade=1)  # fmt: skip
    save_counts(counts, items, folder / "counts.parquet")
    sr.data.write_items(items, folder / "items.parquet")
    (folder / "bias.json").write_text(json.dumps(CURVE.to_dict()))
    ranker = sr.learn(items, counts, CURVE, method="dm", production=production,
                      settings=Settings(steps=60), scorer="linear", seed=0)  # fmt: skip
    ranker.save(folder / "run")
    return items, relevance, np.asarray(ranker.scores(items))


def clicks(scores: Floats, relevance: Floats, size: int) -> float:
    """Clicks per session of sorted lists, by plain arithmetic; every query is asked as often."""
    order = np.argsort(-scores.reshape(-1, size), axis=1, kind="stable")[:, :K]
    return float(
        (np.take_along_axis(relevance.reshape(-1, size), order, 1) * CURVE.alpha).sum(1).mean()
    )


def compared(saferank: Any, folder: Path, estimator: str) -> tuple[int, Any, str]:
    code, out, err = saferank(
        "compare", folder / "run", "--items", folder / "items.parquet", "--counts",
        folder / "counts.parquet", "--bias", folder / "bias.json", "--sorted", "--estimator",
        estimator, "--json",
    )  # fmt: skip
    return code, json.loads(out) if code == 0 else None, err


def test_click_based_estimates_are_right_where_production_always_shows_the_same(
    saferank: Any, tmp_path: Path
) -> None:
    items, relevance, scores = shop(tmp_path, K, 0.8)
    production = np.asarray(items.production)
    truth = clicks(scores, relevance, K)
    own = clicks(production, relevance, K)
    assert abs(truth / own - 1) > 0.05
    for name in ("cips", "cdr"):
        code, said, _ = compared(saferank, tmp_path, name)
        assert code == 0
        one = said["candidates"][0]
        assert one["clicks"] == pytest.approx(truth, rel=0.01)
        assert one["lower"] < truth - own < one["upper"]
    _, said, _ = compared(saferank, tmp_path, "ipm")
    one = said["candidates"][0]
    assert one["refused"] is not None or abs(one["clicks"] / truth - 1) > 0.2


def test_what_was_never_shown_is_refused_or_in_the_interval(saferank: Any, tmp_path: Path) -> None:
    _, relevance, scores = shop(tmp_path, 15, 1.0)
    code, said, _ = compared(saferank, tmp_path, "rips")
    assert code == 0
    assert "`log` must be given" in said["candidates"][0]["refused"]
    code, said, _ = compared(saferank, tmp_path, "cips")
    one = said["candidates"][0]
    truth = clicks(scores, relevance, 15)
    assert one["refused"] or one["lower"] + said["production"] < truth
    code, out, _ = saferank(
        "compare", tmp_path / "run", "--items", tmp_path / "items.parquet", "--counts",
        tmp_path / "counts.parquet", "--bias", tmp_path / "bias.json", "--sorted", "--estimator",
        "ipm",
    )  # fmt: skip
    assert "saferank explore plans a next log that can" in " ".join(out.split())
    code, _, err = compared(saferank, tmp_path, "guess")
    assert code == 2
    assert "one of ipm" in err


def test_an_estimate_that_depends_on_what_was_never_shown_is_none() -> None:
    """`unknown` says how far an estimate may be off; 40 % of production's clicks is too far."""
    result: Any = SimpleNamespace(unknown=(0.1, 0.7), production=SimpleNamespace(estimate=2.0))
    refused = _candidate("new", result, 0.05, None).refused
    assert refused is not None
    assert "make a difference of 40% of production's" in refused
