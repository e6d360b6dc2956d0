"""What a shop is like: everything that a world is made from, in one record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Production = Literal["sorted", "noisy", "sampled", "drift", "uniform"]
Visitors = Literal["trust", "position", "cascade"]
Layout = Literal["parquet", "weekly", "csv"]


@dataclass(frozen=True)
class Shop:
    """A shop: its production ranker, its users, its catalogue, and how it keeps its data.

    `production` is `sorted` (by score), `noisy` (sorted by score plus normal noise in every
    session), `sampled` (Plackett-Luce over score / temperature), `drift` (`noisy`, with scores
    that change every week; the items have the last week's) or `uniform` (any order).
    """

    seed: int = 0
    production: Production = "noisy"
    temperature: float = 1.0
    noise: float = 0.15
    """Standard deviation of the noise of `noisy` and `drift`, in standard deviations of scores."""
    drift: float = 0.3
    """The same of the weekly change."""
    weeks: int = 6
    quality: float = 0.5
    """Correlation of production's score with what users want."""
    unit: float = 1.5
    """Standard deviation of the logged scores (of `sampled`: of what is divided by temperature)."""
    scored: bool = True
    """Whether the items have production's score."""
    queries: int = 400
    products: tuple[int, int] = (10, 40)
    """Fewest and most products of a query."""
    k: int = 10
    """Length of a results page."""
    sessions: int = 20_000
    users: Visitors = "trust"
    rank_from: int = 1
    odd_names: bool = True
    missing: float = 0.05
    """Share of missing values in the columns that have any; 0: also no text and no dates."""
    bots: float = 0.01
    """Share of sessions in which a robot clicks everything."""
    delisted: float = 0.01
    """Share of products that are in the log and no longer among the items."""
    layout: Layout = "parquet"

    def __post_init__(self) -> None:
        for name, kinds in (("production", Production), ("users", Visitors), ("layout", Layout)):
            value = getattr(self, name)
            if value not in get_args(kinds):
                raise ValueError(f"{name} must be one of {get_args(kinds)}; got {value!r}")
        if not 1 <= self.products[0] <= self.products[1]:
            raise ValueError(f"products must be two growing sizes; got {self.products}")

    def to_dict(self) -> dict[str, Any]:
        """The record for JSON."""
        return asdict(self)


BIG = Shop(
    seed=15, production="drift", queries=3000, products=(40, 40), sessions=200_000, rank_from=0
)
"""The shop of the issue: 3,000 queries of 40 products, two million rows."""
