"""`trnscout plan`: known models, tiny families, and the command line."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers

from fake_hub import COMMIT, OWNER_NAME, fake_hub
from tiny_models import FAMILIES, IMAGE_FAMILIES, make_tiny_model
from trnscout import (
    Checkpoint,
    InvalidArgumentError,
    ModelConfig,
    NotFoundError,
    PlannedModel,
    PlanOptions,
    find_topology,
    plan,
    rank_parameters,
    what_if_names,
)
from trnscout.planner import _count_parameters, _parallel_plan

KNOWN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "known_models.json").read_text()
)


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
    assert found.what_if == ["replicate-kv"]
    assert any(n.startswith("what-if replicate-kv: each of the 8 KV heads") for n in found.notes)
    assert "what-if    replicate-kv; not what Transformers does" in str(found)
    refused = "there is no what-if magic, only replicate-kv, pad-vocab, split-fused-qkv"
    with pytest.raises(InvalidArgumentError, match=refused):
        plan(str(path), what_if=("magic",))


LAYOUTS = [layout for n in range(4) for layout in itertools.combinations(what_if_names(), n)]


@pytest.mark.parametrize("name", KNOWN)
def test_slices_of_a_known_model_take_the_bytes_of_its_plan(name: str, tmp_path: Path) -> None:
    """Rank 0 of every degree in every layout, whatever fits; what is refused is refused alike."""
    config_file = write_config(tmp_path, KNOWN[name]["config"])
    config = ModelConfig.parse(config_file.read_text(), "config.json")
    parallel = _parallel_plan(config)
    parameters = _count_parameters(config_file)
    divisions = 0
    for layout, degree in itertools.product(LAYOUTS, (1, 2, 4, 8, 16)):
        room = find_topology("trn2").replace(core_memory_bytes=2**60, tp_degrees=[degree])
        options = PlanOptions(topology=room, what_if=list(layout))
        found = PlannedModel(config, parallel, parameters).plan(options)
        for rejected in found.rejected:
            with pytest.raises(InvalidArgumentError, match=re.escape(rejected.reason)):
                rank_parameters(config, parallel, parameters, options, rejected.degrees, 0)
        if not found.fits:
            continue
        divisions += 1
        held = rank_parameters(config, parallel, parameters, options, found.degrees, 0)
        weights = found.bytes_per_core.categories
        for category, sharded in (("sharded_weights", True), ("replicated_weights", False)):
            size = sum(p.bytes for p in held if p.sharded == sharded)
            assert size == weights[category].bytes, (layout, degree, category)
        assert all(p.bytes == 2 * math.prod(p.shard.shape) for p in held)
    assert divisions >= len(LAYOUTS)


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
        (["--what-if", "pad-vocab", "--what-if", "magic"], "only replicate-kv, pad-vocab, split"),
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


def test_nested_config_without_architectures_is_planned_with_its_image_part(
    tmp_path: Path,
) -> None:
    """C017."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    text = {**sizes, "model_type": "gemma3_text", "intermediate_size": 96, "vocab_size": 512}
    vision = {**sizes, "model_type": "siglip_vision_model", "intermediate_size": 96}
    config = {
        "model_type": "gemma3",
        "architectures": None,
        "text_config": text,
        "vision_config": vision,
    }
    built = transformers.AutoModelForImageTextToText.from_config(
        transformers.AutoConfig.for_model(**config)
    )
    built.save_pretrained(tmp_path)
    write_config(tmp_path, config)
    found = plan(str(tmp_path), dtype="float32")
    assert found.architecture == "Gemma3ForConditionalGeneration"
    assert any(
        "the image part counts with the text part; one image of 256 tokens" in note
        for note in found.notes
    )
    size = sum(p.numel() * 4 for p in built.parameters())
    assert found.bytes_per_core["replicated_weights"] == size
