"""The lists that production made, as scores that sort documents so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.data import RankingData
from saferank.errors import InputError, require

_NAMES = ("query_id", "doc_id", "rank")
_WHAT = "production's lists"


def scores_of_lists(table: pa.Table, data: RankingData) -> Floats:
    """Scores that sort documents as production listed them (`query_id, doc_id, rank`).

    Documents that were not listed come after those that were, in the order of the items.
    """
    ranks = ranks_of_lists(table, data)
    return np.where(ranks > 0, -ranks, -ranks.max(initial=0.0) - 1)


def listed_items(table: pa.Table, data: RankingData) -> RankingData:
    """The items that production listed, with scores that sort them so as `production`."""
    ranks = ranks_of_lists(table, data)
    listed = ranks > 0
    sizes = flat.query_sums(listed.astype(np.int64), data.offsets)
    return RankingData(
        data.features[listed],
        np.concatenate([[0], np.cumsum(sizes)]),
        query_ids=data.query_ids,
        doc_ids=None if data.doc_ids is None else data.doc_ids[listed],
        production=-ranks[listed],
        schema=data.schema,
    )


def ranks_of_lists(table: pa.Table, data: RankingData) -> Floats:
    """The rank of each document in production's lists; 0 where it was not listed.

    A list that shows what is no item, or two documents at one rank, is no list that can be served.
    """
    lacking = [name for name in _NAMES if name not in table.column_names]
    require(not lacking, _WHAT, "a table of query_id, doc_id, rank", lacking)
    query_ids, doc_ids = data.ids()
    queries = np.asarray(query_ids)[flat.query_of(data.offsets)]
    names = zip(queries.tolist(), np.asarray(doc_ids).tolist(), strict=True)
    places = {(str(query), str(document)): place for place, (query, document) in enumerate(names)}
    wanted = {str(query) for query in np.asarray(query_ids).tolist()}
    ranks = np.zeros(data.documents)
    taken: set[tuple[str, float]] = set()
    for row in zip(*(table[name].to_pylist() for name in _NAMES), strict=True):
        query, document, rank = str(row[0]), str(row[1]), _rank(row[2])
        if query not in wanted:
            continue
        place = places.get((query, document), -1)
        require(place >= 0, f"documents of {_WHAT}", "among the items", (query, document))
        require(ranks[place] == 0, _WHAT, "with each document once per query", (query, document))
        require((query, rank) not in taken, _WHAT, "with one document at a rank", (query, rank))
        taken.add((query, rank))
        ranks[place] = rank
    served = flat.query_sums((ranks > 0).astype(np.int64), data.offsets)
    if data.queries and int(served.min()) == 0:
        query = query_ids[int(np.argmin(served))]
        raise InputError(f"{_WHAT} must have every query of the items; {query!r} lacks.")
    return ranks


def _rank(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1:
        return float(value)
    raise InputError(f"`rank of {_WHAT}` must be a number of at least 1; got {value!r}.")
