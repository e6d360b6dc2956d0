"""LETOR text: parsed by a compiled loop, a block at a time."""

from saferank.data.letor.reading import read_letor
from saferank.data.letor.writing import write_letor

__all__ = ["read_letor", "write_letor"]
