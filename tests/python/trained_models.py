"""The trained pair in tests/data, as plain Transformers loads it, and prompts of known effect.

`tiny_dense` (Qwen3: 4 layers, sliding and full attention in turn, tied embedding) and `tiny_moe`
(Mixtral: 3 layers, 8 experts of which 2 run, not tied) have 8 heads over 4 kv heads and speak the
language of tiny_language.py. scripts/train_tiny_pair.py made them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

DATA = Path(__file__).resolve().parent.parent / "data"
TRAINED = ("tiny_dense", "tiny_moe")
SLIDING_WINDOW = 16  # of tiny_dense's layers 0 and 2
EVALUATION_SEED = 1  # of documents; the models were trained on those of seed 0

# Journeys of five to eight days: more than 64 new tokens, beyond the sliding window many times.
LONG_PROMPTS = (
    "Mira the baker lived in Tolm. She took the red bread and went away for six days.",
    "Hanno the sailor lived in Karsk. He took the green rope and went away for eight days.",
    "Vera the farmer lived in Eastwick. She took the yellow lamp and went away for five days.",
    "Rurik the smith lived in Ashby. He took the black hammer and went away for seven days.",
)
# EOS comes before 32 new tokens.
SHORT_PROMPTS = (
    "Note: the blue",
    "Note: the white cloth is at",
    "Then Edwin came home to Pell with the grey",
)
LONG_TOKENS = 64
SHORT_TOKENS = 32


@dataclass(frozen=True)
class Generation:
    """Greedy tokens after a prompt and the distance between the best two logits of each."""

    tokens: tuple[int, ...]
    margins: tuple[float, ...]

    def near_ties(self, below: float) -> tuple[int, ...]:
        """Return the positions at which the second token is less than `below` behind."""
        return tuple(i for i, margin in enumerate(self.margins) if margin < below)


def load_trained(
    name: str, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> transformers.PreTrainedModel:
    """Return a model of the pair. The caller may change it; each call loads it anew.

    Transformers picks another way to run experts for decoding on accelerators; one way is set for
    all devices, so that their bits can be compared.
    """
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(DATA / name, dtype=dtype).eval()
    if "grouped_mm" in model.get_experts_implementation().values():
        model.set_experts_implementation("batched_mm")
    return model.to(device)


@cache
def load_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Return the tokenizer; both models have the same one."""
    return transformers.AutoTokenizer.from_pretrained(DATA / TRAINED[0])


def encode(text: str) -> torch.Tensor:
    """Return the ids of `text`, [1, tokens], with BOS before them."""
    return load_tokenizer()(text, return_tensors="pt").input_ids


def generate(
    model: transformers.PreTrainedModel,
    prompt: torch.Tensor,
    max_new_tokens: int,
    cache: str = "dynamic",
) -> Generation:
    """Generate greedily from ids [1, tokens] until EOS or `max_new_tokens`."""
    prompt = prompt.to(model.device)
    with torch.no_grad():
        output = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            cache_implementation=cache,
            disable_compile=True,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            output_logits=True,
            return_dict_in_generate=True,
        )
    best = torch.cat(output.logits).float().cpu().topk(2).values
    tokens = output.sequences[0, prompt.shape[1] :].tolist()
    return Generation(tuple(tokens), tuple((best[:, 0] - best[:, 1]).tolist()))


def teacher_forced_logits(
    model: transformers.PreTrainedModel, prompt: torch.Tensor, forced: Sequence[int]
) -> torch.Tensor:
    """Return the logits [len(forced), vocab] before each forced token, one decode step a token.

    The prompt goes in at once, as in generation, so that the cache and its positions are used.
    """
    found = []
    step = prompt.to(model.device)
    past = None
    with torch.no_grad():
        for token in forced:
            output = model(step, cache=past, use_cache=True, logits_to_keep=1)
            found.append(output.logits[0, -1])
            past = output.cache
            step = torch.tensor([[token]], device=model.device)
    return torch.stack(found).float().cpu()
