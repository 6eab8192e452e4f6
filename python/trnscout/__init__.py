"""Does this Transformers model run, unmodified, on AWS Trainium?

`import trnscout` imports nothing else: PyTorch's entry point leads through here in every process
that imports torch. Names are imported at first use.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import (
        CacheBytes,
        Checkpoint,
        CheckpointShard,
        CoreBytes,
        Degrees,
        Diagnosis,
        Drift,
        FragilePosition,
        Fragility,
        GgmlType,
        GgufArray,
        GgufFile,
        InstanceType,
        LayerCache,
        LoadedParameters,
        LogitMatch,
        LogitTolerances,
        MappedCheckpoint,
        MemoryHolder,
        MemoryLedger,
        MemorySnapshot,
        MemoryUse,
        ModelConfig,
        NonFinite,
        ParallelAxis,
        ParallelMode,
        ParallelPlan,
        ParallelStyle,
        ParameterInfo,
        ParameterRole,
        ParameterShard,
        ParameterStyle,
        PlannedBytes,
        PlannedModel,
        PlanOptions,
        PositionMatch,
        Quantization,
        RankParameter,
        RejectedDegrees,
        Repetition,
        ShardHeader,
        ShardPlan,
        TensorInfo,
        TensorView,
        TokenDifference,
        TokenLoop,
        TokenMatch,
        Topology,
        VisionConfig,
        diagnose,
        drift,
        find_non_finite,
        find_parallel_plan,
        find_topology,
        format_bytes,
        fragility,
        ggml_types,
        match_logits,
        match_tokens,
        memory_table,
        parallel_plan_architectures,
        parameter_role,
        parse_parallel_style,
        rank_parameters,
        repetition,
        shard_of,
        topologies,
        transformers_version,
        what_if_names,
    )
    from .checker import CheckRequest, check
    from .demo_model import make_demo_model
    from .device import core_memory, enable_virtual_cores, virtual_cores
    from .errors import (
        Error,
        InvalidArgumentError,
        NotFoundError,
        OutOfRangeError,
        ResourceExhaustedError,
        UnimplementedError,
    )
    from .planner import Plan, plan
    from .remote_headers import RemoteModel, read_remote_headers
    from .run_script import RunSpec, render_run_script

_HOME = {
    "_core": (
        "CacheBytes Checkpoint CheckpointShard CoreBytes Degrees Diagnosis Drift "
        "FragilePosition Fragility GgmlType GgufArray GgufFile InstanceType LayerCache "
        "LoadedParameters LogitMatch LogitTolerances MappedCheckpoint MemoryHolder "
        "MemoryLedger MemorySnapshot MemoryUse ModelConfig NonFinite ParallelAxis "
        "ParallelMode ParallelPlan ParallelStyle ParameterInfo ParameterRole ParameterShard "
        "ParameterStyle PlanOptions PlannedBytes PlannedModel PositionMatch Quantization "
        "RankParameter RejectedDegrees Repetition ShardHeader ShardPlan TensorInfo "
        "TensorView TokenDifference TokenLoop TokenMatch Topology VisionConfig diagnose "
        "drift find_non_finite find_parallel_plan find_topology format_bytes fragility "
        "ggml_types match_logits match_tokens memory_table parallel_plan_architectures "
        "parameter_role parse_parallel_style rank_parameters repetition shard_of topologies "
        "transformers_version what_if_names"
    ),
    "checker": "CheckRequest check",
    "demo_model": "make_demo_model",
    "device": "core_memory enable_virtual_cores virtual_cores",
    "errors": (
        "Error InvalidArgumentError NotFoundError OutOfRangeError ResourceExhaustedError "
        "UnimplementedError"
    ),
    "planner": "Plan plan",
    "remote_headers": "RemoteModel read_remote_headers",
    "run_script": "RunSpec render_run_script",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [  # noqa: RUF022 - in the order of the imports above
    "CacheBytes",
    "Checkpoint",
    "CheckpointShard",
    "CoreBytes",
    "Degrees",
    "Diagnosis",
    "Drift",
    "FragilePosition",
    "Fragility",
    "GgmlType",
    "GgufArray",
    "GgufFile",
    "InstanceType",
    "LayerCache",
    "LoadedParameters",
    "LogitMatch",
    "LogitTolerances",
    "MappedCheckpoint",
    "MemoryHolder",
    "MemoryLedger",
    "MemorySnapshot",
    "MemoryUse",
    "ModelConfig",
    "NonFinite",
    "ParallelAxis",
    "ParallelMode",
    "ParallelPlan",
    "ParallelStyle",
    "ParameterInfo",
    "ParameterRole",
    "ParameterShard",
    "ParameterStyle",
    "PlanOptions",
    "PlannedBytes",
    "PlannedModel",
    "PositionMatch",
    "Quantization",
    "RankParameter",
    "RejectedDegrees",
    "Repetition",
    "ShardHeader",
    "ShardPlan",
    "TensorInfo",
    "TensorView",
    "TokenDifference",
    "TokenLoop",
    "TokenMatch",
    "Topology",
    "VisionConfig",
    "diagnose",
    "drift",
    "find_non_finite",
    "find_parallel_plan",
    "find_topology",
    "format_bytes",
    "fragility",
    "ggml_types",
    "match_logits",
    "match_tokens",
    "memory_table",
    "parallel_plan_architectures",
    "parameter_role",
    "parse_parallel_style",
    "rank_parameters",
    "repetition",
    "shard_of",
    "topologies",
    "transformers_version",
    "what_if_names",
    "CheckRequest",
    "check",
    "make_demo_model",
    "core_memory",
    "enable_virtual_cores",
    "virtual_cores",
    "Error",
    "InvalidArgumentError",
    "NotFoundError",
    "OutOfRangeError",
    "ResourceExhaustedError",
    "UnimplementedError",
    "Plan",
    "plan",
    "RemoteModel",
    "read_remote_headers",
    "RunSpec",
    "render_run_script",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("trnscout")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
