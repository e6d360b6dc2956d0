"""The shops that the gate is tried on: every kind of production, users, data and size."""

from __future__ import annotations

from benchmarks.shops import BIG, Shop

KINDS: tuple[tuple[str, dict[str, float]], ...] = (
    ("noisy", {"noise": 0.05}),
    ("sampled", {"temperature": 1.0}),
    ("drift", {"noise": 0.15, "drift": 0.3}),
    ("sampled", {"temperature": 0.2}),
    ("uniform", {}),
    ("sorted", {}),
    ("noisy", {"noise": 0.15}),
    ("sampled", {"temperature": 2.0}),
    ("drift", {"noise": 0.05, "drift": 0.1}),
    ("sampled", {"temperature": 0.5}),
    ("noisy", {"noise": 0.4}),
    ("sorted", {}),
)
"""One of each dozen; the list is gone through again and again."""
QUALITIES = (0.3, 0.6, 0.9, 0.6, 0.95)
USERS = ("trust", "position", "trust", "cascade", "position", "trust", "position")
SESSIONS = (20_000, 6_000, 60_000)
UNITS = (1.5, 1.5, 0.3, 10.0)
"""Of scores that are sorted by; those that are drawn from are in units of their temperature."""


def shop(index: int) -> Shop:
    """The shop of a number: neighbours differ in everything, and periods share no factor."""
    production, how = KINDS[index % 12]
    round_ = index // 12
    unit = UNITS[(index + round_) % 4] if production in ("sorted", "noisy", "drift") else 1.5
    return Shop(
        seed=1000 + index,
        production=production,  # type: ignore[arg-type]
        **how,  # type: ignore[arg-type]
        quality=QUALITIES[(index + round_) % 5],
        unit=unit,
        scored=not (production == "uniform" and round_ % 2),
        queries=1000 if index % 20 == 19 else (300, 400, 150, 100, 250)[(index + index // 5) % 5],
        products=((10, 40), (10, 25), (20, 50))[(index + 2 * round_) % 3],
        k=(10, 5, 8)[(index // 2 + round_) % 3],
        sessions=SESSIONS[(index + index // 3 + round_) % 3],
        users=USERS[index % 7],  # type: ignore[arg-type]
        rank_from=int((index // 3 + round_) % 4 != 1),
        odd_names=(index + round_) % 2 == 0,
        missing=0.05 if (index + round_) % 3 else 0.0,
        bots=(0.0, 0.005, 0.01)[(index + round_) % 3],
        delisted=(0.0, 0.01)[(index // 2 + round_) % 2],
        layout=("parquet", "weekly", "csv")[(index + index // 12) % 3],
    )


def shops(count: int = 60) -> dict[str, Shop]:
    """Shops by name; the first ones are of every kind."""
    return {f"{index:03d}-{shop(index).production}": shop(index) for index in range(count)}


NAMED = {"big": BIG}
"""Shops that are run by name only."""
