"""A directory of run records: one Parquet file for each (neuronx-cc, Transformers) pair.

A row is first a file of its own in `.journal`, put there by rename after fsync; from then on it is
in the dataset, whatever dies. Compaction, one process at a time, moves what the journal holds into
the pair's Parquet file, which is replaced as a whole. A row's id is the hash of its content, so a
row that is found in both places is one row.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .errors import Error, InvalidArgumentError, NotFoundError
from .record import row_id
from .rows import arrow_table, cast_table
from .run_record_schema import normalise

if TYPE_CHECKING:
    import pyarrow as pa

_JOURNAL = ".journal"
_LONGEST_VERSION = 60
# A writer lives for seconds between making a partial file and its rename.
_STALE_S = 3600.0


@dataclass
class Rows:
    """What was read. `damaged` says of each file that was skipped why, by its path."""

    table: pa.Table
    damaged: dict[Path, str] = field(default_factory=dict)


def pair_of(values: Mapping[str, Any]) -> str:
    """Return the name of the pair a row belongs to, which is its Parquet file's stem.

    Raises:
        InvalidArgumentError: a version is too long for a file name.
    """
    parts = []
    for label, column in (
        ("neuronx-cc", "neuronx_cc_version"),
        ("transformers", "transformers_version"),
    ):
        version = values.get(column) or "none"
        if len(version) > _LONGEST_VERSION:
            raise InvalidArgumentError(
                f"column {column} has {len(version)} characters, "
                f"at most {_LONGEST_VERSION} can name a file"
            )
        parts.append(f"{label}-{quote(version, safe='+')}")
    return "_".join(parts)


class Dataset:
    """A dataset in a directory, which is made by the first row.

    Any number of processes may add, compact and read at once, on a file system with flock.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def add(self, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Add records and return their row ids; a record that is there already changes nothing.

        When this returns, the rows are on disk and outlive the death of every process.

        Raises:
            InvalidArgumentError: one is no record, or was changed after its row id was made;
                none is then added.
            Error: the directory cannot be written.
        """
        rows = [identified_row(values) for values in records]
        pairs = [pair_of(row) for row in rows]
        try:
            for pair, row in zip(pairs, rows, strict=True):
                self._journal_row(pair, row)
        except OSError as error:
            raise Error(f"{self.directory}: cannot be written: {error.strerror}") from None
        return [row["row_id"] for row in rows]

    def compact(self) -> None:
        """Move every journalled row into its pair's Parquet file.

        Raises:
            Error: a pair's file is damaged or cannot be replaced; its rows stay in the journal.
        """
        journal = self.directory / _JOURNAL
        for folder in sorted(journal.iterdir()) if journal.is_dir() else []:
            if folder.is_dir():
                self._compact_pair(folder)

    def read(
        self, columns: Sequence[str] | None = None, *, files: Sequence[Path] | None = None
    ) -> Rows:
        """Read all rows, each once; `columns` None takes all, also those of newer versions.

        `files` limits the reading to some of `parquet_files()`, with what is journalled for them.

        Raises:
            NotFoundError: there is no such directory.
        """
        if not self.directory.is_dir():
            raise NotFoundError(f"{self.directory}: there is no such directory")
        # The journal first: a row leaves it only when it stands in a Parquet file.
        stems = None if files is None else {path.stem for path in files}
        rows, damaged = self._journalled(stems)
        tables = [arrow_table(rows)]
        for path in self.parquet_files() if files is None else files:
            try:
                tables.append(read_parquet(path, columns))
            except FileNotFoundError:
                continue  # a pair whose rows are all still in the journal
            except InvalidArgumentError as error:
                damaged[path] = str(error)
        return Rows(_unified(tables, columns), damaged)

    def parquet_files(self) -> list[Path]:
        """Return the Parquet files there are, by name."""
        return sorted(p for p in self.directory.glob("*.parquet") if not p.name.startswith("."))

    def pairs(self) -> list[str]:
        """Return the names of the pairs that have rows, in a Parquet file or in the journal."""
        journalled = {f.name for f in (self.directory / _JOURNAL).glob("*") if _entries(f)}
        return sorted(journalled | {path.stem for path in self.parquet_files()})

    def _journal_row(self, pair: str, row: dict[str, Any]) -> None:
        folder = self.directory / _JOURNAL / pair
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            for made in (folder.parent, self.directory, self.directory.absolute().parent):
                _sync_directory(made)
        name = row["row_id"].removeprefix("sha256:")
        # The process id and a random part: the same row may be added twice at once.
        partial = folder / f".{name}.{os.getpid()}.{os.urandom(4).hex()}.partial"
        try:
            with partial.open("x", encoding="utf-8", newline="") as file:
                json.dump(row, file, separators=(",", ":"))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(folder / f"{name}.json")
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_directory(folder)

    def _journalled(self, stems: set[str] | None) -> tuple[list[dict[str, Any]], dict[Path, str]]:
        rows, damaged = [], {}
        for folder in sorted((self.directory / _JOURNAL).glob("*")):
            if stems is not None and folder.name not in stems:
                continue
            for path in _entries(folder):
                try:
                    rows.append(_read_entry(path))
                except FileNotFoundError:
                    continue  # compacted since: the Parquet file, read later, has it
                except InvalidArgumentError as error:
                    damaged[path] = str(error)
        return rows, damaged

    def _compact_pair(self, folder: Path) -> None:
        target = self.directory / f"{folder.name}.parquet"
        try:
            with _locked(folder / ".lock"):
                _remove_stale(folder, _STALE_S)
                _remove_stale(self.directory, _STALE_S)
                entries, rows = [], []
                for path in _entries(folder):
                    try:
                        rows.append(_read_entry(path))
                    except InvalidArgumentError:
                        continue  # stays where it is; reading names it
                    entries.append(path)
                if not entries:
                    return
                tables = [arrow_table(rows)]
                if target.exists():
                    tables.insert(0, read_parquet(target, None))
                _replace_parquet(target, _unified(tables, None))
                for path in entries:
                    path.unlink()
        except InvalidArgumentError as error:
            raise Error(
                f"{error}; its new rows stay in {folder} until the file is moved away"
            ) from None
        except OSError as error:
            raise Error(f"{target}: cannot be replaced: {error.strerror or error}") from None


def identified_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's values that are not null, with the row id of their content.

    Raises:
        InvalidArgumentError: they are no record, or not those that their row id was made of.
    """
    found = row_id(values)
    given = values.get("row_id")
    if given is not None and given != found:
        raise InvalidArgumentError(
            f"column row_id is {str(given)[:80]!r}, but the content is {found}: "
            "the record was changed after it was written"
        )
    return normalise({**values, "row_id": found})


def read_parquet(path: Path, columns: Sequence[str] | None) -> pa.Table:
    """Read a Parquet file of rows; columns that it does not have are null.

    Raises:
        FileNotFoundError: it is not there.
        InvalidArgumentError: it is damaged, or a column cannot be what the schema says.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            parquet = pq.ParquetFile(file)
            wanted = columns and [
                c for c in {*columns, "row_id"} if c in parquet.schema_arrow.names
            ]
            table = parquet.read(columns=wanted)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        words = str(error).splitlines()[0]
        raise InvalidArgumentError(f"{path}: damaged, or no Parquet file: {words}") from None
    try:
        return cast_table(table)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}") from None


def _unified(tables: Sequence[pa.Table], columns: Sequence[str] | None) -> pa.Table:
    """Put tables together; of rows with one id the first stays."""
    import pyarrow as pa

    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"two files do not agree on a newer column: {error}") from None
    seen: set[str] = set()
    keep = []
    for index, row in enumerate(table["row_id"].to_pylist()):
        # A row without an id was put there by other hands; nothing says that it is another's.
        if row is None or row not in seen:
            keep.append(index)
            seen.add(row)
    table = table.take(pa.array(keep, pa.int64())) if len(keep) < table.num_rows else table
    return table if columns is None else table.select(list(columns))


def _replace_parquet(target: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*.json") if not p.name.startswith("."))


def _read_entry(path: Path) -> dict[str, Any]:
    try:
        row = normalise(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(f"{path}: damaged: {error}") from None
    return row


def _remove_stale(folder: Path, age_s: float) -> None:
    for path in folder.glob(".*.partial"):
        try:
            if time.time() - path.stat().st_mtime > age_s:
                path.unlink()
        except FileNotFoundError:
            continue  # its writer was alive after all


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file's lock; the kernel lets go of it when the process dies, however it dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
