"""Documents that stand at several ranks of one session, looked for in a sample of the sessions.

A session is one list, so a document has one rank in it. To look at all sessions of a large log
would cost as much as to count it: beyond `MOST` of them a sample by hash is looked at.
"""

from __future__ import annotations

import math
from typing import Any

from saferank.counts.count_table import Repeats
from saferank.counts.hashing import knows_text
from saferank.logs.engines.running import Engine
from saferank.logs.schema import Log
from saferank.logs.sketching import ends_in_zeros

MOST = 2**15
"""Sessions that are looked at, at most about: one repeating session in 10,000 is found by them."""


def find_repeats(engine: Engine, log: Log, sessions: int) -> Repeats | None:
    """Sessions that show a document at several ranks, and one of them; none where all is well.

    `sessions` is about how many there are.
    """
    bits = max(0, math.ceil(math.log2(max(sessions, 1) / MOST)))
    text = log.table.session_id.type().is_string()
    if bits and text and not knows_text(engine.name):  # its hash could not be spelled
        return None
    spans = rank_spans(log, bits, engine.name)
    repeating = spans.filter(spans.first < spans.last)
    sessions_of = repeating.agg(sessions=repeating.session_id.nunique())
    number = engine.fetch(sessions_of)["sessions"][0].as_py()
    if not number:
        return None
    looked_at = engine.fetch(spans.agg(sessions=spans.session_id.nunique()))["sessions"][0].as_py()
    ordered = repeating.order_by("session_id", "query_id", "doc_id")
    row = engine.fetch(ordered.limit(1)).to_pylist()[0]
    example = (
        f"session_id {row['session_id']!r} shows {row['doc_id']!r} at ranks {row['first']} and "
        f"{row['last']} of query_id {row['query_id']!r}"
    )
    return Repeats(number, looked_at, example)


def rank_spans(log: Log, bits: int, engine: str) -> Any:
    """First and last rank of each document in each of the sampled sessions."""
    rows = log.kept(log.table)
    chosen = rows.filter(_sampled(rows.session_id, bits, engine))
    return chosen.group_by("session_id", "query_id", "doc_id").agg(
        first=chosen["rank"].min(), last=chosen["rank"].max()
    )


def _sampled(column: Any, bits: int, engine: str) -> Any:
    """One in 2^bits of the ids; by DuckDB's own hash there, as no other engine has to agree."""
    import ibis

    if not bits or engine != "duckdb":
        return ends_in_zeros(column, bits, engine)

    def of_id(value: Any) -> Any:
        """Only its name and types are used."""

    own = ibis.udf.scalar.builtin(of_id, name="hash", signature=((column.type(),), "uint64"))
    return own(column) % (1 << bits) == 0
