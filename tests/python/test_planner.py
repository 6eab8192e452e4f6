"""`trnscout plan`: known models, tiny families, and the command line."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers

from fake_hub import COMMIT, OWNER_NAME, fake_hub
from tiny_models import FAMILIES, IMAGE_FAMILIES, make_tiny_model
from trnscout import Checkpoint, InvalidArgumentError, NotFoundError, find_topology, plan
from trnscout.planner import _count_parameters

KNOWN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "known_models.json").read_text()
)
GIB = 2**30


def run_plan(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trnscout", "plan", *map(str, arguments)],
        env={**os.environ, "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def write_config(directory: Path, config: dict[str, Any]) -> Path:
    path = directory / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("name", KNOWN)
def test_known_model_takes_the_cores_worked_out_by_hand(name: str, tmp_path: Path) -> None:
    """tests/data/known_models.json has the arithmetic; parameter counts are the published ones."""
    known = KNOWN[name]
    path = write_config(tmp_path, known["config"])
    parameters = sum(math.prod(shape) for _, _, shape in _count_parameters(path))
    assert parameters == known["parameters"]
    found = plan(str(path))
    if known["cores"] is None:
        assert found.verdict == "LEFT_OUT"
        assert known["reason"] in found.reason
        assert {r.cores for r in found.rejected} == {1, 2, 4, 8, 16}
    else:
        assert (found.verdict, found.cores) == ("FITS", known["cores"])
        assert found.tight == known.get("tight", False)
        smaller = {n for n in (1, 2, 4, 8) if n < known["cores"]}
        assert {r.cores for r in found.rejected} >= smaller
    weights = found.bytes_per_core["sharded_weights"] + found.bytes_per_core["replicated_weights"]
    assert weights * found.cores >= 2 * parameters


def test_what_if_kv_heads_are_replicated(tmp_path: Path) -> None:
    known = KNOWN["Mixtral-8x22B"]
    path = write_config(tmp_path, known["config"])
    found = plan(str(path), what_if=("replicate-kv",))
    assert (found.verdict, found.cores) == ("FITS", known["cores_with_replicate_kv"])
    assert any(note.startswith("what-if: KV heads are replicated") for note in found.notes)
    with pytest.raises(InvalidArgumentError, match="what-if is 'magic', must be replicate-kv"):
        plan(str(path), what_if=("magic",))


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_a_tiny_family_equal_transformers_own_count(family: str, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path / family)
    auto = (
        transformers.AutoModelForImageTextToText
        if family in IMAGE_FAMILIES
        else transformers.AutoModelForCausalLM
    )
    model = auto.from_pretrained(directory)
    found = plan(str(directory), dtype="float32")
    assert (found.verdict, found.cores) == ("FITS", 1)
    # parameters() gives a tied one once.
    assert found.bytes_per_core["replicated_weights"] == 4 * sum(
        parameter.numel() for parameter in model.parameters()
    )


def test_gib_and_gb_are_not_the_same(tmp_path: Path) -> None:
    """C060: Mixtral on 4 cores fits 24 GiB, and would not fit 24 GB less a reserve of 1 GiB."""
    found = plan(str(write_config(tmp_path, KNOWN["Mixtral-8x7B"]["config"])))
    assert found.core_limit_bytes == 24 * GIB
    weights = found.bytes_per_core["sharded_weights"] + found.bytes_per_core["replicated_weights"]
    assert weights / GIB == pytest.approx(21.75, abs=0.01)
    assert found.bytes_per_core["total"] < 24 * GIB
    assert weights + GIB > 24_000_000_000 - GIB
    assert "a tight fit" in found.reason


@pytest.mark.parametrize(
    ("name", "bytes_per_token"), [("Llama-3.1-8B", 131_072), ("Llama-3.3-70B", 327_680)]
)
def test_cache_takes_the_bytes_of_the_formula(
    name: str, bytes_per_token: int, tmp_path: Path
) -> None:
    """C062: layers x KV heads x head_dim x key and value x 2 bytes."""
    found = plan(str(write_config(tmp_path, KNOWN[name]["config"])), max_length=1024)
    assert found.bytes_per_core["kv_cache"] * found.cores == 1024 * bytes_per_token


@pytest.mark.parametrize(
    ("heads", "kv_heads", "degrees"),
    [
        (28, 4, {1, 2, 4}),
        (14, 2, {1, 2}),
        (12, 2, {1, 2}),
        (40, 8, {1, 2, 4, 8}),
        (52, 52, {1, 2, 4}),
        (64, 8, {1, 2, 4, 8}),
    ],
)
def test_heads_decide_the_usable_degrees(
    heads: int, kv_heads: int, degrees: set[int], tmp_path: Path
) -> None:
    """C048, as Transformers: (64, 8) does not reach 16, where a KV head would have to be copied."""
    config = {
        **KNOWN["Llama-3.1-8B"]["config"],
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": 128 * heads,
        "num_hidden_layers": 200,
        "intermediate_size": 65536,
    }
    found = plan(str(write_config(tmp_path, config)), max_length=128)
    by_heads = {r.cores for r in found.rejected if "does not divide" in r.reason}
    assert {1, 2, 4, 8, 16} - by_heads == degrees


def test_command_answers_without_torch_or_transformers(demo_model_dir: Path) -> None:
    code = (
        "import sys\nsys.argv = ['trnscout', 'plan', sys.argv[1], '--json', '-']\n"
        "from trnscout.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules, file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, demo_model_dir], capture_output=True, text=True, timeout=60
    )
    assert process.stderr.split() == ["False", "False"]
    found = json.loads(process.stdout)
    assert found["verdict"] == "FITS" and found["depth"] == "plan"
    weights = Checkpoint.open(demo_model_dir).total_bytes
    assert found["bytes_per_core"]["replicated_weights"] == weights
    assert found["bytes_per_core"]["total"] == sum(
        size for name, size in found["bytes_per_core"].items() if name != "total"
    )
    assert set(found["estimated"]) == {"activations", "scratchpad", "collectives"}
    assert set(found["formulas"]) == set(found["bytes_per_core"]) - {"total"}
    assert found["rejected"] == []


def test_hub_id_is_planned_from_headers_alone(demo_model_dir: Path, tmp_path: Path) -> None:
    with fake_hub(demo_model_dir) as address:
        env = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path)}
        process = run_plan(OWNER_NAME, "--json", "-", **env)
        missing = run_plan("tester/absent", **env)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    here = plan(str(demo_model_dir))
    assert (found["model"], found["revision"]) == (OWNER_NAME, COMMIT)
    assert found["bytes_per_core"] == here.bytes_per_core
    assert missing.returncode == 2 and "tester/absent" in missing.stderr
    assert not list(tmp_path.rglob("*.safetensors"))


def test_command_exits_with_the_verdict(tmp_path: Path) -> None:
    path = write_config(tmp_path, KNOWN["Mistral-Large-123B"]["config"])
    process = run_plan(path)
    assert process.returncode == 3, process.stderr
    assert "LEFT_OUT" in process.stdout.splitlines()[-1]
    assert "8 KV heads" in process.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--topology", "trn9"], "trn9"),
        (["--dtype", "int4"], "dtype is int4"),
        (["--batch", "0"], "batch is 0"),
        (["--max-length", "-1"], "max_length is -1"),
        (["--max-cores", "0"], "max_cores is 0"),
        (["--what-if", "magic"], "what-if is 'magic'"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], words: str, demo_model_dir: Path) -> None:
    process = run_plan(demo_model_dir, *arguments)
    assert process.returncode == 2
    assert process.stderr.startswith("trnscout: ") and words in process.stderr


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "llama", "num_attention_heads": 0}, "num_attention_heads"),
        ({"model_type": "llama", "num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"model_type": "llama", "hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_bad_config_is_refused_by_field(config: dict[str, Any], words: str, tmp_path: Path) -> None:
    """C108's kind."""
    with pytest.raises(InvalidArgumentError, match=words):
        plan(str(write_config(tmp_path, config)))


def test_architecture_outside_both_tasks_is_not_found(tmp_path: Path) -> None:
    path = write_config(
        tmp_path, {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}
    )
    with pytest.raises(NotFoundError, match="T5ForConditionalGeneration"):
        plan(str(path))


def test_larger_topologies_take_fewer_cores(tmp_path: Path) -> None:
    path = str(write_config(tmp_path, KNOWN["Qwen3-32B"]["config"]))
    assert plan(path, topology="trn3").cores == 2
    assert plan(path, topology="inf2").cores in find_topology("inf2").tp_degrees


def test_plan_shows_in_a_notebook(demo_model_dir: Path) -> None:
    shown = plan(str(demo_model_dir))._repr_html_()
    assert "FITS" in shown and "replicated_weights" in shown and "<table>" in shown
