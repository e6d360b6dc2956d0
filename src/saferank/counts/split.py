"""Which sessions are to learn from and which to judge by: how counts were split into two parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from saferank.counts.hashing import Hash
from saferank.errors import InputError, require

By = Literal["session", "user", "query", "drawn", "given"]
JUDGE_SHARE = 0.2
SPLIT = "saferank.split"
"""In the metadata of counts: how their parts came about."""

_WAYS: dict[str, str] = {
    "session": "Parts by a hash of the session id",
    "user": "Parts by a hash of the user id",
    "query": "There are no session ids, so that parts are whole queries, by a hash of the query id",
    "drawn": "The counts were summed without parts, so that sessions to judge by were drawn "
    "without replacement, which is exact if clicks are independent given impressions",
    "given": "Parts are those that the counts came with",
}
NOT_SPLIT = "There are no parts: all sessions are to learn from, and none to judge by."


def check_share(judge: object) -> None:
    """`InputError` unless a share of the sessions can be set aside."""
    sane = isinstance(judge, int | float) and not isinstance(judge, bool) and 0 <= judge < 1
    require(sane, "judge", "in [0, 1)", judge)


def check_seed(seed: object) -> None:
    """`InputError` unless a seed is a whole number."""
    require(isinstance(seed, int) and not isinstance(seed, bool), "seed", "a whole number", seed)


@dataclass(frozen=True)
class Split:
    """How sessions were set aside to judge by.

    Parameters
    ----------
    by
        "session", "user" and "query" are by a hash of that id; "drawn" is without replacement from
        counts that were summed before; "given" are parts that the counts came with.
    judge
        The share of sessions to judge by; 0 where counts are not to be split.
    seed
        Of the hash, or of the draw.

    Examples
    --------
    >>> split = Split("session", 0.2, seed=0)
    >>> Split.from_text(split.to_text()) == split
    True
    """

    by: By
    judge: float | None = JUDGE_SHARE
    seed: int | None = 0

    def __post_init__(self) -> None:
        require(self.by in get_args(By), "by", f"one of {', '.join(get_args(By))}", self.by)
        if self.by != "given":
            check_share(self.judge)
            check_seed(self.seed)

    @property
    def off(self) -> bool:
        """Whether all sessions are to learn from, on purpose."""
        return self.judge == 0

    def hash(self, engine: str = "duckdb") -> Hash:
        """Which ids of sessions (or of queries) are to judge by, as an engine computes it."""
        if self.by not in ("session", "user", "query"):
            raise InputError(
                f"`split` must be by session, user or query, so that rows tell their part; "
                f"got {self.by!r}."
            )
        assert self.judge is not None
        assert self.seed is not None
        return Hash(self.judge, self.seed, engine)

    def to_text(self) -> str:
        """The split as JSON, for the metadata of a file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str | bytes) -> Split:
        """The split that a file's metadata say."""
        try:
            record = json.loads(text)
            return cls(by=record["by"], judge=record["judge"], seed=record["seed"])
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"`split` of the counts is malformed: {text!r}.") from error

    @classmethod
    def of_metadata(cls, metadata: Mapping[bytes, bytes] | None, has_parts: bool) -> Split | None:
        """How a table of counts was split; none where it is of the form before there were parts."""
        text = (metadata or {}).get(SPLIT.encode())
        if text is not None:
            return cls.from_text(text)
        return GIVEN if has_parts else None

    def describe(self) -> str:
        """How, in a few words."""
        if self.off:
            return "no parts"
        words = {name: f"by {name}" for name in ("session", "user", "query")} | {
            "given": "as given"
        }
        way = words.get(self.by, self.by)
        return way if self.by == "given" else f"{way}, judge {self.judge:g}, seed {self.seed}"

    def sentence(self, learn: int, judge: int, unit: str = "sessions") -> str:
        """How the parts came about, and how much there is in each."""
        if self.off:
            return NOT_SPLIT
        chance = "" if self.by == "given" else f" (judge {self.judge:g}, seed {self.seed})"
        return f"{_WAYS[self.by]}{chance}: {learn:,} {unit} to learn from, {judge:,} to judge by."


OFF = Split("session", 0.0, 0)
GIVEN = Split("given", None, None)
