"""One check: plan, write run.py, run it on a core, run it on the CPU, compare, record."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ._core import TRN2_CORE_MEMORY_BYTES, Checkpoint
from .child import ChildRun, Progress, VirtualTarget, run_child
from .errors import Error, InvalidArgumentError
from .hardware import neuron_package
from .judge import classify_failure, compare_tokens
from .model_source import ModelSource, find_model
from .one_core_plan import plan_one_core
from .record import Depth, ErrorClass, RunRecord, Verdict
from .record_facts import complete, note_identity, note_question
from .run_script import CacheKind, RunSpec, Task, has_tokenizer, render_run_script
from .task import LeftOut, choose_dtype, choose_task

# Stands in for a prompt where a checkpoint has no tokenizer.
_FIXED_PROMPT_IDS = (1, 2, 3, 4, 5, 6, 7, 8)

# (stage, done, total): stages are "hash" in bytes, and "core import", "core load",
# "core generate", "reference import", ... in tokens.
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class CheckRequest:
    """The question. `model` is a directory or a hub id; None leaves a choice to the model."""

    model: str
    revision: str | None = None
    task: Task | None = None
    dtype: str | None = None
    cache: CacheKind = "static"
    max_new_tokens: int = 32
    prompt: str | None = None
    core_memory_bytes: int = TRN2_CORE_MEMORY_BYTES
    timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse what no run could answer."""
        if self.core_memory_bytes < 1:
            raise InvalidArgumentError(
                f"core memory is {self.core_memory_bytes} bytes, must be positive"
            )
        if not self.timeout_s > 0:
            raise InvalidArgumentError(f"timeout is {self.timeout_s} s, must be positive")


def check(request: CheckRequest, report: Report = lambda stage, done, total: None) -> RunRecord:
    """Answer whether anything stops the model from running on one Neuron core.

    Runs on real cores where torch_neuronx is installed, else on a virtual one.

    Raises:
        InvalidArgumentError: the request or a file of the model is damaged or out of its limits.
        NotFoundError: the model, its config or its weights are not there.
        Error: run.py could not start, and says why.
    """
    source = find_model(request.model, request.revision)
    config = source.config()
    checkpoint = Checkpoint.open(source.directory)
    record = _empty_record(request, source, checkpoint)
    hashes = source.file_hashes(lambda done, total: report("hash", done, total))
    note_identity(record, source, config, checkpoint, hashes)
    try:
        spec = make_spec(request, source, config)
        note_question(record, spec)
        record.weights_bytes = plan_one_core(checkpoint, spec.dtype).weights_bytes
        _run_and_judge(request, spec, record, report)
    except LeftOut as left_out:
        record.verdict = Verdict.LEFT_OUT
        record.error_class, record.error = left_out.error_class, left_out.reason
    return complete(record)


def make_spec(request: CheckRequest, source: ModelSource, config: dict[str, Any]) -> RunSpec:
    """Return what run.py will ask of the model.

    Raises:
        LeftOut: the model does neither task, or brings its own code.
        InvalidArgumentError: config.json or the request holds a value that no run could take.
    """
    task = request.task or choose_task(config)
    ids = None
    if task == "text-generation" and not has_tokenizer(p.name for p in source.directory.iterdir()):
        if request.prompt is not None:
            raise InvalidArgumentError(
                f"{source.name} has no tokenizer, so it cannot read the prompt {request.prompt!r}"
            )
        ids = _FIXED_PROMPT_IDS
    return RunSpec(
        model=source.name,
        revision=source.revision,
        task=task,
        dtype=choose_dtype(config, request.dtype),
        cache=request.cache,
        max_new_tokens=request.max_new_tokens,
        prompt=request.prompt,
        prompt_token_ids=ids,
    )


def _empty_record(request: CheckRequest, source: ModelSource, checkpoint: Checkpoint) -> RunRecord:
    return RunRecord(
        verdict=Verdict.LEFT_OUT,
        depth=Depth.PLAN,
        error_class=None,
        error=None,
        model=source.name,
        revision=source.revision,
        core_memory_bytes=request.core_memory_bytes,
        versions={"trnscout": version("trnscout")},
        warnings=list(checkpoint.warnings),
    )


def _run_and_judge(request: CheckRequest, spec: RunSpec, record: RunRecord, report: Report) -> None:
    on_hardware = neuron_package() is not None
    target = None if on_hardware else VirtualTarget(1, request.core_memory_bytes)
    script = render_run_script(spec)
    with tempfile.TemporaryDirectory(prefix="trnscout-") as directory:
        run_py = Path(directory) / "run.py"
        run_py.write_text(script, encoding="utf-8", newline="")
        record.run_py = script
        run = run_child(
            run_py,
            [],
            target=target,
            timeout_s=request.timeout_s,
            progress=_staged(report, "core"),
        )
        record.depth = Depth.HARDWARE if on_hardware else Depth.VIRTUAL
        _note_evidence(record, run)
        if not run.ok:
            record.verdict = Verdict.FAIL
            record.error_class, record.error = classify_failure(run, request.timeout_s)
            if record.error_class in (ErrorClass.OUT_OF_DEVICE_MEMORY, ErrorClass.TIMEOUT):
                return
        reference = run_child(
            run_py,
            ["--device", "cpu"],
            target=None,
            timeout_s=request.timeout_s,
            progress=_staged(report, "reference"),
        )
        if run_py.read_bytes() != script.encode():
            raise Error(f"{run_py} was changed while it ran; the record would not be true")
    _judge(request, record, run, reference, on_hardware)


def _judge(
    request: CheckRequest,
    record: RunRecord,
    run: ChildRun,
    reference: ChildRun,
    on_hardware: bool,
) -> None:
    if run.exit_code == 2 and reference.exit_code == 2 and reference.start_error:
        raise Error(f"{record.model}: {reference.start_error}")
    if not reference.ok:
        error_class, error = classify_failure(reference, request.timeout_s)
        raise LeftOut(
            ErrorClass.REFERENCE_FAILS,
            f"run.py fails on the CPU too ({error_class}), so no device is to blame: {error}",
        )
    assert reference.result is not None
    record.reference_token_ids = reference.result["token_ids"]
    record.reference_times_s = reference.result["times_s"]
    record.reference_device = reference.result["device"]
    if run.result is None or not run.ok:
        return
    difference = compare_tokens(run.result["token_ids"], record.reference_token_ids, "neuron")
    if difference is not None:
        record.verdict = Verdict.FAIL
        record.error_class, record.error = ErrorClass.TOKEN_MISMATCH, difference
        return
    record.verdict = Verdict.PASS if on_hardware else Verdict.NO_BLOCKER


def _note_evidence(record: RunRecord, run: ChildRun) -> None:
    if run.evidence is not None:
        core = run.evidence["cores"][0]
        record.device_peak_bytes = core["peak_bytes"]
        record.device_peak_bytes_by_category = core["peak_bytes_by_category"]
        record.compiled = run.evidence["dynamo"]["compiled"]
        record.graphs = run.evidence["dynamo"]["passed_graphs"]
    result = run.result
    if result is None:
        return
    record.cache, record.cache_reason = result["cache"], result["cache_reason"]
    record.prompt_token_ids = result["prompt_token_ids"]
    record.token_ids = result["token_ids"]
    record.text, record.stopped = result["text"], result["stopped"]
    record.device_peak_bytes = result["device_peak_bytes"]
    record.host_peak_bytes = result["host_peak_bytes"]
    record.times_s = result["times_s"]
    record.versions.update(result["versions"])


def _staged(report: Report, where: str) -> Progress:
    return lambda phase, done, total: report(f"{where} {phase}", done, total)
