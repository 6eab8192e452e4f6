"""Plans a second, beside the usual way to ask: `accelerate estimate-memory`.

Models are those of tests/data/known_models.json with their full sizes; headers are made for them,
no weights exist. Both ways are asked for the same number first: the bytes of all weights in
bfloat16. Without accelerate the peer is what it does, a build on the meta device. The record goes
to --out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
import transformers

from trnscout import (
    Checkpoint,
    ModelConfig,
    ParallelPlan,
    PlannedModel,
    PlanOptions,
    ShardHeader,
    find_topology,
)
from trnscout.planner import _count_parameters, _parallel_plan

try:
    from accelerate import init_empty_weights
    from accelerate.utils import calculate_maximum_sizes
except ModuleNotFoundError:
    PEER = "a build on the meta device"
else:
    PEER = "accelerate's init_empty_weights and calculate_maximum_sizes"

KNOWN = Path(__file__).resolve().parents[1] / "tests" / "data" / "known_models.json"


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


def questions(count: int) -> list[PlanOptions]:
    """Return questions that a person who chooses hardware would ask, all different."""
    random = Random(0)
    return [
        PlanOptions(
            topology=find_topology(random.choice(["inf2", "trn1", "trn2", "trn3"])),
            dtype=random.choice(["bfloat16", "float32"]),
            batch=random.choice([1, 1, 4, 16]),
            max_length=random.randint(1, 32_768),
            max_cores=random.choice([8, 16, 32, 64]),
            what_if=random.choice([[], [], ["replicate-kv"], ["pad-vocab"]]),
        )
        for _ in range(count)
    ]


def weights_of(model: PlannedModel) -> int:
    """Return the planner's answer: bytes of all weights on one core of any size."""
    trn2 = find_topology("trn2")
    endless = PlanOptions(topology=trn2.replace(core_memory_bytes=1 << 50))
    sizes = model.plan(endless).bytes_per_core.categories
    return sizes["sharded_weights"].bytes + sizes["replicated_weights"].bytes


def peer_weights_of(config_file: Path) -> int:
    """Return the peer's answer."""
    if PEER.startswith("a build"):
        return 2 * sum(math.prod(shape) for _, _, shape in _count_parameters(config_file))
    config = transformers.AutoConfig.from_pretrained(config_file.parent)
    images = transformers.AutoModelForImageTextToText
    auto = images if type(config) in images._model_mapping else transformers.AutoModelForCausalLM
    with init_empty_weights():
        model = auto.from_config(config, dtype=torch.bfloat16)
    model.tie_weights()
    total, _ = calculate_maximum_sizes(model)
    return int(total)


def seconds_of(work: Callable[[], Any], times: int) -> float:
    """Return the least of some runs of `work`."""
    best = math.inf
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


@dataclass
class Subject:
    """One model, with what both ways took for it."""

    config: ModelConfig
    parallel: ParallelPlan
    checkpoint: Checkpoint
    prepare_s: float
    peer_s: float

    def prepare(self) -> PlannedModel:
        """Return the model ready to be asked."""
        return PlannedModel(self.config, self.parallel, self.checkpoint)


def subject_of(name: str, known: dict[str, Any]) -> Subject:
    """Ask both ways once, compare, and time each."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "config.json"
        path.write_text(json.dumps(known["config"]))
        parameters = _count_parameters(path)
        peer_bytes = peer_weights_of(path)  # imports and caches, too
        peer_s = seconds_of(lambda: peer_weights_of(path), 3)
        config = ModelConfig.open(directory)
    checkpoint = Checkpoint.from_headers([header_of(parameters)])
    parallel = _parallel_plan(config)
    subject = Subject(config, parallel, checkpoint, 0.0, peer_s)
    subject.prepare_s = seconds_of(subject.prepare, 20)
    ours = weights_of(subject.prepare())
    assert ours == 2 * known["parameters"], name
    # accelerate leaves buffers in, a few kilobytes of rotary frequencies.
    assert 0 <= peer_bytes - ours <= 1e-4 * ours, (name, peer_bytes, ours)
    return subject


def main() -> None:
    """Measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=Path("planner_bench.json"))
    arguments = parser.parse_args()

    subjects = [
        subject_of(name, known)
        for name, known in json.loads(KNOWN.read_text()).items()
        # Quantised tensors have no build without memory to make headers of.
        if not known["config"].get("quantization_config")
    ]
    asked = questions(1000)
    threads = os.cpu_count() or 1

    def plan_some(first: int) -> int:
        models = [subject.prepare() for subject in subjects]
        fits = 0
        for i in range(first, arguments.plans, threads):
            fits += models[i % len(models)].plan(asked[i // len(models) % len(asked)]).fits
        return fits

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        fits = sum(pool.map(plan_some, range(threads)))
    total_s = time.perf_counter() - start
    models = [subject.prepare() for subject in subjects]
    rounds = [(model, options) for options in asked[:100] for model in models]
    for model, options in rounds:
        model.plan(options)  # weighs each dtype once
    plan_s = seconds_of(lambda: [m.plan(o) for m, o in rounds], 3) / len(rounds)
    prepare_s = sum(subject.prepare_s for subject in subjects) / len(subjects)
    peer_s = sum(subject.peer_s for subject in subjects) / len(subjects)
    record = {
        "models": len(subjects),
        "plans": arguments.plans,
        "fits": fits,
        "threads": threads,
        "total_s": total_s,
        "plans_per_s": arguments.plans / total_s,
        "peer": PEER,
        "peer_s": peer_s,
        "plan_s": plan_s,
        "prepare_s": prepare_s,
        "ratio_of_a_plan": peer_s / plan_s,
        "ratio_of_the_first_plan": peer_s / (prepare_s + plan_s),
    }
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
