"""Which columns of a table are ids, values and features, under which names, and which are none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from saferank.data.features import Feature, FeatureSchema, Kind, repeated
from saferank.data.items.column_readers import is_number, kind_of_type
from saferank.errors import InputError, require

IDS: Final[tuple[str, ...]] = ("query_id", "doc_id")
VALUES: Final[tuple[str, ...]] = ("label", "production_score")
LIST: Final = "features"

_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class Wanted:
    """What the reader of a table asks for, beside the table."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """The table's own names where they differ."""
    schema: FeatureSchema | None = None
    """Features that a ranker knows."""
    leave_out: tuple[str, ...] = ()
    """Columns that are not read, by the table's names."""
    group: str | None = None
    """The column that names groups, which may stand beside a list column."""

    def remove(self, names: dict[str, str], there: list[str]) -> dict[str, str]:
        """Names without the columns that are left out, all of which must be there."""
        for own in self.leave_out:
            require(own in there, "leave_out", f"one of the columns {', '.join(there)}", own)
            needed = own in [names[name] for name in IDS]
            require(not needed, "leave_out", "a column that is no id", own)
        return {name: own for name, own in names.items() if own not in self.leave_out}


@dataclass(frozen=True)
class Layout:
    """The columns of a table by the names of saferank; values are the table's own names."""

    table: str
    """What messages call the table."""
    ids: dict[str, str]
    values: dict[str, str]
    features: dict[str, str]
    kinds: dict[str, Kind]
    """What each feature holds, by its name here."""
    expected: dict[str, Feature] = field(default_factory=dict)
    """Features that a ranker knows, by the table's names."""
    listed: str | None = None
    """The column of lists that holds all features."""
    left_out: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        table: str,
        types: pa.Schema,
        wanted: Wanted,
        kinds: Mapping[str, Kind] | None = None,
    ) -> Layout:
        """The layout of a table; `kinds` (by its own names) are known better than its types."""
        schema, whole = wanted.schema, _names(table, types.names, wanted.columns)
        names = wanted.remove(whole, types.names)
        ids = {name: names[name] for name in IDS}
        values = {name: names[name] for name in VALUES if name in names}
        rest = {n: own for n, own in names.items() if n not in (*IDS, *VALUES)}
        expected = set() if schema is None else set(schema.names)
        indices = [own for n, own in rest.items() if _INDEX.fullmatch(own) and n not in expected]
        rest = {n: own for n, own in rest.items() if own not in indices}
        taken = _taken(types.names, whole)
        taken = (*taken, *((own, "it is the row index of a data frame") for own in indices))
        taken = (*taken, *((own, "as you asked") for own in wanted.leave_out))
        for name, own in values.items():
            kind = types.field(own).type
            good = is_number(kind) or kind_of_type(kind) == "boolean" or kinds is not None
            require(good, f"{table}: {name}", "a column of numbers", str(kind))
        if LIST in rest and _is_list(types.field(rest[LIST]).type):
            rule = f"a table with features in the list column `{LIST}` or in others, not both"
            beside = [n for n, own in rest.items() if n != LIST and own != wanted.group]
            require(not beside, table, rule, list(rest))
            return cls(table, ids, values, {}, {}, listed=rest[LIST], left_out=taken)
        kind_of = {n: (kinds or {}).get(own) or kind_of_type(types.field(own).type)
                 for n, own in rest.items()}  # fmt: skip
        odd = [(own, f"its type is {types.field(own).type}") for n, own in rest.items()
               if kind_of[n] is None]  # fmt: skip
        features = {n: own for n, own in rest.items() if kind_of[n] is not None}
        layout = cls(
            table, ids, values, features, {n: k for n, k in kind_of.items() if k is not None},
            left_out=(*taken, *odd),
        )  # fmt: skip
        return layout if schema is None else layout._for(schema)

    def _for(self, schema: FeatureSchema) -> Layout:
        """The same with the features that a ranker knows first, and of its kinds."""
        FeatureSchema.of_names(self.features).check_has(schema)
        order = [*schema.names, *(n for n in self.features if schema.get(n) is None)]
        return Layout(
            self.table,
            self.ids,
            self.values,
            {name: self.features[name] for name in order},
            {**self.kinds, **{feature.name: feature.kind for feature in schema.features}},
            {self.features[feature.name]: feature for feature in schema.features},
            left_out=self.left_out,
        )


def _names(table: str, there: list[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The table's column of each name: as it is called, unless `columns` says otherwise."""
    twice = repeated(there)
    require(not twice, table, "a table of different column names", twice)
    for name, own in columns.items():
        if own not in there:
            raise InputError(
                f"`{table}` must have the column `{own}` for `{name}`; it has {', '.join(there)}."
            )
    mapped = {own: name for name, own in columns.items()}
    names = {mapped.get(own, own): own for own in there if own in mapped or own not in columns}
    for name in IDS:
        rule = f"a table with a column `{name}` (or --column {name}=YOURS)"
        require(name in names, table, rule, list(there))
    return names


def _taken(there: list[str], names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Columns whose name another column was given."""
    used = set(names.values())
    return tuple((own, f"`{names[own]}` has its name") for own in there if own not in used)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
