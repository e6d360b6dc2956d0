"""Feature scaling, fitted on training queries and saved with the ranker that needs it.

Kinds, by name in `KINDS`; every one but `none` and `query_minmax` ends with (x - centre) / spread:

- `none`: features as they are;
- `standard`: centre is the mean, spread the standard deviation;
- `log1p`: sign(x) log(1 + |x|) first, for heavy tails;
- `clip`: cut to the quantiles `tail` and 1 - `tail` of each feature first;
- `query_minmax`: to 0..1 within each query; nothing is fitted.

A feature that is constant in train becomes 0. Missing values have no part in what is fitted and
stay missing, unless the scaling encodes (for networks): then they are filled in and marked, and
categories get columns of their own (see `encoding`). Data is taken in pieces of rows, so that
nothing but the result is ever as large as the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from saferank._core import flat, storage
from saferank._core.flat import Array, Floats, Ints, require_each
from saferank._core.kernels import parallel_kernel
from saferank.data.encoding import Encoding, has_gaps
from saferank.data.ranking import Features, RankingData
from saferank.errors import InputError, require

_ROWS: Final = 8192


@dataclass(frozen=True)
class Parts:
    """Data in parts, of which a process may have some: what is fitted is put together of sums.

    Examples
    --------
    >>> whole = Parts.alone(RankingData([[1.0], [3.0]], [0, 1, 2]))
    >>> whole.queries, whole.total([np.array([4.0])])
    ([(0, 2)], array([4.]))
    """

    queries: Sequence[tuple[int, int]]
    """First and last (not included) query of each part that is here."""
    total: Callable[[Sequence[Array]], Array]
    """The sum over all parts, from that of each part here."""
    whole: bool = True
    """Whether all of the data is here."""

    @classmethod
    def alone(cls, data: RankingData) -> Parts:
        """All of the data, in one part."""
        return cls([(0, data.queries)], lambda own: own[0])


@dataclass(frozen=True)
class Kind:
    """What happens to a feature before it is centred and spread."""

    shape: Callable[[Floats], Floats] = lambda values: values
    centred: bool = True
    clipped: bool = False
    within_query: bool = False


def _log1p(values: Floats) -> Floats:
    shaped = np.abs(values)
    np.log1p(shaped, out=shaped)
    result: Floats = np.copysign(shaped, values, out=shaped)
    return result


KINDS: Final[dict[str, Kind]] = {
    "none": Kind(centred=False),
    "standard": Kind(),
    "log1p": Kind(shape=_log1p),
    "clip": Kind(clipped=True),
    "query_minmax": Kind(centred=False, within_query=True),
}


@dataclass(frozen=True, eq=False)
class Scaling:
    """A fitted scaling: one value a feature for each of its numbers, or None where it has none.

    >>> train = RankingData([[0.0, 5.0], [2.0, 5.0]], offsets=[0, 2])
    >>> scaling = Scaling.fit(train, "standard")
    >>> scaling.apply(train).features
    array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32)
    >>> Scaling.from_dict(scaling.to_dict()).apply([[4.0, 5.0]])
    array([[3., 0.]], dtype=float32)
    """

    kind: str
    """A name of `KINDS`."""
    width: int
    """Number of features."""
    centre: Floats | None = None
    """What is subtracted."""
    spread: Floats | None = None
    """What the rest is divided by; positive."""
    low: Floats | None = None
    """Values below are raised to it (`clip`)."""
    high: Floats | None = None
    """Values above are cut to it (`clip`)."""
    encoding: Encoding | None = None
    """How gaps and categories become numbers; None: they stay."""

    def __post_init__(self) -> None:
        kind = _kind(self.kind)
        require(isinstance(self.width, int) and self.width >= 0, "width", "a count", self.width)
        self._check(("centre", "spread"), kind.centred)
        self._check(("low", "high"), kind.clipped)
        if self.spread is not None:
            require_each(self.spread > 0, "spread", "positive", self.spread)
        if self.low is not None and self.high is not None:
            require_each(self.low <= self.high, "low", "at most `high`", self.low)
        if self.encoding is not None:
            encoded = len(self.encoding.fill)
            require(encoded == self.width, "encoding", f"of {self.width} features", encoded)

    @property
    def outputs(self) -> int:
        """Number of features after scaling."""
        return self.width if self.encoding is None else self.encoding.outputs

    def _check(self, names: tuple[str, ...], needed: bool) -> None:
        for name in names:
            values = getattr(self, name)
            require((values is not None) == needed, name, f"what {self.kind} needs", values)
            if values is not None:
                array = np.ascontiguousarray(values, dtype=np.float64)
                fits = array.shape == (self.width,) and bool(np.all(np.isfinite(array)))
                require(fits, name, f"{self.width} finite numbers", array.shape)
                object.__setattr__(self, name, array)

    @classmethod
    def fit(
        cls,
        data: RankingData,
        kind: str,
        *,
        tail: float = 0.01,
        encode: bool = False,
        parts: Parts | None = None,
    ) -> Scaling:
        """Fit a kind of scaling to the documents of training queries.

        With `encode`, missing values are filled in and marked, and categories become columns.
        `parts` say which of all data this is; quantiles (`clip`) need all of it.
        """
        parts = Parts.alone(data) if parts is None else parts
        chosen = _kind(kind)
        require(0 <= tail < 0.5, "tail", "in [0, 0.5)", tail)
        require(data.documents > 0, "data", "at least one document", data)
        if chosen.clipped and not parts.whole:
            raise InputError(
                f"`scaling` must be another than {kind} where items are in shards: quantiles of "
                f"all of them cannot be put together exactly of shards."
            )
        low = high = centre = spread = None
        if chosen.clipped:
            low, high = _quantiles(data.features, tail)
        if chosen.centred:
            centre, spread = _Moments(
                [data.features[data.offsets[first] : data.offsets[last]]
                 for first, last in parts.queries],
                lambda piece: _shaped(piece, chosen, low, high),
                parts.total,
            ).fit()  # fmt: skip
        plain = cls(kind, data.width, centre, spread, low, high)
        if not encode:
            return plain
        fill = plain._means(data, parts)
        encoding = Encoding.fit(data.features, data.schema, fill, lambda own: parts.total([own]))
        return replace(plain, encoding=encoding)

    def _means(self, data: RankingData, parts: Parts) -> Floats:
        """Mean of each scaled feature over the documents that have it; 0 where none has."""
        if self.centre is not None:
            return np.zeros(self.width)
        sums = []
        for first, last in parts.queries:
            both = np.zeros((2, self.width))
            own = data.offsets[first : last + 1]
            features = data.features[own[0] : own[-1]]
            for rows, cuts in _blocks(features, own - own[0]):
                piece = self._scaled(features[rows], cuts)
                both[0] += np.nansum(piece, axis=0, dtype=np.float64)
                both[1] += (~np.isnan(piece)).sum(axis=0)
                storage.release(features[rows])
            sums.append(both)
        total, count = parts.total(sums)
        means: Floats = total / np.maximum(count, 1)
        return means

    def apply(self, data: RankingData | npt.ArrayLike, offsets: npt.ArrayLike | None = None) -> Any:
        """Scaled data, or scaled features of a matrix (`query_minmax` then needs its `offsets`)."""
        if isinstance(data, RankingData):
            return data.with_features(self._encoded(data.features, data.offsets))
        features = np.ascontiguousarray(data, dtype=np.float32)
        if offsets is None or not _kind(self.kind).within_query:
            return self._encoded(features, None)
        return self._encoded(features, flat.check_offsets(offsets, features.shape[0]))

    def _encoded(self, features: Features, offsets: Ints | None) -> Features:
        if self._changes_nothing(features):
            return features
        outputs = self.outputs
        encoded = storage.empty((len(features), outputs))
        for rows, cuts in _blocks(features, offsets):
            piece = features[rows]
            scaled = self._scaled(piece, cuts)
            own = scaled if self.encoding is None else self.encoding.apply(piece, scaled)
            storage.put(encoded, rows, own)
            storage.release(piece)
        return encoded

    def _changes_nothing(self, features: Features) -> bool:
        """Whether features are as they should be: they are then not copied."""
        self._check_width(features)
        kind = _kind(self.kind)
        if kind.centred or kind.within_query:
            return False
        encoding = self.encoding
        return encoding is None or (encoding.is_plain and not has_gaps(features).any())

    def _scaled(self, features: Features, offsets: Ints | None) -> Features:
        kind = _kind(self.kind)
        if kind.within_query:
            if offsets is None:
                raise InputError(f"`offsets` must be given, as {self.kind} scales within queries.")
            within = np.zeros_like(features)
            _within_queries(offsets.size - 1, features, offsets, within)
            return within
        if self.centre is None or self.spread is None:
            return features
        values = _shaped(features, kind, self.low, self.high)
        values -= self.centre
        values /= self.spread
        return values.astype(np.float32)

    def _check_width(self, features: Features) -> None:
        fits = features.ndim == 2 and features.shape[1] == self.width
        require(fits, "features", f"of shape (documents, {self.width})", features.shape)

    def as_standard(self) -> Floats | None:
        """Centre, spread, and what a gap becomes, 3 x features, where scaling is nothing else."""
        if self.kind != "standard" or self.encoding is None or not self.encoding.is_plain:
            return None
        return np.array([self.centre, self.spread, self.encoding.fill], dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON takes it."""
        arrays = {name: getattr(self, name) for name in ("centre", "spread", "low", "high")}
        lists = {name: None if array is None else array.tolist() for name, array in arrays.items()}
        encoding = None if self.encoding is None else self.encoding.to_dict()
        return {"kind": self.kind, "width": self.width, **lists, "encoding": encoding}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Scaling:
        """The scaling of a record, checked."""
        names = {"kind", "width", "centre", "spread", "low", "high", "encoding"}
        valid = isinstance(record, dict) and set(record) | {"encoding"} == names
        require(valid, "scaling", f"a record of {sorted(names)}", record)
        encoding = record.get("encoding")
        parts = {name: value for name, value in record.items() if name != "encoding"}
        try:
            known_encoding = None if encoding is None else Encoding.from_dict(encoding)
            return cls(**parts, encoding=known_encoding)
        except (TypeError, ValueError) as error:
            raise InputError(f"`scaling` must be a record of a scaling; {error}") from error


def _kind(name: str) -> Kind:
    valid = isinstance(name, str) and name in KINDS
    require(valid, "kind", f"one of {sorted(KINDS)}", name)
    return KINDS[name]


def _blocks(features: Features, offsets: Ints | None) -> Iterator[tuple[slice, Ints | None]]:
    """Some rows at a time, cut between queries where offsets are known, with their own offsets."""
    if offsets is None:
        for start in range(0, len(features), _ROWS):
            yield slice(start, start + _ROWS), None
        return
    for first, last in flat.query_ranges(offsets, _ROWS):
        cuts = offsets[first : last + 1]
        yield slice(int(cuts[0]), int(cuts[-1])), cuts - cuts[0]


def _shaped(features: Features, kind: Kind, low: Floats | None, high: Floats | None) -> Floats:
    """A copy of features in float64, before they are centred."""
    values = features.astype(np.float64)
    if low is not None and high is not None:
        np.clip(values, low, high, out=values)
    return kind.shape(values)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Mean and standard deviation of each column (1 for a constant one), in two looks.

    Missing values have no part in them; a column of nothing else has mean 0.
    """

    features: Sequence[Features]
    """Of each part that is here."""
    shape: Callable[[Features], Floats]
    total: Callable[[Sequence[Array]], Array]

    def fit(self) -> tuple[Floats, Floats]:
        """Both of them."""
        count: Any = self.total([np.array([float(len(part))]) for part in self.features])[0]
        mean = self._sum(lambda piece: piece.sum(axis=0)) / count
        gaps = np.isnan(mean)
        if gaps.any():
            count = np.maximum(self._sum(lambda piece: (~np.isnan(piece)).sum(axis=0)), 1)
            mean = self._sum(lambda piece: np.nansum(piece, axis=0)) / count
        for column in np.flatnonzero(~np.isfinite(mean)):
            raise InputError(f"`features` must be finite; feature {column} (from 0) is not.")
        total = np.nansum if gaps.any() else np.sum
        spread = np.sqrt(self._sum(lambda piece: total(np.square(piece - mean), axis=0)) / count)
        # What rounding leaves of a constant feature is no spread.
        constant = spread <= 1e-12 * np.abs(mean)
        return mean, np.where(constant, 1.0, spread)

    def _sum(self, of: Callable[[Floats], Array]) -> Floats:
        """A sum over all rows, part by part, each some rows at a time."""
        sums = []
        for part in self.features:
            own = np.zeros(part.shape[1])
            for _, piece in storage.pieces(part, _ROWS):
                own += of(self.shape(piece))
            sums.append(own)
        return self.total(sums)


def _quantiles(features: Features, tail: float) -> tuple[Floats, Floats]:
    shares = np.array([tail, 1 - tail])
    ends = np.zeros((features.shape[1], 2))
    for column, values in storage.columns(features):
        if np.isnan(values).any():
            values = values[~np.isnan(values)]
        if values.size:
            ends[column] = np.quantile(values, shares)
    return ends[:, 0].copy(), ends[:, 1].copy()


@parallel_kernel
def _within_queries(
    start: int, stop: int, features: Features, offsets: Ints, scaled: Features
) -> None:
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if first == last:
            continue
        low, high = features[first].copy(), features[first].copy()
        for row in range(first, last):
            low = np.fmin(low, features[row])
            high = np.fmax(high, features[row])
        for row in range(first, last):
            for column in range(features.shape[1]):
                if np.isnan(features[row, column]):
                    scaled[row, column] = np.nan
                elif high[column] > low[column]:
                    width = np.float64(high[column]) - np.float64(low[column])
                    above = np.float64(features[row, column]) - np.float64(low[column])
                    scaled[row, column] = above / width
