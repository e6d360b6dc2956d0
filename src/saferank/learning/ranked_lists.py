"""Rankings as a table: one row per shown document, with its rank and its score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from saferank._core import flat
from saferank._core.flat import Ints
from saferank.data import RankingData
from saferank.errors import require


def ranking_table(data: RankingData, ranked: Ints, scores: npt.ArrayLike) -> pa.Table:
    """The rankings of some data as a table of `query_id`, `doc_id`, `rank` (from 1) and `score`.

    Parameters
    ----------
    data
        The documents that were ranked.
    ranked
        Shape (queries, k): positions of the documents of each query, -1 past the end of a list.
    scores
        One score per document of the data.

    Examples
    --------
    >>> items = RankingData(np.eye(3), offsets=[0, 2, 3], doc_ids=np.array(["a", "b", "c"]))
    >>> ranking_table(items, np.array([[1, 0], [2, -1]]), [0.5, 2.0, 1.0]).to_pylist()[0]
    {'query_id': 0, 'doc_id': 'b', 'rank': 1, 'score': 2.0}
    """
    values = flat.check_values("scores", scores, data.offsets)
    shape = np.shape(ranked)
    fits = len(shape) == 2 and shape[0] == data.queries
    require(fits, "ranked", f"of shape ({data.queries}, k)", shape)
    query, place = np.nonzero(ranked >= 0)
    positions = ranked[query, place]
    query_ids, doc_ids = data.ids()
    return pa.table(
        {
            "query_id": pa.array(query_ids[query]),
            "doc_id": pa.array(doc_ids[positions]),
            "rank": pa.array((place + 1).astype(np.int32)),
            "score": pa.array(values[positions]),
        }
    )
