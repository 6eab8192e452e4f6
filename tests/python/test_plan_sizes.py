"""Sizes of inputs from public bug reports: tied heads, parameters, units and caches.

Names or ids carry the case (C059).
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.core_model_loading import revert_weight_conversion

from rank_slices import KNOWN, TRN2, Parameters, Ranks, llama, write_config
from trnscout import ModelConfig, plan

GIB = 2**30


# ---- C015: tied output heads -------------------------------------------------------------------

EMBEDDING = ("model.embed_tokens.weight", "BF16", [64, 8])
HEAD = ("lm_head.weight", "BF16", [64, 8])
ONE = 64 * 8 * 2


def tied(flags: dict[str, Any], parameters: Parameters) -> tuple[int, list[str]]:
    ranks = Ranks(llama(4, 4, **flags), 1, [], parameters)
    found = ranks.plan()
    held = sum(parameter.bytes for parameter in ranks.of(0).values())
    assert held == found.bytes_per_core.categories["replicated_weights"].bytes
    return held, found.notes


def test_tied_head_that_is_absent_is_the_embedding() -> None:
    """C015 (a)."""
    assert tied({"tie_word_embeddings": True}, [EMBEDDING]) == (ONE, [])


def test_tied_head_that_is_there_twice_is_counted_once() -> None:
    """C015 (b) and (c): headers have no values, so the note says what holds in either case."""
    size, notes = tied({"tie_word_embeddings": True}, [EMBEDDING, HEAD])
    assert size == ONE
    assert len(notes) == 1
    assert "the config ties lm_head.weight to model.embed_tokens.weight" in notes[0]
    assert "counted once" in notes[0] and "a core holds up to 1.00 KiB more" in notes[0]


def test_tied_head_of_another_shape_is_another_weight() -> None:
    """C015 (c), where headers can tell."""
    other = ("lm_head.weight", "BF16", [32, 8])
    size, notes = tied({"tie_word_embeddings": True}, [EMBEDDING, other])
    assert size == ONE + ONE // 2
    assert "in different shapes: they are counted as two" in notes[0]


def test_untied_head_that_is_absent_is_counted_with_a_warning() -> None:
    """C015 (d): Transformers makes the head and fills it with random numbers."""
    size, notes = tied({"tie_word_embeddings": False}, [EMBEDDING])
    assert size == 2 * ONE
    assert len(notes) == 1
    assert notes[0].startswith("warning: the checkpoint has no lm_head.weight")
    assert "random numbers" in notes[0]


def test_untied_head_that_is_there_is_counted() -> None:
    assert tied({"tie_word_embeddings": False}, [EMBEDDING, HEAD]) == (2 * ONE, [])


@pytest.mark.parametrize(("flag", "weights"), [(True, 1), (False, 2)])
def test_tie_of_a_nested_config_alone_is_honoured(flag: bool, weights: int) -> None:
    """C015 (e)."""
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 64,
        "tie_word_embeddings": flag,
    }
    config = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": text,
    }
    embedding = ("model.language_model.embed_tokens.weight", "BF16", [64, 8])
    found = Ranks(config, 1, [], [embedding, HEAD]).plan()
    assert found.bytes_per_core.categories["replicated_weights"].bytes == weights * ONE


# ---- C059, C060, C062: sizes -------------------------------------------------------------------

C059 = {
    "Llama-3.1-8B": (8_030_261_248, 14.96),
    "Llama-3.3-70B": (70_553_706_496, 131.42),  # the shapes of Llama-3.1-70B
    "Qwen2.5-7B": (7_615_616_512, 14.19),
    "Qwen2.5-14B": (14_770_033_664, 27.51),
    "Qwen3-32B": (32_762_123_264, 61.02),
    "Mixtral-8x7B": (46_702_792_704, 86.99),
}


def write_headers(directory: Path, config: dict[str, Any]) -> int:
    """Write the checkpoint that Transformers would, all holes but its header; return its tensors'
    elements."""
    with torch.device("meta"):
        kind = transformers.AutoConfig.for_model(**config)
        model = transformers.AutoModelForCausalLM.from_config(kind, dtype=torch.bfloat16)
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in revert_weight_conversion(model, dict(model.state_dict())).items():
        begin, end = end, end + 2 * tensor.numel()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with (directory / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return end // 2


@pytest.mark.parametrize("name", [pytest.param(name, id=f"C059-{name}") for name in C059])
def test_parameters_of_a_known_model_from_config_and_from_headers(
    name: str, tmp_path: Path
) -> None:
    """Headers and config.json count alike, and as published."""
    parameters, gib = C059[name]
    assert KNOWN[name]["parameters"] == parameters
    path = write_config(tmp_path, KNOWN[name]["config"])
    assert write_headers(tmp_path, KNOWN[name]["config"]) == parameters
    from_config, from_headers = plan(str(path)), plan(str(tmp_path))
    assert from_headers.bytes_per_core == from_config.bytes_per_core
    assert from_headers.cores == from_config.cores == KNOWN[name]["cores"]
    whole = plan(str(tmp_path), topology=TRN2.replace(core_memory_bytes=2**40))
    assert whole.cores == 1
    assert whole.bytes_per_core["replicated_weights"] == 2 * parameters
    assert round(2 * parameters / GIB, 2) == gib


def test_gib_and_gb_are_not_the_same(tmp_path: Path) -> None:
    """C060: Mixtral on 4 cores fits 24 GiB with a reserve of 1 GiB, and does not fit 24 GB."""
    path = str(write_config(tmp_path, KNOWN["Mixtral-8x7B"]["config"]))
    found = plan(path, max_cores=4)
    assert found.verdict == "FITS" and found.core_limit_bytes == 25_769_803_776
    weights = found.bytes_per_core["sharded_weights"] + found.bytes_per_core["replicated_weights"]
    assert weights / GIB == pytest.approx(21.75, abs=0.01)
    assert weights + GIB < 24 * GIB
    assert weights + GIB > 24_000_000_000
    reserve = 24_000_000_000 - GIB
    less = plan(path, max_cores=4, topology=TRN2.replace(core_memory_bytes=reserve))
    assert less.verdict == "LEFT_OUT" and less.core_limit_bytes == reserve
    assert "of 21.35 GiB" in less.reason  # the unit stands beside every number
    assert found.tight and "a tight fit" in found.reason


def test_a_plan_that_fills_the_core_is_called_tight(tmp_path: Path) -> None:
    """C060."""
    path = str(write_config(tmp_path, KNOWN["Llama-3.1-8B"]["config"]))
    total = plan(path).bytes_per_core["total"]
    full = plan(path, topology=TRN2.replace(core_memory_bytes=round(total / 0.999)))
    assert (full.verdict, full.cores, full.tight) == ("FITS", 1, True)
    assert plan(path, topology=TRN2.replace(core_memory_bytes=2 * total)).tight is False


@pytest.mark.parametrize(
    ("layers", "kv_heads", "head_dim", "expected"),
    [
        pytest.param(32, 8, 128, 131_072, id="C062-Llama-3.1-8B"),
        pytest.param(80, 8, 128, 327_680, id="C062-Llama-3.1-70B"),
        pytest.param(36, 8, 128, 147_456, id="C062-Qwen3-4B"),
        pytest.param(32, None, 128, 4 * 131_072, id="C062-without-kv-heads"),
    ],
)
def test_cache_takes_the_bytes_of_the_formula(
    layers: int, kv_heads: int | None, head_dim: int, expected: int
) -> None:
    """Layers x KV heads x head_dim x keys and values x 2 bytes; without a count, all heads."""
    config = llama(32, kv_heads or 32, num_hidden_layers=layers, head_dim=head_dim)
    if kv_heads is None:
        del config["num_key_value_heads"]
    parsed = ModelConfig.parse(json.dumps(config), "config.json")
    assert parsed.kv_bytes_per_token(2) == expected
    assert parsed.kv_bytes(1, 1024, 2).total == 1024 * expected


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "Llama-3.3-70B"])
def test_cache_of_a_plan_takes_the_bytes_of_the_formula(name: str, tmp_path: Path) -> None:
    """C062: 1,024 tokens of the 8B take 0.125 GiB."""
    found = plan(str(write_config(tmp_path, KNOWN[name]["config"])), max_length=1024)
    expected = {"Llama-3.1-8B": GIB // 8, "Llama-3.3-70B": 1024 * 327_680}[name]
    assert found.bytes_per_core["kv_cache"] * found.cores == expected
