"""Runs that are certified to be served in every way, and requests of their queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from forests import NAMES, X, forest_ranker

from saferank.data import RankingData
from saferank.evaluation.scored_policies import Deployed
from saferank.safety import Rule, assess

SIZE = 20
QUERIES = len(X) // SIZE
DATA = RankingData(
    X,
    np.arange(0, len(X) + 1, SIZE),
    feature_names=NAMES,
    production=np.random.default_rng(1).normal(size=len(X)),
    query_ids=np.array([f"q{n}" for n in range(QUERIES)]),
    doc_ids=np.array([f"d{n}" for n in range(len(X))]),
)
RANKER = replace(forest_ranker("standard", trees=5))
WAYS: dict[str, tuple[Deployed, Rule | None]] = {
    "sorted": ("sorted", None),
    "sampled": ("sampled", None),
    "mix": ("sampled", Rule(guard=True, guard_mode="mix", by="promise")),
    "best": ("sampled", Rule(guard=True, guard_mode="best", by="promise")),
    "held": ("sampled", Rule(guard=True, guard_mode="best", by="promise", holdout=0.25)),
    "held mix": ("sorted", Rule(guard=True, guard_mode="mix", by="promise", holdout=0.25)),
}


def save_run(folder, way, ranker=RANKER):
    """A run that is certified to be served in a way; those without a guard are not to be."""
    deployed, rule = WAYS[way]
    certified = assess(ranker, DATA, deployed=deployed, rule=rule or Rule(by="promise"))
    ranker.save(folder)
    certified.save(folder)
    return folder


def request(query=0, session="s", **changes):
    """A query of the data as JSON."""
    own = slice(DATA.offsets[query], DATA.offsets[query + 1])
    return {
        "query_id": str(DATA.query_ids[query]),
        "session_id": session,
        "doc_ids": DATA.doc_ids[own].tolist(),
        "features": DATA.features[own].astype(np.float64).tolist(),
        "production": DATA.production[own].tolist(),
        **changes,
    }


def columns(query=0):
    own = slice(DATA.offsets[query], DATA.offsets[query + 1])
    return {name: DATA.features[own, place].tolist() for place, name in enumerate(NAMES)}


def arrow(query=0, *, named=False, **options):
    """The same as an Arrow stream."""
    own = slice(DATA.offsets[query], DATA.offsets[query + 1])
    table = {"doc_id": DATA.doc_ids[own].tolist(), "production_score": DATA.production[own]}
    if named:
        table |= {name: DATA.features[own, place] for place, name in enumerate(NAMES)}
    else:
        flat = pa.array(DATA.features[own].ravel())
        table["features"] = pa.FixedSizeListArray.from_arrays(flat, len(NAMES))
    return stream_of(pa.table(table), **options)


def stream_of(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
