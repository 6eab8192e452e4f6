"""Rows of a dataset, as dictionaries and as Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .errors import InvalidArgumentError
from .run_record_schema import OBJECT_TYPES, arrow_schema, format_time, schema

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table with the schema's own types, whatever is null in them."""
    import pyarrow as pa

    return pa.Table.from_pylist([_arrow_values(row) for row in rows], schema=arrow_schema())


def _arrow_values(row: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in schema().columns:
        value = row.get(column.name)
        if value is None:
            continue
        if column.type in OBJECT_TYPES:
            value = json.dumps(value, sort_keys=True)
        elif column.type == "timestamp":
            value = datetime.fromisoformat(value)
        values[column.name] = value
    return values


def cast_table(table: pa.Table) -> pa.Table:
    """Give a table the schema's columns and types; columns of newer versions stay behind them.

    A column the table does not have, or that was written as nothing but nulls, becomes a column of
    nulls of the right type.

    Raises:
        InvalidArgumentError: a column's values cannot be of the schema's type.
    """
    import pyarrow as pa

    columns = {}
    for wanted in arrow_schema():
        if wanted.name not in table.column_names:
            columns[wanted.name] = pa.nulls(table.num_rows, wanted.type)
            continue
        column = table[wanted.name]
        try:
            columns[wanted.name] = column.cast(wanted.type)
        except pa.ArrowException:
            raise InvalidArgumentError(
                f"column {wanted.name} is {column.type}, must be {wanted.type}"
            ) from None
    newer = [name for name in table.column_names if name not in columns]
    fields = [*arrow_schema(), *(table.schema.field(name) for name in newer)]
    columns.update({name: table[name] for name in newer})
    return pa.table(columns, schema=pa.schema(fields, metadata=arrow_schema().metadata))


def record_values(table: pa.Table) -> list[dict[str, Any]]:
    """Return a table's rows as records have them: objects, and times as text."""
    types = {column.name: column.type for column in schema().columns}
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name, value in row.items():
            kind = types.get(name)
            if value is None:
                continue
            if kind in OBJECT_TYPES:
                row[name] = json.loads(value)
            elif isinstance(value, datetime):
                row[name] = format_time(value)
    return rows
