"""Variances between the sessions to judge by, against a loop over the rows of the log."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from splits import is_judged

from saferank.clicks import simulate_rows, trust_bias
from saferank.counts import Counts, CountTable, Split
from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.estimators.session_form import SessionScore
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.sessions import LogRows, session_moments
from saferank.logs import align, count

DATA = synthetic("small", queries=6, seed=0).train
RANKS = 3


def a_score(data: RankingData, seed: int = 0) -> SessionScore:
    rng = np.random.default_rng(seed)
    return SessionScore(rng.normal(size=data.queries), *rng.normal(size=(2, data.documents, RANKS)))


def nothing_known(counts: Counts) -> QueryScores:
    blank = np.full(counts.queries, -1.0)
    return QueryScores(counts.sessions, blank, blank, blank, blank, blank, "ranks")


def by_loops(log: Path, data: RankingData, score: SessionScore, judged: object) -> dict[int, float]:
    """Sample variance of what the chosen sessions of each query say."""
    query_ids, doc_ids = data.ids()
    place = {
        (query_ids[q], doc_ids[d]): (q, d)
        for q in range(data.queries)
        for d in range(data.offsets[q], data.offsets[q + 1])
    }
    shown: dict[tuple[int, object], dict[tuple[int, int], bool]] = {}
    for row in pq.read_table(log).to_pylist():
        if judged(row):  # type: ignore[operator]
            query, document = place[row["query_id"], row["doc_id"]]
            seen = shown.setdefault((query, row["session_id"]), {})
            at = document, row["rank"] - 1
            seen[at] = seen.get(at, False) or bool(row["click"])
    said: dict[int, list[float]] = {}
    for (query, _), seen in shown.items():
        values = (score.clicked[at] if hit else score.missed[at] for at, hit in seen.items())
        said.setdefault(query, []).append(float(sum(values)))
    return {q: statistics.variance(values) for q, values in said.items() if len(values) > 1}


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_variances_of_judge_sessions_equal_a_loop(tmp_path: Path, text: bool) -> None:
    log, counted = tmp_path / "log.parquet", tmp_path / "counts.parquet"
    simulate_rows(DATA, np.zeros(DATA.documents), trust_bias(RANKS), 300, 3, log)
    if text:
        table = pq.read_table(log)
        ids = table["session_id"].cast(pa.string())
        pq.write_table(table.set_column(0, "session_id", ids), log)
    count(log, output=counted, judge=0.4, seed=5)
    table = CountTable.open(counted)
    counts, _ = align(table, DATA, ranks=RANKS)
    score, judge = a_score(DATA), counts.part("judge")
    (found,) = session_moments(
        LogRows(log, table.split), DATA, judge, [score], [nothing_known(judge)]
    )
    expected = by_loops(log, DATA, score, lambda row: is_judged(row["session_id"], 0.4, 5))
    assert len(expected) == DATA.queries
    for query, variance in expected.items():
        assert found.variance[query] == pytest.approx(variance)
    (everything,) = session_moments(LogRows(log), DATA, counts, [score], [nothing_known(counts)])
    for query, variance in by_loops(log, DATA, score, lambda _: True).items():
        assert everything.variance[query] == pytest.approx(variance)


def test_whole_queries_to_judge_by(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    simulate_rows(DATA, np.zeros(DATA.documents), trust_bias(RANKS), 300, 3, log)
    split = Split("query", 0.5, 1)
    counts, _ = align(count(log, judge=0), DATA, ranks=RANKS)
    chosen = np.array([is_judged(query, 0.5, 1) for query in DATA.ids()[0]])
    of_documents = np.repeat(chosen, DATA.sizes)[:, None]
    judge = Counts(
        counts.offsets, counts.impressions * of_documents, counts.clicks * of_documents,
        counts.sessions * chosen,
    )  # fmt: skip
    score = a_score(DATA)
    (found,) = session_moments(LogRows(log, split), DATA, judge, [score], [nothing_known(judge)])
    expected = by_loops(log, DATA, score, lambda row: is_judged(row["query_id"], 0.5, 1))
    assert 0 < len(expected) < DATA.queries
    for query in range(DATA.queries):
        assert found.variance[query] == pytest.approx(expected.get(query, -1.0))


def test_repeated_rows_of_a_session_count_once(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    simulate_rows(DATA, np.zeros(DATA.documents), trust_bias(RANKS), 100, 3, log)
    once = pq.read_table(log)
    missed = once.set_column(4, "click", pa.array(np.zeros(once.num_rows, dtype=np.int8)))
    pq.write_table(pa.concat_tables([once, once, missed]), log)
    counts, _ = align(count(log, judge=0), DATA, ranks=RANKS)
    score = a_score(DATA)
    (found,) = session_moments(LogRows(log), DATA, counts, [score], [nothing_known(counts)])
    for query, variance in by_loops(log, DATA, score, lambda _: True).items():
        assert found.variance[query] == pytest.approx(variance)


def test_drawn_sessions_cannot_be_found_in_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    simulate_rows(DATA, np.zeros(DATA.documents), trust_bias(RANKS), 100, 3, log)
    counts, _ = align(count(log, judge=0), DATA, ranks=RANKS)
    measured = [nothing_known(counts)]
    with pytest.raises(InputError, match="`split` must be by session, user or query"):
        session_moments(LogRows(log, Split("drawn")), DATA, counts, [a_score(DATA)], measured)
