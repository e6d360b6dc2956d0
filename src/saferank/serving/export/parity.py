"""Parity files: rows of features, and the scores that an engine must give for them.

A Parquet file beside the export, readable anywhere: `features` (a list per row), `query` (rows of
one list lie together), `score`, `tolerance`, and where a graph takes them `production`, `uniform`,
`chance` (one per query) and `share`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from saferank._core.files import atomic_file
from saferank._core.flat import Floats, Ints
from saferank._core.marks import parquet_mark
from saferank.data.ranking import Features
from saferank.errors import InputError, require

SUFFIX: Final = ".parity.parquet"
_FACTS: Final = b"saferank_export"
_LARGEST_FILE: Final = 1 << 30
_MOST_NUMBERS: Final = 1 << 28
_OPTIONAL: Final = ("production", "uniform", "chance", "share")


@dataclass(frozen=True, eq=False)
class Parity:
    """Rows, and what an engine must make of them."""

    target: str
    names: tuple[str, ...]
    features: Features
    offsets: Ints
    scores: Floats
    tolerance: Floats
    """How far from its score a row's may be."""
    k: int | None = None
    """Documents that are ranked, where the graph ranks them."""
    kinds: tuple[str, str] = ("sampled", "sampled")
    """How the new ranker and production make rankings of scores."""
    temperature: float = 1.0
    """What production's scores are divided by."""
    production: Floats | None = None
    uniform: Floats | None = None
    chance: Floats | None = None
    """A number in [0, 1) per query: production is served where it is not below the share."""
    share: Floats | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.features)

    def write(self, path: Path) -> None:
        """Write the file."""
        sizes = np.diff(self.offsets)
        lists = pa.FixedSizeListArray.from_arrays(
            pa.array(self.features.reshape(-1)), self.features.shape[1]
        )
        columns: dict[str, Any] = {
            "features": lists, "query": np.repeat(np.arange(sizes.size), sizes),
            "score": self.scores, "tolerance": self.tolerance,
        }  # fmt: skip
        for name in _OPTIONAL:
            values = getattr(self, name)
            if values is not None:
                per_query = name in ("chance", "share")
                columns[name] = np.repeat(values, sizes) if per_query else values
        facts = {
            "target": self.target, "names": list(self.names), "k": self.k,
            "kinds": list(self.kinds), "temperature": self.temperature,
        }  # fmt: skip
        table = pa.table(columns).replace_schema_metadata(
            {**parquet_mark("parity"), _FACTS.decode(): json.dumps(facts)}
        )
        with atomic_file(path) as temporary:
            pq.write_table(table, temporary)

    @classmethod
    def read(cls, path: Path) -> Parity:
        """Read a file that need not be to be trusted."""
        require(path.is_file(), "parity file", "there", str(path))
        size = path.stat().st_size
        require(size <= _LARGEST_FILE, str(path), f"at most {_LARGEST_FILE} bytes", size)
        try:
            with pq.ParquetFile(path) as file:
                facts = _facts(file, path)
                return _of_table(file.read(), facts, path)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"`{path}` must be a parity file; {error}.") from error


def _facts(file: Any, path: Path) -> dict[str, Any]:
    """What the file says of itself; sizes are checked before anything is read."""
    meta, schema = file.metadata, file.schema_arrow
    facts = json.loads((meta.metadata or {})[_FACTS])
    names = facts["names"]
    sane = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(sane, str(path), "a parity file with names of features", type(names).__name__)
    width = len(names)
    wanted = {"features": pa.list_(pa.float32(), width), "query": pa.int64()}
    for column in schema:
        kind = wanted.get(column.name, pa.float64())
        same = column.type == kind or (
            pa.types.is_fixed_size_list(column.type)
            and column.type.list_size == width
            and column.type.value_type == pa.float32()
            and column.name == "features"
        )
        require(same, f"column {column.name}", f"of type {kind}", str(column.type))
    stored = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    numbers = max(meta.num_rows * (width + 8), stored // 8)
    require(numbers <= _MOST_NUMBERS, str(path), f"at most {_MOST_NUMBERS} numbers", numbers)
    return dict(facts)


def _of_table(table: Any, facts: dict[str, Any], path: Path) -> Parity:
    def of(name: str) -> Any:
        column = table[name].combine_chunks()
        require(column.null_count == 0, f"column {name} of {path}", "without nulls", "some")
        return column

    query = of("query").to_numpy()
    ordered = query.size > 0 and bool(np.all(np.diff(query) >= 0))
    require(ordered, str(path), "rows in the order of their queries", query.size)
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(query)) + 1, [query.size]])
    features = of("features").flatten().to_numpy().reshape(query.size, -1)
    optional: dict[str, Any] = {}
    for name in _OPTIONAL:
        if name in table.column_names:
            values = of(name).to_numpy()
            optional[name] = values[cuts[:-1]] if name in ("chance", "share") else values
    kinds = tuple(str(kind) for kind in facts["kinds"])
    k = facts["k"]
    require(k is None or (isinstance(k, int) and 1 <= k <= 10**6), "k", "a count", k)
    return Parity(
        str(facts["target"]), tuple(facts["names"]), features.astype(np.float32), cuts,
        of("score").to_numpy(), of("tolerance").to_numpy(), k, (kinds[0], kinds[1]),
        float(facts["temperature"]), **optional,
    )  # fmt: skip
