"""Long runs of the fuzz targets that `scripts/setup.sh --tests` builds with ASan and UBSan."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.full
REPOSITORY = Path(__file__).resolve().parents[2]
BUILT = REPOSITORY / "build" / "asan-ubsan" / "tests" / "fuzz"
# Inputs, so that a run is the same on every machine; a few minutes each on a slow one. The quick
# runs of ctest have another seed.
INPUTS = {
    "gguf_header_fuzz": 200_000,
    "model_config_fuzz": 50_000,
    "name_pattern_fuzz": 200_000,
    "parameter_load_fuzz": 50_000,
    "safetensors_header_fuzz": 100_000,
}


def test_fuzz_runs_every_target() -> None:
    targets = {path.stem for path in (REPOSITORY / "tests" / "fuzz").glob("*_fuzz.cc")}
    assert targets == set(INPUTS)


@pytest.mark.parametrize("target", INPUTS)
def test_fuzz_breaks_no_promise(target: str) -> None:
    process = subprocess.run(
        [BUILT / target, f"--inputs={INPUTS[target]}", "--seed=2", f"--failures={BUILT}/failures"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=3600,
    )
    assert process.returncode == 0, process.stderr
    counts = re.search(r": (\d+) accepted, (\d+) refused", process.stdout)
    assert counts is not None, process.stdout
    assert int(counts[1]) + int(counts[2]) == INPUTS[target]


@pytest.mark.parametrize("target", INPUTS)
def test_fuzz_runs_an_input_again(target: str, tmp_path: Path) -> None:
    """A kept input can be replayed alone, which is how a failure is looked into."""
    path = tmp_path / "input"
    path.write_bytes(b"llama\nlm_head.weight|BF16|8,8")
    process = subprocess.run([BUILT / target, path], capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith(f"{path}: ")
