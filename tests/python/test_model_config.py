"""ModelConfig against Transformers' own config classes and static caches."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    Cache,
    PreTrainedConfig,
    PreTrainedModel,
    StaticCache,
)
from transformers.cache_utils import (
    CacheLayerMixin,
    LinearAttentionCacheLayerMixin,
    get_layer_types_and_kwargs,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)
from transformers.models.unlimited_ocr.modeling_unlimited_ocr import UnlimitedOcrTextModel

from trnscout import InvalidArgumentError, ModelConfig, NotFoundError, UnimplementedError

REPOSITORY = Path(__file__).resolve().parents[2]

MODEL_TYPES = sorted(
    {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES}
)
FORMS = ("full", "diff", "bare")
FIELDS = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "q_heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab": "vocab_size",
    "text_tie_word_embeddings": "tie_word_embeddings",
}

# What is refused in place of a comparison, and why.
NO_LANGUAGE_MODEL = {
    "blt": "three transformers over bytes and patches, each with its own sizes",
    "pi0": "a policy whose language model is one of two experts beside it",
}
COUNTED_ELSEWHERE = {
    "prophetnet": ("full", "diff", "bare"),  # encoder and decoder each have a count
    "reformer": ("bare",),  # the default of attn_layers has the count
}
# The class refuses its own defaults: hidden_size_per_layer_input must be 0.
NO_DEFAULT = {"gemma4_assistant"}


@functools.cache
def default_config(model_type: str) -> PreTrainedConfig:
    config = CONFIG_MAPPING[model_type]()
    config.__dict__["allow_global_per_layer_attribute_access"] = True
    return config


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    try:
        text = config.get_text_config()
    except ValueError:  # both an encoder and a decoder
        text = config.get_text_config(decoder=True)
    text.__dict__["allow_global_per_layer_attribute_access"] = True
    return text


def spelled(config: PreTrainedConfig, form: str) -> str:
    if form == "bare":
        return json.dumps({"model_type": config.model_type})
    return config.to_json_string(use_diff=form == "diff")


def kinds(config: ModelConfig) -> list[tuple[str, int]]:
    """Say what Transformers would: the type of each layer's cache, and its window.

    Further passes of layers in a loop stand behind the layers, and are left out.
    """
    return [
        ("dummy" if cache.kind == "none" else cache.layer_type, cache.window_tokens)
        for cache in config.layer_caches[: config.layers]
    ]


def kinds_by_transformers(text: PreTrainedConfig) -> list[tuple[str, int]]:
    types, arguments = get_layer_types_and_kwargs(text)
    if text.model_type == "deepseek_v4":  # each layer of its growing cache keeps one token less
        return [(kind, text.sliding_window - 1) for kind in types]
    windows = [argument.get("sliding_window") or 0 for argument in arguments]
    # Behind a prompt that fills the rest, the window of references keeps every token.
    windows = [
        0 if kind == "reference_sliding_attention" else window
        for kind, window in zip(types, windows, strict=True)
    ]
    return list(zip(types, windows, strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_model_config_reads_the_defaults_of_every_family(model_type: str, form: str) -> None:
    if model_type in NO_DEFAULT:
        with pytest.raises(Exception, match="hidden_size_per_layer_input must be 0"):
            CONFIG_MAPPING[model_type]()
        return
    config = default_config(model_type)
    if model_type in NO_LANGUAGE_MODEL:
        with pytest.raises(UnimplementedError, match="of one language model"):
            ModelConfig.parse(spelled(config, form))
        return
    if form in COUNTED_ELSEWHERE.get(model_type, ()):
        with pytest.raises(InvalidArgumentError, match="num_hidden_layers is missing"):
            ModelConfig.parse(spelled(config, form))
        return
    text = text_config(config)
    parsed = ModelConfig.parse(spelled(config, form), model_type)
    expected = {ours: getattr(text, theirs, None) for ours, theirs in FIELDS.items()}
    expected["tie_word_embeddings"] = getattr(config, "tie_word_embeddings", None)
    expected = {name: value for name, value in expected.items() if value is not None}
    assert {"hidden", "layers", "vocab"} <= expected.keys()
    assert {name: getattr(parsed, name) for name in expected} == expected
    assert kinds(parsed) == kinds_by_transformers(text)


# Small enough to run; a class takes those that it has.
TINY: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 32,
    "vocab_size": 96,
    "sliding_window": 8,
    "max_position_embeddings": 64,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_intermediate_size": 16,
    "num_experts_per_tok": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 24,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "head_dim": 8,
}
SPACES = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 12, "mamba_n_groups": 2}
DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 12,
}
KIMI = {**LATENT, "linear_num_heads": 4, "linear_head_dim": 8}
ALTERNATE = ["linear_attention", "full_attention"] * 2
ALTERNATE_HYBRID = ["linear_attention", "hybrid"] * 2
INDEXED = ["linear_attention", "indexed_attention"] * 2
WINDOWED = {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 24}
LOOKUP = {
    "ple_layer_ids": [1, 3],
    "ple_embed_dim": 64,
    "ngram_vocab_size_base": 64,
    "make_ngram_vocab_size_divisible_by": 8,
    "split_ngram_parts": 2,
    "heads_per_ngram": 2,
    "hc_lowrank": 8,
}
INDEXER = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 16,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}
COMPRESSED = {
    "layer_types": [
        "sliding_attention",
        "compressed_sparse_attention",
        "heavily_compressed_attention",
        "compressed_sparse_attention",
    ],
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 6},
    "num_key_value_heads": 1,
    "q_lora_rank": 16,
    "index_head_dim": 8,
    "index_n_heads": 2,
    "o_groups": 2,
    "o_lora_rank": 8,
    "qk_rope_head_dim": 8,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bloom": {},
    "cohere2": {},
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "falcon": {},
    "gemma2": {},
    "gemma3_text": {},
    "gemma4_text": {},
    "gpt2": {},
    "gpt_bigcode": {},
    "gpt_oss": {},
    "llama": {},
    "llama4_text": {},
    "mimo_v2_flash": {},
    "mixtral": {},
    "olmo2": {},
    "olmo3": {},
    "opt": {},
    "phi3": {},
    "qwen2": {},
    "qwen3": {},
    "bamba": {**SPACES, "attn_layer_indices": [1]},
    "falcon_h1": {**SPACES, "mamba_d_ssm": 128},
    "falcon_mamba": {"state_size": 12, "expand": 2},
    "granitemoehybrid": {
        **SPACES,
        "layers_block_type": ["mamba", "attention", "mamba", "mamba"],
    },
    "lfm2": {"full_attn_idxs": [1, 3]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "conv"]},
    "mamba": {"state_size": 12, "expand": 2},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 12, "n_groups": 2, "expand": 2},
    "nemotron_h": {
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 12,
        "n_groups": 2,
        "hybrid_override_pattern": "M*-M",
    },
    "qwen3_5_moe_text": DELTA,
    "qwen3_5_text": DELTA,
    "qwen3_next": DELTA,
    "bailing_hybrid": {
        **LATENT,
        "num_attention_heads": 4,
        "head_dim": 12,
        "layer_types": ALTERNATE[::-1],
    },
    "deepseek_v4": COMPRESSED,
    "glm5_next_text": {
        **KIMI,
        "qk_rope_head_dim": 0,
        "head_dim": 16,
        "index_head_dim": 16,
        "index_n_heads": 2,
        "layer_types": INDEXED,
    },
    "hrm_text": {"H_cycles": 2, "L_cycles": 1},
    "inkling2_loop_text": {**WINDOWED, "num_hidden_layers": 18},
    "inkling2_text": WINDOWED,
    "inkling_text": WINDOWED,
    "jamba": {"mamba_d_state": 12, "attn_layer_period": 2, "attn_layer_offset": 1},
    "jetmoe": {"kv_channels": 24},
    "kimi_linear": {**KIMI, "layer_types": ALTERNATE},
    "lara_mini": DELTA,
    "lfm3": {},
    "longcat_flash": {**LATENT, "num_layers": 2},
    "minimax": {},
    "minimax_m3_vl_text": {
        "index_head_dim": 16,
        "index_n_heads": 2,
        "index_block_size": 4,
        "layer_types": ["full_attention", "minimax_m3_sparse"] * 2,
    },
    "olmo_hybrid": {},
    "qwen4_exp_text": {**DELTA, **INDEXER, **LOOKUP},
    "recurrent_gemma": {"lru_width": 48, "conv1d_width": 3},
    "unlimited_ocr_text": {},
    "zamba": {
        "mamba_d_state": 12,
        "num_key_value_heads": 4,
        "layers_block_type": ALTERNATE_HYBRID,
    },
    "zamba2": {
        "mamba_d_state": 12,
        "num_key_value_heads": 4,
        "layers_block_type": ALTERNATE_HYBRID,
    },
    "zaya": {"num_experts_per_tok": 1, "cca_time0": 3},
}
# Their caches grow: Transformers has no static one for them.
GROWING = {"deepseek_v4", "minimax"}


def tiny_config(model_type: str) -> PreTrainedConfig:
    cls = CONFIG_MAPPING[model_type]
    known = {*cls.__dataclass_fields__, *cls.attribute_map}
    values = {name: value for name, value in TINY.items() if name in known}
    return cls(**{**values, **FAMILIES[model_type]})


# What a config of other sizes meets besides.
REFUSED_BY_CLASS = {"dots3_note_text", "gpt_neo", "mamba2", "prophetnet", "xlnet", "zamba2", "zaya"}
COMPUTED = {
    ("gemma3n_text", "full"): "15 layers share the cache of others, of 7 in all",
    ("gemma3n_text", "bare"): "15 layers share the cache of others, of 7 in all",
}
FLAT_TYPES = [name for name in MODEL_TYPES if not CONFIG_MAPPING[name].sub_configs_defaults]


@pytest.mark.parametrize("form", ["full", "bare"])
@pytest.mark.parametrize("model_type", FLAT_TYPES)
def test_model_config_reads_other_sizes_of_every_family(model_type: str, form: str) -> None:
    cls = CONFIG_MAPPING[model_type]
    known = {*cls.__dataclass_fields__, *cls.attribute_map}
    values = {name: value for name, value in TINY.items() if name in known} | {
        "num_hidden_layers": 7
    }
    if model_type in REFUSED_BY_CLASS:
        with pytest.raises(Exception):  # noqa: B017 - each class has an exception of its own
            cls(**values)
        return
    if (model_type, form) in COMPUTED:
        return
    config = cls(**values)
    config.__dict__["allow_global_per_layer_attribute_access"] = True
    text = (
        json.dumps({"model_type": model_type, **values})
        if form == "bare"
        else config.to_json_string(use_diff=False)
    )
    parsed = ModelConfig.parse(text, model_type)
    expected = {ours: getattr(config, theirs, None) for ours, theirs in FIELDS.items()}
    expected = {name: value for name, value in expected.items() if value is not None}
    assert {name: getattr(parsed, name) for name in expected} == expected
    assert kinds(parsed) == kinds_by_transformers(config)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a cache or a layer of it holds, but for counters of one number."""
    if isinstance(value, torch.Tensor):
        if value.numel() > 1:
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, (Cache, CacheLayerMixin, LinearAttentionCacheLayerMixin)):
        yield from tensors(vars(value))


def allocated(model: PreTrainedModel, cache: Cache) -> int:
    """Sum the bytes of all that a model keeps between two steps; what is shared counts once."""
    held = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors(cache)}
    total = sum(tensor.nbytes for tensor in held.values())
    for module in model.modules():  # recurrent_gemma keeps its states outside the cache
        for name in ("conv1d_state", "recurrent_states"):
            state = vars(module).get(name)
            total += 0 if state is None else state.nbytes
    return total


def tiny_model(config: PreTrainedConfig) -> PreTrainedModel:
    torch.manual_seed(0)
    if config.model_type == "unlimited_ocr_text":  # no automatic class knows it
        return UnlimitedOcrTextModel(config).to(torch.bfloat16).eval()
    known = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    auto = AutoModelForCausalLM if known else AutoModel
    return auto.from_config(config, dtype=torch.bfloat16).eval()


def run(model: PreTrainedModel, length: int, cache: Cache | None) -> Cache:
    tokens = torch.randint(3, 90, (2, length))
    with torch.no_grad():
        out = model(tokens, cache=cache, use_cache=True)
    return out.cache if cache is None else cache


@pytest.mark.parametrize("model_type", sorted(FAMILIES.keys() - GROWING))
def test_kv_bytes_are_what_the_static_cache_allocates(model_type: str) -> None:
    length = 20
    config = tiny_config(model_type)
    model = tiny_model(config)
    # The window of references is what its prompt leaves; positions come token by token.
    prompt = {"unlimited_ocr_text": 16, "qwen4_exp_text": length}.get(model_type, 5)
    cache = run(model, prompt, StaticCache(config=config, max_cache_len=length))
    parsed = ModelConfig.parse(config.to_json_string(), model_type)
    counted = parsed.kv_bytes(2, length, torch.bfloat16.itemsize)
    assert counted.total == allocated(model, cache)
    assert counted.total > 0
    assert counted.uncounted_layers == 0
    assert not any("not counted" in warning for warning in parsed.warnings)


# 20 tokens leave no open block of 4, and 23 the largest of 4 and 5 of 6.
@pytest.mark.parametrize(("model_type", "length"), [("minimax", 20), ("deepseek_v4", 23)])
def test_kv_bytes_are_what_a_growing_cache_holds(model_type: str, length: int) -> None:
    config = tiny_config(model_type)
    model = tiny_model(config)
    parsed = ModelConfig.parse(config.to_json_string(), model_type)
    counted = parsed.kv_bytes(2, length, torch.bfloat16.itemsize)
    assert counted.total == allocated(model, run(model, length, None))
    assert counted.uncounted_layers == 0
    for shorter in range(1, length):  # and never less on the way there
        assert allocated(model, run(model, shorter, None)) <= counted.total


IMAGE_PART = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 48,
    "patch_size": 8,
}
IMAGE_FAMILIES: dict[str, dict[str, Any]] = {
    "idefics3": {"scale_factor": 3},
    "smolvlm": {"scale_factor": 2},
    "paligemma": {"projection_dim": 64},
    "blip-2": {
        "num_query_tokens": 5,
        "text_config": {"model_type": "opt", **TINY, "ffn_dim": 32, "word_embed_proj_dim": 64},
        "qformer_config": {
            **{name: IMAGE_PART[name] for name in ("hidden_size", "intermediate_size")},
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "encoder_hidden_size": 32,
        },
    },
}


@pytest.mark.parametrize("model_type", IMAGE_FAMILIES)
def test_image_tokens_are_the_rows_that_the_model_makes_of_an_image(model_type: str) -> None:
    usual = {"text_config": TINY, "vision_config": IMAGE_PART}
    config = CONFIG_MAPPING[model_type](**{**usual, **IMAGE_FAMILIES[model_type]})
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config).eval()
    size = IMAGE_PART["image_size"]
    with torch.no_grad():
        pixels = torch.rand(1, 3, size, size)
        if model_type in ("idefics3", "smolvlm"):
            pixels = pixels[None]  # a batch of lists of images
        features = model.get_image_features(pixels).pooler_output[0]  # of the only image
    vision = ModelConfig.parse(config.to_json_string(), model_type).vision
    assert vision is not None
    assert vision.image_tokens == features.shape[-2] > 0


def test_image_tokens_are_left_open_where_the_size_of_the_image_decides() -> None:
    vision = ModelConfig.parse(default_config("qwen2_vl").to_json_string()).vision
    assert vision is not None
    assert vision.image_tokens == 0


def test_model_config_parses_what_save_pretrained_writes(tmp_path: Path) -> None:
    default_config("gemma3").save_pretrained(tmp_path)
    config = ModelConfig.open(tmp_path)
    assert config.text_path == "text_config"
    assert config.vision is not None and config.vision.image_tokens == 256
    assert "gemma3" in repr(config)


def test_model_config_raises_with_field_value_and_rule(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"x: num_attention_heads is 0; it must be"):
        ModelConfig.parse('{"model_type": "llama", "num_attention_heads": 0}', "x")
    with pytest.raises(NotFoundError, match=r"config\.json"):
        ModelConfig.open(tmp_path)


@pytest.mark.parametrize("text", ['{"a": Infinity}', '{"a": "Infinity", "b": [NaN, -Infinity]}'])
def test_model_config_takes_the_constants_of_python(text: str) -> None:
    text = '{"model_type": "llama", ' + text[1:]
    assert ModelConfig.parse(text).vocab == json.loads(text).get("vocab_size", 32000)


@pytest.mark.full
def test_config_table_is_that_of_the_installed_library() -> None:
    table = REPOSITORY / "src" / "core" / "config_table.inc"
    assert f"Transformers {transformers.__version__} " in table.read_text()
    command = [sys.executable, str(REPOSITORY / "scripts" / "config_table.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
