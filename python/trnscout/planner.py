"""The planner: on how many cores a model fits, from headers alone.

Imports neither torch nor Transformers, except to count the parameters of a bare config.json.
"""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ._core import (
    Checkpoint,
    ModelConfig,
    ParallelPlan,
    PlannedModel,
    PlanOptions,
    ShardPlan,
    Topology,
    find_parallel_plan,
    find_topology,
    format_bytes,
    transformers_version,
)
from .errors import InvalidArgumentError, NotFoundError
from .model_source import find_model, is_hub_id


@dataclass(frozen=True)
class Rejected:
    """A division that does not work, and why in numbers."""

    cores: int
    tp_degree: int
    ep_degree: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """The answer. Sizes are bytes on the core that holds most.

    `verdict` is FITS or LEFT_OUT. `estimated` names the categories that are a model of ours; the
    others are counted. `decode_tokens_per_second_bound` is an upper bound from bandwidth alone,
    never a measurement.
    """

    verdict: str
    depth: str
    reason: str
    model: str
    revision: str | None
    architecture: str
    topology: str
    dtype: str
    batch: int
    max_length: int
    what_if: list[str]
    cores: int
    tp_degree: int
    ep_degree: int
    tight: bool
    core_limit_bytes: int
    bytes_per_core: dict[str, int]
    formulas: dict[str, str]
    estimated: list[str]
    rejected: list[Rejected]
    largest_batch_x_length: int
    instance: str | None
    decode_tokens_per_second_bound: float
    transformers_version: str
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 FITS, 3 LEFT_OUT."""
        return 0 if self.verdict == "FITS" else 3

    def to_json(self) -> str:
        """Return the plan as one JSON object, in the order of the fields."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        """Show the plan on a terminal: the verdict last, where the eye is."""
        lines = [
            f"model      {self.model}" + (f" at {self.revision}" if self.revision else ""),
            f"question   {self.dtype}, {self.batch} x {self.max_length} tokens, {self.topology}",
        ]
        if self.what_if:
            lines.append(f"what-if    {', '.join(self.what_if)}; not what Transformers does")
        for name, size in self.bytes_per_core.items():
            mark = " estimated" if name in self.estimated else ""
            lines.append(f"  {name:<20}{format_bytes(size):>12}{mark}")
        lines.append(f"  {'of a core':<20}{format_bytes(self.core_limit_bytes):>12}")
        for r in self.rejected:
            lines.append(f"not {r.cores} (tp {r.tp_degree}, ep {r.ep_degree}): {r.reason}")
        if self.verdict == "FITS":
            lines.append(f"largest    {self.largest_batch_x_length} tokens over all sequences")
            lines.append(f"instance   {self.instance}")
            bound = self.decode_tokens_per_second_bound
            lines.append(
                f"decode     at most {bound:.0f} tokens/s a sequence, by bandwidth (estimate)"
            )
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, "", f"{self.verdict}  {self.reason}"])

    def _repr_html_(self) -> str:
        """Show the plan in a notebook."""
        rows = "".join(
            f"<tr><td>{name}</td><td style='text-align:right'>{format_bytes(size)}</td>"
            f"<td>{'estimated' if name in self.estimated else 'counted'}</td></tr>"
            for name, size in self.bytes_per_core.items()
        )
        head = f"{self.verdict}: {self.model} on {self.topology}"
        return (
            f"<b>{html.escape(head)}</b><br>{html.escape(self.reason)}"
            f"<table><tr><th>a core</th><th>bytes</th><th></th></tr>{rows}</table>"
        )


def plan(
    model: str,
    *,
    revision: str | None = None,
    topology: str | Topology = "trn2",
    dtype: str | None = None,
    batch: int = 1,
    max_length: int = 2048,
    max_cores: int = 16,
    what_if: tuple[str, ...] = (),
) -> Plan:
    """Find the smallest number of cores that holds `model`: a directory, a config.json or a hub id.

    `dtype` is that of the loaded weights and of the cache; None takes the config's own. `what_if`
    names layouts that unmodified Transformers does not have, of `what_if_names()`.

    Raises:
        NotFoundError: the model, its config or its weights, the topology, or a plan table's entry
            for its architecture is not there.
        InvalidArgumentError: a file is damaged or an argument is outside its limits; named.
        Error: the hub refuses access or answers wrongly.
    """
    chip = find_topology(topology) if isinstance(topology, str) else topology
    PlanOptions(topology=chip, what_if=list(what_if))  # refuses names before anything is read
    name, commit, config, weights = _open(model, revision)
    parallel = _parallel_plan(config)
    dtype = dtype or _dtype_of(config)
    options = PlanOptions(
        topology=chip,
        dtype=dtype,
        batch=batch,
        max_length=max_length,
        max_cores=max_cores,
        what_if=list(what_if),
    )
    if isinstance(weights, Path):
        asked = PlannedModel(config, parallel, _count_parameters(weights))
    else:
        asked = PlannedModel(config, parallel, weights)
    return _describe(
        asked.plan(options),
        model=name,
        revision=commit,
        architecture=parallel.architecture,
        topology=chip.name,
        dtype=dtype,
        batch=batch,
        max_length=max_length,
        what_if=list(what_if),
    )


def _open(
    model: str, revision: str | None
) -> tuple[str, str | None, ModelConfig, Checkpoint | Path]:
    """Return name, commit, config, and the headers; or the path of a bare config.json."""
    path = Path(model).expanduser()
    if path.suffix == ".json" and path.is_file():
        return str(path.resolve()), None, ModelConfig.parse(_read(path), str(path)), path
    if is_hub_id(model):
        from .remote_headers import read_remote_headers

        remote = read_remote_headers(model, revision)
        where = f"{remote.repo} at revision {remote.revision}, config.json"
        config = ModelConfig.parse(remote.config_json, where)
        return remote.repo, remote.revision, config, remote.checkpoint
    source = find_model(model, revision)
    config = ModelConfig.open(source.directory)
    return source.name, source.revision, config, Checkpoint.open(source.directory)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise NotFoundError(f"{path}: cannot be read: {error.strerror}") from None


def _dtype_of(config: ModelConfig) -> str:
    return config.dtype if config.dtype in ("float32", "float16") else "bfloat16"


def _parallel_plan(config: ModelConfig) -> ParallelPlan:
    nested = []
    if config.text_path and config.text_model_type:
        nested.append((config.text_path, config.text_model_type))
    tried = [*config.architectures, config.model_type]
    for name in tried:
        found = _find(name, nested) or _find(name, [])
        if found is None:
            continue
        # A type that shares another's class has its own conversions.
        own = _find(config.model_type, nested) or _find(config.model_type, [])
        return own if own is not None and own.architecture == found.architecture else found
    raise NotFoundError(
        f"Transformers {transformers_version()} has no text-generation or image-text-to-text "
        f"architecture named {' or '.join(map(repr, tried))}"
    )


def _find(name: str, nested: list[tuple[str, str]]) -> ParallelPlan | None:
    try:
        return find_parallel_plan(name, nested)
    except NotFoundError:
        return None


def _count_parameters(config_file: Path) -> list[tuple[str, str, list[int]]]:
    """Build the model without memory, on the meta device, and list what it holds."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(
        config_file.parent if config_file.name == "config.json" else config_file
    )
    mapping = transformers.AutoModelForImageTextToText._model_mapping
    auto = (
        transformers.AutoModelForImageTextToText
        if type(config) in mapping
        else transformers.AutoModelForCausalLM
    )
    with torch.device("meta"):
        built = auto.from_config(config)
    return [(name, "BF16", list(parameter.shape)) for name, parameter in built.named_parameters()]


def _describe(found: ShardPlan, **question: Any) -> Plan:
    categories = found.bytes_per_core.categories
    sizes = {name: part.bytes for name, part in categories.items()}
    return Plan(
        verdict="FITS" if found.fits else "LEFT_OUT",
        depth="plan",
        reason=found.reason,
        cores=found.degrees.cores,
        tp_degree=found.degrees.tp_degree,
        ep_degree=found.degrees.ep_degree,
        tight=found.tight,
        core_limit_bytes=found.core_limit_bytes,
        bytes_per_core={**sizes, "total": found.bytes_per_core.total},
        formulas={name: part.formula for name, part in categories.items()},
        estimated=[name for name, part in categories.items() if part.estimated],
        rejected=[
            Rejected(r.degrees.cores, r.degrees.tp_degree, r.degrees.ep_degree, r.reason)
            for r in found.rejected
        ],
        largest_batch_x_length=found.largest_batch_x_length,
        instance=found.instance or None,
        decode_tokens_per_second_bound=found.decode_tokens_per_second_bound,
        transformers_version=transformers_version(),
        notes=found.notes,
        **question,
    )
