"""Rows that leave a dataset, and rows of foreign datasets that come into one."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tomllib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from .errors import InvalidArgumentError, NotFoundError
from .printable import printable
from .rows import record_values
from .run_record_schema import format_time, normalise, schema

FORMATS = ("parquet", "csv", "jsonl")
_OURS = ("row_id", "schema_version", "origin", "imported_from", "boundary")
_BOUNDARY = "Imported from another dataset; trnscout neither ran nor verified it."


def export_rows(table: Any, form: str, out: BinaryIO) -> None:
    """Write a table as Parquet, CSV or JSON lines.

    Lists and objects are JSON text in CSV. JSON lines are ASCII, other characters escaped.

    Raises:
        InvalidArgumentError: `form` is none of these.
    """
    if form not in FORMATS:
        raise InvalidArgumentError(
            f"format is {printable(form)}, must be one of {', '.join(FORMATS)}"
        )
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, out, compression="zstd")
        return
    rows = record_values(table)
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    if form == "csv":
        writer = csv.writer(text)
        writer.writerow(table.column_names)
        writer.writerows([_cell(row[name]) for name in table.column_names] for row in rows)
    else:
        for row in rows:
            text.write(json.dumps(row) + "\n")
    text.detach()


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    return json.dumps(value)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a mapping: `source`, and in `[columns]` for each column of ours where it comes from.

    Raises:
        NotFoundError: the file is not there.
        InvalidArgumentError: it is not TOML, or a part of it is missing or unknown.
    """
    try:
        mapping = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{path}: not TOML: {error}") from None
    if not isinstance(mapping.get("source"), str) or not isinstance(mapping.get("columns"), dict):
        raise InvalidArgumentError(
            f'{path}: must have source = "name of the dataset" and a table [columns]'
        )
    for name, rule in mapping["columns"].items():
        schema().column(name)
        if name in _OURS:
            raise InvalidArgumentError(f"{path}: column {name} is set by the import itself")
        if not isinstance(rule, str) and not _is_rule(rule):
            raise InvalidArgumentError(
                f"{path}: column {name} must be a name in quotes, "
                '{ value = ... }, or { from = "name", values = { theirs = "ours" } }'
            )
    return mapping


def _is_rule(rule: Any) -> bool:
    if not isinstance(rule, dict):
        return False
    if rule.keys() == {"value"}:
        return True
    return (
        rule.keys() in ({"from"}, {"from", "values"})
        and isinstance(rule["from"], str)
        and isinstance(rule.get("values", {}), dict)
    )


def imported_rows(path: Path, mapping: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a foreign file's rows as ours, marked as imported.

    Raises:
        NotFoundError: the file is not there.
        InvalidArgumentError: it cannot be read, or a value has no place in our column; the message
            names row, column and value. Rows count from 1.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"{path}: there is no such file") from None
    except OSError as error:
        raise InvalidArgumentError(f"{path}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(data).hexdigest()
    marks = {
        "origin": "imported",
        "imported_from": f"{mapping['source']}: {path.name} sha256:{digest}",
        "boundary": _BOUNDARY,
        "schema_version": schema().version,
    }
    rows = []
    for number, theirs in enumerate(_foreign_rows(path, data), start=1):
        try:
            ours = {n: _mapped(n, rule, theirs) for n, rule in mapping["columns"].items()}
            rows.append(normalise({**ours, **marks}))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}: row {number}: {error}") from None
    return rows


def _mapped(name: str, rule: Any, theirs: dict[str, Any]) -> Any:
    if isinstance(rule, dict) and "value" in rule:
        return rule["value"]
    source = rule if isinstance(rule, str) else rule["from"]
    if source not in theirs:
        raise InvalidArgumentError(
            f"there is no column {printable(source)}, which column {name} is mapped from"
        )
    value = theirs[source]
    values = None if isinstance(rule, str) else rule.get("values")
    if values is not None and value is not None:
        if str(value) not in values:
            raise InvalidArgumentError(
                f"column {printable(source)} is {printable(repr(value))}, "
                f"which the mapping of column {name} does not have"
            )
        return values[str(value)]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return format_time(value)
    return _from_text(name, value) if isinstance(value, str) else value


def _from_text(name: str, text: str) -> Any:
    """Read a CSV's cell as the column's type; what cannot be read is refused later, by name."""
    kind = schema().column(name).type
    if kind in ("string", "timestamp") or kind in schema().enums:
        return text or None
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _foreign_rows(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    suffix = path.suffix.lower()
    readers = {".csv": _csv_rows, ".jsonl": _json_lines, ".parquet": _parquet_rows}
    if suffix not in readers:
        raise InvalidArgumentError(
            f"{path}: the name must end with {', '.join(readers)}, which says how to read it"
        )
    try:
        yield from readers[suffix](data)
    except (OSError, ValueError, csv.Error) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        words = str(error).splitlines()[0]
        raise InvalidArgumentError(f"{path}: cannot be read: {words}") from None


def _csv_rows(data: bytes) -> Sequence[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def _json_lines(data: bytes) -> Sequence[dict[str, Any]]:
    rows = []
    for number, line in enumerate(data.decode().split("\n"), start=1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is no object")
            rows.append(row)
    return rows


def _parquet_rows(data: bytes) -> Sequence[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(data)).to_pylist()
    return rows
