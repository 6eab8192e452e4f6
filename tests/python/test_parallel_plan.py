"""Plans, shards and conversions against the installed Transformers.

The authority for a shard is what the library's own code puts on each rank under torch's fake
process group; for a conversion it is the library's way back from a model to its checkpoint.
Models are on the meta device with a few layers, so their widths cost nothing.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
import transformers
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers.core_model_loading import revert_weight_conversion
from transformers.distributed import DistributedConfig
from transformers.distributed.expert_parallel import apply_expert_parallelism
from transformers.distributed.sharding_utils import DtensorShardOperation
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

import trnscout
from trnscout import ParallelAxis, ParallelMode, ParallelPlan, ParallelStyle

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts" / "parallel_plan_table.py"
DEGREES = (1, 2, 4, 8)
LAYERS = 5  # enough for every kind of layer that the families mix
# One for each way of cutting, fusing, nesting and tying.
SAMPLE = (
    "LlamaForCausalLM",
    "Qwen3MoeForCausalLM",
    "MixtralForCausalLM",
    "DeepseekV3ForCausalLM",
    "GptOssForCausalLM",
    "Phi3ForCausalLM",
    "GPTNeoXForCausalLM",
    "GPT2LMHeadModel",
    "LlavaForConditionalGeneration",
    "Gemma3ForConditionalGeneration",
)
# Conversions that need a config's numbers or the model's own shapes.
UNIMPLEMENTED = {
    "Inkling2ForCausalLM",
    "Inkling2ForConditionalGeneration",
    "Inkling2LoopForCausalLM",
    "Inkling2LoopForConditionalGeneration",
    "LaraMiniForCausalLM",
}
# Conversions that need sizes of the config.
NEED_CONFIG = {"Molmo2ForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"}


@cache
def table_script() -> ModuleType:
    """Return the script that makes the table; it knows how to build every architecture."""
    spec = importlib.util.spec_from_file_location("parallel_plan_table", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def architectures() -> list[tuple[str, str]]:
    """Return (class name, model type), one for each class."""
    found: dict[str, str] = {}
    for _, model_type, name in table_script().architectures():
        found.setdefault(name, model_type)
    return sorted(found.items())


def params(of: list[tuple[str, str]]) -> list[Any]:
    """Return the parameters of a test; those outside the sample take long together."""
    full = pytest.mark.full
    return [pytest.param(*x, id=x[0], marks=() if x[0] in SAMPLE else full) for x in of]


ARCHITECTURES = params(architectures())


def shorten(config: Any) -> None:
    """Cut the layers of a config and of those in it, with what is listed for each layer."""
    for name in config.sub_configs:
        if (part := getattr(config, name, None)) is not None:
            shorten(part)
    fields = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth")
    depth = next((n for f in fields if isinstance(n := getattr(config, f, None), int)), 0)
    if depth <= LAYERS:
        return
    for name, value in list(vars(config).items()):
        if name in fields and value == depth:
            setattr(config, name, LAYERS)
        elif isinstance(value, list) and len(value) == depth:
            setattr(config, name, value[:LAYERS])


def build(name: str, model_type: str) -> Any:
    """Return the architecture with few layers, or with all where it does not take few."""
    script, cls = table_script(), getattr(transformers, name)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    config = script.default_config(model_type, name)
    shorten(config)
    try:
        return script.build(cls, config)
    except Exception:
        return script.build(cls, script.default_config(model_type, name))


@contextmanager
def ranks_of(rank: int, degree: int) -> Iterator[Any]:
    """Give a mesh of `degree` ranks in which this process is `rank`."""
    dist.init_process_group("fake", rank=rank, world_size=degree, store=FakeStore())
    try:
        yield dist.init_device_mesh("cpu", (degree,))
    finally:
        dist.destroy_process_group()


@contextmanager
def restored(model: Any) -> Iterator[None]:
    """Take back what is done to the modules inside."""
    kept = [(m, dict(m.__dict__), dict(m._parameters)) for m in model.modules()]
    try:
        yield
    finally:
        for module, attributes, parameters in kept:
            module.__dict__.clear()
            module.__dict__.update(attributes)
            module._parameters.clear()
            module._parameters.update(parameters)


def apply_plans(model: Any, mode: ParallelMode, degree: int, mesh: Any) -> None:
    """Shard as `from_pretrained` does; the expert plan alone has no config that reaches it."""
    if mode == ParallelMode.EXPERT:
        plan = model._expand_parallel_plan(dict(model.ep_plan))
        apply_expert_parallelism(model, mesh, mesh, plan)
        return
    ep_size = degree if mode == ParallelMode.TENSOR_AND_EXPERT else 1
    config = DistributedConfig(tp_size=degree, ep_size=ep_size)
    tp_plan, ep_plan, _ = model._resolve_parallel_plans(config)
    apply_tensor_parallelism(model, mesh, tp_plan)
    if ep_size > 1:
        apply_expert_parallelism(model, mesh, mesh, ep_plan)


def indices_of(parameter: DTensor, dim: int) -> torch.Tensor:
    """Return which indices along `dim` the library reads from a checkpoint for this rank."""
    shape = [1] * parameter.ndim
    shape[dim] = -1
    every = torch.arange(parameter.shape[dim]).view(shape)
    try:
        return DtensorShardOperation(parameter).shard_tensor(every).flatten()
    except IndexError:  # the library cannot read an empty part of a fused weight
        assert parameter._local_tensor.shape[dim] == 0
        return torch.empty(0, dtype=torch.int64)


def our_indices(ranges: list[tuple[int, int]]) -> torch.Tensor:
    """Return the indices in joined ranges."""
    return torch.cat([torch.empty(0, dtype=torch.int64), *(torch.arange(*r) for r in ranges)])


def compare_parameter(
    plan: ParallelPlan, name: str, parameter: Any, mode: ParallelMode, rank: int, degree: int
) -> None:
    """Compare one parameter of one rank."""
    found = plan.style_of(name, mode)
    style = found.style if found else ParallelStyle.REPLICATE
    role = trnscout.parameter_role(name)
    shard = trnscout.shard_of(style, list(parameter.shape), role, rank, degree)
    local = parameter._local_tensor if isinstance(parameter, DTensor) else parameter
    assert shard.shape == list(local.shape), (name, style, mode, rank, degree)
    if not isinstance(parameter, DTensor):
        return
    for dim, ranges in enumerate(shard.dimensions):
        if local.shape[dim] != parameter.shape[dim]:
            expected = indices_of(parameter, dim)
            assert torch.equal(our_indices(ranges), expected), (name, style, mode, rank, degree)


def compare_rank(model: Any, plan: ParallelPlan, mode: ParallelMode, rank: int, degree: int) -> int:
    """Compare every parameter of one rank; return how many there are."""
    tied = model.all_tied_weights_keys
    with restored(model), ranks_of(rank, degree) as mesh:
        try:
            if degree > 1:
                apply_plans(model, mode, degree, mesh)
        except ValueError as error:
            assert "Cannot evenly shard" in str(error)
            check_refusal(model, plan, mode, rank, degree)
            return 0
        found = dict(model.named_parameters(remove_duplicate=False))
        for name in found:
            source = tied.get(name, name)  # tying puts the source in the target's place
            compare_parameter(plan, source, found[source], mode, rank, degree)
    return len(found)


def check_refusal(
    model: Any, plan: ParallelPlan, mode: ParallelMode, rank: int, degree: int
) -> None:
    """Check that we refuse what the library does: experts that the degree does not divide."""
    uneven = 0
    for name, parameter in model.named_parameters():
        found = plan.style_of(name, mode)
        if not found or found.style != ParallelStyle.GROUPED_GEMM:
            continue
        uneven += 1
        role = trnscout.parameter_role(name)
        with pytest.raises(trnscout.InvalidArgumentError, match="cannot be split evenly"):
            trnscout.shard_of(found.style, list(parameter.shape), role, rank, degree)
    assert uneven > 0


def modes_of(model: Any) -> list[ParallelMode]:
    """Return the modes for which the model has plans."""
    tensor = [ParallelMode.TENSOR] if model.tp_plan else []
    expert = [ParallelMode.EXPERT] if model.ep_plan else []
    both = [ParallelMode.TENSOR_AND_EXPERT] if tensor and expert else []
    return tensor + expert + both


@pytest.fixture(scope="module")
def counts() -> Iterator[Counter[str]]:
    """Count what the sweep has compared, and print it at the end."""
    counter: Counter[str] = Counter()
    yield counter
    print("\n" + "\n".join(f"{key}: {value}" for key, value in sorted(counter.items())))


@pytest.mark.parametrize(("name", "model_type"), ARCHITECTURES)
def test_shards_are_what_transformers_puts_on_each_rank(
    name: str, model_type: str, counts: Counter[str]
) -> None:
    model = build(name, model_type)
    plan = trnscout.find_parallel_plan(name)
    assert bool(plan.tensor_rules) == model.supports_tp_plan
    assert bool(plan.no_tensor_plan_reason) != model.supports_tp_plan
    assert {k: v.name.lower() for k, v in plan.tensor_rules} == model.tp_plan
    assert {k: v.name.lower() for k, v in plan.expert_rules} == model.ep_plan
    modes = modes_of(model)
    counts["architectures"] += 1
    counts["architectures without any plan"] += not modes
    for mode in modes:
        counts[f"architectures in mode {mode.name}"] += 1
        for degree in DEGREES:
            for rank in range(degree):
                compared = compare_rank(model, plan, mode, rank, degree)
                counts["ranks refused by both"] += compared == 0
                counts[f"parameters compared in mode {mode.name}"] += compared


@pytest.mark.parametrize(("name", "model_type"), ARCHITECTURES)
def test_conversions_give_the_models_own_parameters(
    name: str, model_type: str, counts: Counter[str]
) -> None:
    model = build(name, model_type)
    plan = trnscout.find_parallel_plan(name)
    own = trnscout.find_parallel_plan(model_type)
    if own.architecture == name:  # a type that shares another's class has its own conversions
        plan = own
    expected = {k: list(v.shape) for k, v in model.state_dict().items()}
    checkpoint = revert_weight_conversion(model, dict(model.state_dict()))
    headers = [(k, "F32", list(v.shape)) for k, v in checkpoint.items()]
    if name in UNIMPLEMENTED:
        counts["conversions that need more than shapes"] += 1
        with pytest.raises(trnscout.UnimplementedError, match="more than"):
            plan.parameters_of(headers)
        return
    config = None
    if name in NEED_CONFIG:
        with pytest.raises(trnscout.UnimplementedError, match="more than"):
            plan.parameters_of(headers)
        config = trnscout.ModelConfig.parse(model.config.to_json_string(), "config.json")
    loaded = plan.parameters_of(headers, config)
    assert {p.name: list(p.shape) for p in loaded.parameters} == expected
    assert loaded.left_out == []
    counts["conversions"] += 1
    counts["parameters converted"] += len(expected)


def load_names(plan: trnscout.ParallelPlan, names: list[str]) -> dict[str, str]:
    """Return the parameter that each tensor becomes, or becomes a part of."""
    loaded = plan.parameters_of([(name, "F32", [4, 4]) for name in names])
    return {tensor: p.name for p in loaded.parameters for tensor in p.tensors}


# Renames that go by whether the checkpoint has these tensors as well.
GUARDS = {
    "Kimi_K25ForConditionalGeneration": [
        f"vision_tower.encoder.blocks.0.{part}0.weight" for part in ("mlp.fc", "norm")
    ]
}


@pytest.mark.parametrize(("name", "model_type"), ARCHITECTURES)
def test_a_tensor_is_named_alike_among_others_and_alone(name: str, model_type: str) -> None:
    """Names that differ in digits alone are renamed together; that must not show."""
    plan = trnscout.find_parallel_plan(model_type)
    if plan.architecture != name:
        plan = trnscout.find_parallel_plan(name)
    model = build(name, model_type)
    stored = revert_weight_conversion(model, dict(model.state_dict()))
    deep = {re.sub(r"\.[01]\.", f".{n}.", key) for key in stored for n in (0, 1, 7, 10, 61, 78)}
    guards = GUARDS.get(name, [])
    alone: dict[str, str] = {}
    joined = []
    for key in sorted(deep):
        try:
            alone |= load_names(plan, [key, *(set(guards) - {key})])
        except (trnscout.InvalidArgumentError, trnscout.UnimplementedError):
            joined.append(key)  # a part of a parameter
    together = load_names(plan, sorted(deep - set(joined)))
    assert together == alone


@pytest.mark.full
def test_the_table_is_what_the_installed_library_has() -> None:
    command = [sys.executable, str(SCRIPT), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert trnscout.transformers_version() == transformers.__version__


def test_the_table_has_every_architecture_of_both_tasks() -> None:
    names = sorted({name for _, _, name in table_script().architectures()})
    assert trnscout.parallel_plan_architectures() == names


def test_an_architecture_without_a_plan_says_why() -> None:
    plan = trnscout.find_parallel_plan("gpt2")
    assert plan.tensor_rules == []
    assert "no tensor-parallel plan for GPT2LMHeadModel" in plan.no_tensor_plan_reason
    assert "no expert-parallel plan" in plan.no_expert_plan_reason


def test_a_nested_config_decides_the_rules_below_it() -> None:
    nested = [("text_config", "mixtral")]
    model = build_llava("mixtral")
    plan = trnscout.find_parallel_plan("LlavaForConditionalGeneration", nested)
    assert {k: v.name.lower() for k, v in plan.tensor_rules} == model.tp_plan
    assert {k: v.name.lower() for k, v in plan.expert_rules} == model.ep_plan
    rule = plan.style_of(
        "model.language_model.layers.0.mlp.experts.down_proj", ParallelMode.TENSOR_AND_EXPERT
    )
    assert rule is not None
    assert (rule.style, rule.axis) == (ParallelStyle.GROUPED_GEMM, ParallelAxis.EXPERT)
    checkpoint = revert_weight_conversion(model, dict(model.state_dict()))
    loaded = plan.parameters_of([(k, "F32", list(v.shape)) for k, v in checkpoint.items()])
    expected = {k: list(v.shape) for k, v in model.state_dict().items()}
    assert {p.name: list(p.shape) for p in loaded.parameters} == expected


def build_llava(text_model: str) -> Any:
    """Return a Llava around another text model than its default."""
    text = {"model_type": text_model, "num_hidden_layers": 2, "num_local_experts": 4}
    config = transformers.LlavaConfig(text_config=text, vision_config={"num_hidden_layers": 2})
    config.vision_config.model_type = "clip_vision_model"
    return table_script().build(transformers.LlavaForConditionalGeneration, config)


@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen2_moe"])
def test_a_saved_checkpoint_loads_as_told(family: str, tmp_path: Path) -> None:
    config = transformers.AutoConfig.for_model(
        family,
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_experts=4,
        num_local_experts=4,
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(tmp_path)
    tensors = trnscout.Checkpoint.open(tmp_path).tensors
    loaded = trnscout.find_parallel_plan(family).parameters_of(tensors)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    expected = {k: list(v.shape) for k, v in again.state_dict().items()}
    assert {p.name: list(p.shape) for p in loaded.parameters} == expected
    assert sorted(t for p in loaded.parameters for t in p.tensors) == [t.name for t in tensors]


def test_the_vocabularies_of_other_versions_are_read() -> None:
    same = {
        "colwise_rep": "colwise_gather_output",
        "colwise_allgather": "colwise_gather_output",
        "rowwise_allreduce": "rowwise",
        "vocab_allreduce": "embedding_rowwise",
        "local_packed_rowwise": "packed_rowwise",
        "moe_tp_gate_up_colwise": "packed_colwise",
    }
    for other, name in same.items():
        assert trnscout.parse_parallel_style(other) == trnscout.parse_parallel_style(name)
    with pytest.raises(trnscout.NotFoundError, match="no parallel style is called sideways"):
        trnscout.parse_parallel_style("sideways")


def test_every_style_of_the_installed_library_is_read() -> None:
    from transformers.distributed.parallel_utils import ALL_PARALLEL_STYLES

    for name in ALL_PARALLEL_STYLES:
        trnscout.parse_parallel_style(name)
