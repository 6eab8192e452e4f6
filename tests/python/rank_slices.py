"""The planner's own slices of a model, and numpy weights that are cut by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from trnscout import (
    Degrees,
    ModelConfig,
    ParameterShard,
    PlannedModel,
    PlanOptions,
    RankParameter,
    ShardPlan,
    find_parallel_plan,
    find_topology,
    rank_parameters,
)

KNOWN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "known_models.json").read_text()
)
TRN2 = find_topology("trn2")
Parameters = list[tuple[str, str, list[int]]]


def write_config(directory: Path, config: dict[str, Any]) -> Path:
    path = directory / "config.json"
    path.write_text(json.dumps(config))
    return path


def llama(heads: int, kv_heads: int, **more: Any) -> dict[str, Any]:
    """Return the config of a Llama with heads of 2 and few layers."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 2 * heads,
        "intermediate_size": 4 * heads,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": 64,
        "tie_word_embeddings": False,
        **more,
    }


def parameters_of(config: dict[str, Any]) -> Parameters:
    """Return what Transformers builds of a config, on the meta device."""
    with torch.device("meta"):
        kind = transformers.AutoConfig.for_model(**config)
        model = transformers.AutoModelForCausalLM.from_config(kind)
    return [(name, "BF16", list(value.shape)) for name, value in model.named_parameters()]


class Ranks:
    """The slices of every rank of one division."""

    def __init__(
        self,
        config: dict[str, Any],
        tp_degree: int,
        what_if: list[str],
        parameters: Parameters | None = None,
    ) -> None:
        self.config = ModelConfig.parse(json.dumps(config), "config.json")
        self.parallel = find_parallel_plan(config["architectures"][0])
        self.options = PlanOptions(
            topology=TRN2.replace(tp_degrees=[tp_degree]), what_if=what_if, max_length=128
        )
        self.parameters = parameters if parameters is not None else parameters_of(config)
        self.tp_degree = tp_degree

    def of(self, rank: int) -> dict[str, RankParameter]:
        degrees = Degrees(self.tp_degree, self.tp_degree, 1)
        held = rank_parameters(
            self.config, self.parallel, self.parameters, self.options, degrees, rank
        )
        return {parameter.name: parameter for parameter in held}

    def shards(self, name: str) -> list[ParameterShard]:
        return [self.of(rank)[name].shard for rank in range(self.tp_degree)]

    def rows(self, name: str) -> list[list[int]]:
        """Return the rows of the parameter that each rank holds, without padding."""
        return [
            [row for begin, end in shard.dimensions[0] for row in range(begin, end)]
            for shard in self.shards(name)
        ]

    def plan(self) -> ShardPlan:
        return PlannedModel(self.config, self.parallel, self.parameters).plan(self.options)


def cut(weight: np.ndarray, shard: ParameterShard) -> np.ndarray:
    """Return what a rank holds of `weight`, its rows of zeros included."""
    indices = [
        np.concatenate([np.arange(0), *(np.arange(*r) for r in ranges)]).astype(int)
        for ranges in shard.dimensions
    ]
    held = weight[np.ix_(*indices)]
    padding = np.zeros((shard.padding_rows, *held.shape[1:]))
    return np.concatenate([held, padding])
