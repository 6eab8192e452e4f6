"""The record of one check: the question, the answer, what it cost, and the script that ran."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .errors import InvalidArgumentError
from .run_record_fields import Depth, ErrorClass, Origin, RunRecordFields, Verdict
from .run_record_schema import normalise

__all__ = [
    "BOUNDARIES",
    "EXIT_BAD_QUESTION",
    "EXIT_CODES",
    "EXIT_UNMET",
    "Depth",
    "ErrorClass",
    "Origin",
    "RunRecord",
    "Verdict",
    "identify",
    "redact",
    "row_id",
    "write_whole",
    "write_whole_bytes",
]


EXIT_CODES = {
    Verdict.PASS: 0,
    Verdict.NO_BLOCKER: 0,
    Verdict.FAIL: 1,
    Verdict.LEFT_OUT: 3,
}
EXIT_BAD_QUESTION = 2
EXIT_UNMET = 4  # the verdict is good, but not a --require

BOUNDARIES = {
    Depth.VIRTUAL: (
        "No blocker found on virtual cores is not a pass. Under the virtual device lie the CPU's "
        "own kernels: equal tokens prove plumbing, static shapes, memory and rules, not the "
        "chip's numerics and not neuronx-cc. Memory is that of tensors; the compiler's code, "
        "scratchpad and rings are not in it. Times are this computer's."
    ),
    Depth.HARDWARE: (
        "Ran on real Neuron cores; the tokens were compared with Transformers on this host's CPU."
    ),
    Depth.DRY_RUN: (
        "The model's own code ran on shapes alone: no number was computed, so nothing is said of "
        "tokens."
    ),
    Depth.PLAN: "Decided from the model's files alone; nothing was run.",
}


@dataclass  # again, so that its __init__ calls __post_init__
class RunRecord(RunRecordFields):
    """One row. Sizes are bytes, times are seconds; None where nothing was measured."""

    def __post_init__(self) -> None:
        """Set the boundary, and refuse a PASS that no hardware gave."""
        if self.verdict == Verdict.PASS and self.depth != Depth.HARDWARE:
            raise InvalidArgumentError(f"record: PASS needs depth hardware, depth is {self.depth}")
        if self.origin == Origin.TRNSCOUT:
            self.boundary = BOUNDARIES[self.depth]

    @property
    def exit_code(self) -> int:
        """0 for good news, 1 FAIL, 3 LEFT_OUT; 2 is for questions that could not be asked."""
        return EXIT_CODES[self.verdict]

    def to_json(self) -> str:
        """Return the record as one JSON object, in the order of the fields."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def row_id(values: Mapping[str, Any]) -> str:
    """Return "sha256:" and the hash of a record's other columns, those that are null left out.

    Raises:
        InvalidArgumentError: the values are no record.
    """
    row = normalise({name: value for name, value in values.items() if name != "row_id"})
    text = json.dumps(row, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def identify(record: RunRecord) -> RunRecord:
    """Return the record with the row id of what stands in it."""
    return replace(record, row_id=row_id(asdict(record)))


def redact(record: RunRecord) -> RunRecord:
    """Return the record without what was asked and said: prompt, tokens, text and script.

    Their hashes, counts and the verdict stay. A short prompt can be guessed from its hash.
    """
    prompt = record.prompt

    def cleaned(text: str) -> str:
        return text.replace(prompt, "[redacted]") if prompt else text

    return identify(
        replace(
            record,
            redacted=True,
            prompt=None,
            prompt_token_ids=None,
            token_ids=None,
            reference_token_ids=None,
            text=None,
            run_py=None,
            error=None if record.error is None else cleaned(record.error),
            warnings=[cleaned(warning) for warning in record.warnings],
        )
    )


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`: all of it or, if anything fails, none."""
    write_whole_bytes(path, text.encode())


def write_whole_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path`: all of it or, if anything fails, none."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
