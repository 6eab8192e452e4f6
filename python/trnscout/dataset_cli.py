"""`trnscout dataset`: add, ls, show, diff, compare, export, import."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import Error, InvalidArgumentError, NotFoundError
from .printable import printable

if TYPE_CHECKING:
    from .dataset import Rows
    from .dataset_query import Imported, Row

app = typer.Typer(
    help="Keep records in a directory of Parquet files, and ask it questions.",
    no_args_is_help=True,
)

EXIT_WORSE = 1
_NO_FILE = "there is no such file"

Directory = Annotated[Path, typer.Option("--dataset", help="Directory of the dataset.")]
WithImported = Annotated[
    bool,
    typer.Option("--imported", help="Count rows of foreign datasets too; nobody verified them."),
]
HERE = Path("trnscout-dataset")


def add_to_dataset(directory: Path, records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Add records, put them into the Parquet files, and return their row ids.

    Raises:
        Error: see `Dataset.add` and `Dataset.compact`.
    """
    from .dataset import Dataset

    dataset = Dataset(directory)
    ids = dataset.add(records)
    dataset.compact()
    return ids


def require_dataset(directory: Path) -> None:
    """Make the directory, so that one that cannot be written is refused before a long run.

    Raises:
        Error: it cannot be made or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"{directory}: cannot be written: {error.strerror}") from None
    if not os.access(directory, os.W_OK):
        raise Error(f"{directory}: cannot be written")


@app.command()
def add(
    records: Annotated[list[Path], typer.Argument(help="What `trnscout check --json` wrote.")],
    dataset: Directory = HERE,
) -> None:
    """Add records; all of them or, if one is none, none. Adding one twice changes nothing.

    Prints the row ids. Exit codes: 0 they are on disk, 2 they could not be added.
    """
    for row_id in add_to_dataset(dataset, [_read_record(path) for path in records]):
        print(row_id)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotFoundError(f"{path}: {_NO_FILE}") from None
    except OSError as error:
        raise Error(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{path}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise InvalidArgumentError(f"{path}: must hold an object, not {type(values).__name__}")
    from .dataset import identified_row

    try:
        identified_row(values)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}") from None
    return values


@app.command()
def ls(
    dataset: Directory = HERE,
    where: Annotated[
        list[str] | None,
        typer.Option(help='Only rows that meet this, such as "verdict==FAIL,cores<=4".'),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Only models whose name holds this, in any case.")
    ] = None,
    imported: WithImported = False,
) -> None:
    """List rows, oldest first."""
    from .dataset import Dataset
    from .dataset_query import OUTCOME, select
    from .requirement import parse_requirements

    conditions = [each for text in where or () for each in parse_requirements(text)]
    wanted = list(dict.fromkeys([*OUTCOME, "cores", *(c.column.name for c in conditions)]))
    rows = Dataset(dataset).read(wanted)
    found = [
        row
        for row in select(rows, imported=_imported(imported))
        if (model is None or model.casefold() in row["model"].casefold())
        and not any(condition.unmet_by(row) for condition in conditions)
    ]
    columns = ("id", "model", "task", "dtype", "depth", "cores", "outcome", "finished", "origin")
    _print_table(columns, [_listed(row) for row in found])
    print(f"{len(found)} of {rows.table.num_rows} rows")
    _warn_of_damage(rows)


def _listed(row: Row) -> tuple[Any, ...]:
    from .dataset_query import outcome

    question = (row[name] for name in ("task", "dtype", "depth", "cores"))
    finished = (row["finished_at"] or "")[:19]
    return (_short(row), _name(row), *question, outcome(row), finished, row["origin"])


@app.command()
def show(
    row: Annotated[str, typer.Argument(help="The row's id, or its first characters.")],
    dataset: Directory = HERE,
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Show all that is known of a row."""
    from .dataset import Dataset
    from .dataset_query import find_row
    from .run_record_schema import schema

    found, rows = find_row(Dataset(dataset), row)
    if json_:
        print(json.dumps(found, indent=2))
    else:
        estimated = found["estimated"] or []
        for group, says in schema().groups.items():
            lines = []
            for column in (c for c in schema().columns if c.group == group):
                value = found[column.name]
                if value is not None:
                    text = value if isinstance(value, str) else json.dumps(value)
                    if column.name == "run_py":
                        text = f"{len(text.splitlines())} lines, see --json"
                    mark = "estimated" if column.name in estimated else column.how
                    mark = "measured" if mark == "either" else mark
                    lines.append((column.name, text, mark))
            if lines:
                print(f"\n{group}: {says}")
                _print_table(None, lines)
    _warn_of_damage(rows)


Side = Annotated[str, typer.Argument(help="A Parquet file, or the name of a pair of the dataset.")]


@app.command()
def diff(a: Side, b: Side, dataset: Directory = HERE, imported: WithImported = False) -> None:
    """Say what worked in A and fails in B, and the reverse.

    Rows are matched by model, revision, task, dtype and depth; of several the newest counts.
    Exit codes: 0 nothing that worked fails now, 1 something does, 2 it could not be asked.
    """
    from . import dataset_query as query
    from .dataset import Dataset

    sides = [query.read_side(Dataset(dataset), name) for name in (a, b)]
    rows = [query.select(side, imported=_imported(imported)) for side in sides]
    found = query.diff(*rows)
    for title, pairs in (
        ("worked in A, fails in B", found.now_fails),
        ("worked in A, left out in B", found.now_left_out),
        ("failed in A, works in B", found.now_works),
    ):
        print(f"{title}: {len(pairs)}")
        _print_table(None, [_difference(*pair) for pair in pairs])
    print(
        f"the same in both: {found.same}, changed otherwise: {found.other}, "
        f"only in A: {found.only_a}, only in B: {found.only_b}"
    )
    for side in sides:
        _warn_of_damage(side)
    raise typer.Exit(EXIT_WORSE if found.now_fails else 0)


def _difference(before: Row, after: Row) -> tuple[Any, ...]:
    from .dataset_query import outcome

    files = "" if before["content_hash"] == after["content_hash"] else "the model's files differ"
    question = (_name(after), after["task"], after["dtype"], after["depth"])
    return (*question, f"{outcome(before)} -> {outcome(after)}", files, _short(after))


@app.command()
def compare(dataset: Directory = HERE, imported: WithImported = False) -> None:
    """Set what virtual cores said against what real ones did, of the same models.

    The newest row of each model, revision, task and dtype counts.
    """
    from . import dataset_query as query
    from .dataset import Dataset

    rows = Dataset(dataset).read(query.OUTCOME)
    found = query.compare(query.select(rows, imported=_imported(imported)))
    if found.models == 0:
        print("no model has both a virtual and a hardware row")
    else:
        _print_table(
            ("virtual \\ hardware", *found.hardware),
            [
                (said, *(found.counts[said, was] for was in found.hardware))
                for said in found.virtual
            ],
        )
        print(f"{found.models} models have both rows")
    _warn_of_damage(rows)


@app.command("export")
def export_(
    output: Annotated[str, typer.Argument(help="File to write; - for stdout.")],
    dataset: Directory = HERE,
    form: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or jsonl; default: by the name.")
    ] = None,
) -> None:
    """Write all rows to one file. Text stands there as it is: quote cells in a spreadsheet."""
    import io

    from .dataset import Dataset
    from .dataset_exchange import export_rows
    from .record import write_whole_bytes

    rows = Dataset(dataset).read()
    out = io.BytesIO()
    export_rows(rows.table, form or Path(output).suffix.removeprefix("."), out)
    if output == "-":
        sys.stdout.buffer.write(out.getvalue())
    else:
        try:
            write_whole_bytes(Path(output), out.getvalue())
        except OSError as error:
            raise Error(f"{output}: cannot be written: {error.strerror}") from None
    _warn_of_damage(rows)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A .parquet, .csv or .jsonl file.")],
    mapping: Annotated[Path, typer.Option(help="TOML file: where our columns come from.")],
    dataset: Directory = HERE,
) -> None:
    """Add a foreign dataset's rows, marked as imported: nobody here verified them."""
    from .dataset_exchange import imported_rows, read_mapping

    ids = add_to_dataset(dataset, imported_rows(file, read_mapping(mapping)))
    print(f"{len(set(ids))} rows imported, unverified")


def _imported(counted: bool) -> Imported:
    return "counted" if counted else "left out"


def _short(row: Row) -> str:
    return str(row["row_id"] or "-").removeprefix("sha256:")[:12]


def _name(row: Row) -> str:
    return f"{row['model']}@{row['revision'][:12]}" if row["revision"] else str(row["model"])


def _print_table(columns: Sequence[str] | None, rows: Sequence[Sequence[Any]]) -> None:
    """Print cells with what is hidden in them spelled out; nothing is cut, in a pipe or not."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    if not sys.stdout.isatty():
        for row in ([columns] if columns else []) + list(rows):
            print("\t".join("" if c is None else printable(str(c)) for c in row).rstrip())
        return
    table = Table(box=None, show_header=columns is not None, padding=(0, 2, 0, 0))
    for name in columns or [""] * len(rows[0]):
        table.add_column(name, overflow="fold")
    for row in rows:
        cells = ("" if c is None else printable(str(c), keep="\n") for c in row)
        table.add_row(*(Text(cell) for cell in cells))
    Console().print(table)


def _warn_of_damage(rows: Rows) -> None:
    for why in rows.damaged.values():
        print(printable(f"trnscout: skipped {why}"), file=sys.stderr)
