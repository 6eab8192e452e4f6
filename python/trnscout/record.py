"""The record of one check: the question, the answer, what it cost, and the script that ran."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from .errors import InvalidArgumentError


class Verdict(StrEnum):
    """The answer. `PASS` exists on real hardware only."""

    PASS = "PASS"
    NO_BLOCKER = "NO_BLOCKER"
    FAIL = "FAIL"
    LEFT_OUT = "LEFT_OUT"


class Depth(StrEnum):
    """How deep the question was asked."""

    PLAN = "plan"
    DRY_RUN = "dry_run"
    VIRTUAL = "virtual"
    HARDWARE = "hardware"


class ErrorClass(StrEnum):
    """Why a verdict is not the good one.

    FAIL, the model ran into something:

    - `out_of_device_memory`: a core's limit was passed; `error` ends with the ledger's table.
    - `operator_missing`: PyTorch has no kernel for an operator on this device.
    - `compile_error`: `torch.compile(backend="neuron")` failed.
    - `load_error`: it stopped while the model was read or moved to the core.
    - `run_error`: it stopped while tokens were made.
    - `crash`: the process died by a signal.
    - `timeout`: it did not end within the time given.
    - `no_answer`: it ended well but printed no answer.
    - `token_mismatch`: it made other tokens than the CPU.

    LEFT_OUT, there is no verdict on the model:

    - `task_not_covered`: neither text-generation nor image-text-to-text.
    - `custom_code`: it needs Python code from its repository, which is never run.
    - `dtype_not_covered`: its weights have an element type no run here can load.
    - `too_large_for_one_core`: its weights pass 24 GiB, and several cores are not run yet.
    - `too_large_for_this_host`: its weights pass this machine's memory.
    - `reference_fails`: it fails on the CPU too, so the device is not to blame.
    """

    OUT_OF_DEVICE_MEMORY = "out_of_device_memory"
    OPERATOR_MISSING = "operator_missing"
    COMPILE_ERROR = "compile_error"
    LOAD_ERROR = "load_error"
    RUN_ERROR = "run_error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    NO_ANSWER = "no_answer"
    TOKEN_MISMATCH = "token_mismatch"
    TASK_NOT_COVERED = "task_not_covered"
    CUSTOM_CODE = "custom_code"
    DTYPE_NOT_COVERED = "dtype_not_covered"
    TOO_LARGE_FOR_ONE_CORE = "too_large_for_one_core"
    TOO_LARGE_FOR_THIS_HOST = "too_large_for_this_host"
    REFERENCE_FAILS = "reference_fails"


EXIT_CODES = {
    Verdict.PASS: 0,
    Verdict.NO_BLOCKER: 0,
    Verdict.FAIL: 1,
    Verdict.LEFT_OUT: 3,
}
EXIT_BAD_QUESTION = 2

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
    Depth.PLAN: "Decided from the model's files alone; nothing was run.",
}


@dataclass
class RunRecord:
    """One row. Sizes are bytes, times are seconds; None where nothing was measured."""

    verdict: Verdict
    depth: Depth
    error_class: ErrorClass | None
    error: str | None
    model: str
    revision: str | None
    content_hash: str | None = None
    task: str | None = None
    cores: int = 1
    tp_degree: int = 1
    ep_degree: int = 1
    dtype: str | None = None
    cache: str | None = None
    cache_reason: str | None = None
    compiled: bool | None = None
    graphs: int | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    reference_token_ids: list[int] | None = None
    text: str | None = None
    stopped: str | None = None
    weights_bytes: int | None = None
    core_memory_bytes: int | None = None
    device_peak_bytes: int | None = None
    device_peak_bytes_by_category: dict[str, int] | None = None
    host_peak_bytes: int | None = None
    times_s: dict[str, Any] | None = None
    reference_times_s: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    run_py: str | None = None
    boundary: str = ""

    def __post_init__(self) -> None:
        """Set the boundary, and refuse a PASS that no hardware gave."""
        if self.verdict is Verdict.PASS and self.depth is not Depth.HARDWARE:
            raise InvalidArgumentError(f"record: PASS needs depth hardware, depth is {self.depth}")
        self.boundary = BOUNDARIES[self.depth]

    @property
    def exit_code(self) -> int:
        """0 for good news, 1 FAIL, 3 LEFT_OUT; 2 is for questions that could not be asked."""
        return EXIT_CODES[self.verdict]

    def to_json(self) -> str:
        """Return the record as one JSON object, in the order of the fields."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`: all of it or, if anything fails, none."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
