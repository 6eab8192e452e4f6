"""Every family through the whole of `trnscout check`, with Transformers' default compilation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_models import FAMILIES, make_tiny_model

pytestmark = pytest.mark.full
REPOSITORY = Path(__file__).resolve().parents[2]


def check(model: Path, *arguments: str) -> dict[str, object]:
    process = subprocess.run(
        [sys.executable, "-m", "trnscout", "check", str(model), "--json", "-", *arguments],
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    record: dict[str, object] = json.loads(process.stdout)
    return record


@pytest.mark.parametrize("family", FAMILIES)
def test_family_has_no_blocker(family: str, tmp_path: Path) -> None:
    model = make_tiny_model(family, tmp_path / family, with_tokenizer=True)
    record = check(model, "--max-new-tokens", "16")
    assert record["verdict"] == "NO_BLOCKER"
    assert record["token_ids"] == record["reference_token_ids"]


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_smollm2_has_no_blocker(dtype: str, cache: str, demo_model_dir: Path) -> None:
    record = check(demo_model_dir, "--dtype", dtype, "--cache", cache)
    assert record["verdict"] == "NO_BLOCKER"
    assert len(str(record["text"])) > 20


def test_wheel_works_outside_the_source_tree(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "-q"]
    wheel = [*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path)]
    subprocess.run([*wheel, str(REPOSITORY)], check=True, timeout=1500)
    (built,) = tmp_path.glob("trnscout-*.whl")
    target = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(built)], check=True)
    # The finder of the editable install would win over the wheel.
    code = (
        "import sys\n"
        "sys.meta_path = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
        "import torch, trnscout, trnscout.run_script as r\n"
        "trnscout.enable_virtual_cores(1)\n"
        "print(trnscout.__file__, torch.ones(3, device='neuron').sum().item())\n"
        "r.render_run_script(r.RunSpec(model='m'))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert process.stdout.split() == [str(target / "trnscout" / "__init__.py"), "3.0"], (
        process.stderr
    )
