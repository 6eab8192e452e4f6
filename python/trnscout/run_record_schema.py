"""The columns of the run record, as run_record_schema.toml has them, and what a value may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from .errors import InvalidArgumentError
from .printable import printable

if TYPE_CHECKING:
    import pyarrow as pa

_INT_LIMITS = {"int64": 2**63, "list<int32>": 2**31}
OBJECT_TYPES = ("map<int64>", "map<string>", "json")


@dataclass(frozen=True)
class EnumValue:
    """One value of an enumeration; `verdict` is what an error class belongs to."""

    value: str
    says: str
    verdict: str | None = None


@dataclass(frozen=True)
class Enumeration:
    """The values a column of this type may have."""

    name: str
    says: str
    values: tuple[EnumValue, ...]


@dataclass(frozen=True)
class Column:
    """One column; the file says what each field means."""

    name: str
    type: str
    group: str
    says: str
    since: int
    unit: str | None = None
    how: str | None = None
    required: bool = False
    nullable: bool = True
    default: Any = None


@dataclass(frozen=True)
class RunRecordSchema:
    """The whole table."""

    version: int
    columns: tuple[Column, ...]
    groups: dict[str, str]
    enums: dict[str, Enumeration]

    def column(self, name: str) -> Column:
        """Return a column.

        Raises:
            InvalidArgumentError: there is none of this name.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidArgumentError(
            f"column {printable(name)} is unknown; schema {self.version} of the run record has "
            "none of this name (docs/run_record.md lists all)"
        )


@cache
def schema() -> RunRecordSchema:
    """Read the schema that came with the package."""
    import tomllib  # here, so that commands without a record start without them
    from importlib.resources import files

    text = files(__package__).joinpath("run_record_schema.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    columns = []
    for entry in table["columns"]:
        never_null = "default" in entry or entry.get("required", False)
        columns.append(Column(**{"nullable": not never_null, **entry}))
    enums = {
        name: Enumeration(name, entry["says"], tuple(EnumValue(**v) for v in entry["values"]))
        for name, entry in table["enums"].items()
    }
    return RunRecordSchema(table["version"], tuple(columns), table["groups"], enums)


def normalise(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not null, each as its column's type has it, in their order.

    Raises:
        InvalidArgumentError: a column is unknown, a value is not of its type, one that must be
            there is null, or a PASS was not given by hardware.
    """
    for name in values:
        schema().column(name)
    row = {}
    for column in schema().columns:
        value = values.get(column.name)
        if value is not None:
            row[column.name] = _checked(column, value)
        elif column.required and not column.nullable:
            raise InvalidArgumentError(f"column {column.name} is null, must have a value")
    if row["verdict"] == "PASS" and row["depth"] != "hardware":
        raise InvalidArgumentError(f"record: PASS needs depth hardware, depth is {row['depth']}")
    return row


def _checked(column: Column, value: Any) -> Any:
    enum = schema().enums.get(column.type)
    if enum is not None:
        allowed = [each.value for each in enum.values]
        if value not in allowed:
            _refuse(column, value, f"one of {', '.join(allowed)}")
        return str(value)
    return _CHECKS[column.type](column, value)


def _refuse(column: Column, value: Any, wanted: str) -> None:
    spelled = printable(repr(value))
    if len(spelled) > 100:
        spelled = f"{spelled[:100]}..."
    raise InvalidArgumentError(f"column {column.name} is {spelled}, must be {wanted}")


def _string(column: Column, value: Any) -> str:
    if not isinstance(value, str):
        _refuse(column, value, "a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"column {column.name} holds a lone surrogate at position {error.start}, "
            "which no UTF-8 text can"
        ) from None
    return str(value)


def _int(column: Column, value: Any) -> int:
    limit = _INT_LIMITS.get(column.type, 2**63)
    if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
        _refuse(column, value, f"a whole number from {-limit} to {limit - 1}")
    return int(value)


def _double(column: Column, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        _refuse(column, value, "a finite number")
    return float(value)


def _bool(column: Column, value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(column, value, "true or false")
    return bool(value)


def format_time(time: datetime) -> str:
    """Spell a time as records have it: UTC, to the microsecond."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _timestamp(column: Column, value: Any) -> str:
    wanted = "a time with its zone, such as 2026-12-01T12:00:00Z"
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        _refuse(column, value, wanted)
    if time.tzinfo is None:
        _refuse(column, value, wanted)
    return format_time(time)


def _list(check: Callable[[Column, Any], Any]) -> Callable[[Column, Any], list[Any]]:
    def checked(column: Column, value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            _refuse(column, value, "a list")
        return [check(column, each) for each in value]

    return checked


def _object(column: Column, value: Any) -> dict[str, Any]:
    check = {"map<int64>": _int, "map<string>": _string, "json": _json}[column.type]
    if not isinstance(value, dict):
        _refuse(column, value, "an object")
    return {_string(column, key): check(column, each) for key, each in value.items()}


def _json(column: Column, value: Any) -> Any:
    if isinstance(value, dict):
        return _object(column, value)
    if isinstance(value, list | tuple):
        return [_json(column, each) for each in value]
    if isinstance(value, float):
        return _double(column, value)
    if value is None or isinstance(value, bool | int):
        return value
    return _string(column, value)


_CHECKS: dict[str, Callable[[Column, Any], Any]] = {
    "string": _string,
    "int64": _int,
    "double": _double,
    "bool": _bool,
    "timestamp": _timestamp,
    "list<int32>": _list(_int),
    "list<string>": _list(_string),
    **dict.fromkeys(OBJECT_TYPES, _object),
}


@cache
def arrow_schema() -> pa.Schema:
    """Return the Parquet schema: fixed types, never inferred from the rows at hand."""
    import pyarrow as pa

    types = {
        "int64": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "list<int32>": pa.list_(pa.int32()),
        "list<string>": pa.list_(pa.string()),
    }
    table = schema()
    fields = [pa.field(c.name, types.get(c.type, pa.string())) for c in table.columns]
    return pa.schema(fields, metadata={"trnscout.run_record": str(table.version)})
