"""Items: tables of query-document pairs with features, production's scores and labels."""

from saferank.data.items.column_facts import ColumnFacts, describe_columns, feature_sentences
from saferank.data.items.group_column import read_groups as read_groups
from saferank.data.items.table_writing import write_items
from saferank.data.items.tables import read_items

__all__ = ["ColumnFacts", "describe_columns", "feature_sentences", "read_items", "write_items"]
