"""Unmodified Transformers models on a virtual core against the same models on the CPU, bit for bit.

Equality is attainable, so no tolerance is needed: the same CPU kernels run on the same bytes. A
mixture's experts must run the same way on both sides, because Transformers picks another way for
decoding on accelerators.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import transformers

from tiny_models import FAMILIES, IMAGE_FAMILIES, make_processor, make_tiny_model

pytestmark = pytest.mark.usefixtures("neuron")

DTYPES = [torch.float32, torch.bfloat16]
NEW_TOKENS = 16
PROMPT = torch.arange(12).reshape(1, 12) * 7 % 251


def load(
    directory: Path, dtype: torch.dtype, image: bool
) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Return the same model on the CPU and on neuron:0."""
    auto = transformers.AutoModelForImageTextToText if image else transformers.AutoModelForCausalLM
    host = auto.from_pretrained(directory, dtype=dtype).eval()
    experts = host.get_experts_implementation()
    if "grouped_mm" in experts.values():
        host.set_experts_implementation("batched_mm")
    return host, copy.deepcopy(host).to("neuron")


def move(inputs: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        name: value.to(dtype) if value.is_floating_point() else value
        for name, value in inputs.items()
    }


def inputs_for(family: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    if family not in IMAGE_FAMILIES:
        return {"input_ids": PROMPT, "attention_mask": torch.ones_like(PROMPT)}
    from PIL import Image

    processor = make_processor(family)
    picture = Image.new("RGB", (48, 32), (200, 30, 60))
    content = [{"type": "image", "image": picture}, {"type": "text", "text": "What is this?"}]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    return move(dict(inputs), dtype)


def generate(model: torch.nn.Module, inputs: dict[str, torch.Tensor], cache: str) -> list[int]:
    output = model.generate(
        **{name: value.to(model.device) for name, value in inputs.items()},
        cache_implementation=cache,
        disable_compile=True,
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
    )
    return output[0, inputs["input_ids"].shape[1] :].tolist()


def assert_equal_everywhere(
    host: torch.nn.Module, core: torch.nn.Module, inputs: dict[str, torch.Tensor]
) -> None:
    with torch.no_grad():
        expected = host(**inputs).logits
        got = core(**{name: value.to("neuron") for name, value in inputs.items()}).logits
    assert got.device == torch.device("neuron:0")
    assert torch.equal(got.cpu(), expected)
    for cache in ("dynamic", "static"):
        assert generate(core, inputs, cache) == generate(host, inputs, cache), cache


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: make_tiny_model(family, root / family) for family in FAMILIES}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_family_gives_the_logits_and_tokens_of_the_cpu(
    family: str, dtype: torch.dtype, checkpoints: dict[str, Path]
) -> None:
    host, core = load(checkpoints[family], dtype, family in IMAGE_FAMILIES)
    assert_equal_everywhere(host, core, inputs_for(family, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_smollm2_gives_the_logits_and_tokens_of_the_cpu(
    dtype: torch.dtype, demo_model_dir: Path
) -> None:
    host, core = load(demo_model_dir, dtype, image=False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(demo_model_dir)
    inputs = tokenizer("The lighthouse keeper went up the stairs and", return_tensors="pt")
    assert_equal_everywhere(host, core, dict(inputs))


@pytest.mark.parametrize("experts", ["eager", "batched_mm", "grouped_mm"])
def test_mixture_is_equal_in_prefill_however_its_experts_run(
    experts: str, checkpoints: dict[str, Path]
) -> None:
    host, core = load(checkpoints["mixtral"], torch.float32, image=False)
    for model in (host, core):
        model.set_experts_implementation(experts)
    with torch.no_grad():
        assert torch.equal(core(PROMPT.to("neuron")).logits.cpu(), host(PROMPT).logits)


def test_compiled_static_generation_gives_the_tokens_of_the_cpu(
    checkpoints: dict[str, Path],
) -> None:
    host, core = load(checkpoints["llama"], torch.float32, image=False)
    torch.neuron.reset_dynamo_metrics()
    tokens = core.generate(
        PROMPT.to("neuron"),
        cache_implementation="static",
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
    )
    inputs = {"input_ids": PROMPT, "attention_mask": torch.ones_like(PROMPT)}
    assert tokens[0, PROMPT.shape[1] :].tolist() == generate(host, inputs, "static")
    metrics = torch.neuron.get_dynamo_metrics()
    assert metrics["compiled"] is False
    assert metrics["passed_graphs"] >= 1


def test_wrong_operator_on_the_core_changes_the_tokens(checkpoints: dict[str, Path]) -> None:
    """The comparison can fail: one operator made wrong is enough."""
    host, core = load(checkpoints["llama"], torch.float32, image=False)
    inputs = {"input_ids": PROMPT, "attention_mask": torch.ones_like(PROMPT)}
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("silu", lambda x: torch.relu(x), "PrivateUse1")
        wrong = generate(core, inputs, "static")
    right = generate(host, inputs, "static")
    assert wrong != right
    assert generate(core, inputs, "static") == right
