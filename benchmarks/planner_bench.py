"""How many plans a second, beside the usual way to ask: building the model on the meta device.

Models are those of tests/data/known_models.json with their full sizes; headers are made for them,
no weights exist. Both ways are asked for the same number first: the bytes of the weights in
bfloat16 on one core. The record goes to --out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trnscout import (
    Checkpoint,
    ModelConfig,
    ParallelPlan,
    PlanOptions,
    ShardHeader,
    find_topology,
    plan_checkpoint,
)
from trnscout.planner import _count_parameters, _parallel_plan

KNOWN = Path(__file__).resolve().parents[1] / "tests" / "data" / "known_models.json"
OPTIONS = PlanOptions(topology=find_topology("trn2"))


def header_of(parameters: list[tuple[str, str, list[int]]]) -> ShardHeader:
    """Return the header that a single file with these tensors would have."""
    entries: dict[str, Any] = {}
    offset = 0
    for name, dtype, shape in parameters:
        end = offset + 2 * math.prod(shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries).encode()
    data = len(text).to_bytes(8, "little") + text
    return ShardHeader("model.safetensors", len(data) + offset, data)


def weights_of(config: ModelConfig, plan: ParallelPlan, checkpoint: Checkpoint) -> int:
    """Return the planner's answer: bytes of all weights on one core of any size."""
    found = plan_checkpoint(config, plan, checkpoint, OPTIONS)
    sizes = found.bytes_per_core.categories
    return sizes["sharded_weights"].bytes + sizes["replicated_weights"].bytes


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=Path("planner_bench.json"))
    arguments = parser.parse_args()

    models = []
    meta_s = []
    for name, known in json.loads(KNOWN.read_text()).items():
        if known["config"].get("quantization_config"):
            continue  # the meta device has no quantised tensors to make headers of
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "config.json"
            path.write_text(json.dumps(known["config"]))
            _count_parameters(path)  # imports and caches
            start = time.perf_counter()
            parameters = _count_parameters(path)
            meta_s.append(time.perf_counter() - start)
            config = ModelConfig.open(directory)
        checkpoint = Checkpoint.from_headers([header_of(parameters)])
        assert sum(math.prod(shape) for _, _, shape in parameters) == known["parameters"], name
        assert checkpoint.total_bytes == 2 * known["parameters"], name
        models.append((config, _parallel_plan(config), checkpoint))

    def plan_some(count: int) -> None:
        for i in range(count):
            weights_of(*models[i % len(models)])

    threads = os.cpu_count() or 1
    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(plan_some, [arguments.plans // threads] * threads))
    planned_s = time.perf_counter() - start
    start = time.perf_counter()
    plan_some(len(models))
    single_s = (time.perf_counter() - start) / len(models)
    mean_meta_s = sum(meta_s) / len(meta_s)
    record = {
        "plans": arguments.plans,
        "threads": threads,
        "total_s": planned_s,
        "plans_per_s": arguments.plans / planned_s,
        "one_plan_s": single_s,
        "one_meta_device_build_s": mean_meta_s,
        "ratio": mean_meta_s / single_s,
        "models": len(models),
    }
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
