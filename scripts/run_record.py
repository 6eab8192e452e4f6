"""Writes all that is made from python/trnscout/run_record_schema.toml.

`python scripts/run_record.py` writes the files; with `--check` it says which are stale.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from trnscout.run_record_schema import Column, Enumeration, RunRecordSchema, schema

ROOT = Path(__file__).resolve().parent.parent
NOTE = "Generated from run_record_schema.toml by scripts/run_record.py"

CPP_TYPES = {
    "string": "std::string",
    "int64": "std::int64_t",
    "double": "double",
    "bool": "bool",
    "timestamp": "std::string",
    "list<int32>": "std::vector<std::int32_t>",
    "list<string>": "std::vector<std::string>",
    "map<int64>": "std::map<std::string, std::int64_t>",
    "map<string>": "std::map<std::string, std::string>",
    "json": "JsonObject",
}
PYTHON_TYPES = {
    "string": "str",
    "int64": "int",
    "double": "float",
    "bool": "bool",
    "timestamp": "str",
    "list<int32>": "list[int]",
    "list<string>": "list[str]",
    "map<int64>": "dict[str, int]",
    "map<string>": "dict[str, str]",
    "json": "dict[str, Any]",
}


CPP_HEADER = """#pragma once

// @NOTE@.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trnscout/verdict.h"

namespace trnscout {

/// Version of the table of columns that RunRecord was made from.
inline constexpr std::int64_t kRunRecordVersion = @VERSION@;

/// The text of a JSON object.
struct JsonObject {
  std::string text = "{}";

  friend bool operator==(const JsonObject&, const JsonObject&) = default;
};

/// One row: question, answer, cost and stack of one check. What was not
/// measured has no value. docs/run_record.md has a sentence on each column.
///
/// Units: in the name; times are seconds.
struct RunRecord {
@MEMBERS@

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

/// Writes the record as one JSON object on one line, a key a column, null for
/// what has no value.
///
/// Errors: InvalidArgument - a number is not finite, a string is not UTF-8, or
///         a JsonObject holds no JSON object.
absl::StatusOr<std::string> to_json(const RunRecord& record);

/// Reads what `to_json` or `trnscout check --json` wrote. A key that is missing
/// is as one that is null.
///
/// Errors: InvalidArgument - not a JSON object; a key is no column of this
///         version; a value is not of its column's type; a column that must
///         have a value has none; PASS at another depth than hardware.
absl::StatusOr<RunRecord> run_record_from_json(absl::string_view text);

}  // namespace trnscout
"""


def ordered(table: RunRecordSchema) -> list[Column]:
    """Return the columns, those without a default first."""
    return sorted(table.columns, key=lambda column: not column.required)


def enumerator(value: str) -> str:
    """Return kOutOfDeviceMemory for out_of_device_memory."""
    return "k" + "".join(part.capitalize() for part in value.split("_"))


def cpp_enum(enum: Enumeration) -> str:
    """Return an enumeration with a sentence a value."""
    lines = [f"/// {enum.says}", f"enum class {enum.name} : std::uint8_t {{"]
    for value in enum.values:
        lines += [f"/// {value.says}", f"{enumerator(value.value)},"]
    lower = "".join(f"_{c.lower()}" if c.isupper() else c for c in enum.name).lstrip("_")
    about = f'/// Returns the value as it stands in records: "{enum.values[0].value}".'
    return "\n".join([*lines, "};\n", about, f"absl::string_view {lower}_name({enum.name} value);"])


def cpp_values_header(table: RunRecordSchema) -> str:
    """Return include/trnscout/verdict.h."""
    return "\n".join(
        [
            f"#pragma once\n\n// {NOTE}.\n",
            '#include <cstdint>\n\n#include "absl/strings/string_view.h"\n',
            "namespace trnscout {\n",
            *(f"{cpp_enum(enum)}\n" for enum in table.enums.values()),
            "}  // namespace trnscout\n",
        ]
    )


def cpp_member(column: Column) -> str:
    """Return one member with its default."""
    kind = CPP_TYPES.get(column.type, column.type)
    if column.nullable:
        return f"std::optional<{kind}> {column.name};"
    if column.type in ("string", "list<string>", "map<string>"):
        text = f" = {json.dumps(column.default)}" if isinstance(column.default, str) else ""
        return f"{kind} {column.name}{text if column.default else ''};"
    if column.type in CPP_TYPES:
        return f"{kind} {column.name} = {json.dumps(column.default)};"
    first = column.default or next(iter(schema().enums[column.type].values)).value
    # A record that nobody filled in must not say PASS.
    first = "LEFT_OUT" if column.type == "Verdict" else first
    return f"{kind} {column.name} = {column.type}::{enumerator(first)};"


def cpp_header(table: RunRecordSchema) -> str:
    """Return include/trnscout/run_record.h."""
    members = []
    for group, says in table.groups.items():
        members += ["", f"// {group}: {says}"]
        members += [cpp_member(c) for c in table.columns if c.group == group]
    values = {"NOTE": NOTE, "VERSION": str(table.version), "MEMBERS": "\n".join(members[1:])}
    return re.sub("@([A-Z]+)@", lambda found: values[found[1]], CPP_HEADER)


def cpp_fields(table: RunRecordSchema) -> str:
    """Return src/core/run_record_fields.inc."""
    parts = [f"// {NOTE}.\n"]
    for enum in table.enums.values():
        names = ", ".join(json.dumps(value.value) for value in enum.values)
        parts.append(
            f"template <> inline constexpr std::array<absl::string_view, {len(enum.values)}> "
            f"kNames<{enum.name}> = {{{names}}};\n"
        )
    parts += [
        "// Calls `visit` with name, member and whether a value must be given.",
        "template <typename Record, typename Visit>",
        "void visit_columns(Record& record, Visit&& visit) {",
    ]
    for column in ordered(table):
        given = "true" if column.required and not column.nullable else "false"
        parts.append(f'visit("{column.name}", record.{column.name}, {given});')
    return "\n".join([*parts, "}\n"])


def python_default(column: Column) -> str:
    """Return what follows a field's type."""
    if column.required:
        return ""
    if isinstance(column.default, list | dict):
        return f" = field(default_factory={type(column.default).__name__})"
    if column.type in schema().enums:
        return f" = {column.type}.{column.default.upper()}"
    return f" = {json.dumps(column.default) if isinstance(column.default, str) else column.default}"


def python_fields(table: RunRecordSchema) -> str:
    """Return python/trnscout/run_record_fields.py."""
    lines = [
        f'"""The record\'s enumerations and fields.\n\n{NOTE}.\n"""\n',
        "from __future__ import annotations\n",
        "from dataclasses import dataclass, field",
        "from enum import StrEnum",
        "from typing import Any\n",
    ]
    for enum in table.enums.values():
        verdict = None
        lines += [f"class {enum.name}(StrEnum):", f'    """{enum.says}', ""]
        for value in enum.values:
            if value.verdict != verdict:
                verdict = value.verdict
                lines += [f"    {verdict}:", ""]
            lines.append(f"    - `{value.value}`: {value.says}")
        lines.append('    """\n')
        lines += [f'    {value.value.upper()} = "{value.value}"' for value in enum.values] + [""]
    lines += ["@dataclass", "class RunRecordFields:"]
    lines += ['    """A field a column; docs/run_record.md has a sentence on each."""\n']
    for column in ordered(table):
        kind = PYTHON_TYPES.get(column.type, column.type)
        kind += " | None" if column.nullable else ""
        lines.append(f"    {column.name}: {kind}{python_default(column)}")
    return "\n".join(lines) + "\n"


def record_page(table: RunRecordSchema) -> str:
    """Return docs/run_record.md."""
    parts = [
        f"<!-- {NOTE}. -->\n",
        "# The run record\n",
        f"Schema version {table.version}. One row is one check. A column that nothing measured is "
        "null, never a guess.\n",
        "`how` is *measured*, *counted* (exact, from the model's files), or *either*: measured, "
        "unless the row's `estimated` names the column. Columns without it are what was asked, "
        "read or concluded. A column that says *no* under null has a value in every record of "
        "trnscout's own; an imported row may lack it. Objects are JSON text in Parquet. Since: the "
        "schema version that brought the column.\n",
    ]
    for group, says in table.groups.items():
        parts += [
            f"## {group}: {says}\n",
            "| column | type | unit | null | how | since | |",
            "|---|---|---|---|---|---|---|",
        ]
        for c in table.columns:
            if c.group == group:
                null = "yes" if c.nullable else "no"
                parts.append(
                    f"| `{c.name}` | {c.type} | {c.unit or ''} | {null} | {c.how or ''} "
                    f"| {c.since} | {c.says} |"
                )
        parts.append("")
    parts.append("## Enumerations\n")
    for enum in table.enums.values():
        if enum.name == "ErrorClass":
            parts.append("`ErrorClass` has its own page, [error_classes.md](error_classes.md).\n")
            continue
        parts += [f"`{enum.name}`: {enum.says}\n"]
        parts += [f"- `{value.value}`: {value.says}" for value in enum.values] + [""]
    return "\n".join(parts).rstrip() + "\n"


def error_page(table: RunRecordSchema) -> str:
    """Return docs/error_classes.md."""
    parts = [f"<!-- {NOTE}. -->\n", "# Error classes\n", f"{table.enums['ErrorClass'].says}\n"]
    for verdict, says in (
        ("FAIL", "the model ran into something"),
        ("LEFT_OUT", "there is no verdict on the model"),
    ):
        parts += [f"## {verdict}: {says}\n"]
        parts += ["| class | |", "|---|---|"]
        for value in table.enums["ErrorClass"].values:
            if value.verdict == verdict:
                parts.append(f"| `{value.value}` | {value.says} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def tidied(text: str, *command: str) -> str:
    """Return the text as a formatter has it."""
    done = subprocess.run(command, input=text, check=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout


def generate() -> dict[str, str]:
    """Return the text of every file, by its path."""
    table = schema()
    cpp: dict[str, Any] = {
        "include/trnscout/run_record.h": cpp_header,
        "include/trnscout/verdict.h": cpp_values_header,
        "src/core/run_record_fields.inc": cpp_fields,
    }
    texts = {
        path: tidied(make(table), "clang-format", "--assume-filename=x.h")
        for path, make in cpp.items()
    }
    ruff = (sys.executable, "-m", "ruff", "format", "-q", "--stdin-filename", "x.py", "-")
    texts["python/trnscout/run_record_fields.py"] = tidied(python_fields(table), *ruff)
    texts["docs/run_record.md"] = record_page(table)
    texts["docs/error_classes.md"] = error_page(table)
    return texts


def main() -> int:
    """Write or check; return the exit code."""
    stale = []
    for name, text in generate().items():
        path = ROOT / name
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        print(f"stale: {', '.join(stale)}; run `make run-record`")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
