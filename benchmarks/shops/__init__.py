"""Worlds that look like a company's, made from a seed, in which the truth is known.

>>> from benchmarks.shops import Shop, build, sampled
>>> world = build(Shop(seed=1, queries=20, sessions=500, production="sampled"))
>>> production = world.catalogue.weekly_scores[-1][world.catalogue.listed]
>>> abs(world.truth.change(sampled(production)).difference) < 1e-9
True
"""

from benchmarks.shops.files import Files
from benchmarks.shops.spec import BIG, Shop
from benchmarks.shops.truth import Change, Lists, Mixture, Table, Truth, Weekly, in_order, sampled
from benchmarks.shops.world import World, build

__all__ = [
    "BIG",
    "Change",
    "Files",
    "Lists",
    "Mixture",
    "Shop",
    "Table",
    "Truth",
    "Weekly",
    "World",
    "build",
    "in_order",
    "sampled",
]
