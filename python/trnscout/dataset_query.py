"""Questions to rows: which are there, what got worse, how virtual cores compare with real ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .dataset import Dataset, Rows
from .errors import InvalidArgumentError, NotFoundError
from .printable import printable
from .rows import record_values

Row = dict[str, Any]
# Whether rows of foreign datasets count.
Imported = Literal["left out", "counted"]

QUESTION = ("model", "revision", "task", "dtype", "depth")
OUTCOME = ("row_id", *QUESTION, "verdict", "error_class", "origin", "finished_at", "content_hash")
_WORKS = ("PASS", "NO_BLOCKER")
_SHORTEST_ID = 6


def select(rows: Rows, *, imported: Imported = "left out") -> list[Row]:
    """Return the rows that have a verdict, oldest first."""
    found = [row for row in record_values(rows.table) if row["verdict"] is not None]
    if imported == "left out":
        found = [row for row in found if row["origin"] != "imported"]
    return sorted(found, key=lambda row: (row.get("finished_at") or "", row["row_id"] or ""))


def find_row(dataset: Dataset, row_id: str) -> tuple[Row, Rows]:
    """Return the row whose id begins so.

    Raises:
        InvalidArgumentError: the id is too short, or more than one row's begins so.
        NotFoundError: no row's id begins so.
    """
    prefix = row_id.removeprefix("sha256:")
    if len(prefix) < _SHORTEST_ID:
        raise InvalidArgumentError(
            f"row id {printable(row_id)} has {len(prefix)} characters, "
            f"at least {_SHORTEST_ID} are needed"
        )
    rows = dataset.read()
    ids = rows.table["row_id"].to_pylist()
    found = [i for i, each in enumerate(ids) if each and each[len("sha256:") :].startswith(prefix)]
    if not found:
        raise NotFoundError(f"{dataset.directory}: no row's id begins with {printable(prefix)}")
    if len(found) > 1:
        raise InvalidArgumentError(f"{len(found)} rows' ids begin with {prefix}; give more of it")
    return record_values(rows.table.slice(found[0], 1))[0], rows


def read_side(dataset: Dataset, name: str) -> Rows:
    """Read one Parquet file: a path, or the name of a pair of the dataset.

    Raises:
        NotFoundError: there is neither.
    """
    path = Path(name)
    if path.is_file():
        side = Dataset(path.parent)
        return side.read(OUTCOME, files=[path])
    pair = name.removesuffix(".parquet")
    if "/" not in pair and dataset.directory.is_dir():
        known = dataset.pairs()
        if pair in known:
            return dataset.read(OUTCOME, files=[dataset.directory / f"{pair}.parquet"])
        raise NotFoundError(
            f"{printable(name)} is neither a file nor a pair of {dataset.directory}, "
            f"which has: {', '.join(known) or 'none'}"
        )
    raise NotFoundError(f"{printable(name)}: there is no such file")


@dataclass
class Difference:
    """What two sets of rows answer to the same questions; pairs are (A's row, B's row)."""

    now_fails: list[tuple[Row, Row]] = field(default_factory=list)
    now_works: list[tuple[Row, Row]] = field(default_factory=list)
    now_left_out: list[tuple[Row, Row]] = field(default_factory=list)
    same: int = 0
    other: int = 0
    only_a: int = 0
    only_b: int = 0


def diff(a: Iterable[Row], b: Iterable[Row]) -> Difference:
    """Compare the newest row of each question in `a` with that in `b`."""
    ours, theirs = _newest(a, QUESTION), _newest(b, QUESTION)
    found = Difference(only_a=len(ours.keys() - theirs), only_b=len(theirs.keys() - ours))
    for question in sorted(ours.keys() & theirs, key=str):
        pair = ours[question], theirs[question]
        before, after = (_standing(row) for row in pair)
        if before == after:
            found.same += 1
        elif (before, after) == ("works", "fails"):
            found.now_fails.append(pair)
        elif (before, after) == ("fails", "works"):
            found.now_works.append(pair)
        elif before == "works":
            found.now_left_out.append(pair)
        else:
            found.other += 1
    return found


def _standing(row: Row) -> str:
    if row["verdict"] in _WORKS:
        return "works"
    return "fails" if row["verdict"] == "FAIL" else "left out"


def _newest(rows: Iterable[Row], key: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[name] for name in key): row for row in rows}  # rows come oldest first


@dataclass(frozen=True)
class Confusion:
    """How often virtual cores said one thing and real ones another of the same model."""

    counts: Counter[tuple[str, str]]
    virtual: list[str]
    hardware: list[str]

    @property
    def models(self) -> int:
        """How many models have both rows."""
        return self.counts.total()


def compare(rows: Iterable[Row]) -> Confusion:
    """Set the newest virtual row of each model, task and dtype against the newest hardware row."""
    key = [name for name in QUESTION if name != "depth"]
    every = list(rows)
    virtual = _newest((row for row in every if row["depth"] == "virtual"), key)
    hardware = _newest((row for row in every if row["depth"] == "hardware"), key)
    counts = Counter(
        (outcome(virtual[question]), outcome(hardware[question]))
        for question in virtual.keys() & hardware.keys()
    )
    return Confusion(
        counts, sorted({said for said, _ in counts}), sorted({was for _, was in counts})
    )


def outcome(row: Row) -> str:
    """Return a row's error class, or its verdict where it has none."""
    return str(row["error_class"] or row["verdict"])
