"""A folder of shards as it is read: its manifest, and each shard checked against it.

The law is that no query is in two shards. A query belongs to the shard that the hash of its id
says, which a process sees from its own shards alone: nobody has to look at all of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saferank._core.files import read_json
from saferank._core.records import from_dict
from saferank.counts.arrays import MOST_CELLS, Counts, check_ranks
from saferank.counts.count_table import CountTable
from saferank.counts.shard_numbers import check_shards, shard_numbers
from saferank.data import RankingData
from saferank.data.features import FeatureSchema
from saferank.data.items import read_items
from saferank.data.items.two_tables import ItemFiles
from saferank.data.matching import match_features
from saferank.errors import InputError, require
from saferank.logs.aligned import Alignment
from saferank.logs.alignment import align

MANIFEST: Final = "shards.json"
HOLDS: Final = (MANIFEST, "items-*.parquet", "counts-*.parquet")
VERSION: Final = 1


def items_name(number: int) -> str:
    """The file of a shard's items."""
    return f"items-{number:04}.parquet"


def counts_name(number: int) -> str:
    """The file of a shard's counts."""
    return f"counts-{number:04}.parquet"


def digest_of(path: Path) -> str:
    """A hash of a file, by which it is known to be the one that was written."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


@dataclass(frozen=True)
class ShardRecord:
    """What the manifest says of a shard."""

    documents: int
    """Query-document pairs."""
    queries: int
    counts: int
    """Rows of the file of counts."""
    items_digest: str
    counts_digest: str

    def __post_init__(self) -> None:
        for name in ("documents", "queries", "counts"):
            number = getattr(self, name)
            require(0 <= number <= MOST_CELLS, f"{name} of a shard", f"in 0..{MOST_CELLS}", number)


@dataclass(frozen=True)
class Manifest:
    """What all shards together are."""

    text: bool
    """Whether ids of queries are hashed as text."""
    features: FeatureSchema | None
    """Features and their categories, the same in all shards; None: a list, which has numbers."""
    ranks: int
    """K of the counts of all shards."""
    shards: tuple[ShardRecord, ...]
    version: int = VERSION

    def __post_init__(self) -> None:
        known = self.version == VERSION
        require(known, "version of the shards", f"{VERSION}, of this saferank", self.version)
        check_shards(len(self.shards))
        check_ranks(self.ranks)

    @property
    def documents(self) -> int:
        """Query-document pairs of all shards."""
        return sum(record.documents for record in self.shards)

    @property
    def queries(self) -> int:
        """Queries of all shards."""
        return sum(record.queries for record in self.shards)


@dataclass(frozen=True)
class Shard:
    """The items of a shard and the counts on them."""

    data: RankingData
    counts: Counts
    alignment: Alignment


@dataclass(frozen=True)
class ShardFolder:
    """A folder that `saferank shard` wrote; all of its files are there when it is made.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, saferank as sr
    >>> log = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "rank": [1, 2, 1],
    ...                 "click": [0, 1, 1]})
    >>> items = pa.table({"query_id": [7, 7, 8], "doc_id": [1, 2, 1], "price": [3.0, 4.0, 5.0]})
    >>> path = Path(tempfile.mkdtemp()) / "shards"
    >>> report = sr.logs.shard(items, sr.count(log, judge=0), path, shards=1)
    >>> folder = ShardFolder.open(path)
    >>> folder.read(0, ranks=2).counts
    Counts(2 queries, 3 documents, 2 ranks, 2 sessions, 2 clicks)
    """

    path: Path
    manifest: Manifest = field(repr=False)

    def __post_init__(self) -> None:
        for number in range(len(self)):
            for name in (items_name(number), counts_name(number)):
                there = (self.path / name).is_file()
                require(there, str(self.path), f"a folder of all {len(self)} shards",
                        f"it without {name}")  # fmt: skip
        more = (self.path / items_name(len(self))).exists()
        require(not more, str(self.path), f"a folder of the {len(self)} shards of its {MANIFEST}",
                f"it with {items_name(len(self))}")  # fmt: skip

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ShardFolder:
        """The folder of a path; only its manifest is read."""
        folder = Path(path)
        there = is_shard_folder(folder)
        require(there, "shards", f"a folder of `saferank shard`, with its {MANIFEST}", str(folder))
        record = read_json(folder / MANIFEST)
        return cls(folder, from_dict(Manifest, record, MANIFEST))

    def __len__(self) -> int:
        return len(self.manifest.shards)

    def items(self) -> ItemFiles:
        """The items of all shards as one table, which is read some rows at a time."""
        for number in range(len(self)):
            self._check_unchanged(number)
        return ItemFiles(tuple(self.path / items_name(number) for number in range(len(self))))

    def counts(self) -> CountTable:
        """The counts of all shards as one table, in memory."""
        files = [CountTable.open(self.path / counts_name(number)) for number in range(len(self))]
        said = files[0].schema.metadata
        whole = pa.concat_tables(table.to_arrow() for table in files)
        return CountTable.of_arrow(whole.replace_schema_metadata(said))

    def check_rows(self, number: int) -> None:
        """Refuse a shard whose files have not as many rows as the manifest says."""
        record = self.manifest.shards[number]
        for name, rows in ((items_name(number), record.documents),
                           (counts_name(number), record.counts)):  # fmt: skip
            try:
                own = pq.read_metadata(self.path / name).num_rows
            except (pa.ArrowException, OSError):
                own = None
            rule = f"those of the manifest, {rows} of them"
            require(own == rows, f"rows of {self.path / name}", rule, own)

    def _check_unchanged(self, number: int) -> None:
        record = self.manifest.shards[number]
        for name, digest in ((items_name(number), record.items_digest),
                             (counts_name(number), record.counts_digest)):  # fmt: skip
            path = self.path / name
            same = digest_of(path) == digest
            got = "a file that was changed since"
            require(same, str(path), "as `saferank shard` wrote it", got)
        self.check_rows(number)

    def read(
        self,
        number: int,
        *,
        ranks: int | None = None,
        skip_bad: bool = False,
        leave_out: Sequence[str] = (),
    ) -> Shard:
        """A shard as the manifest says that it is, its counts on its documents.

        Parameters
        ----------
        number
            Which, from 0.
        ranks
            K; by default as many as the counts say.
        skip_bad
            Leave counts of documents without an item out, instead of refusing them.
        leave_out
            Names of features to leave out.

        Returns
        -------
        Shard
            Refused with `InputError` where a file is changed, or a query belongs to another shard.
        """
        self._check_unchanged(number)
        data = self._items(self.path / items_name(number), leave_out)
        self._check_law(data, number)
        counts = self.path / counts_name(number)
        aligned, report = align(CountTable.open(counts), data, ranks=ranks, skip_bad=skip_bad)
        return Shard(data, aligned, report)

    def _items(self, path: Path, leave_out: Sequence[str]) -> RankingData:
        schema = self.manifest.features
        if schema is None:
            rule = "columns of the items: features in a list have no names"
            require(not leave_out, "leave_out", rule, list(leave_out))
            return read_items(path)
        for name in leave_out:
            require(name in schema.names, "leave_out", f"one of {', '.join(schema.names)}", name)
        kept = tuple(feature for feature in schema.features if feature.name not in leave_out)
        return match_features(read_items(path, schema=schema), FeatureSchema(kept))

    def _check_law(self, data: RankingData, number: int) -> None:
        """Refuse a shard with a query of another one: that query could be in both."""
        ids = data.ids()[0].tolist()
        own = shard_numbers([str(one) for one in ids] if self.manifest.text else ids, len(self))
        strange = np.flatnonzero(own != number)
        if strange.size:
            raise InputError(
                f"each query must be in one shard, the one that the hash of its id says: query "
                f"{ids[strange[0]]!r} belongs to shard {own[strange[0]]} and is in shard {number}."
            )


def is_shard_folder(path: Path) -> bool:
    """Whether a path names a folder of shards."""
    return (path / MANIFEST).is_file()
