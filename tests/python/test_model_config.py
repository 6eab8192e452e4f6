"""ModelConfig against Transformers' own config classes and static caches."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedConfig, StaticCache
from transformers.cache_utils import get_layer_types_and_kwargs
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

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
    """Say what Transformers would: the type of each layer's cache, and its window."""
    return [
        ("dummy" if cache.kind == "none" else cache.layer_type, cache.window_tokens)
        for cache in config.layer_caches
    ]


def kinds_by_transformers(text: PreTrainedConfig) -> list[tuple[str, int]]:
    types, arguments = get_layer_types_and_kwargs(text)
    windows = [argument.get("sliding_window") or 0 for argument in arguments]
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
}


def tiny_config(model_type: str) -> PreTrainedConfig:
    cls = CONFIG_MAPPING[model_type]
    known = {*cls.__dataclass_fields__, *cls.attribute_map}
    values = {name: value for name, value in TINY.items() if name in known}
    return cls(**{**values, **FAMILIES[model_type]})


# What a config of other sizes meets besides.
REFUSED_BY_CLASS = {"dots3_note_text", "gpt_neo", "mamba2", "prophetnet", "xlnet", "zamba2", "zaya"}
COMPUTED = {
    ("hrm_text", "bare"): "num_hidden_layers is multiplied by the count of cycles",
    ("jetmoe", "bare"): "num_attention_heads follows from experts and KV heads",
    ("longcat_flash", "bare"): "num_hidden_layers is twice num_layers, whatever it says",
    ("longcat_flash", "full"): "to_json_string writes the class's num_hidden_layers",
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


def allocated(cache: StaticCache) -> tuple[int, int]:
    """Sum the bytes of keys and values, and of states, that the cache holds."""
    attention = states = 0
    for layer in cache.layers:
        for name in ("keys", "values"):
            tensor = getattr(layer, name, None)
            attention += 0 if tensor is None else tensor.nbytes
        for name in ("conv_states", "recurrent_states"):
            held = getattr(layer, name, None) or []
            for tensor in held.values() if isinstance(held, dict) else held:
                states += 0 if tensor is None else tensor.nbytes
    return attention, states


@pytest.mark.parametrize("model_type", FAMILIES)
def test_kv_bytes_are_what_the_static_cache_allocates(model_type: str) -> None:
    batch, length = 2, 20
    config = tiny_config(model_type)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    cache = StaticCache(config=config, max_cache_len=length)
    tokens = torch.randint(3, 90, (batch, 5))
    with torch.no_grad():
        model(tokens, cache=cache, use_cache=True)
    parsed = ModelConfig.parse(config.to_json_string(), model_type)
    counted = parsed.kv_bytes(batch, length, torch.bfloat16.itemsize)
    assert (counted.attention_bytes, counted.state_bytes) == allocated(cache)
    assert counted.total > 0
    assert counted.uncounted_layers == 0


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
    script = REPOSITORY / "scripts" / "config_table.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
