"""Ranking data: one flat matrix of features, cut into queries by offsets, never padded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from saferank._core import flat, storage
from saferank._core.flat import Array, Floats, Ints
from saferank._core.seeds import generator
from saferank.data.features import FeatureSchema
from saferank.data.groups import Groups
from saferank.errors import InputError, require

Features = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RankingData:
    """Queries, their documents, and what is known of them; checks itself when made.

    >>> data = RankingData(np.eye(3), offsets=[0, 2, 3], labels=[0, 1, 2])
    >>> data
    RankingData(2 queries, 3 documents, 3 features, labelled)
    >>> data.subset([1]).labels
    array([2.], dtype=float32)
    """

    features: Features
    """Documents x features, float32."""
    offsets: Ints
    """Where each query's documents begin: queries + 1 values, the first 0."""
    labels: npt.NDArray[np.float32] | None = None
    """The grade of each document, where it is known."""
    query_ids: Array | None = None
    """One per query."""
    doc_ids: Array | None = None
    """One per document."""
    feature_names: tuple[str, ...] | None = None
    """None where features have no names but their numbers."""
    production: Floats | None = None
    """Production's score of each document, where the items carry one."""
    schema: FeatureSchema = None  # type: ignore[assignment]
    """Names, kinds and categories of the features; by default numbers under `feature_names`."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Columns of the items that are no features, and why."""
    groups: Groups | None = None
    """The group of each document, where exposure is to be fair to groups."""

    if TYPE_CHECKING:  # whatever is an array is taken, and kept as the fields say

        def __init__(
            self,
            features: npt.ArrayLike,
            offsets: npt.ArrayLike,
            labels: npt.ArrayLike | None = None,
            query_ids: npt.ArrayLike | None = None,
            doc_ids: npt.ArrayLike | None = None,
            feature_names: Sequence[str] | None = None,
            production: npt.ArrayLike | None = None,
            schema: FeatureSchema | None = None,
            left_out: tuple[tuple[str, str], ...] = (),
            groups: Groups | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        features = np.ascontiguousarray(self.features, dtype=np.float32)
        require(features.ndim == 2, "features", "of shape (documents, features)", features.shape)
        documents = features.shape[0]
        self._set(features=features, offsets=flat.check_offsets(self.offsets, documents))
        if self.labels is not None:
            labels = np.ascontiguousarray(self.labels, dtype=np.float32)
            require(labels.shape == (documents,), "labels", f"{documents} values", labels.shape)
            sane = np.isfinite(labels) & (labels >= 0)
            flat.require_each(sane, "labels", "finite and at least 0", labels)
            self._set(labels=labels)
        if self.production is not None:
            self._set(production=flat.check_values("production", self.production, self.offsets))
        if self.groups is not None:
            own = self.groups.codes.shape
            require(own == (documents,), "groups", f"of {documents} documents", own)
        self._check_ids("query_ids", self.queries)
        self._check_ids("doc_ids", documents)
        if self.query_ids is not None:
            unique = np.unique(self.query_ids).size
            require(unique == self.queries, "query_ids", f"{self.queries} different ids", unique)
        self._check_schema(features.shape[1])

    def _check_schema(self, width: int) -> None:
        names = None if self.feature_names is None else tuple(self.feature_names)
        if names is not None:
            require(len(names) == width, "feature_names", f"{width} names", len(names))
        schema = cast("FeatureSchema | None", self.schema)
        if schema is None:
            numbered = FeatureSchema.numbered(width)
            schema = numbered if names is None else FeatureSchema.of_names(names)
        require(schema.width == width, "schema", f"of {width} features", schema.width)
        same = names is None or names == schema.names
        require(same, "feature_names", "those of the schema", names)
        own = None if schema.is_numbered else schema.names
        self._set(schema=schema, feature_names=own)

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_ids(self, name: str, count: int) -> None:
        ids = getattr(self, name)
        if ids is None:
            return
        ids = np.ascontiguousarray(ids)
        require(ids.shape == (count,), name, f"{count} ids", ids.shape)
        require(ids.dtype.kind in "iuU", name, "whole numbers or strings", ids.dtype.name)
        self._set(**{name: ids.astype(np.int64, copy=False) if ids.dtype.kind in "iu" else ids})

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.offsets.size - 1

    @property
    def documents(self) -> int:
        """Number of query-document pairs."""
        return int(self.features.shape[0])

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def sizes(self) -> Ints:
        """Documents of each query."""
        return flat.sizes(self.offsets)

    @property
    def group_codes(self) -> Ints | None:
        """The number of each document's group, where there are groups."""
        return None if self.groups is None else self.groups.codes

    @property
    def known_labels(self) -> npt.NDArray[np.float32]:
        """The labels, or `InputError` where there are none."""
        if self.labels is None:
            raise InputError("`labels` must be there for this; the data has none.")
        return self.labels

    def ids(self) -> tuple[Array, Array]:
        """Query ids and document ids; without any, numbers: of the query, and within the query."""
        queries = np.arange(self.queries) if self.query_ids is None else self.query_ids
        if self.doc_ids is not None:
            return queries, self.doc_ids
        return queries, np.arange(self.documents) - flat.repeat_per_document(
            self.offsets[:-1], self.offsets
        )

    def subset(self, queries: Sequence[int] | Array) -> RankingData:
        """A copy with the given queries, in the given order."""
        chosen = self._chosen(queries)
        positions, offsets = flat.gather(self.offsets, chosen)
        query_ids, doc_ids = self.ids()
        return RankingData(
            storage.take(self.features, positions),
            offsets,
            labels=None if self.labels is None else self.labels[positions],
            query_ids=query_ids[chosen],
            doc_ids=doc_ids[positions],
            production=None if self.production is None else self.production[positions],
            schema=self.schema,
            groups=None if self.groups is None else self.groups.take(positions),
        )

    def _chosen(self, queries: Sequence[int] | Array) -> Ints:
        chosen = np.asarray(queries)
        if chosen.dtype == np.bool_:
            require(
                chosen.shape == (self.queries,), "queries", "a mask of all queries", chosen.shape
            )
            chosen = np.flatnonzero(chosen)
        inside = (chosen >= 0) & (chosen < self.queries)
        flat.require_each(inside, "queries", f"in 0..{self.queries - 1}", chosen)
        return chosen.astype(np.int64)

    def split(self, *shares: float, seed: int) -> tuple[RankingData, ...]:
        """Cut the queries at random into parts of the given shares, which sum to 1.

        >>> data = RankingData(np.zeros((10, 1)), offsets=np.arange(11))
        >>> [part.queries for part in data.split(0.8, 0.2, seed=0)]
        [8, 2]
        """
        fair = all(share >= 0 for share in shares) and abs(sum(shares) - 1) < 1e-9
        require(fair, "shares", "at least 0 with sum 1", shares)
        order = generator(seed, "split").permutation(self.queries)
        cuts = np.round(np.cumsum(shares)[:-1] * self.queries).astype(int)
        return tuple(self.subset(np.sort(part)) for part in np.split(order, cuts))

    def batches(self, size: int, *, order: Array | None = None) -> Iterator[Batch]:
        """Batches of `size` queries: views in the data's order, else copies."""
        require(size >= 1, "size", "at least 1", size)
        for start in range(0, self.queries, size):
            if order is None:
                yield self._slice(start, min(start + size, self.queries))
            else:
                queries = np.asarray(order[start : start + size], dtype=np.int64)
                positions, offsets = flat.gather(self.offsets, queries)
                features = storage.take(self.features, positions)
                yield Batch(queries, positions, offsets, features)

    def _slice(self, first: int, last: int) -> Batch:
        cuts = self.offsets[first : last + 1]
        documents = slice(int(cuts[0]), int(cuts[-1]))
        return Batch(np.arange(first, last), documents, cuts - cuts[0], self.features[documents])

    def with_features(self, features: Features) -> RankingData:
        """The same documents with other features, under the same names if they are as many."""
        width = features.shape[1]
        schema = self.schema if width == self.width else FeatureSchema.numbered(width)
        return replace(self, features=features, feature_names=None, schema=schema)

    def fingerprint(self) -> str:
        """A short hash of queries, features and labels: which data a ranker was learned from.

        It is computed once for arrays that cannot be written, such as mapped files.
        """
        known: str | None = self.__dict__.get("_fingerprint")
        if known is not None:
            return known
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.offsets, self.features, self.labels):
            if part is not None:
                digest.update(str((part.dtype.str, part.shape)).encode())
                for _, piece in storage.pieces(part):
                    digest.update(np.ascontiguousarray(piece).data)
        if not self.schema.is_numbered:
            digest.update(json.dumps(self.schema.to_dict()).encode())
        parts = (self.offsets, self.features, self.labels)
        if not any(part is not None and part.flags.writeable for part in parts):
            self.__dict__["_fingerprint"] = digest.hexdigest()
        return digest.hexdigest()

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else "labelled"
        return (
            f"RankingData({self.queries} queries, {self.documents} documents, "
            f"{self.width} features, {labelled})"
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """Some queries of a `RankingData`: which, where their documents are, and their features."""

    queries: Ints
    positions: Ints | slice
    offsets: Ints
    features: Features


@dataclass(frozen=True, eq=False)
class Collection:
    """Training, validation and test queries of one collection, and its highest grade.

    See Also
    --------
    load, synthetic : make one.

    Examples
    --------
    >>> import saferank as sr
    >>> world = sr.data.synthetic("small", queries=40, seed=0)
    >>> world.train.queries, world.highest_grade
    (40, 4)
    """

    train: RankingData
    """Queries to learn from."""
    validation: RankingData
    """Queries to stop by."""
    test: RankingData
    """Queries to judge by."""
    highest_grade: float
    """What labels are divided by to be relevance in [0, 1]."""
    name: str = "collection"
    """What figures and tables call it."""

    def __post_init__(self) -> None:
        require(self.highest_grade > 0, "highest_grade", "positive", self.highest_grade)
        widths = {part.width for part in (self.train, self.validation, self.test)}
        require(len(widths) == 1, "features", "as many in every part", sorted(widths))

    def parts(self) -> dict[str, RankingData]:
        """The parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {part.queries}" for name, part in self.parts().items())
        return f"Collection({self.name}: queries {parts}; grades 0..{self.highest_grade:g})"
