"""Features brought to the form that a ranker knows: columns by name, categories by their text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saferank._core.flat import Array
from saferank._core.storage import pieces, take_columns
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
    features = data.features if ordered else take_columns(data.features, places)
    differing = {
        column: (data.schema.features[places[column]], wanted)
        for column, wanted in enumerate(schema.features)
        if data.schema.features[places[column]] != wanted
    }
    codes = {}
    for column, (given, wanted) in differing.items():
        if given.kind == wanted.kind == "category":
            codes[column] = codes_between(given.categories, wanted.categories)
        else:
            _check_kind(features[:, column], given, wanted)
    if codes and features is data.features:
        features = take_columns(features, range(data.width))
    for _, rows in pieces(features) if codes else ():
        for column, own in codes.items():
            rows[:, column] = values_under(own, rows[:, column])
    return replace(data, features=features, feature_names=None, schema=schema)


def _check_kind(values: Array, given: Feature, wanted: Feature) -> None:
    """Refuse a feature that is of another kind, unless it has no values."""
    alike = given.kind == wanted.kind or {given.kind, wanted.kind} <= set(NUMBERS)
    if not alike and not np.isnan(values).all():
        raise InputError(
            f"feature `{wanted.name}` must be a {wanted.kind}, as the ranker knows it; "
            f"got a {given.kind}."
        )


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
