"""Features brought to the form that a ranker knows: columns by name, categories by their text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saferank._core.flat import Array
from saferank.data.features import NUMBERS, Feature, FeatureSchema
from saferank.data.ranking import Features, RankingData
from saferank.errors import InputError


def match_features(data: RankingData, schema: FeatureSchema) -> RankingData:
    """The data with exactly the features of a schema, in its order and with its categories.

    Parameters
    ----------
    data
        Documents with at least the features of the schema; others are left out.
    schema
        The features of a ranker (`Ranker.features`).

    Raises
    ------
    InputError
        Where a feature is missing or is of another kind.

    Examples
    --------
    >>> data = RankingData([[1, 2]], [0, 1], feature_names=("price", "stock"))
    >>> match_features(data, FeatureSchema.of_names(["stock", "price"])).features
    array([[2., 1.]], dtype=float32)
    """
    if data.schema is schema or data.schema == schema:
        return data
    data.schema.check_has(schema)
    places = data.schema.places(schema.names)
    ordered = places == list(range(data.width))
    features = data.features if ordered else np.ascontiguousarray(data.features[:, places])
    for column, wanted in enumerate(schema.features):
        given = data.schema.features[places[column]]
        if given == wanted:
            continue
        values = _recoded(features[:, column], given, wanted)
        if values is not None:
            features = features.copy() if features is data.features else features
            features[:, column] = values
    return replace(data, features=features, feature_names=None, schema=schema)


def _recoded(values: Array, given: Feature, wanted: Feature) -> Array | None:
    """The values of a feature as another schema has them; None: as they are."""
    if given.kind == wanted.kind == "category":
        return values_under(codes_between(given.categories, wanted.categories), values)
    alike = given.kind == wanted.kind or {given.kind, wanted.kind} <= set(NUMBERS)
    if not alike and not np.isnan(values).all():
        raise InputError(
            f"feature `{wanted.name}` must be a {wanted.kind}, as the ranker knows it; "
            f"got a {given.kind}."
        )
    return None


def codes_between(given: tuple[str, ...], wanted: tuple[str, ...]) -> Features:
    """What each category's value becomes, that of "any other" last.

    >>> codes_between(("red", "blue"), ("blue", "green"))
    array([2., 0., 2.], dtype=float32)
    """
    place = {category: code for code, category in enumerate(wanted)}
    codes = [place.get(category, len(wanted)) for category in given]
    return np.array([*codes, len(wanted)], dtype=np.float32)


def values_under(codes: Features, values: Array) -> Features:
    """Values of a category under other codes; missing ones stay missing."""
    present = ~np.isnan(values)
    places = np.minimum(np.where(present, values, 0), codes.size - 1).astype(np.int64)
    return np.where(present, codes[places], np.float32(np.nan))
