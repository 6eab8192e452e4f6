"""Comparisons over a record's columns: "cores<=4,new_tokens>=512,fallbacks==0"."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .errors import InvalidArgumentError
from .printable import printable
from .run_record_schema import Column, schema

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_PART = re.compile(
    r"""\s*(?P<column>[^\s<>=!,"]*)\s*(?P<operator>[<>=!]*)\s*"""
    r"""(?P<value>"(?:[^"\\]|\\.)*"|[^,"]*?)\s*(?:,|$)"""
)


@dataclass(frozen=True)
class Requirement:
    """One comparison."""

    column: Column
    operator: str
    value: Any

    def __str__(self) -> str:
        """Spell it as it was written."""
        return f"{self.column.name}{self.operator}{json.dumps(self.value)}"

    def unmet_by(self, record: Any) -> str | None:
        """Say why a record does not meet it, None where it does. A null never does."""
        name = self.column.name
        found = record[name] if isinstance(record, dict) else getattr(record, name)
        if found is None:
            return f"{self}: {self.column.name} was not measured"
        if _OPERATORS[self.operator](found, self.value):
            return None
        return f"{self}: {self.column.name} is {json.dumps(found)}"


def parse_requirements(text: str) -> list[Requirement]:
    """Read comparisons with commas between them; text values may stand in double quotes.

    Raises:
        InvalidArgumentError: a comparison has no column, value or known operator, its column is
            unknown or cannot be compared so, or its value is not of the column's type.
    """
    found: list[Requirement] = []
    position = 0
    while position < len(text) or not found:
        part = _PART.match(text, position)
        if part is None:
            raise InvalidArgumentError(
                f"requirement {printable(text[position:])!r} is not COLUMN OPERATOR VALUE, such as "
                "cores<=4"
            )
        found.append(_requirement(**part.groupdict(), spelled=part[0].strip(" ,")))
        position = part.end()
    return found


def _requirement(column: str, operator: str, value: str, spelled: str) -> Requirement:
    shown = printable(spelled)
    if not column or not operator or not value:
        raise InvalidArgumentError(
            f"requirement {shown!r} is not COLUMN OPERATOR VALUE, such as cores<=4"
        )
    if operator not in _OPERATORS:
        raise InvalidArgumentError(
            f"requirement {shown!r}: operator {operator} is unknown, "
            f"must be one of {' '.join(_OPERATORS)}"
        )
    known = schema().column(column)
    enum = schema().enums.get(known.type)
    read = _text if enum is not None else _READERS.get(known.type)
    if read is None:
        raise InvalidArgumentError(
            f"requirement {shown!r}: column {column} is a {known.type}, which cannot be compared"
        )
    if read in (_text, _bool) and operator not in ("==", "!="):
        raise InvalidArgumentError(
            f"requirement {shown!r}: column {column} is a {known.type}, "
            f"which has == and != but not {operator}"
        )
    try:
        wanted = read(value)
        if enum is not None and wanted not in [each.value for each in enum.values]:
            raise ValueError
        return Requirement(known, operator, wanted)
    except ValueError:
        raise InvalidArgumentError(
            f"requirement {shown!r}: column {column} is a {known.type}, {printable(value)} is none"
        ) from None


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _text(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _double(text: str) -> float:
    value = float(text)
    if value != value:
        raise ValueError
    return value


_READERS: dict[str, Callable[[str], Any]] = {
    "int64": int,
    "double": _double,
    "bool": _bool,
    "string": _text,
    "timestamp": _text,
}


def unmet(requirements: Iterable[Requirement], record: Any) -> list[str]:
    """Say of each requirement that a record does not meet, why."""
    return [why for each in requirements if (why := each.unmet_by(record)) is not None]
