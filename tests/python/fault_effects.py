"""What a fault does to logits and tokens, measured on the CPU.

`python tests/python/fault_effects.py` prints the table. An error is |got - expected| over the k
largest expected logits of a position, divided by the largest of their sizes there; the largest over
all positions counts. Logits are teacher-forced with the fault-free model's greedy tokens, so that
each position is compared after the same text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from injected_faults import FAULTS, Injection, change_element, make_wide_model
from trained_models import (
    LONG_PROMPTS,
    LONG_TOKENS,
    SHORT_PROMPTS,
    SHORT_TOKENS,
    TRAINED,
    encode,
    generate,
    load_trained,
    teacher_forced_logits,
)

MODELS = (*TRAINED, "wide")
RUNS = ((LONG_PROMPTS[0], LONG_TOKENS), (SHORT_PROMPTS[0], SHORT_TOKENS))
TOPS = (5, 50)
_HALVINGS = 12  # of a factor of 2 ** 40


@dataclass(frozen=True)
class Reference:
    """What the fault-free model says after one prompt."""

    prompt: torch.Tensor
    max_new_tokens: int
    tokens: tuple[int, ...]
    logits: torch.Tensor


@dataclass(frozen=True)
class Effect:
    """Errors over the top 5 and top 50, and the first token that differs in each run."""

    top5: float
    top50: float
    first_differences: tuple[int | None, ...]


def load(name: str, dtype: torch.dtype) -> Any:
    """Return a model of MODELS."""
    return make_wide_model(dtype) if name == "wide" else load_trained(name, dtype)


def references(model: Any) -> list[Reference]:
    """Return the fault-free runs."""
    found = []
    for text, count in RUNS:
        prompt = encode(text)
        tokens = generate(model, prompt, count).tokens
        logits = teacher_forced_logits(model, prompt, tokens)
        found.append(Reference(prompt, count, tokens, logits))
    return found


def top_error(got: torch.Tensor, expected: torch.Tensor, top: int) -> float:
    """Return the error over the `top` largest expected logits; infinite where a logit is NaN."""
    best = expected.topk(top)
    difference = (got.gather(-1, best.indices) - best.values).abs()
    error = (difference / best.values.abs().amax(-1, keepdim=True)).max().item()
    return math.inf if math.isnan(error) else error


def first_difference(got: tuple[int, ...], expected: tuple[int, ...]) -> int | None:
    """Return the first position at which the tokens differ, an end being a difference too."""
    for position in range(max(len(got), len(expected))):
        if got[position : position + 1] != expected[position : position + 1]:
            return position
    return None


def effect(model: Any, inject: Injection, expected: list[Reference]) -> Effect:
    """Return what the fault does to the runs."""
    errors: dict[int, list[float]] = {top: [] for top in TOPS}
    differences = []
    with inject(model):
        for reference in expected:
            got = teacher_forced_logits(model, reference.prompt, reference.tokens)
            for top in TOPS:
                errors[top].append(top_error(got, reference.logits, top))
            tokens = generate(model, reference.prompt, reference.max_new_tokens).tokens
            differences.append(first_difference(tokens, reference.tokens))
    return Effect(*(max(errors[top]) for top in TOPS), tuple(differences))


def noise_floor(model: Any, expected: list[Reference]) -> tuple[float, float]:
    """Return the errors of a right but different computation: all tokens in one forward pass."""
    errors: dict[int, list[float]] = {top: [] for top in TOPS}
    for reference in expected:
        forced = torch.tensor([reference.tokens[:-1]], dtype=torch.long)
        with torch.no_grad():
            logits = model(torch.cat((reference.prompt, forced), 1)).logits
        got = logits[0, reference.prompt.shape[1] - 1 :].float()
        for top in TOPS:
            errors[top].append(top_error(got, reference.logits, top))
    return max(errors[5]), max(errors[50])


def smallest_visible_change(model: Any, expected: list[Reference]) -> float:
    """Return the relative change of a mid-size element that lifts the top-5 error over the noise.

    Found by bisection to a factor of 1.01, between 2 ** -20 and 2 ** 20.
    """
    floor = noise_floor(model, expected)[0]

    def visible(exponent: float) -> bool:
        with change_element(2.0**exponent)(model):
            return any(
                top_error(
                    teacher_forced_logits(model, reference.prompt, reference.tokens),
                    reference.logits,
                    5,
                )
                > floor
                for reference in expected
            )

    low, high = -20.0, 20.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if visible(middle) else (middle, high)
    return 2.0**high


def print_table(say: Callable[[str], None]) -> None:
    """Print a row for each model, type and fault."""
    say(f"{'model':<11}{'type':<10}{'fault':<22}{'top 5':>9}{'top 50':>9}  first differing tokens")
    for name in MODELS:
        for dtype in (torch.float32, torch.bfloat16):
            model = load(name, dtype)
            expected = references(model)
            head = f"{name:<11}{str(dtype).removeprefix('torch.'):<10}"
            floor = noise_floor(model, expected)
            say(f"{head}{'(none: noise floor)':<22}{floor[0]:>9.1e}{floor[1]:>9.1e}")
            smallest = smallest_visible_change(model, expected)
            say(f"{head}(smallest visible relative change of one element: {smallest:.2g})")
            for fault in FAULTS:
                found = effect(model, FAULTS[fault].inject, expected)
                where = " ".join("-" if at is None else str(at) for at in found.first_differences)
                say(f"{head}{fault:<22}{found.top5:>9.1e}{found.top50:>9.1e}  {where}")


if __name__ == "__main__":
    print_table(print)
