"""
Parts of trnscout that start without torch.
"""

from __future__ import annotations
import collections.abc
import os
import pathlib
import typing

__all__: list[str] = [
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
    "TRN2_CORE_MEMORY_BYTES",
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
]

class TensorInfo:
    """
    What a header says of one tensor, and where its bytes lie in the shard's file.
    """
    def __repr__(self) -> str: ...
    @property
    def begin_bytes(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def dtype(self) -> str:
        """
        As the format spells it, for example 'BF16'.
        """
    @property
    def end_bytes(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple:
        """
        In elements, also where an element is narrower than a byte.
        """
    @property
    def shard(self) -> int:
        """
        Index into the checkpoint's shards.
        """

class CheckpointShard:
    """
    One file of weights.
    """
    def __repr__(self) -> str: ...
    @property
    def bytes(self) -> int:
        """
        Size of the file, header included.
        """
    @property
    def file_name(self) -> str:
        """
        As the index spells it.
        """
    @property
    def modified_ns(self) -> int:
        """
        Its last change; zero without a path.
        """
    @property
    def path(self) -> pathlib.Path:
        """
        Empty where only the header is here.
        """

class ShardHeader:
    """
    What a range request brings of a file of weights that is elsewhere.
    """
    def __init__(
        self,
        file_name: str,
        file_bytes: typing.SupportsInt | typing.SupportsIndex,
        first_bytes: bytes,
    ) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def file_bytes(self) -> int:
        """
        Size of the whole file.
        """
    @property
    def file_name(self) -> str: ...
    @property
    def first_bytes(self) -> bytes:
        """
        Its start, length and header at least.
        """

class Checkpoint:
    """
    The tensors of a model's directory, by name, from the headers alone.
    """

    MAX_HEADER_BYTES: typing.ClassVar[int] = 100000000
    @staticmethod
    def from_headers(
        headers: collections.abc.Sequence[ShardHeader], index_json: str | None = None
    ) -> Checkpoint:
        """
        Does the same where only the files' headers are here. `index_json` is the text of the index, None where the weights are one file.
        """
    @staticmethod
    def open(dir: os.PathLike | str | bytes) -> Checkpoint:
        """
        Opens the model in `dir` and checks every header against its file; weights are not read. Raises NotFoundError for files that are missing, InvalidArgumentError for files that are damaged or lead out of `dir`.
        """
    @staticmethod
    def shard_names(index_json: str) -> list[str]:
        """
        Names the files that an index needs, sorted, once it is checked.
        """
    def __repr__(self) -> str: ...
    def find(self, name: str) -> TensorInfo:
        """
        Finds a tensor; None where no tensor has that name.
        """
    @property
    def shards(self) -> list[CheckpointShard]:
        """
        Every file of weights, sorted by name.
        """
    @property
    def tensors(self) -> list[TensorInfo]:
        """
        Every tensor, sorted by name.
        """
    @property
    def total_bytes(self) -> int:
        """
        Bytes of all tensors, from the headers.
        """
    @property
    def warnings(self) -> list[str]:
        """
        What is odd but does no harm.
        """

class GgmlType:
    """
    An element type of GGUF files.
    """
    def __repr__(self) -> str: ...
    @property
    def block_bytes(self) -> int: ...
    @property
    def block_elements(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...

class GgufArray:
    """
    What is kept of an array in a GGUF file's metadata.
    """
    def __repr__(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def element_type(self) -> str: ...

class GgufFile:
    """
    Metadata and tensors of a GGUF file, from its header alone.
    """
    @staticmethod
    def open(path: os.PathLike | str | bytes) -> GgufFile:
        """
        Opens a file and checks its header against its size. Raises InvalidArgumentError for files that are damaged, UnimplementedError for other versions than 2 and 3.
        """
    def __repr__(self) -> str: ...
    def find(self, name: str) -> TensorInfo:
        """
        Finds a tensor; None where no tensor has that name.
        """
    @property
    def alignment(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def metadata(self) -> dict:
        """
        Scalars by key; of an array, its element type and count.
        """
    @property
    def tensors(self) -> list[TensorInfo]:
        """
        Every tensor, sorted by name. Shapes have the innermost dimension last, as numpy's have.
        """
    @property
    def total_bytes(self) -> int:
        """
        Bytes of all tensors, without padding.
        """
    @property
    def version(self) -> int: ...
    @property
    def warnings(self) -> list[str]:
        """
        What is odd but does no harm.
        """

class TensorView:
    """
    The bytes of one tensor in a mapped file, as a read-only buffer. The mapping stays as long as a view or a buffer of it does. Data may be misaligned.
    """
    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def info(self) -> TensorInfo:
        """
        What the header says of the tensor.
        """

class MappedCheckpoint:
    """
    A checkpoint whose weights can be read in place, without a copy. A file must not be cut while it is mapped.
    """
    @staticmethod
    def map(checkpoint: Checkpoint) -> MappedCheckpoint:
        """
        Maps every file. Raises Error where one was changed since its header was read, or is not here; NotFoundError where one is gone.
        """
    def __repr__(self) -> str: ...
    def view(self, name: str) -> TensorView:
        """
        Gives a tensor's bytes; raises NotFoundError where no tensor has that name.
        """
    def views(self) -> list[TensorView]:
        """
        Gives every tensor's bytes, sorted by name.
        """
    @property
    def checkpoint(self) -> Checkpoint: ...

class MemoryUse:
    """
    Bytes held now, and the most held at one moment.
    """
    @property
    def peak_bytes(self) -> int: ...
    @property
    def present_bytes(self) -> int: ...

class MemoryHolder:
    """
    Bytes held now by the blocks one operator made.
    """
    @property
    def blocks(self) -> int: ...
    @property
    def category(self) -> str: ...
    @property
    def made_by(self) -> str: ...
    @property
    def present_bytes(self) -> int: ...

class MemorySnapshot:
    """
    One core's memory at one moment.
    """
    @property
    def categories(self) -> dict: ...
    @property
    def charged_bytes(self) -> int: ...
    @property
    def charges(self) -> int: ...
    @property
    def core(self) -> int: ...
    @property
    def holders(self) -> list[MemoryHolder]: ...
    @property
    def limit_bytes(self) -> int: ...
    @property
    def refusals(self) -> int: ...
    @property
    def total(self) -> MemoryUse: ...

class MemoryLedger:
    """
    Keeps one core's budget by category.
    """
    class Charge:
        """
        One accepted charge.
        """
        @property
        def bytes(self) -> int: ...

    def __init__(
        self,
        *,
        core: typing.SupportsInt | typing.SupportsIndex = 0,
        limit_bytes: typing.SupportsInt | typing.SupportsIndex = 25769803776,
    ) -> None: ...
    def charge(
        self, category: str, bytes: typing.SupportsInt | typing.SupportsIndex, made_by: str
    ) -> MemoryLedger.Charge:
        """
        Books bytes; raises ResourceExhaustedError with the table when they would pass the limit.
        """
    def release(self, charge: MemoryLedger.Charge) -> None:
        """
        Ends a charge; give each back once.
        """
    def reset_peaks(self) -> None:
        """
        Lets every peak start again at what is held now.
        """
    def snapshot(self) -> MemorySnapshot:
        """
        Returns what is held, by category.
        """

class LayerCache:
    """
    What one layer keeps for one sequence, in elements.
    """
    def __repr__(self) -> str: ...
    @property
    def block_dim(self) -> int: ...
    @property
    def block_tokens(self) -> int:
        """
        That one compressed entry stands for.
        """
    @property
    def counted(self) -> bool:
        """
        False where the size is not known.
        """
    @property
    def elements_per_token(self) -> int: ...
    @property
    def index_dim(self) -> int: ...
    @property
    def key_dim(self) -> int: ...
    @property
    def kind(self) -> str:
        """
        'none', 'full_attention', 'sliding_window', 'latent', 'state' or 'hybrid'.
        """
    @property
    def kv_heads(self) -> int: ...
    @property
    def layer_type(self) -> str:
        """
        As Transformers names it.
        """
    @property
    def open_dim(self) -> int:
        """
        Of a token of a block that is not full.
        """
    @property
    def state(self) -> int:
        """
        In the cache's dtype.
        """
    @property
    def state_bytes(self) -> int:
        """
        Whatever the dtype.
        """
    @property
    def token_bytes(self) -> int:
        """
        Of a token, whatever the dtype.
        """
    @property
    def value_dim(self) -> int: ...
    @property
    def window_tokens(self) -> int:
        """
        0 is without end.
        """

class CacheBytes:
    """
    Bytes of a static cache.
    """
    @property
    def attention_bytes(self) -> int: ...
    @property
    def state_bytes(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def uncounted_layers(self) -> int: ...

class Quantization:
    """
    How weights are stored.
    """
    def dequantized_on(self, neuron_core: str) -> bool:
        """
        Says whether weights take the plain dtype's bytes there.
        """
    @property
    def bits(self) -> int: ...
    @property
    def kept_modules(self) -> list[str]: ...
    @property
    def method(self) -> str:
        """
        Empty for none.
        """

class VisionConfig:
    """
    The part that reads images.
    """
    @property
    def hidden(self) -> int: ...
    @property
    def image_tokens(self) -> int:
        """
        Of one image; 0 where its size decides.
        """
    @property
    def layers(self) -> int: ...
    @property
    def model_type(self) -> str: ...

class ModelConfig:
    """
    What a config.json says of the language model in it: one meaning a field, whatever the family.
    """
    @staticmethod
    def open(dir: os.PathLike | str | bytes) -> ModelConfig:
        """
        Reads `dir`/config.json.
        """
    @staticmethod
    def parse(json_text: str, source_name: str = "config.json") -> ModelConfig:
        """
        Reads the text of a config.json; raises InvalidArgumentError with field, value and rule.
        """
    def __repr__(self) -> str: ...
    def kv_bytes(
        self,
        batch: typing.SupportsInt | typing.SupportsIndex,
        length: typing.SupportsInt | typing.SupportsIndex,
        dtype_bytes: typing.SupportsInt | typing.SupportsIndex,
    ) -> CacheBytes:
        """
        Bytes that a static cache takes, windows and states included.
        """
    def kv_bytes_per_token(self, dtype_bytes: typing.SupportsInt | typing.SupportsIndex) -> int:
        """
        Bytes that all layers add for one token, windows apart.
        """
    @property
    def architectures(self) -> list[str]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def experts(self) -> int: ...
    @property
    def experts_per_token(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def intermediate(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def layer_caches(self) -> list[LayerCache]: ...
    @property
    def layers(self) -> int: ...
    @property
    def max_positions(self) -> int: ...
    @property
    def model_type(self) -> str: ...
    @property
    def moe_intermediate(self) -> int: ...
    @property
    def q_heads(self) -> int: ...
    @property
    def quantization(self) -> Quantization: ...
    @property
    def shared_experts(self) -> int: ...
    @property
    def text_model_type(self) -> str: ...
    @property
    def text_path(self) -> str: ...
    @property
    def text_tie_word_embeddings(self) -> bool | None: ...
    @property
    def tie_word_embeddings(self) -> bool | None: ...
    @property
    def vision(self) -> VisionConfig | None: ...
    @property
    def vocab(self) -> int: ...
    @property
    def warnings(self) -> list[str]: ...

class ParallelStyle:
    """
    How Transformers lays out a module or parameter.

    Members:

      REPLICATE

      COLWISE

      COLWISE_GATHER_OUTPUT

      ROWWISE

      ROWWISE_SPLIT_INPUT

      PACKED_COLWISE

      PACKED_ROWWISE

      EMBEDDING_ROWWISE

      EMBEDDING_COLWISE

      SEQUENCE_PARALLEL

      REPLICATED_WITH_GRAD_ALLREDUCE

      MLA_KV_A_PROJ

      ALL_REDUCE

      MOE_TP_EXPERTS

      MOE_IDENTITY_EXPERT

      LOCAL_PARAMS

      GROUPED_GEMM

      EP_DISPATCH_EXPERTS

      EP_ROUTER
    """

    ALL_REDUCE: typing.ClassVar[ParallelStyle]
    COLWISE: typing.ClassVar[ParallelStyle]
    COLWISE_GATHER_OUTPUT: typing.ClassVar[ParallelStyle]
    EMBEDDING_COLWISE: typing.ClassVar[ParallelStyle]
    EMBEDDING_ROWWISE: typing.ClassVar[ParallelStyle]
    EP_DISPATCH_EXPERTS: typing.ClassVar[ParallelStyle]
    EP_ROUTER: typing.ClassVar[ParallelStyle]
    GROUPED_GEMM: typing.ClassVar[ParallelStyle]
    LOCAL_PARAMS: typing.ClassVar[ParallelStyle]
    MLA_KV_A_PROJ: typing.ClassVar[ParallelStyle]
    MOE_IDENTITY_EXPERT: typing.ClassVar[ParallelStyle]
    MOE_TP_EXPERTS: typing.ClassVar[ParallelStyle]
    PACKED_COLWISE: typing.ClassVar[ParallelStyle]
    PACKED_ROWWISE: typing.ClassVar[ParallelStyle]
    REPLICATE: typing.ClassVar[ParallelStyle]
    REPLICATED_WITH_GRAD_ALLREDUCE: typing.ClassVar[ParallelStyle]
    ROWWISE: typing.ClassVar[ParallelStyle]
    ROWWISE_SPLIT_INPUT: typing.ClassVar[ParallelStyle]
    SEQUENCE_PARALLEL: typing.ClassVar[ParallelStyle]
    __members__: typing.ClassVar[dict[str, ParallelStyle]]
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class ParallelMode:
    """
    Which of its plans a model runs under.

    Members:

      TENSOR

      EXPERT

      TENSOR_AND_EXPERT
    """

    EXPERT: typing.ClassVar[ParallelMode]
    TENSOR: typing.ClassVar[ParallelMode]
    TENSOR_AND_EXPERT: typing.ClassVar[ParallelMode]
    __members__: typing.ClassVar[dict[str, ParallelMode]]
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class ParallelAxis:
    """
    Which degree cuts a parameter.

    Members:

      TENSOR

      EXPERT
    """

    EXPERT: typing.ClassVar[ParallelAxis]
    TENSOR: typing.ClassVar[ParallelAxis]
    __members__: typing.ClassVar[dict[str, ParallelAxis]]
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class ParameterRole:
    """
    Whether a parameter's own name is `bias`.

    Members:

      WEIGHT

      BIAS
    """

    BIAS: typing.ClassVar[ParameterRole]
    WEIGHT: typing.ClassVar[ParameterRole]
    __members__: typing.ClassVar[dict[str, ParameterRole]]
    def __eq__(self, other: typing.Any) -> bool: ...
    def __getstate__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __index__(self) -> int: ...
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __int__(self) -> int: ...
    def __ne__(self, other: typing.Any) -> bool: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def __str__(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class ParameterStyle:
    """
    The rule that a parameter falls under.
    """
    @property
    def axis(self) -> ParallelAxis: ...
    @property
    def style(self) -> ParallelStyle: ...

class ParameterShard:
    """
    One rank's part of a parameter.
    """
    @property
    def dimensions(self) -> list[list[tuple[int, int]]]:
        """
        The (begin, end) ranges along each dimension, which are joined.
        """
    @property
    def padding_rows(self) -> int: ...
    @property
    def shape(self) -> list[int]: ...

class ParameterInfo:
    """
    A parameter as the model holds it once loaded.
    """
    def __repr__(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def tensors(self) -> list[str]:
        """
        Names in the checkpoint.
        """

class LoadedParameters:
    """
    What comes of a checkpoint.
    """
    @property
    def left_out(self) -> list[str]:
        """
        Tensors the model has no use for.
        """
    @property
    def parameters(self) -> list[ParameterInfo]: ...

class ParallelPlan:
    """
    Where an architecture's parameters are put.
    """
    @typing.overload
    def parameters_of(
        self, tensors: collections.abc.Sequence[TensorInfo], config: ModelConfig | None = None
    ) -> LoadedParameters:
        """
        What a load makes of tensors; a few conversions need the config.
        """
    @typing.overload
    def parameters_of(
        self,
        headers: collections.abc.Sequence[
            tuple[str, str, collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]
        ],
        config: ModelConfig | None = None,
    ) -> LoadedParameters:
        """
        As above, of (name, dtype, shape) for each tensor.
        """
    def style_of(self, parameter_name: str, mode: ParallelMode) -> ParameterStyle | None:
        """
        None leaves a whole copy on every rank.
        """
    @property
    def architecture(self) -> str: ...
    @property
    def expert_rules(self) -> list[tuple[str, ParallelStyle]]: ...
    @property
    def model_type(self) -> str: ...
    @property
    def nested(self) -> list[tuple[str, str]]:
        """
        (config field, model type) of the nested configs that count.
        """
    @property
    def no_expert_plan_reason(self) -> str: ...
    @property
    def no_tensor_plan_reason(self) -> str: ...
    @property
    def tensor_rules(self) -> list[tuple[str, ParallelStyle]]: ...
    @property
    def tied(self) -> list[tuple[str, str]]:
        """
        (target, source) where the config ties them.
        """

class InstanceType:
    """
    One size of machine that AWS rents out.
    """
    def __repr__(self) -> str: ...
    @property
    def chips(self) -> int: ...
    @property
    def device_memory_bytes(self) -> int: ...
    @property
    def logical_cores(self) -> int: ...
    @property
    def name(self) -> str: ...

class Topology:
    """
    What a generation of chips gives to one logical core.
    """
    def __repr__(self) -> str: ...
    def allows_tp_degree(self, tp_degree: typing.SupportsInt | typing.SupportsIndex) -> bool:
        """
        Says whether the runtime takes a group of that many cores.
        """
    def replace(
        self,
        *,
        core_memory_bytes: typing.SupportsInt | typing.SupportsIndex | None = None,
        tp_degrees: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
        | None = None,
    ) -> Topology:
        """
        A copy with another core or another list of degrees; `inferred` says so.
        """
    def smallest_instance(self, cores: typing.SupportsInt | typing.SupportsIndex) -> InstanceType:
        """
        Finds the smallest instance with that many logical cores; raises OutOfRangeError where none has as many.
        """
    @property
    def chip_bandwidth_bytes_per_second(self) -> int: ...
    @property
    def chip_memory_bytes(self) -> int: ...
    @property
    def core_bandwidth_bytes_per_second(self) -> int: ...
    @property
    def core_memory_bytes(self) -> int: ...
    @property
    def core_microcode_bytes(self) -> int: ...
    @property
    def inferred(self) -> list[str]:
        """
        Fields that no source prints, with reasons.
        """
    @property
    def instances(self) -> list[InstanceType]: ...
    @property
    def logical_cores_per_chip(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def neuron_core(self) -> str: ...
    @property
    def physical_cores_per_chip(self) -> int: ...
    @property
    def physical_cores_per_logical_core(self) -> int: ...
    @property
    def scratchpad_step_bytes(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def source_date(self) -> str: ...
    @property
    def tp_degrees(self) -> list[int]: ...

class PlannedBytes:
    """
    One number of a plan, with where it comes from.
    """
    @property
    def bytes(self) -> int: ...
    @property
    def estimated(self) -> bool: ...
    @property
    def formula(self) -> str: ...

class CoreBytes:
    """
    One core's memory, for the rank that holds most.
    """
    @property
    def categories(self) -> dict: ...
    @property
    def total(self) -> int: ...

class Degrees:
    """
    A division of a model over cores.
    """
    def __init__(
        self,
        cores: typing.SupportsInt | typing.SupportsIndex,
        tp_degree: typing.SupportsInt | typing.SupportsIndex,
        ep_degree: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    @property
    def cores(self) -> int: ...
    @property
    def ep_degree(self) -> int: ...
    @property
    def tp_degree(self) -> int: ...

class RejectedDegrees:
    """
    A division that does not work, and why.
    """
    @property
    def degrees(self) -> Degrees: ...
    @property
    def reason(self) -> str: ...

class PlanOptions:
    """
    What a plan is asked for.
    """
    def __init__(
        self,
        *,
        topology: Topology,
        dtype: str = "bfloat16",
        batch: typing.SupportsInt | typing.SupportsIndex = 1,
        max_length: typing.SupportsInt | typing.SupportsIndex = 2048,
        max_cores: typing.SupportsInt | typing.SupportsIndex = 16,
        what_if: collections.abc.Sequence[str] = [],
    ) -> None: ...

class RankParameter:
    """
    What one rank holds of one parameter.
    """
    @property
    def bytes(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def shard(self) -> ParameterShard: ...
    @property
    def sharded(self) -> bool: ...

class ShardPlan:
    """
    Where a model fits, in numbers.
    """
    @property
    def bytes_per_core(self) -> CoreBytes: ...
    @property
    def core_limit_bytes(self) -> int: ...
    @property
    def decode_tokens_per_second_bound(self) -> float: ...
    @property
    def degrees(self) -> Degrees: ...
    @property
    def fits(self) -> bool: ...
    @property
    def instance(self) -> str: ...
    @property
    def largest_batch_x_length(self) -> int: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def reason(self) -> str: ...
    @property
    def rejected(self) -> list[RejectedDegrees]: ...
    @property
    def tight(self) -> bool: ...

class PlannedModel:
    """
    A model that is asked many questions: what its load makes of the checkpoint is found once.
    """
    @typing.overload
    def __init__(self, config: ModelConfig, plan: ParallelPlan, checkpoint: Checkpoint) -> None: ...
    @typing.overload
    def __init__(
        self,
        config: ModelConfig,
        plan: ParallelPlan,
        parameters: collections.abc.Sequence[
            tuple[str, str, collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]
        ],
    ) -> None:
        """
        Of (name, dtype, shape) parameters.
        """
    def plan(self, options: PlanOptions) -> ShardPlan:
        """
        Finds the smallest number of cores.
        """

class NonFinite:
    """
    Where values stopped being numbers, and how many did.
    """
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def index(self) -> int: ...
    @property
    def kind(self) -> str:
        """
        'nan', 'inf' or '-inf': the first one.
        """
    @property
    def module(self) -> str: ...
    @property
    def nans(self) -> int: ...
    @property
    def negative_infinities(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def positive_infinities(self) -> int: ...

class LogitTolerances:
    """
    Bounds of a comparison. levels maps top_k, or None for the whole vocabulary, to the relative error allowed there.
    """

    levels: dict
    remove_shift: bool
    def __init__(
        self,
        *,
        levels: dict | None = None,
        absolute: typing.SupportsFloat | typing.SupportsIndex = 1e-05,
        divergence: typing.SupportsFloat | typing.SupportsIndex = 0.001,
        tie_sigmas: typing.SupportsFloat | typing.SupportsIndex = 3.0,
        tie_steps: typing.SupportsFloat | typing.SupportsIndex = 1.0,
        remove_shift: bool = True,
    ) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def absolute(self) -> float: ...
    @absolute.setter
    def absolute(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None: ...
    @property
    def divergence(self) -> float: ...
    @divergence.setter
    def divergence(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None: ...
    @property
    def tie_sigmas(self) -> float: ...
    @tie_sigmas.setter
    def tie_sigmas(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None: ...
    @property
    def tie_steps(self) -> float: ...
    @tie_steps.setter
    def tie_steps(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None: ...

class PositionMatch:
    """
    One position of a comparison.
    """
    def __repr__(self) -> str: ...
    @property
    def divergence(self) -> float: ...
    @property
    def kl(self) -> float:
        """
        KL(reference || ours) in nats.
        """
    @property
    def max_abs(self) -> float: ...
    @property
    def noise(self) -> float: ...
    @property
    def our_token(self) -> int: ...
    @property
    def pair_margin(self) -> float: ...
    @property
    def position(self) -> int: ...
    @property
    def reference_margin(self) -> float: ...
    @property
    def reference_token(self) -> int: ...
    @property
    def relative_errors(self) -> list[float]:
        """
        One a level, in the order of LogitMatch.levels.
        """
    @property
    def rms(self) -> float: ...
    @property
    def shift(self) -> float: ...
    @property
    def tie_bound(self) -> float: ...
    @property
    def top_token(self) -> str:
        """
        'same', 'tie', 'tolerated' or 'flipped'.
        """
    @property
    def within_levels(self) -> bool: ...

class LogitMatch:
    """
    A comparison of two runs over the same tokens.
    """
    def __repr__(self) -> str: ...
    @property
    def flips(self) -> list[int]: ...
    @property
    def kl_max(self) -> float: ...
    @property
    def kl_mean(self) -> float: ...
    @property
    def levels(self) -> dict:
        """
        Relative error allowed, by top_k.
        """
    @property
    def max_abs(self) -> float: ...
    @property
    def max_abs_position(self) -> int: ...
    @property
    def max_abs_token(self) -> int: ...
    @property
    def non_finite(self) -> NonFinite | None: ...
    @property
    def passes(self) -> bool:
        """
        Whether the verdict is match or tie.
        """
    @property
    def positions(self) -> list[PositionMatch]: ...
    @property
    def relative_errors(self) -> dict:
        """
        Highest of any position, by top_k.
        """
    @property
    def rms(self) -> float: ...
    @property
    def ties(self) -> list[int]:
        """
        Positions whose tokens differ without being a flip.
        """
    @property
    def top1_agreement(self) -> float: ...
    @property
    def verdict(self) -> str:
        """
        'match', 'tie', 'mismatch' or 'not_finite'.
        """
    @property
    def worst_position(self) -> int: ...
    @property
    def worst_ratio(self) -> float:
        """
        Error at the worst position in units of its bound.
        """
    @property
    def worst_top_k(self) -> typing.Any: ...

class TokenDifference:
    """
    First place where two sequences part.
    """
    def __repr__(self) -> str: ...
    @property
    def ours(self) -> int | None:
        """
        None where ours had ended.
        """
    @property
    def position(self) -> int: ...
    @property
    def theirs(self) -> int | None:
        """
        None where theirs had ended.
        """

class TokenMatch:
    """
    Two greedy sequences beside each other.
    """
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    @property
    def equal(self) -> bool: ...
    @property
    def first_difference(self) -> TokenDifference | None: ...
    @property
    def last_shared_token(self) -> int | None: ...
    @property
    def our_tokens(self) -> int: ...
    @property
    def same_tokens(self) -> int: ...
    @property
    def their_tokens(self) -> int: ...

class FragilePosition:
    """
    How little would change one position's token.
    """
    def __repr__(self) -> str: ...
    @property
    def flip_probability(self) -> float: ...
    @property
    def margin(self) -> float: ...
    @property
    def position(self) -> int: ...
    @property
    def rounding(self) -> float: ...
    @property
    def runner_up(self) -> int: ...
    @property
    def token(self) -> int: ...

class Fragility:
    """
    How easily a bfloat16 device leaves the reference's greedy path. An estimate.
    """
    def __repr__(self) -> str: ...
    @property
    def any_flip_probability(self) -> float: ...
    @property
    def expected_flips(self) -> float: ...
    @property
    def most_fragile(self) -> list[FragilePosition]: ...
    @property
    def positions(self) -> int: ...
    @property
    def smallest_margin(self) -> float: ...
    @property
    def smallest_margin_position(self) -> int: ...
    @property
    def within_rounding(self) -> int: ...

class TokenLoop:
    """
    Tokens each of which is the one a period before.
    """
    def __repr__(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def period(self) -> int: ...
    @property
    def repeats(self) -> int: ...
    @property
    def tokens(self) -> int: ...

class Repetition:
    """
    How far a generation goes round in circles.
    """
    def __repr__(self) -> str: ...
    @property
    def distinct(self) -> typing.Annotated[list[float], "FixedSize(4)"]:
        """
        Different n-grams over n-grams, n from 1 to 4.
        """
    @property
    def longest(self) -> TokenLoop | None: ...
    @property
    def loops(self) -> bool: ...
    @property
    def tail(self) -> TokenLoop | None: ...
    @property
    def tokens(self) -> int: ...

class Drift:
    """
    How an error moves with position.
    """
    def __repr__(self) -> str: ...
    @property
    def grows(self) -> bool: ...
    @property
    def medians(self) -> list[float]: ...
    @property
    def ratio(self) -> float:
        """
        Last median over the first.
        """
    @property
    def slope(self) -> float:
        """
        Per position, after Theil and Sen.
        """
    @property
    def window(self) -> int: ...

class Diagnosis:
    """
    The likely cause of a mismatch.
    """
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    @property
    def cause(self) -> str:
        """
        'none', 'not_finite', 'padded_vocabulary', 'eos_ignored', 'sharding', 'prefill', 'sliding_cache' or 'decode_or_cache'.
        """
    @property
    def module(self) -> str | None:
        """
        First module past its bound, or not finite.
        """
    @property
    def sentence(self) -> str: ...

def diagnose(
    tokens: TokenMatch,
    *,
    non_finite: NonFinite | None = None,
    prompt_tokens: typing.SupportsInt | typing.SupportsIndex = 0,
    vocab: typing.SupportsInt | typing.SupportsIndex | None = None,
    window: typing.SupportsInt | typing.SupportsIndex | None = None,
    eos_tokens: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
    prefill_logits_match: bool | None = None,
    sharded: bool | None = None,
    one_core_matches: bool | None = None,
    modules: collections.abc.Sequence[
        tuple[
            str,
            typing.SupportsFloat | typing.SupportsIndex,
            typing.SupportsFloat | typing.SupportsIndex,
        ]
    ] = [],
) -> Diagnosis:
    """
    Names the likely cause of a mismatch from the facts at hand; modules are (name, error, bound) in the order of execution.
    """

def drift(
    errors: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
    *,
    window: typing.SupportsInt | typing.SupportsIndex = 16,
    growth: typing.SupportsFloat | typing.SupportsIndex = 4.0,
) -> Drift:
    """
    Describes the trend of one error a position: medians of windows, robust slope, last over first.
    """

def find_non_finite(
    values: typing.Any, module: str = "values", *, masked: bool = False
) -> NonFinite | None:
    """
    Finds the first NaN or infinity of a float32, bfloat16 or float16 array, [values] or [positions, values], and counts all; None where every value is finite. With masked, minus infinity is allowed in a row that has a finite value, as in logits.
    """

def find_parallel_plan(
    architecture_or_model_type: str, nested: collections.abc.Sequence[tuple[str, str]] = []
) -> ParallelPlan:
    """
    Finds the plan of an architecture or model type; `nested` has the (config field, model type) pairs that are not the default.
    """

def find_topology(name: str) -> Topology:
    """
    Finds a topology by its name; raises NotFoundError with the names that are known.
    """

def format_bytes(bytes: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    Formats bytes with a binary unit and two decimals: '1.50 GiB'.
    """

def fragility(
    reference: typing.Any,
    *,
    noise_scale: typing.SupportsFloat | typing.SupportsIndex = 1.0,
    most_fragile: typing.SupportsInt | typing.SupportsIndex = 5,
) -> Fragility:
    """
    Judges the margins between the reference's first and second logit against the noise of bfloat16. The model stands in trnscout/fragility.h.
    """

def ggml_types() -> list[GgmlType]:
    """
    Every type that a file may hold, by id.
    """

def match_logits(
    ours: typing.Any,
    reference: typing.Any,
    tolerances: LogitTolerances | None = None,
    *,
    module: str = "logits",
) -> LogitMatch:
    """
    Compares float32, bfloat16 or float16 logits, [positions, vocab], of two runs that were fed the same tokens. NumPy arrays and CPU tensors are read in place. What each figure means stands in trnscout/logit_match.h.
    """

def match_tokens(
    ours: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    theirs: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    *,
    vocab: typing.SupportsInt | typing.SupportsIndex | None = None,
) -> TokenMatch:
    """
    Compares two sequences of token ids. Raises OutOfRangeError where an id is negative or not below vocab.
    """

def memory_table(snapshot: MemorySnapshot) -> str:
    """
    Formats a snapshot as the table of out-of-memory messages.
    """

def parallel_plan_architectures() -> list[str]:
    """
    Every architecture of both tasks, sorted.
    """

def parameter_role(parameter_name: str) -> ParameterRole: ...
def parse_parallel_style(name: str) -> ParallelStyle:
    """
    Reads a style in any version's vocabulary.
    """

def rank_parameters(
    config: ModelConfig,
    plan: ParallelPlan,
    parameters: collections.abc.Sequence[
        tuple[str, str, collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]
    ],
    options: PlanOptions,
    degrees: Degrees,
    rank: typing.SupportsInt | typing.SupportsIndex,
) -> list[RankParameter]:
    """
    Lists what a rank holds of the weights that a plan of the same question counts.
    """

def repetition(
    tokens: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    *,
    max_period: typing.SupportsInt | typing.SupportsIndex = 64,
    min_repeats: typing.SupportsInt | typing.SupportsIndex = 3,
    min_tokens: typing.SupportsInt | typing.SupportsIndex = 8,
) -> Repetition:
    """
    Looks for stretches of tokens that repeat, and whether one lasts to the end.
    """

def shard_of(
    style: ParallelStyle,
    shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    role: ParameterRole,
    rank: typing.SupportsInt | typing.SupportsIndex,
    degree: typing.SupportsInt | typing.SupportsIndex,
) -> ParameterShard:
    """
    Cuts a parameter for one rank, as Transformers does.
    """

def topologies() -> list[Topology]:
    """
    Every topology that is known.
    """

def transformers_version() -> str:
    """
    The version of Transformers that the plans come from.
    """

def what_if_names() -> list[str]:
    """
    The layouts beside that of Transformers that a plan can be asked for.
    """

TRN2_CORE_MEMORY_BYTES: int = 25769803776
