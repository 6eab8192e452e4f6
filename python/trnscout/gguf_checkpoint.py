"""Turns a GGUF file of the Llama family into the checkpoint that Transformers and we read.

Transformers can read the weights itself, but `from_pretrained(gguf_file=...)` insists on package
accelerate for it; its config and its tokenizer come without. So the weights are unpacked here,
with package gguf.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

from .errors import InvalidArgumentError


def convert_gguf(gguf_path: Path, directory: Path) -> None:
    """Writes weights in bfloat16, config, generation config and tokenizer into `directory`.

    The same file gives the same bytes each time.

    Errors: InvalidArgumentError - the file is of another family, or a weight is missing from it.
    """
    where = {"pretrained_model_name_or_path": gguf_path.parent, "gguf_file": gguf_path.name}
    config = transformers.AutoConfig.from_pretrained(**where)
    if config.model_type != "llama":
        raise InvalidArgumentError(
            f"{gguf_path.name} holds a model of type {config.model_type}; only llama is converted"
        )
    # The name of the training run, of no use to a reader of config.json.
    vars(config).pop("_model_name_or_path", None)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict(_weights(gguf_path, model), strict=False, assign=True)
    model.tie_weights()
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    )
    with _without_progress_bars():
        model.save_pretrained(directory)
    # safetensors makes its file readable to the owner alone; the rest follow the umask.
    shutil.copymode(directory / "config.json", directory / "model.safetensors")
    transformers.AutoTokenizer.from_pretrained(**where).save_pretrained(directory)


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _weights(gguf_path: Path, model: transformers.PreTrainedModel) -> dict[str, torch.Tensor]:
    """Every weight of `model` under its Transformers name, in bfloat16."""
    config = model.config
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(gguf_path).tensors}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    weights = {}
    for name in model.state_dict():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        tensor = stored.get(names.get_name(name, try_suffixes=(".weight",)) or "")
        if tensor is None:
            raise InvalidArgumentError(f"{gguf_path.name} holds no tensor for {name}")
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        projection = name.split(".")[-2]
        if projection in heads:
            values = _split_rotary_halves(values, heads[projection])
        weights[name] = torch.from_numpy(np.array(values)).to(torch.bfloat16)
    return weights


def _split_rotary_halves(values: np.ndarray, heads: int) -> np.ndarray:
    """Puts each head's rows back into Transformers' order.

    llama.cpp keeps the two rows of a rotated pair side by side, Transformers keeps them half a
    head apart.

    Source: ggml-org/llama.cpp: convert_hf_to_gguf.py (permute), run backwards.
    """
    pairs = values.reshape(heads, -1, 2, values.shape[-1])
    return pairs.swapaxes(1, 2).reshape(values.shape)
