"""The record's enumerations and fields.

Generated from run_record_schema.toml by scripts/run_record.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """The answer.

    - `PASS`: It ran on real Neuron cores, with the reference's tokens.
    - `NO_BLOCKER`: Nothing stopped it on virtual cores.
    - `FAIL`: It ran into something; the error class names it.
    - `LEFT_OUT`: There is no verdict on this model; the error class says why.
    """

    PASS = "PASS"
    NO_BLOCKER = "NO_BLOCKER"
    FAIL = "FAIL"
    LEFT_OUT = "LEFT_OUT"


class Depth(StrEnum):
    """How deep the question was asked.

    - `plan`: From the model's files alone.
    - `dry_run`: The model's own code, on shapes alone.
    - `virtual`: The recorded script, on virtual cores.
    - `hardware`: The recorded script, on real cores.
    """

    PLAN = "plan"
    DRY_RUN = "dry_run"
    VIRTUAL = "virtual"
    HARDWARE = "hardware"


class Origin(StrEnum):
    """Who made a row.

    - `trnscout`: A check of ours.
    - `imported`: A foreign dataset: unverified, and never counted among our verdicts unless asked.
    """

    TRNSCOUT = "trnscout"
    IMPORTED = "imported"


class ErrorClass(StrEnum):
    """Why a verdict is not the good one.

    FAIL:

    - `out_of_device_memory`: A core's limit was passed; `error` ends with the ledger's table.
    - `operator_missing`: PyTorch has no kernel for an operator on this device.
    - `compile_error`: `torch.compile(backend="neuron")` failed.
    - `load_error`: It stopped while the model was read or moved to the core.
    - `run_error`: It stopped while tokens were made.
    - `crash`: The process died by a signal.
    - `timeout`: It did not end within the time given.
    - `no_answer`: It ended well but printed no answer.
    - `token_mismatch`: It made other tokens than the CPU.
    LEFT_OUT:

    - `task_not_covered`: Neither text-generation nor image-text-to-text.
    - `custom_code`: It needs Python code from its repository, which is never run.
    - `dtype_not_covered`: Its weights have an element type no run here can load.
    - `too_large_for_one_core`: Its weights pass 24 GiB, and several cores are not run yet.
    - `too_large_for_this_host`: Its weights pass this machine's memory.
    - `reference_fails`: It fails on the CPU too, so the device is not to blame.
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


@dataclass
class RunRecordFields:
    """A field a column; docs/run_record.md has a sentence on each."""

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
    row_id: str | None = None
    schema_version: int = 1
    origin: Origin = Origin.TRNSCOUT
    imported_from: str | None = None
    finished_at: str | None = None
    weights_hash: str | None = None
    tokenizer_hash: str | None = None
    chat_template_hash: str | None = None
    generation_config_hash: str | None = None
    licence: str | None = None
    architecture: str | None = None
    parameters: int | None = None
    batch: int | None = None
    max_new_tokens: int | None = None
    cache_asked: str | None = None
    prompt: str | None = None
    prompt_hash: str | None = None
    prompt_tokens: int | None = None
    image_hash: str | None = None
    redacted: bool = False
    new_tokens: int | None = None
    reference_new_tokens: int | None = None
    reference_device: str | None = None
    first_mismatch: int | None = None
    logit_tolerance_abs: float | None = None
    logit_tolerance_rel: float | None = None
    logit_max_error: float | None = None
    logit_rms_error: float | None = None
    logit_kl: float | None = None
    top1_agreement: float | None = None
    fragility: float | None = None
    import_s: float | None = None
    load_s: float | None = None
    compile_s: float | None = None
    first_token_s: float | None = None
    run_s: float | None = None
    total_s: float | None = None
    token_p50_s: float | None = None
    token_p90_s: float | None = None
    token_p99_s: float | None = None
    device_peak_tensors_bytes: int | None = None
    device_peak_constants_bytes: int | None = None
    device_peak_model_code_bytes: int | None = None
    device_peak_scratchpad_bytes: int | None = None
    device_peak_dma_rings_bytes: int | None = None
    device_peak_collectives_bytes: int | None = None
    estimated: list[str] = field(default_factory=list)
    fallbacks: int | None = None
    syncs: int | None = None
    graph_breaks: int | None = None
    recompiles: int | None = None
    collectives: int | None = None
    cache_hits: int | None = None
    neuronx_cc_version: str | None = None
    torch_neuronx_version: str | None = None
    torch_version: str | None = None
    transformers_version: str | None = None
    trnscout_version: str | None = None
    driver_version: str | None = None
    runtime_version: str | None = None
    rule_table_version: str | None = None
    run_py_hash: str | None = None
