"""`saferank demo`: the whole way on an embedded collection."""

from __future__ import annotations


def demo() -> None:
    """Show the whole way on an embedded collection."""
