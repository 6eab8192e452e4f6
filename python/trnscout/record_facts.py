"""Fills a record's columns from the model's files, from the question, and from what was noted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from ._core import Checkpoint
from .model_source import ModelSource, combined_hash
from .record import Depth, RunRecord, identify
from .run_record_schema import format_time, schema
from .run_script import DEFAULT_PROMPTS, RunSpec

_TOKENIZER_PATTERNS = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "*.model",
    "*.tiktoken",
    "tekken.json",
    "tokenizer*",
    "vocab.*",
)
_VERSION_COLUMNS = {
    "neuronx_cc": "neuronx_cc_version",
    "torch_neuronx": "torch_neuronx_version",
    "torch": "torch_version",
    "transformers": "transformers_version",
    "trnscout": "trnscout_version",
}


def note_identity(
    record: RunRecord,
    source: ModelSource,
    config: dict[str, Any],
    checkpoint: Checkpoint,
    hashes: dict[str, str],
) -> None:
    """Note which model it is; `hashes` are those of `source.file_hashes`."""
    record.content_hash = combined_hash(hashes)
    record.weights_hash = _hash_of(hashes, ("*.safetensors",))
    record.tokenizer_hash = _hash_of(hashes, _TOKENIZER_PATTERNS)
    record.chat_template_hash = _chat_template_hash(source, hashes)
    if "generation_config.json" in hashes:
        record.generation_config_hash = f"sha256:{hashes['generation_config.json']}"
    record.licence = source.licence()
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        record.architecture = named[0]
    record.parameters = sum(math.prod(tensor.shape) for tensor in checkpoint.tensors)


def _hash_of(hashes: dict[str, str], patterns: Sequence[str]) -> str | None:
    wanted = {n: h for n, h in hashes.items() if any(fnmatchcase(n, p) for p in patterns)}
    return combined_hash(wanted) if wanted else None


def _chat_template_hash(source: ModelSource, hashes: dict[str, str]) -> str | None:
    parts = {name: h for name, h in hashes.items() if fnmatchcase(name, "chat_template*")}
    template = source.tokenizer_template()
    if template is not None:
        parts["tokenizer_config.json#chat_template"] = _sha256(template)
    return combined_hash(parts) if parts else None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def note_question(record: RunRecord, spec: RunSpec) -> None:
    """Note what run.py will ask."""
    record.task, record.dtype = spec.task, spec.dtype
    record.batch = 1
    record.max_new_tokens = spec.max_new_tokens
    record.cache_asked = spec.cache
    if spec.prompt_token_ids is None:
        record.prompt = spec.prompt or DEFAULT_PROMPTS[spec.task]
        record.prompt_hash = f"sha256:{_sha256(record.prompt)}"


def complete(record: RunRecord) -> RunRecord:
    """Return the record with all that follows from what was noted, and with its row id.

    Raises:
        InvalidArgumentError: the record breaks one of its own rules.
    """
    record = replace(record, schema_version=schema().version, finished_at=format_time(_now()))
    for package, column in _VERSION_COLUMNS.items():
        setattr(record, column, record.versions.get(package))
    if record.run_py is not None:
        record.run_py_hash = f"sha256:{_sha256(record.run_py)}"
    _note_counts(record)
    _note_times(record)
    categories = record.device_peak_bytes_by_category
    if categories is not None and record.depth is Depth.VIRTUAL:
        # The other categories are the compiler's and the runtime's: not seen off the chip.
        record.device_peak_tensors_bytes = categories["tensors"]
    return identify(record)


def _now() -> datetime:
    return datetime.now(UTC)


def _note_counts(record: RunRecord) -> None:
    lengths: list[tuple[str, list[int] | None]] = [
        ("prompt_tokens", record.prompt_token_ids),
        ("new_tokens", record.token_ids),
        ("reference_new_tokens", record.reference_token_ids),
    ]
    for column, ids in lengths:
        setattr(record, column, None if ids is None else len(ids))
    ours, theirs = record.token_ids, record.reference_token_ids
    if ours is None or theirs is None or ours == theirs:
        return
    pairs = enumerate(zip(ours, theirs, strict=False))
    shorter = min(len(ours), len(theirs))
    record.first_mismatch = next((i for i, (a, b) in pairs if a != b), shorter)


def _note_times(record: RunRecord) -> None:
    times = record.times_s
    if times is None:
        return
    further = times["further_tokens"]
    record.import_s, record.load_s = times["import"], times["load"]
    record.first_token_s, record.total_s = times["first_token"], times["total"]
    record.run_s = times["first_token"] + sum(further)
    shares: list[tuple[str, float]] = [
        ("token_p50_s", 0.5),
        ("token_p90_s", 0.9),
        ("token_p99_s", 0.99),
    ]
    for column, share in shares if further else ():
        setattr(record, column, nearest_rank(further, share))


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not pass."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
