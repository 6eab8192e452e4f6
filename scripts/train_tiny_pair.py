"""Trains the pair of tiny models in tests/data: one dense, one mixture of experts.

`python scripts/train_tiny_pair.py tests/data` writes tiny_dense/ and tiny_moe/, each in a few
minutes on one core. The text is the little language of tests/python/tiny_language.py. Another
machine rounds otherwise and ends with other weights, so the weights are checked in.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))

from tiny_language import documents

TRAINING_SEED = 0  # of the text; tests take others
VOCAB = 512
SPECIALS = ("<pad>", "<bos>", "<eos>")
PAD, BOS, EOS = range(3)
SLIDING_WINDOW = 16  # shorter than two sentences

TOKENIZER_DOCUMENTS = 4000
BATCH = 8
POOL = 16 * BATCH  # documents sorted by length at a time, so that a batch has little padding
LEARNING_RATE = 3e-3
WARM_UP = 50
STEPS = {"tiny_dense": 1200, "tiny_moe": 1500}

_SHARED = {
    "vocab_size": VOCAB,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}


def configs() -> dict[str, transformers.PreTrainedConfig]:
    """Return the config of each model by the name of its directory."""
    return {
        "tiny_dense": transformers.Qwen3Config(
            **_SHARED,
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=4,
            tie_word_embeddings=True,
            use_sliding_window=True,
            sliding_window=SLIDING_WINDOW,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
        "tiny_moe": transformers.MixtralConfig(
            **_SHARED,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=3,
            num_local_experts=8,
            num_experts_per_tok=2,
            router_aux_loss_coef=0.01,
            tie_word_embeddings=False,
        ),
    }


def make_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Train a byte-level BPE of 512 tokens on the language; every text has ids, none is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    text = itertools.islice(documents(TRAINING_SEED), TOKENIZER_DOCUMENTS)
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", BOS)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )


def batches(
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (tokens, attention mask) without end; every document ends with EOS, then padding."""
    text = documents(TRAINING_SEED)
    generator = torch.Generator().manual_seed(TRAINING_SEED)
    while True:
        pool = [[*tokenizer(next(text)).input_ids, EOS] for _ in range(POOL)]
        pool.sort(key=len)
        for index in torch.randperm(POOL // BATCH, generator=generator).tolist():
            rows = [torch.tensor(ids) for ids in pool[index * BATCH : (index + 1) * BATCH]]
            lengths = torch.tensor([len(row) for row in rows])
            tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
            yield tokens, torch.arange(tokens.shape[1]) < lengths[:, None]


def train(
    model: transformers.PreTrainedModel,
    tokenizer: transformers.PreTrainedTokenizerFast,
    steps: int,
) -> list[float]:
    """Train in place with AdamW, warm-up and cosine decay; return the loss of every step."""
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, (0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / WARM_UP, 0.5 * (1 + math.cos(math.pi * step / steps))),
    )
    router = {"output_router_logits": True} if model.config.model_type == "mixtral" else {}
    model.set_experts_implementation("eager")  # the quickest on a CPU, measured
    losses: list[float] = []
    begin = time.monotonic()
    model.train()
    for tokens, mask in itertools.islice(batches(tokenizer), steps):
        labels = tokens.masked_fill(~mask, -100)
        loss = model(tokens, attention_mask=mask, labels=labels, use_cache=False, **router).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(loss.item())
        if len(losses) % 100 == 0:
            seconds = time.monotonic() - begin
            mean = sum(losses[-100:]) / 100
            print(f"step {len(losses)}: loss {mean:.3f}, {seconds:.0f} s", flush=True)
    return losses


def make_model(name: str, steps: int, directory: Path) -> list[float]:
    """Train the model `name` and save it in bfloat16 with its tokenizer; return the losses."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    model = transformers.AutoModelForCausalLM.from_config(configs()[name], dtype=torch.float32)
    losses = train(model, tokenizer, steps)
    model.to(torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return losses


def main() -> None:
    """Train what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the models' directories are written")
    parser.add_argument("--model", action="append", choices=sorted(STEPS), help="default: both")
    parser.add_argument("--steps", type=int, help="instead of the usual number")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.model or STEPS:
        print(name, flush=True)
        make_model(name, arguments.steps or STEPS[name], arguments.directory / name)


if __name__ == "__main__":
    main()
