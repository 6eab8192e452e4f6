"""The trained pair speaks its language, stops, needs its cache, and is on a core as on the CPU."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch
import transformers

from tiny_language import NUMBERS, documents, is_sentence, split_sentences
from trained_models import (
    DATA,
    EVALUATION_SEED,
    LONG_PROMPTS,
    LONG_TOKENS,
    SHORT_PROMPTS,
    SHORT_TOKENS,
    SLIDING_WINDOW,
    TRAINED,
    encode,
    generate,
    load_tokenizer,
    load_trained,
    teacher_forced_logits,
)

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train_tiny_pair.py"
DTYPES = [torch.float32, torch.bfloat16]
MOST_BYTES = 1_500_000  # of one checkpoint in the repository
WHOLE_JOURNEY = 320  # more tokens than the longest document has
BFLOAT16_NOISE = 0.05  # of the largest logit; five times what bfloat16 changes here
EVALUATED = 100  # documents
COUNTED = 4000  # documents behind the baselines


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_tiny_pair", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=TRAINED)
def model(request: pytest.FixtureRequest) -> transformers.PreTrainedModel:
    return load_trained(request.param)


def ids(text: str) -> list[int]:
    eos = load_tokenizer().eos_token_id
    return [*load_tokenizer()(text).input_ids, eos]


def documents_after(seed: int, count: int) -> list[list[int]]:
    return [ids(text) for text in islice(documents(seed), count)]


def cross_entropy(model: transformers.PreTrainedModel, texts: list[list[int]]) -> float:
    """Return nats a token."""
    total, count = 0.0, 0
    with torch.no_grad():
        for tokens in texts:
            row = torch.tensor([tokens])
            loss = model(row, labels=row).loss.item()
            total += loss * (len(tokens) - 1)
            count += len(tokens) - 1
    return total / count


def baselines(texts: list[list[int]]) -> tuple[float, float]:
    """Return nats a token of unigrams and bigrams counted in the training text, plus one each."""
    vocab = len(load_tokenizer())
    counted = documents_after(0, COUNTED)
    single = Counter(token for tokens in counted for token in tokens)
    double = Counter(pair for tokens in counted for pair in pairwise(tokens))
    unigram = bigram = 0.0
    count = 0
    for tokens in texts:
        for before, token in pairwise(tokens):
            unigram -= math.log((single[token] + 1) / (single.total() + vocab))
            bigram -= math.log((double[before, token] + 1) / (single[before] + vocab))
            count += 1
    return unigram / count, bigram / count


@pytest.mark.parametrize("name", TRAINED)
def test_checkpoint_is_small_and_is_what_the_script_configures(
    name: str, script: ModuleType
) -> None:
    assert sum(path.stat().st_size for path in (DATA / name).iterdir()) < MOST_BYTES
    config = transformers.AutoConfig.from_pretrained(DATA / name)
    made = script.configs()[name]
    kept = ("layer_types", "sliding_window", "num_key_value_heads", "tie_word_embeddings")
    for field in ("model_type", "hidden_size", "vocab_size", "eos_token_id", *kept):
        assert getattr(config, field, None) == getattr(made, field, None), field
    text = (DATA / name / "tokenizer.json").read_text()
    assert text == script.make_tokenizer().backend_tokenizer.to_str(pretty=True)


def test_cross_entropy_is_below_bigrams_and_far_below_unigrams(
    model: transformers.PreTrainedModel,
) -> None:
    texts = documents_after(EVALUATION_SEED, EVALUATED)
    unigram, bigram = baselines(texts)
    assert cross_entropy(model, texts) < 0.5 * bigram < 0.25 * unigram


def test_generated_journeys_are_sentences_of_the_language_and_end(
    model: transformers.PreTrainedModel,
) -> None:
    for prompt in LONG_PROMPTS:
        tokens = generate(model, encode(prompt), WHOLE_JOURNEY).tokens
        assert len(tokens) > LONG_TOKENS > SLIDING_WINDOW
        assert tokens[-1] == load_tokenizer().eos_token_id
        text = prompt + load_tokenizer().decode(tokens[:-1])
        wrong = [part for part in split_sentences(text) if not is_sentence(part)]
        assert not wrong, text
        name, announced = prompt.split()[0], prompt.split()[-2]
        assert f" Then {name} came home" in text  # what the prompt said, over a hundred tokens ago
        assert text.count(" day ") == NUMBERS.index(announced) + 1


@pytest.mark.parametrize("prompt", SHORT_PROMPTS)
def test_short_generation_stops_by_eos(model: transformers.PreTrainedModel, prompt: str) -> None:
    tokens = generate(model, encode(prompt), SHORT_TOKENS).tokens
    assert tokens.index(load_tokenizer().eos_token_id) == len(tokens) - 1
    assert len(tokens) < SHORT_TOKENS
    assert is_sentence(prompt + load_tokenizer().decode(tokens[:-1]))


@pytest.mark.parametrize("harm", ["shuffled", "dropped"])
def test_decode_step_depends_on_the_cached_keys(
    model: transformers.PreTrainedModel, harm: str
) -> None:
    prompt = encode(LONG_PROMPTS[0])
    token = torch.tensor([[generate(model, prompt, 1).tokens[0]]])
    with torch.no_grad():
        right, harmed = (model(prompt, use_cache=True).cache for _ in range(2))
        for layer in harmed.layers:
            order = torch.randperm(layer.keys.shape[-2], generator=torch.Generator().manual_seed(0))
            layer.keys = (
                layer.keys[:, :, order] if harm == "shuffled" else torch.zeros_like(layer.keys)
            )
        expected = model(token, cache=right).logits
        got = model(token, cache=harmed).logits
    assert (got - expected).abs().max() > BFLOAT16_NOISE * expected.abs().max()


@pytest.mark.parametrize("name", TRAINED)
def test_bfloat16_noise_is_a_fifth_of_what_tests_take_it_for(name: str) -> None:
    prompt = encode(LONG_PROMPTS[0])
    exact, rounded = (load_trained(name, dtype) for dtype in DTYPES)
    tokens = generate(exact, prompt, LONG_TOKENS).tokens
    expected = teacher_forced_logits(exact, prompt, tokens)
    got = teacher_forced_logits(rounded, prompt, tokens)
    assert (got - expected).abs().max() < BFLOAT16_NOISE / 5 * expected.abs().max()


@pytest.mark.parametrize("name", TRAINED)
def test_near_ties_are_where_bfloat16_may_differ_and_nowhere_else(name: str) -> None:
    """Up to the first near tie the types agree; after another token the texts part."""
    exact, rounded = (load_trained(name, dtype) for dtype in DTYPES)
    for text in (*LONG_PROMPTS, *SHORT_PROMPTS):
        expected = generate(exact, encode(text), LONG_TOKENS)
        got = generate(rounded, encode(text), LONG_TOKENS)
        ties = expected.near_ties(below=0.5)
        sure = ties[0] if ties else len(expected.tokens)
        assert got.tokens[:sure] == expected.tokens[:sure], text


@pytest.mark.usefixtures("neuron")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", TRAINED)
def test_core_gives_the_tokens_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    host, core = load_trained(name, dtype), load_trained(name, dtype, "neuron")
    for text, count in ((LONG_PROMPTS[1], LONG_TOKENS), (SHORT_PROMPTS[0], SHORT_TOKENS)):
        for cache in ("dynamic", "static"):
            expected = generate(host, encode(text), count, cache)
            assert generate(core, encode(text), count, cache) == expected, (text, cache)


@pytest.mark.parametrize("name", TRAINED)
def test_twenty_training_steps_lower_the_loss_and_write_a_checkpoint(
    name: str, script: ModuleType, tmp_path: Path
) -> None:
    losses = script.make_model(name, 20, tmp_path)
    assert sum(losses[-5:]) < 0.95 * sum(losses[:5])  # still warming up
    made = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert made.dtype == torch.bfloat16
    assert cross_entropy(made.float(), documents_after(EVALUATION_SEED, 2)) < losses[0]


def test_every_expert_is_used() -> None:
    model = load_trained("tiny_moe")
    rows = [torch.tensor([tokens]) for tokens in documents_after(EVALUATION_SEED, 20)]
    used = [Counter[int]() for _ in model.model.layers]
    with torch.no_grad():
        for row in rows:
            for layer, logits in enumerate(model(row, output_router_logits=True).router_logits):
                used[layer].update(logits.topk(2).indices.flatten().tolist())
    for counts in used:
        assert set(counts) == set(range(model.config.num_local_experts))
