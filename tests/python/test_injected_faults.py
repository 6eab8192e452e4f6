"""Every fault changes the models it is meant for, and is gone afterwards."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from fault_effects import (
    MODELS,
    Reference,
    effect,
    first_difference,
    load,
    noise_floor,
    references,
    smallest_visible_change,
    top_error,
)
from injected_faults import FAULTS, change_element, ignore_eos
from trained_models import TRAINED, encode, load_trained

ONLY_TOKENS = {"eos_ignored"}  # faults of generation, which teacher forcing cannot see
SHOWN = [(fault, name) for fault in FAULTS for name in MODELS if name in FAULTS[fault].shows_on]
NO_EFFECT = {  # the parts they need are missing
    ("window_short", "tiny_moe"),
    ("window_short", "wide"),
    ("expert_all_reduce", "tiny_dense"),
    ("expert_all_reduce", "wide"),
}


@cache
def reference(name: str, dtype: torch.dtype) -> tuple[Any, list[Reference], tuple[float, float]]:
    model = load(name, dtype)
    expected = references(model)
    return model, expected, noise_floor(model, expected)


@pytest.mark.parametrize(("fault", "name"), SHOWN)
def test_fault_changes_the_model_it_is_meant_for(fault: str, name: str) -> None:
    model, expected, floor = reference(name, torch.float32)
    found = effect(model, FAULTS[fault].inject, expected)
    if fault in ONLY_TOKENS:
        assert found.top50 == 0
        assert any(at is not None for at in found.first_differences)
    elif fault == "padded_vocabulary":
        assert any(at is not None for at in found.first_differences)
    else:
        assert found.top5 > 10 * floor[0]
        assert found.top50 > 10 * floor[1]


@pytest.mark.parametrize(("fault", "name"), sorted(NO_EFFECT))
def test_fault_of_a_part_that_is_missing_changes_nothing(fault: str, name: str) -> None:
    model, expected, _ = reference(name, torch.float32)
    found = effect(model, FAULTS[fault].inject, expected)
    assert found.top50 == 0
    assert set(found.first_differences) == {None}
    assert name not in FAULTS[fault].shows_on


@pytest.mark.parametrize("name", TRAINED)
def test_model_is_as_it_was_after_every_fault(name: str) -> None:
    model, expected, _ = reference(name, torch.float32)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for fault in FAULTS.values():
        with fault.inject(model):
            pass
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], before[key]) for key in before)
    found = effect(model, lambda _: torch.no_grad(), expected)
    assert found.top50 == 0
    assert set(found.first_differences) == {None}


@pytest.mark.parametrize("name", TRAINED)
def test_padded_vocabulary_makes_a_token_that_no_text_has(name: str) -> None:
    model, expected, _ = reference(name, torch.float32)
    first = expected[0]
    with FAULTS["padded_vocabulary"].inject(model), torch.no_grad():
        tokens = model.generate(first.prompt, do_sample=False, max_new_tokens=first.max_new_tokens)
    assert tokens.max() >= model.config.vocab_size


@pytest.mark.parametrize("name", TRAINED)
def test_nan_reaches_the_logits(name: str) -> None:
    model, expected, _ = reference(name, torch.float32)
    with FAULTS["nan"].inject(model), torch.no_grad():
        assert model(expected[0].prompt).logits[0, -1].isnan().all()


@pytest.mark.parametrize("name", TRAINED)
def test_smallest_visible_change_is_seen_and_an_eighth_of_it_is_not(name: str) -> None:
    model, expected, floor = reference(name, torch.float32)
    smallest = smallest_visible_change(model, expected)
    assert 2.0**-20 < smallest < 2.0**20
    assert effect(model, change_element(2 * smallest), expected).top5 > floor[0]
    assert effect(model, change_element(smallest / 8), expected).top5 <= floor[0]


@pytest.mark.usefixtures("neuron")
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_fault_does_to_the_core_what_it_does_to_the_cpu(fault: str) -> None:
    host, core = load_trained("tiny_dense"), load_trained("tiny_dense", device="neuron")
    prompt = encode("Mira the baker lived in Tolm. She took the red bread")
    outputs = []
    for model in (host, core):
        with FAULTS[fault].inject(model), torch.no_grad():
            outputs.append(
                model.generate(
                    prompt.to(model.device),
                    do_sample=False,
                    max_new_tokens=20,
                    output_logits=True,
                    return_dict_in_generate=True,
                )
            )
    expected, got = outputs
    assert torch.equal(got.sequences.cpu(), expected.sequences)
    assert torch.equal(
        torch.cat(got.logits).cpu().nan_to_num(), torch.cat(expected.logits).nan_to_num()
    )


def test_top_error_is_scaled_by_the_largest_of_the_top() -> None:
    expected = torch.tensor([[8.0, -4.0, 2.0, 1.0]])
    got = torch.tensor([[8.0, -4.0, 1.0, 5.0]])
    assert top_error(got, expected, 1) == 0
    assert top_error(got, expected, 2) == 0.125
    assert top_error(got, expected, 3) == 0.5
    assert top_error(got * torch.nan, expected, 1) == float("inf")


def test_first_difference_counts_an_end_as_a_token() -> None:
    assert first_difference((1, 2), (1, 2)) is None
    assert first_difference((1, 3), (1, 2)) == 1
    assert first_difference((1, 2, 3), (1, 2)) == 2


def test_ignored_eos_is_known_again_after_an_error() -> None:
    model = load_trained("tiny_dense")
    eos = model.generation_config.eos_token_id
    with pytest.raises(KeyError, match="stop"), ignore_eos(model):
        raise KeyError("stop")
    assert model.generation_config.eos_token_id == eos
