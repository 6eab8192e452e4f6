"""Writes src/core/parallel_plan_table.inc from the installed Transformers.

`python scripts/parallel_plan_table.py` writes the table; with `--check` it says whether the file
is as the installed library would have it. Every architecture of text-generation and
image-text-to-text is built on the meta device from its default config; what the default leaves
open is set in `OVERRIDES`.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import core_model_loading as loading
from transformers.conversion_mapping import get_checkpoint_conversion_mapping
from transformers.modeling_utils import ContextManagers, PreTrainedModel
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

OUTPUT = Path(__file__).resolve().parent.parent / "src" / "core" / "parallel_plan_table.inc"
CAUSAL = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
IMAGE = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
_QSA = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
}
_COMPASS = {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}}
_ASSISTANT = {
    "model_type": "gemma4_text",
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0,
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 4,
}
_OCR2_TEXT = {"num_experts_per_tok": 2, "mlp_layer_types": ["dense"] + ["sparse"] * 31}
# What a config class leaves open although its model needs it.
OVERRIDES: dict[str, dict[str, Any]] = {
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model"}},
    "chameleon": {"vocabulary_map": {"<image>": 1, "IMGIMGA": 2}},
    "cohere_compass": {"text_config": _COMPASS},
    "cohere_compass_text": _COMPASS,
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 8}},
    "deepseek_ocr2": {
        "vision_config": {"sam_config": {"downsample_channels": [512, 896]}},
        "text_config": _OCR2_TEXT,
    },
    "diffusion_gemma": {
        "text_config": {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 64}
    },
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "emu3": {"vocabulary_map": {"<image>": 1}},
    "gemma4_assistant": {"text_config": _ASSISTANT},
    "granite4_vision": {
        "deepstack_layer_map": [],
        "spatial_target_layers": [],
        "downsample_rate": "4/8",
    },
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config": {"head_dim": 128}},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_hidden_layers": 4},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "perception_lm": {
        "vision_config": {
            "model_type": "timm_wrapper",
            "architecture": "vit_pe_core_large_patch14_336",
            "model_args": {"embed_dim": 1024},
        }
    },
    "qwen4_exp": {"text_config": _QSA},
    "qwen4_exp_text": _QSA,
    "reformer": {"is_decoder": True},
}
# Architectures of text-generation that take a part of the config of their model type.
PARTS: dict[tuple[str, str], str] = {
    ("musicgen", "MusicgenForCausalLM"): "decoder",
    ("musicgen_melody", "MusicgenMelodyForCausalLM"): "decoder",
    **{
        (model_type, name): "text_config"
        for model_type, name in (
            ("dots3_note", "Dots3NoteForCausalLM"),
            ("emu3", "Emu3ForCausalLM"),
            ("gemma3n", "Gemma3nForCausalLM"),
            ("llama4", "Llama4ForCausalLM"),
            ("qwen3_5", "Qwen3_5ForCausalLM"),
            ("qwen3_5_moe", "Qwen3_5MoeForCausalLM"),
            ("qwen4_exp", "Qwen4ExpForCausalLM"),
        )
    },
}


class TimmWrapperModel(PreTrainedModel):
    """Stands in for the wrapper of timm, which the library does not depend on."""

    config_class = CONFIG_MAPPING["timm_wrapper"]

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.post_init()


def architectures() -> list[tuple[str, str, str]]:
    """Return (task, model type, class name) of both tasks, in the library's order."""
    found = []
    for task, mapping in (("image-text-to-text", IMAGE), ("text-generation", CAUSAL)):
        for model_type, names in mapping.items():
            for name in [names] if isinstance(names, str) else names:
                found.append((task, model_type, name))
    return found


def default_config(model_type: str, name: str) -> Any:
    """Return the config that the table is made with."""
    config = CONFIG_MAPPING[model_type](**OVERRIDES.get(model_type, {}))
    part = PARTS.get((model_type, name))
    return getattr(config, part) if part else config


def build(cls: Any, config: Any) -> Any:
    """Return the model on the meta device, nothing tied yet, as `from_pretrained` builds it."""
    from transformers.models.timm_wrapper import modeling_timm_wrapper

    wrapper = modeling_timm_wrapper.TimmWrapperModel
    modeling_timm_wrapper.TimmWrapperModel = TimmWrapperModel
    transformers.TimmWrapperModel = TimmWrapperModel
    try:
        with ContextManagers(cls.get_init_context(torch.float32, False, False, False)):
            return cls(config)
    finally:
        modeling_timm_wrapper.TimmWrapperModel = wrapper
        transformers.TimmWrapperModel = wrapper


def submodels(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path of every PreTrainedModel in `model` and the model."""
    for path, module in model.named_modules():
        if isinstance(module, PreTrainedModel):
            yield path, module


def own_plans(model: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return what `init_parallel_plans` takes from this class and its config, without children."""
    tensor = dict(getattr(type(model), "_tp_plan", None) or {})
    expert = dict(getattr(type(model), "_ep_plan", None) or {})
    if model.base_model is model:
        tensor.update(model.config.base_model_tp_plan or {})
        expert.update(model.config.base_model_ep_plan or {})
        if tensor and isinstance(getattr(model, "embed_tokens", None), torch.nn.Embedding):
            tensor = {"embed_tokens": "embedding_rowwise", **tensor}
    return tensor, expert


def children(model: Any) -> list[str]:
    """Return the first parts of the names in the model's state dict."""
    names = {name for name, _ in model.named_children()}
    names |= {name for name, _ in model.named_parameters(recurse=False)}
    names |= set(model._buffers) - model._non_persistent_buffers_set
    return sorted(names)


def ignored(model: Any) -> list[str]:
    """Return patterns of tensors the model has no use for.

    The library asks whether it has a use for a tensor before it looks at these, so some would
    take tensors that it does use: those begin where a word does, or are left away.
    """
    used = list(model.state_dict())
    found = set()
    for pattern in model._keys_to_ignore_on_load_unexpected or ():
        for tight in (pattern, rf"(?<!\w){pattern}"):
            if not any(re.search(tight, name) for name in used):
                found.add(tight)
                break
    return sorted(found)


def adds_something(model: Any) -> bool:
    """Return whether the class has rules, ties or conversions."""
    names = (type(model).__name__, model.config.model_type)
    return (
        any(own_plans(model))
        or bool(getattr(type(model), "_tied_weights_keys", None))
        or any(get_checkpoint_conversion_mapping(name) is not None for name in names)
    )


def library_of(model: Any) -> str:
    """Return the package of the model's class, one a family."""
    return type(model).__module__.rpartition(".")[0]


def text(value: str) -> str:
    """Return a C++ literal."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def pascal(style: str) -> str:
    """Return the enumerator of a style."""
    return "ParallelStyle::k" + "".join(part.capitalize() for part in style.split("_"))


def operation(op: Any) -> str:
    """Return the row of one step of a conversion."""
    kinds = {
        "MergeModulelist": ("kStack", "dim"),
        "Concatenate": ("kConcatenate", "dim"),
        "Chunk": ("kChunk", "dim"),
        "Interleave": ("kKeepShape", ""),
        "PermuteForRope": ("kKeepShape", ""),
        "ErnieFuseAndSplitTextVisionExperts": ("kFuseExperts", ""),
        "Inkling2LoopDequantizeExperts": ("kDequantize", ""),
        "Split": ("kSplit", "dim"),
        "Transpose": ("kTranspose", "dim0"),
    }
    name = type(op).__name__
    kind, attribute = kinds.get(name, ("kUnsupported", ""))
    dims = [getattr(op, attribute) if attribute else 0, 0]
    if name == "Transpose":
        dims[1] = op.dim1
        kind = "kTransposeToFit" if op.check_dims else kind
    if name == "ErnieFuseAndSplitTextVisionExperts":
        dims = [op.stack_dim, op.concat_dim]
    if name == "Chunk" and op.num_shards_attribute is not None:
        kind = "kUnsupported"
    return f"{{OperationKind::{kind}, {text(name)}, {dims[0]}, {dims[1]}}}"


def sources(transform: Any) -> list[tuple[str, int]]:
    """Return the regular expressions of a transform, in the order in which they are tried."""
    if isinstance(transform, loading.LayerPairCollapse):
        return [(transform.pattern.pattern, 0)]
    compiled = transform.compiled_sources.pattern
    found = []
    for index, source in sorted(enumerate(transform.source_patterns), key=lambda x: -len(x[1])):
        pattern = source.replace("*.", r".*\.")
        if re.search(r"[a-zA-Z0-9]$", pattern):
            pattern += r"(?!\w)"
        found.append((pattern, index))
    if compiled != "|".join(f"(?P<g{i}>{pattern})" for pattern, i in found):
        raise ValueError(f"sources are compiled in a new way: {compiled}")
    return found


KINDS = {
    "WeightRenaming": "kRename",
    "PrefixChange": "kRename",
    "GroupWeightRename": "kGroupRename",
    "Inkling2IndexOffsetWeightRename": "kOffsetRename",
    "LayerPairCollapse": "kUnsupported",
    "WeightConverter": "kConvert",
}


@dataclass
class Table:
    """The rows so far; equal lists are written once."""

    lines: list[str] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    class_rows: dict[str, int] = field(default_factory=dict)
    conversions: dict[str, str] = field(default_factory=dict)

    def span(self, kind: str, rows: Iterable[str]) -> str:
        """Return the name of an array of these rows, or `{}`."""
        rows = list(rows)
        if not rows:
            return "{}"
        body = f"constexpr {kind} NAME[] = {{\n" + "".join(f"    {row},\n" for row in rows) + "};"
        if body not in self.named:
            name = f"kList{len(self.named)}"
            self.named[body] = name
            self.lines.append(body.replace("NAME", name))
        return self.named[body]

    def texts(self, values: Iterable[str]) -> str:
        """Return the name of an array of strings."""
        return self.span("absl::string_view", map(text, values))

    def rules(self, plan: dict[str, str]) -> str:
        """Return the name of an array of rules."""
        return self.span("RuleRow", (f"{{{text(k)}, {pascal(v)}}}" for k, v in plan.items()))

    def transform(self, transform: Any) -> str:
        """Return the row of one rename or conversion."""
        name = type(transform).__name__
        rows = (f"{{{text(regex)}, {index}}}" for regex, index in sources(transform))
        source_list = self.span("SourceRow", rows)
        targets = self.texts(transform.target_patterns)
        steps = self.span("OperationRow", map(operation, getattr(transform, "operations", [])))
        offset = getattr(transform, "offset", 0)
        kind = f"TransformKind::{KINDS[name]}"
        return f"{{{kind}, {text(name)}, {source_list}, {targets}, {steps}, {offset}}}"

    def conversion(self, name: str) -> None:
        """Add the transforms registered for a class or model type."""
        transforms = get_checkpoint_conversion_mapping(name)
        if transforms is not None and name not in self.conversions:
            self.conversions[name] = self.span("TransformRow", map(self.transform, transforms))

    def class_index(self, model: Any) -> int:
        """Return the place of the model's class among the classes."""
        name, model_type = type(model).__name__, model.config.model_type or ""
        self.conversion(name)
        self.conversion(model_type)
        tensor, expert = own_plans(model)
        ties = getattr(type(model), "_tied_weights_keys", None) or {}
        plain = re.compile(r"[\w.]+").fullmatch
        tie_rows = [f"{{{text(k)}, {text(v)}}}" for k, v in ties.items() if plain(k) and plain(v)]
        row = ", ".join(
            (
                text(name),
                text(model_type),
                self.rules(tensor),
                self.rules(expert),
                self.span("TieRow", tie_rows),
            )
        )
        return self.class_rows.setdefault(f"{{{row}}}", len(self.class_rows))

    def model_row(self, name: str, model_types: list[str], model: Any) -> str:
        """Return the row of a model and of all the models in it."""
        reached: set[str] = set()
        rows = []
        for path, module in submodels(model):
            parent = path.rpartition(".")[0]
            reaches = path == "" or parent in reached
            if reaches:
                reached.add(path)
            if adds_something(module):
                flag = "true" if reaches else "false"
                rows.append(f"{{{text(path)}, {self.class_index(module)}, {flag}}}")
        check_composition(name, model, reached)
        return ", ".join(
            (
                f"{{{text(name)}",
                text(model.base_model_prefix),
                self.texts(model_types),
                self.texts(children(model)),
                self.texts(children(model.base_model) if model.base_model is not model else []),
                self.texts(ignored(model)),
                self.span("SubmodelRow", rows),
                self.span("SlotRow", slots(model, reached)) + "}",
            )
        )


def check_composition(name: str, model: Any, reached: set[str]) -> None:
    """Raise where the rules of the parts do not make up the plan that the model reports."""
    for index, reported in enumerate((model.tp_plan, model.ep_plan)):
        composed = {}
        for path, module in submodels(model):
            if path in reached:
                prefix = path + "." if path else ""
                composed.update({prefix + k: v for k, v in own_plans(module)[index].items()})
        if composed != reported:
            raise ValueError(f"{name}: the parts' rules {composed} are not the plan {reported}")


def slots(model: Any, reached: set[str]) -> list[str]:
    """Return the rows of the submodels whose class a nested config decides."""
    rows: list[str] = []
    taken: list[str] = []
    causal = {name for _, _, name in architectures() if name in CAUSAL.values()}
    for path, module in submodels(model):
        if path == "" or any(path.startswith(other + ".") for other in taken):
            continue
        fields = [f for f in model.config.sub_configs if getattr(model.config, f) is module.config]
        if not fields or library_of(module) == library_of(model):
            continue
        taken.append(path)
        kind = "kCausalModel" if type(module).__name__ in causal else "kBaseModel"
        model_type = module.config.model_type
        flag = "true" if path in reached else "false"
        start = ", ".join(map(text, (path, fields[0], model_type)))
        rows.append(f"{{{start}, SlotKind::{kind}, {flag}}}")
    return rows


def base_models(built: dict[str, Any]) -> dict[str, Any]:
    """Return a base model for every model type that may stand in a slot."""
    found: dict[str, Any] = {}
    for model in built.values():
        for path, module in submodels(model):
            model_type = module.config.model_type
            names = auto.MODEL_MAPPING_NAMES.get(model_type, ())
            names = [names] if isinstance(names, str) else names
            if path and type(module).__name__ in names:
                found.setdefault(model_type, module)
    return found


def build_all(report: Callable[[str], None] = lambda line: None) -> dict[tuple[str, str], Any]:
    """Return every architecture's model by (model type, class name); report what fails."""
    built: dict[tuple[str, str], Any] = {}
    for _, model_type, name in architectures():
        if (model_type, name) not in built:
            config = default_config(model_type, name)
            built[model_type, name] = build(getattr(transformers, name), config)
            report(f"{model_type} {name}")
    return built


def foreign(key: tuple[str, str], model: Any) -> bool:
    """Return whether the model type is not the one that the class is written for."""
    return type(model).config_class.model_type != key[0]


def generate(report: Callable[[str], None] = lambda line: None) -> str:
    """Return the text of the table."""
    table = Table()
    table.conversion("legacy")
    by_name: dict[str, Any] = {}
    types: dict[str, list[str]] = {}
    built = build_all(report)
    # The class's own config first; other model types may share the class, not another plan.
    for (model_type, name), model in sorted(built.items(), key=lambda item: foreign(*item)):
        kept = by_name.setdefault(name, model)
        if (kept.tp_plan, kept.ep_plan) != (model.tp_plan, model.ep_plan):
            report(f"{name} has another plan under {model_type}")
        types.setdefault(name, []).append(model_type)
    rows = [table.model_row(name, types[name], model) for name, model in sorted(by_name.items())]
    bases = [
        table.model_row(model_type, [model_type], model)
        for model_type, model in sorted(base_models(by_name).items())
    ]
    first: dict[str, str] = {}
    causal: dict[str, str] = {}
    for task, model_type, name in architectures():
        # A type that shares another's class may still have conversions of its own.
        table.conversion(model_type)
        first.setdefault(model_type, name)
        if task == "text-generation":
            causal.setdefault(model_type, name)
    return render(table, rows, bases, first, causal)


def render(
    table: Table, rows: list[str], bases: list[str], first: dict[str, str], causal: dict[str, str]
) -> str:
    """Return the file around the rows."""
    conversions = [f"{{{text(k)}, {v}}}" for k, v in sorted(table.conversions.items())]
    # Arrays that others point to come first.
    spans = ", ".join(
        (
            table.span("ClassRow", table.class_rows),
            table.span("ConversionRow", conversions),
            table.span("ModelRow", rows),
            table.span("ModelRow", bases),
            *(
                table.span("ModelTypeRow", (f"{{{text(k)}, {text(v)}}}" for k, v in pairs))
                for pairs in (sorted(first.items()), sorted(causal.items()))
            ),
        )
    )
    version = transformers.__version__
    head = (
        f"// Written by scripts/parallel_plan_table.py from Transformers {version}; edit nothing\n"
        "// here. Run the script again after the library changes; with --check it compares.\n\n"
    )
    body = "\n".join(table.lines)
    return f"{head}{body}\n\nconstexpr ParallelPlanTable kTable = {{{text(version)}, {spans}}};\n"


def main() -> int:
    """Write or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    check = parser.parse_args().check
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    made = generate()
    if not check:
        OUTPUT.write_text(made)
        return 0
    kept = OUTPUT.read_text() if OUTPUT.exists() else ""
    difference = list(
        difflib.unified_diff(kept.splitlines(), made.splitlines(), "kept", "installed", n=0)
    )
    print("\n".join(difference[:40]))
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
