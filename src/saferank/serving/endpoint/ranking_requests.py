"""What is asked of the endpoint: one query with its documents, as JSON or Arrow, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from saferank._core.flat import Floats
from saferank.data.ranking import Features
from saferank.errors import InputError, require
from saferank.serving.endpoint.arrow_bodies import read_arrow
from saferank.serving.endpoint.json_bodies import JsonReader, Numbers

LONGEST_ID: Final = 512
JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
_KEYS: Final = (
    "query_id", "session_id", "doc_ids", "features", "production", "production_rank", "k", "ranker",
)  # fmt: skip

Id: TypeAlias = str | int


@dataclass(frozen=True)
class Limits:
    """What a request may cost at most."""

    body: int = 16 << 20
    """Bytes."""
    documents: int = 10_000
    seconds: float = 10.0
    """To receive a request, and again to answer one that is too large to be answered at once."""

    def __post_init__(self) -> None:
        require(self.body >= 1, "body", "at least 1 byte", self.body)
        require(self.documents >= 1, "documents", "at least 1", self.documents)
        require(0 < self.seconds < float("inf"), "seconds", "positive", self.seconds)


@dataclass(frozen=True, eq=False)
class RankingRequest:
    """One query, its documents, and who asks."""

    query_id: Id
    session_id: Id | None
    doc_ids: list[Id]
    features: Features | pa.Table
    """A matrix in the order of the ranker's features, or a table with a column per feature."""
    production: Floats | None = None
    """Production's score of each document."""
    production_rank: Floats | None = None
    """Production's rank of each document, NaN where it is not listed."""
    k: int | None = None
    ranker: str | None = None

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.doc_ids)


def parse_request(
    body: bytes, kind: str, options: Mapping[str, str], limits: Limits, reader: JsonReader
) -> RankingRequest:
    """The request of a body; `InputError` says in one sentence what is wrong with it.

    `options` are those of the address, which tell an Arrow request's query and session.
    """
    if kind == ARROW:
        return _of_arrow(body, options, limits)
    fields = reader.read(body, _KEYS)
    for name in ("query_id", "doc_ids", "features"):
        require(name in fields, "request", f"an object with `{name}`", list(fields))
    doc_ids = check_ids(fields["doc_ids"], limits)
    return RankingRequest(
        check_id(fields["query_id"], "query_id"),
        _optional_id(fields.get("session_id")),
        doc_ids,
        _features(fields["features"], len(doc_ids)),
        _values(fields.get("production"), "production", len(doc_ids), gaps=False),
        _values(fields.get("production_rank"), "production_rank", len(doc_ids), gaps=True),
        _length(fields.get("k")),
        _name(fields.get("ranker")),
    )


def check_id(value: Any, name: str) -> Id:
    """An id: a text that is not too long, or a whole number of 64 bits."""
    if isinstance(value, str):
        fits = 0 < len(value) <= LONGEST_ID and "\x00" not in value
        require(fits, name, f"a text of 1 to {LONGEST_ID} characters without NUL", value)
        return value
    whole = isinstance(value, int) and not isinstance(value, bool)
    require(whole and abs(value) < 1 << 63, name, "a text or a whole number", value)
    return int(value)


def check_ids(values: Any, limits: Limits) -> list[Id]:
    """Ids of documents: as many as are allowed, and each once."""
    require(isinstance(values, list) and len(values) > 0, "doc_ids", "a list of ids", values)
    most = limits.documents
    require(len(values) <= most, "doc_ids", f"at most {most:,} documents", len(values))
    try:
        letters = "".join(values)
    except TypeError:  # whole numbers among them, or what is no id
        letters = None
    longest = max(map(len, values)) if letters is not None else 0
    if letters is None or longest > LONGEST_ID or "\x00" in letters or "" in values:
        for value in values:
            check_id(value, "doc_ids")
    different = len(set(values if letters is not None else map(str, values)))
    require(different == len(values), "doc_ids", "different ids", "one twice")
    return values  # type: ignore[no-any-return]


def _optional_id(value: Any) -> Id | None:
    return None if value is None else check_id(value, "session_id")


def _features(value: Any, documents: int) -> Features | pa.Table:
    """A matrix, or columns by name."""
    if isinstance(value, Numbers):
        matrix = value.values
        require(matrix.ndim == 2, "features", "a list of lists, or an object of lists", "a list")
        require(len(matrix) == documents, "features", f"{documents} lists", len(matrix))
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, as in items
            return matrix.astype(np.float32)
    require(isinstance(value, dict), "features", "lists of numbers, or an object of lists", value)
    columns = {}
    for name, column in value.items():
        listed = isinstance(column, list) and len(column) == documents
        require(listed, f"features.{name}", f"a list of {documents} values", column)
        try:
            columns[name] = pa.array(column)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            raise InputError(f"`features.{name}` must be values of one kind; {error}.") from error
    return pa.table(columns)


def _values(value: Any, name: str, documents: int, *, gaps: bool) -> Floats | None:
    """One number per document."""
    if value is None:
        return None
    fits = isinstance(value, Numbers) and value.values.shape == (documents,)
    require(fits, name, f"a list of {documents} numbers", getattr(value, "values", value))
    numbers: Floats = value.values
    sane = np.isfinite(numbers) | (np.isnan(numbers) if gaps else False)
    require(bool(np.all(sane)), name, "finite numbers", "a value that is not")
    return numbers


def _length(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    require(value is None or whole, "k", "a whole number of at least 1", value)
    return None if value is None else min(int(value), 1 << 31)


def _name(value: Any) -> str | None:
    require(value is None or isinstance(value, str), "ranker", "a name", value)
    name: str | None = value
    return name


def _of_arrow(body: bytes, options: Mapping[str, str], limits: Limits) -> RankingRequest:
    require("query_id" in options, "address", "with ?query_id=..., as the body is Arrow", "none")
    columns = read_arrow(body, limits.documents)
    require("doc_id" in columns, "body", "a table with a column doc_id", list(columns))
    doc_ids = check_ids(columns.pop("doc_id").to_pylist(), limits)
    given = {name: columns.pop(name, None) for name in ("production_score", "production_rank")}
    for name in ("query_id", "session_id"):
        columns.pop(name, None)
    length = options.get("k")
    require(length is None or length.isdecimal(), "k", "a whole number of at least 1", length)
    return RankingRequest(
        check_id(options["query_id"], "query_id"),
        _optional_id(options.get("session_id")),
        doc_ids,
        _matrix(columns, len(doc_ids)),
        _column(given["production_score"], "production_score", len(doc_ids), gaps=False),
        _column(given["production_rank"], "production_rank", len(doc_ids), gaps=True),
        _length(None if length is None else int(length[:10])),
        _name(options.get("ranker")),
    )


def _matrix(columns: dict[str, pa.Array], documents: int) -> Features | pa.Table:
    """The list column `features` as a matrix; else a table of all columns."""
    listed = columns.get("features")
    if listed is None or not pa.types.is_fixed_size_list(listed.type):
        return pa.table(columns)
    alone = len(columns) == 1 and listed.null_count == 0
    require(alone, "body", "features in the column `features` or in others, not both", [*columns])
    kind = listed.type.value_type
    require(pa.types.is_floating(kind), "features", "lists of floating numbers", str(listed.type))
    flat = listed.flatten().to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(flat, dtype=np.float32).reshape(documents, -1)


def _column(values: Any, name: str, documents: int, *, gaps: bool) -> Floats | None:
    if values is None:
        return None
    kind = values.type
    number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    require(number, name, "a column of numbers", str(kind))
    array = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    return _values(Numbers(array), name, documents, gaps=gaps)
