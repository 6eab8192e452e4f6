"""Tiny checkpoints of real model families, with random weights, for the tests.

Hidden 64, 4 heads over 2 kv heads, 2 to 6 layers, float32, seed 0: small enough to load in a
blink, and every family still runs its own code in Transformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIALS = [
    "<bos>",
    "<eos>",
    "<pad>",
    "<fake_token_around_image>",
    "<global-img>",
    "<image>",
    "<end_of_utterance>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
TOKEN_ID = {token: index for index, token in enumerate(BYTES + SPECIALS)}
VOCAB = 288  # 256 bytes and the specials, with a few rows that no token uses
SLIDING_WINDOW = 8  # shorter than any prompt the tests use, so that the window really slides

_TEXT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
_IMAGE_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ 'IMAGE' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)

_SPECIAL_IDS: dict[str, Any] = {
    "bos_token_id": TOKEN_ID["<bos>"],
    "eos_token_id": TOKEN_ID["<eos>"],
    "pad_token_id": TOKEN_ID["<pad>"],
}
# Wider than the usual 0.02, so that the greedy tokens vary instead of repeating one of them.
_WIDE: dict[str, Any] = {"initializer_range": 0.2}
_DECODER: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    **_SPECIAL_IDS,
    **_WIDE,
}


def _idefics3() -> transformers.PreTrainedConfig:
    return transformers.Idefics3Config(
        text_config={"model_type": "llama", **_DECODER},
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 32,
            "patch_size": 8,
        },
        scale_factor=2,
        image_token_id=TOKEN_ID["<image>"],
        pad_token_id=TOKEN_ID["<pad>"],
    )


def _qwen2_vl() -> transformers.PreTrainedConfig:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    return transformers.Qwen2VLConfig(
        text_config={**_DECODER, "rope_parameters": rope},
        vision_config={
            "depth": 2,
            "embed_dim": 64,
            "hidden_size": 64,
            "num_heads": 4,
            "mlp_ratio": 2,
            "patch_size": 8,
        },
        image_token_id=TOKEN_ID["<|image_pad|>"],
        video_token_id=TOKEN_ID["<|video_pad|>"],
        vision_start_token_id=TOKEN_ID["<|vision_start|>"],
        vision_end_token_id=TOKEN_ID["<|vision_end|>"],
    )


FAMILIES: dict[str, Callable[[], transformers.PreTrainedConfig]] = {
    "llama": lambda: transformers.LlamaConfig(**_DECODER),
    "qwen3": lambda: transformers.Qwen3Config(**_DECODER, head_dim=16),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **{**_DECODER, "num_hidden_layers": 6},  # five layers with the window, then one without
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=SLIDING_WINDOW,
        tie_word_embeddings=False,  # tied random weights repeat the last token for ever
    ),
    "mixtral": lambda: transformers.MixtralConfig(
        **_DECODER, num_local_experts=4, num_experts_per_tok=2
    ),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **_DECODER,
        head_dim=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=SLIDING_WINDOW,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 150000.0,
            "factor": 32.0,
            "original_max_position_embeddings": 16,
            "truncate": False,
        },
    ),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=64, n_layer=2, n_head=4, n_positions=512, **_SPECIAL_IDS, **_WIDE
    ),
    "phi3": lambda: transformers.Phi3Config(**_DECODER),
    "olmo2": lambda: transformers.Olmo2Config(**_DECODER),
    "mamba": lambda: transformers.MambaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        state_size=8,
        num_hidden_layers=2,
        tie_word_embeddings=False,
        **_SPECIAL_IDS,
    ),
    "idefics3": _idefics3,
    "qwen2_vl": _qwen2_vl,
}
IMAGE_FAMILIES = frozenset({"idefics3", "qwen2_vl"})


def make_tiny_model(family: str, directory: Path, *, with_tokenizer: bool = False) -> Path:
    """Writes a tiny checkpoint of `family` into `directory` and returns the directory.

    `with_tokenizer` adds a byte-level tokenizer with a chat template and, for the image families,
    the processor. The same call always writes the same weights.
    """
    config = FAMILIES[family]()
    auto: Any = (
        transformers.AutoModelForImageTextToText
        if family in IMAGE_FAMILIES
        else transformers.AutoModelForCausalLM
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = auto.from_config(config, dtype=torch.float32)
    model.generation_config = transformers.GenerationConfig(**_SPECIAL_IDS)
    model.save_pretrained(directory)
    if with_tokenizer:
        part = make_processor(family) if family in IMAGE_FAMILIES else _tokenizer(_TEXT_TEMPLATE)
        part.save_pretrained(directory)
    if family == "qwen2_vl" and with_tokenizer:
        # As in the real checkpoints; because of it AutoProcessor asks for torchvision.
        video = {"video_processor_type": "Qwen2VLVideoProcessor", "patch_size": 8}
        path = directory / "video_preprocessor_config.json"
        path.write_text(json.dumps(video), encoding="utf-8")
    return directory


def _tokenizer(chat_template: str | None) -> transformers.PreTrainedTokenizerFast:
    """One token a byte, so that any text has ids below 256; no merges to train."""
    vocab = {token: TOKEN_ID[token] for token in BYTES}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        chat_template=chat_template,
    )


def make_processor(family: str) -> transformers.ProcessorMixin:
    """The family's own processor over the small tokenizer, with 32 by 32 pixel pictures."""
    if family == "idefics3":
        from transformers.models.idefics3.image_processing_pil_idefics3 import (
            Idefics3ImageProcessorPil,
        )

        return transformers.Idefics3Processor(
            Idefics3ImageProcessorPil(
                size={"longest_edge": 32},
                max_image_size={"longest_edge": 32},
                do_image_splitting=False,
            ),
            _tokenizer(None),
            image_seq_len=4,  # (32 / 8) ** 2 patches over scale_factor ** 2
            chat_template=_IMAGE_TEMPLATE.replace("IMAGE", "<image>"),
        )
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    # Its video part cannot be made without torchvision, and pictures do not need it.
    base = transformers.Qwen2VLProcessor
    attributes = [name for name in base.get_attributes() if name != "video_processor"]
    members = {"get_attributes": classmethod(lambda cls: attributes)}
    return type(base.__name__, (base,), members)(
        Qwen2VLImageProcessorPil(min_pixels=32 * 32, max_pixels=32 * 32, patch_size=8),
        _tokenizer(None),
        chat_template=_IMAGE_TEMPLATE.replace(
            "IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"
        ),
    )
