"""Faults to put into a loaded Transformers model, one at a time, on any device.

`with FAULTS["positions_late"].inject(model): ...` makes the model wrong inside the block and leaves
it as it was, bit for bit. Hooks and edited parameters do it; no library file changes. The models
are decoders as Llama, Qwen3 and Mixtral build them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers

ACCUMULATED_COLUMNS = 128  # rows of a systolic array, after which partial sums are added up
PADDED_ROWS = 64

Model = Any  # transformers.PreTrainedModel, whose parts have no static types
Injection = Callable[[Model], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """One way to be wrong, and the models whose logits or tokens it is meant to change."""

    says: str
    inject: Injection
    shows_on: frozenset[str]


def make_wide_model(dtype: torch.dtype) -> Model:
    """Return one random layer of hidden 2048, wide enough for long sums, in a narrow vocabulary."""
    config = transformers.LlamaConfig(
        vocab_size=512,
        hidden_size=2048,
        intermediate_size=2048,
        num_hidden_layers=1,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def middle_layer(model: Model) -> Any:
    """Return the layer in the middle; half of the model is left to carry the fault on."""
    layers = model.model.layers
    return layers[len(layers) // 2]


@contextmanager
def edited(
    parameter: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """Keep `change` of the parameter in it for the block."""
    saved = parameter.detach().cpu().clone()
    with torch.no_grad():
        parameter.copy_(change(saved.clone()))
        try:
            yield
        finally:
            parameter.copy_(saved)


@contextmanager
def hooked(*handles: torch.utils.hooks.RemovableHandle) -> Iterator[None]:
    """Remove the hooks at the end of the block."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def median_index(weight: torch.Tensor) -> int:
    """Return the flat index of the element whose size is the median."""
    sizes = weight.detach().cpu().float().abs().flatten()
    return int(sizes.argsort(stable=True)[sizes.numel() // 2])


def change_element(relative: float) -> Injection:
    """Return the fault that adds `relative` times itself to a mid-size element of an o_proj."""

    def inject(model: Model) -> AbstractContextManager[None]:
        def change(weight: torch.Tensor) -> torch.Tensor:
            weight.view(-1)[median_index(weight)] *= 1 + relative
            return weight

        return edited(middle_layer(model).self_attn.o_proj.weight, change)

    return inject


@contextmanager
def swap_keys_and_values(model: Model) -> Iterator[None]:
    """Exchange k_proj and v_proj, as a loader that mixes up two names of one shape would."""
    attention = middle_layer(model).self_attn
    key, value = attention.k_proj.weight, attention.v_proj.weight
    old_key, old_value = key.detach().clone(), value.detach().clone()
    with edited(key, lambda _: old_value), edited(value, lambda _: old_key):
        yield


def shift_positions(model: Model) -> AbstractContextManager[None]:
    """Rotate each decoded token as if it stood one later; the cache's slots stay right."""

    def shift(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        hidden, positions = args[0], kwargs["position_ids"] if len(args) < 2 else args[1]
        late = positions + 1 if positions.shape[-1] == 1 else positions
        return (hidden, late), {}

    rotary = model.model.rotary_emb
    return hooked(rotary.register_forward_pre_hook(shift, with_kwargs=True))


@contextmanager
def shorten_window(model: Model) -> Iterator[None]:
    """Take one token from the sliding window, in masks and in caches made inside the block."""
    window = getattr(model.config, "sliding_window", None)
    if window is None:
        yield
        return
    model.config.sliding_window = window - 1
    try:
        yield
    finally:
        model.config.sliding_window = window


class LateCache:
    """Hands a layer's keys and values on one decode step later than they came; zeros come first."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._cache: Any = None

    def around(self, cache: Any) -> LateCache:
        """Return self, which now writes into `cache`."""
        self._cache = cache
        return self

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write what waited; a prompt is written at once and nothing waits after it."""
        late = keys, values
        if keys.shape[-2] == 1:
            zeros = torch.zeros_like(keys), torch.zeros_like(values)
            late = self._waiting.get(layer, zeros)
            self._waiting[layer] = keys, values
        else:
            self._waiting.pop(layer, None)
        return self._cache.update(*late, layer, **kwargs)


def write_cache_late(model: Model) -> AbstractContextManager[None]:
    """Write each decoded token's keys and values one slot late."""
    late = LateCache()

    def wrap(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if kwargs.get("cache") is None:
            return args, kwargs
        return args, {**kwargs, "cache": late.around(kwargs["cache"])}

    return hooked(
        *(
            layer.self_attn.register_forward_pre_hook(wrap, with_kwargs=True)
            for layer in model.model.layers
        )
    )


def _drop_second_half(weight: torch.Tensor) -> torch.Tensor:
    weight[..., weight.shape[-1] // 2 :] = 0
    return weight


def _down(layer: Any) -> torch.Tensor:
    return (
        layer.mlp.experts.down_proj if hasattr(layer.mlp, "experts") else layer.mlp.down_proj.weight
    )


def drop_attention_all_reduce(model: Model) -> AbstractContextManager[None]:
    """Leave rank 0 of two with its own part of o_proj's sum.

    Columns of zeros are the other rank's part left out. Later sums are whole, as if every rank had
    made the same mistake.
    """
    return edited(middle_layer(model).self_attn.o_proj.weight, _drop_second_half)


def drop_mlp_all_reduce(model: Model) -> AbstractContextManager[None]:
    """Leave rank 0 of two with its own part of down_proj's sum, in every expert there is."""
    return edited(_down(middle_layer(model)), _drop_second_half)


@contextmanager
def drop_expert_rank(model: Model) -> Iterator[None]:
    """Leave out the sum over expert-parallel ranks: the second half of the experts adds nothing."""

    def drop(weight: torch.Tensor) -> torch.Tensor:
        weight[weight.shape[0] // 2 :] = 0
        return weight

    layer = middle_layer(model)
    if not hasattr(layer.mlp, "experts"):
        yield
        return
    with edited(layer.mlp.experts.down_proj, drop):
        yield


def permute_rows(model: Model) -> AbstractContextManager[None]:
    """Move up_proj's rows on by one, but neither gate_proj's nor down_proj's columns."""
    mlp = middle_layer(model).mlp
    if not hasattr(mlp, "experts"):
        return edited(mlp.up_proj.weight, lambda weight: weight.roll(1, 0))

    def permute(weight: torch.Tensor) -> torch.Tensor:
        gate, up = weight.chunk(2, dim=1)  # [experts, gate rows then up rows, hidden]
        return torch.cat((gate, up.roll(1, 1)), dim=1)

    return edited(mlp.experts.gate_up_proj, permute)


def accumulate_in_bfloat16(model: Model) -> AbstractContextManager[None]:
    """Round every partial sum of ACCUMULATED_COLUMNS products to bfloat16, in all linear layers."""

    def accumulate(linear: Any, args: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        inputs = args[0].float().split(ACCUMULATED_COLUMNS, -1)
        weights = linear.weight.float().split(ACCUMULATED_COLUMNS, -1)
        total = torch.zeros_like(output, dtype=torch.bfloat16)
        for columns, weight in zip(inputs, weights, strict=True):
            total += (columns @ weight.T).bfloat16()
        return total.to(output.dtype)

    linears = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    return hooked(*(linear.register_forward_hook(accumulate) for linear in linears))


@contextmanager
def pad_vocabulary(model: Model) -> Iterator[None]:
    """Pad the vocabulary with rows that hold old memory instead of zeros.

    They are rows from the middle of the table, a little longer, so that a padded id wins where one
    of them should. config.vocab_size stays.
    """
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tables = {id(module.weight): module.weight for module in (embedding, head)}
    begin = model.config.vocab_size // 2
    padded = {
        key: torch.nn.Parameter(
            torch.cat((weight, 1.25 * weight[begin : begin + PADDED_ROWS])).detach(),
            requires_grad=False,
        )
        for key, weight in tables.items()
    }
    old = embedding.weight, head.weight
    embedding.weight, head.weight = (padded[id(weight)] for weight in old)
    try:
        yield
    finally:
        embedding.weight, head.weight = old


@contextmanager
def ignore_eos(model: Model) -> Iterator[None]:
    """Let generation know of no end-of-sequence token."""
    eos = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = None
    try:
        yield
    finally:
        model.generation_config.eos_token_id = eos


def put_nan(model: Model) -> AbstractContextManager[None]:
    """Make one feature of the middle layer's last token NaN."""

    def poison(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        output = output.clone()
        output[:, -1, 0] = float("nan")
        return output

    return hooked(middle_layer(model).register_forward_hook(poison))


_PAIR = frozenset({"tiny_dense", "tiny_moe"})
FAULTS: dict[str, Fault] = {
    "weight_element": Fault("one element of o_proj is 65 times itself", change_element(64), _PAIR),
    "keys_values_swapped": Fault(
        "k_proj and v_proj of a layer swapped", swap_keys_and_values, _PAIR
    ),
    "positions_late": Fault("decode positions one late against the cache", shift_positions, _PAIR),
    "window_short": Fault(
        "sliding window one token short", shorten_window, frozenset({"tiny_dense"})
    ),
    "cache_late": Fault("decoded keys and values one slot late", write_cache_late, _PAIR),
    "attention_all_reduce": Fault(
        "all-reduce after o_proj left out", drop_attention_all_reduce, _PAIR
    ),
    "mlp_all_reduce": Fault("all-reduce after down_proj left out", drop_mlp_all_reduce, _PAIR),
    "expert_all_reduce": Fault(
        "all-reduce over expert ranks left out", drop_expert_rank, frozenset({"tiny_moe"})
    ),
    "rows_permuted": Fault("rows of up_proj moved, gate and down not", permute_rows, _PAIR),
    "bfloat16_sums": Fault(
        "partial sums of 128 rounded to bfloat16", accumulate_in_bfloat16, frozenset({"wide"})
    ),
    "padded_vocabulary": Fault("padded vocabulary rows win", pad_vocabulary, _PAIR),
    "eos_ignored": Fault("generation goes on after EOS", ignore_eos, _PAIR),
    "nan": Fault("a NaN after one layer", put_nan, _PAIR),
}
