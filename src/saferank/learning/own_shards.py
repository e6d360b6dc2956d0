"""The shards of a process as `learn` takes them: read, checked, and counted together."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from saferank._core import flat, storage
from saferank._core.flat import Array
from saferank._core.progress import bar
from saferank.counts import Counts
from saferank.counts.additive_print import additive_print
from saferank.data import RankingData
from saferank.data.features import FeatureSchema
from saferank.errors import require
from saferank.learning.portion import Portion, join_rows, share_shards
from saferank.learning.recipe import Recipe
from saferank.learning.workers import Workers, workers
from saferank.logs import ShardFolder
from saferank.logs.aligned import Alignment
from saferank.logs.shard_folder import Shard

_OBJECTIVES = ("utility", "safe-ips", "safe-dr", "prpo", "prpo-lift", "prpo-floor", "keep")
_TEXT = "S40"
"""The longest fingerprint has 36 characters."""
_SUMMED = (
    "documents", "shown", "queries", "shown_queries", "impressions", "unknown_documents",
    "unknown_impressions", "unknown_clicks", "beyond", "learn_sessions", "judge_sessions",
)  # fmt: skip


@dataclass(frozen=True)
class Prints:
    """Fingerprints of all shards, in their order."""

    data: list[str]
    learn: list[str]
    log: list[str]
    sums: list[str]
    """Of the sessions to learn from, as they add up over any cut of the queries."""

    @staticmethod
    def together(each: Sequence[str]) -> str:
        """One fingerprint of all."""
        return hashlib.blake2b("".join(each).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class OwnShards:
    """Items and counts of this process's shards, one after another, and what all shards are.

    See Also
    --------
    read_shards : reads them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa, saferank as sr
    >>> log = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "rank": [1, 2, 1],
    ...                 "click": [0, 1, 1]})
    >>> items = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "price": [3.0, 4.0, 5.0]})
    >>> path = Path(tempfile.mkdtemp()) / "shards"
    >>> report = sr.logs.shard(items, sr.count(log, judge=0), path, shards=1)
    >>> shards = read_shards(path, ranks=2)
    >>> shards.counts.total, shards.portion.queries
    (2, 2)
    """

    data: RankingData
    """Of the own shards."""
    counts: Counts
    """On the data's documents."""
    portion: Portion
    """All queries, and which are the own."""
    prints: Prints
    """Of all shards."""
    alignment: Alignment
    """What of the counts of all shards has items."""


def read_shards(
    folder: ShardFolder | str | os.PathLike[str],
    *,
    ranks: int,
    skip_bad: bool = False,
    leave_out: Sequence[str] = (),
) -> OwnShards:
    """Read the shards of this process: its share of them inside `together`, else all.

    Parameters
    ----------
    folder
        A folder of `saferank shard`.
    ranks
        K, of the click model.
    skip_bad
        Leave counts of documents without an item out, instead of refusing them.
    leave_out
        Names of features to leave out.

    Returns
    -------
    OwnShards
        What `learn` takes in place of items and counts.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa, saferank as sr
    >>> log = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "rank": [1, 2, 1],
    ...                 "click": [0, 1, 1]})
    >>> items = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "price": [3.0, 4.0, 5.0]})
    >>> path = Path(tempfile.mkdtemp()) / "shards"
    >>> report = sr.logs.shard(items, sr.count(log, judge=0), path, shards=1)
    >>> read_shards(path, ranks=2).data
    RankingData(2 queries, 3 documents, 1 features, unlabelled)
    """
    given = folder if isinstance(folder, ShardFolder) else ShardFolder.open(folder)
    us = workers()
    owned = share_shards([record.documents for record in given.manifest.shards], us.count)
    mine = owned[us.rank]
    for number in mine:
        given.check_rows(number)
    own = _Own(sum(given.manifest.shards[number].documents for number in mine))
    with bar("reading shards", len(mine), show=None if us.writes else False) as advance:
        for number in mine:
            own.add(given.read(number, ranks=ranks, skip_bad=skip_bad, leave_out=leave_out))
            advance()
    data, counts = own.data(), _joined(own.counts)
    widths = join_rows(us, np.array([data.width]))
    require(bool((widths == data.width).all()), "shards", "of as many features each", data.width)
    said = [asdict(given.manifest), ranks, skip_bad, list(leave_out)]
    portion = Portion.gather(
        [part.sizes for part in own.parts],
        [part.part("learn").sessions for part in own.counts],
        owned,
        us,
        hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest(),
    )
    prints = _all_texts(us, own.prints)
    return OwnShards(data, counts, portion, Prints(*prints.T.tolist()), _summed(us, own.alignments))


class _Own:
    """What was read so far: features in one matrix, the rest shard by shard."""

    def __init__(self, rows: int) -> None:
        self.rows, self.start = rows, 0
        self.features: Array | None = None
        self.parts: list[RankingData] = []
        self.counts: list[Counts] = []
        self.prints: list[tuple[str, str, str, str]] = []
        self.alignments: list[Alignment] = []

    def add(self, shard: Shard) -> None:
        """Take a shard; its features are copied and let go."""
        data, counts = shard.data, shard.counts
        if self.features is None:
            self.features = storage.empty((self.rows, data.width))
        width = self.features.shape[1]
        require(data.width == width, "shards", f"of {width} features each", data.width)
        place = slice(self.start, self.start + data.documents)
        storage.put(self.features, place, data.features)
        self.start += data.documents
        learn, everything = counts.part("learn"), counts.part("all")
        own = data.fingerprint(), learn.fingerprint(), everything.fingerprint()
        self.prints.append((*own, additive_print(learn)))
        none = np.zeros((data.documents, 0), dtype=np.float32)
        self.parts.append(replace(data, features=none, feature_names=None,
                                  schema=FeatureSchema.numbered(0)))  # fmt: skip
        self.schema = data.schema
        self.counts.append(counts)
        self.alignments.append(shard.alignment)

    def data(self) -> RankingData:
        """The items without their ids, which learning does not look at."""
        assert self.features is not None
        known = [part.production for part in self.parts if part.production is not None]
        sizes = np.concatenate([part.sizes for part in self.parts])
        return RankingData(
            self.features,
            np.concatenate([[0], np.cumsum(sizes)]),
            production=np.concatenate(known) if known else None,
            schema=self.schema,
        )


def _joined(parts: Sequence[Counts]) -> Counts:
    """Counts of the documents of several shards, one after another.

    Users are not kept: a number of one shard says nothing of another.
    """
    first = parts[0]
    if len(parts) == 1:
        return replace(first, cluster=None)
    judges = [part.judge for part in parts if part.judge is not None]
    recorded = [part.propensity for part in parts if part.propensity is not None]
    outside = None
    if any(part.outside is not None for part in parts):
        outside = np.concatenate(
            [np.zeros((2, part.queries, part.ranks), dtype=np.int64)
             if part.outside is None else part.outside for part in parts], axis=1
        )  # fmt: skip
    sizes = np.concatenate([flat.sizes(part.offsets) for part in parts])
    return Counts(
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([part.impressions for part in parts]),
        np.concatenate([part.clicks for part in parts]),
        np.concatenate([part.sessions for part in parts]),
        judge=_joined(judges) if judges else None,
        outside=outside,
        propensity=np.concatenate(recorded) if recorded else None,
        sketch=first.sketch,
        feedback=first.feedback,
    )


def _all_texts(us: Workers, own: Sequence[Sequence[str]]) -> Array:
    """Rows of short texts, those of all workers."""
    rows = np.array([[one.encode() for one in row] for row in own], dtype=_TEXT)
    flat_rows = join_rows(us, rows.view(np.uint8).reshape(len(rows), -1))
    return flat_rows.view(_TEXT).astype(str)


def _summed(us: Workers, own: Sequence[Alignment]) -> Alignment:
    """What of the counts of all shards has items."""
    rows = np.array([[getattr(one, name) for name in _SUMMED] for one in own], dtype=np.int64)
    totals = join_rows(us, rows).sum(axis=0).tolist()
    summed = replace(own[0], **dict(zip(_SUMMED, totals, strict=True)))
    if not summed.unknown_documents:
        return summed
    example = next((one.example for one in own if one.example), "in another process's shards")
    return replace(summed, example=example)


def check_recipe(recipe: Recipe) -> None:
    """Refuse what needs more of other shards than is put together of them."""
    gains = isinstance(recipe.gain, str) and recipe.gain not in ("evidence-dr", "labels")
    for name, fits, rule in (
        ("scorer", recipe.scorer != "trees", "a network"),
        ("gain", gains, "one of a document's own clicks and prediction"),
        ("objective", recipe.objective in _OBJECTIVES, f"one of {', '.join(_OBJECTIVES)}"),
        ("gradient", recipe.gradient == "exact", "exact"),
        ("start", recipe.start != "sharpened", "production, add or scratch"),
        ("keep", recipe.keep is None, "left out"),
        ("fairness", recipe.fairness is None, "left out"),
        ("regression", recipe.regression != "cross-entropy", "posterior or likelihood"),
    ):
        require(fits, name, f"{rule} where items are in shards", getattr(recipe, name))
