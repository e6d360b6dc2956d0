"""Names of features as LightGBM's model text can hold them: no space, none of JSON's signs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from saferank.data import RankingData
from saferank.data.features import FeatureSchema

_UNFIT: Final = re.compile(r"[\s\",:\[\]{}]|[^\x20-\uffff]")


def tree_names(names: Iterable[str]) -> tuple[str, ...]:
    """Different names without white space and the signs of JSON, in which LightGBM writes them.

    >>> tree_names(["Preis (EUR)", "sim(q,title)", "a b", "a:b"])
    ('Preis_(EUR)', 'sim(q_title)', 'a_b', 'a_b_2')
    """
    taken: dict[str, int] = {}
    fit = []
    for name in names:
        word = "".join(c if c.isprintable() else "_" for c in _UNFIT.sub("_", name)) or "_"
        taken[word] = taken.get(word, 0) + 1
        fit.append(word if taken[word] == 1 else f"{word}_{taken[word]}")
    return tuple(fit)


def column_names(schema: FeatureSchema) -> tuple[str, ...]:
    """Names for a model's text: those of the features, or LightGBM's own where they have none."""
    if schema.is_numbered:
        return tuple(f"Column_{place}" for place in range(schema.width))
    return tree_names(schema.names)


def as_tree_names(data: RankingData, wanted: FeatureSchema) -> RankingData:
    """The data under the names that LightGBM gives its features, where a ranker has those only."""
    if all(data.schema.get(name) is not None for name in wanted.names):
        return data
    words = tree_names(data.schema.names)
    features = (
        replace(feature, name=word)
        for feature, word in zip(data.schema.features, words, strict=True)
    )
    renamed = FeatureSchema(tuple(features))
    if any(renamed.get(name) is None for name in wanted.names):
        return data
    return replace(data, feature_names=None, schema=renamed)
