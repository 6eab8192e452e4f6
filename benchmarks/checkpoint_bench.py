"""A 1 TB sharded checkpoint, made of sparse files, opened from its headers.

Each side runs in a process of its own and is asked for the same: every file opened, every tensor
known by name. The answers must agree; the ratio is of times measured in one run.

    python benchmarks/checkpoint_bench.py --out record.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SHARDS = 200
TENSORS_A_SHARD = 500
TENSOR_SHAPE = [1250, 4000]  # of BF16: 10 MB, so 5 GB a shard
MOST_SECONDS = 1.0
MOST_BYTES = 200_000_000


def file_name(shard: int, shards: int) -> str:
    return f"model-{shard + 1:05}-of-{shards:05}.safetensors"


def write_checkpoint(directory: Path, shards: int) -> dict[str, int]:
    """Write headers; the data behind them are holes. Return what a reader must find."""
    tensor_bytes = TENSOR_SHAPE[0] * TENSOR_SHAPE[1] * 2
    weight_map = {}
    for shard in range(shards):
        header = {}
        for i in range(TENSORS_A_SHARD):
            name = f"model.layers.{shard}.mlp.experts.{i}.down_proj.weight"
            offsets = [i * tensor_bytes, (i + 1) * tensor_bytes]
            header[name] = {"dtype": "BF16", "shape": TENSOR_SHAPE, "data_offsets": offsets}
            weight_map[name] = file_name(shard, shards)
        text = json.dumps(header).encode()
        path = directory / file_name(shard, shards)
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        os.truncate(path, 8 + len(text) + TENSORS_A_SHARD * tensor_bytes)
    tensors = shards * TENSORS_A_SHARD
    total_bytes = tensors * tensor_bytes
    index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return {"tensors": tensors, "total_bytes": total_bytes}


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB


def open_with_trnscout(directory: Path) -> dict[str, Any]:
    from trnscout import Checkpoint

    started = time.perf_counter()
    checkpoint = Checkpoint.open(directory)
    seconds = time.perf_counter() - started
    peak = peak_bytes()
    if checkpoint.warnings:
        raise SystemExit(f"unexpected warnings: {checkpoint.warnings}")
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "tensors": len(checkpoint.tensors),
        "total_bytes": checkpoint.total_bytes,
    }


def open_with_safetensors(directory: Path) -> dict[str, Any]:
    import numpy as np  # noqa: F401 - safe_open imports it; that is not what is measured
    from safetensors import safe_open

    paths = sorted(directory.glob("*.safetensors"))
    started = time.perf_counter()
    files = [safe_open(path, framework="numpy") for path in paths]
    names = [file.keys() for file in files]
    seconds = time.perf_counter() - started
    peak = peak_bytes()
    total_bytes = 0
    for file, held in zip(files, names, strict=True):
        for name in held:
            part = file.get_slice(name)
            if part.get_dtype() != "BF16":
                raise SystemExit(f"{name} has dtype {part.get_dtype()}")
            rows, columns = part.get_shape()
            total_bytes += rows * columns * 2
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "tensors": sum(map(len, names)),
        "total_bytes": total_bytes,
    }


SIDES = {"trnscout": open_with_trnscout, "safetensors": open_with_safetensors}


def measure(side: str, directory: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--side", side, "--directory", str(directory)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def run(shards: int, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        expected = write_checkpoint(directory, shards)
        rounds: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for _ in range(repeats):  # in turn, so that a busy machine hits both
            for side, measured in rounds.items():
                measured.append(measure(side, directory))
    best = {}
    for side, measured in rounds.items():
        for one in measured:
            found = {key: one[key] for key in expected}
            if found != expected:
                raise SystemExit(f"{side} found {found} where {expected} was written")
        best[side] = {
            "seconds": min(one["seconds"] for one in measured),
            "peak_bytes": max(one["peak_bytes"] for one in measured),
        }
    ours, theirs = best["trnscout"], best["safetensors"]
    return {
        "benchmark": "checkpoint_bench",
        "shards": shards,
        **expected,
        "repeats": repeats,
        **best,
        "safetensors_seconds_over_ours": theirs["seconds"] / ours["seconds"],
        "within_limits": ours["seconds"] <= MOST_SECONDS and ours["peak_bytes"] <= MOST_BYTES,
        "limits": {"seconds": MOST_SECONDS, "peak_bytes": MOST_BYTES},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the record goes; else it is printed")
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(SIDES[options.side](options.directory)))
        return
    record = json.dumps(run(options.shards, options.repeats), indent=2) + "\n"
    if options.out:
        options.out.write_text(record)
    else:
        print(record, end="")


if __name__ == "__main__":
    main()
