"""run.py: what it is written from, what it may import, and that its tokens are the model's."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image

import tiny_models
from trnscout import InvalidArgumentError
from trnscout.run_script import DEFAULT_PROMPTS, RunSpec, has_tokenizer, render_run_script

NEW_TOKENS = 8
PROMPT = "What is the capital of France?"
PROMPT_IDS = [11, 200, 7, 42, 99, 3, 150, 64, 5, 77]
TEXT = RunSpec(model="somewhere", dtype="float32", max_new_tokens=NEW_TOKENS, prompt=PROMPT)
IMAGE = replace(TEXT, task="image-text-to-text")
LITERALS = {
    "TASK": "task",
    "MODEL": "model",
    "REVISION": "revision",
    "DTYPE": "dtype",
    "CACHE": "cache",
    "MAX_NEW_TOKENS": "max_new_tokens",
    "PROMPT": "prompt",
    "PROMPT_TOKEN_IDS": "prompt_token_ids",
}
JSON_KEYS = {
    "task",
    "model",
    "revision",
    "device",
    "dtype",
    "cache",
    "cache_reason",
    "experts_implementation",
    "prompt_token_ids",
    "token_ids",
    "text",
    "stopped",
    "times_s",
    "device_peak_bytes",
    "host_peak_bytes",
    "versions",
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Both sides of a comparison split their sums alike."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes tiny checkpoints, each one once."""
    made: dict[tuple[str, bool], Path] = {}

    def make(family: str, *, with_tokenizer: bool) -> Path:
        key = (family, with_tokenizer)
        if key not in made:
            directory = tmp_path_factory.mktemp(family)
            made[key] = tiny_models.make_tiny_model(
                family, directory, with_tokenizer=with_tokenizer
            )
        return made[key]

    return make


def start(
    spec: RunSpec, directory: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Writes run.py into `directory` and runs it as a person would."""
    script = directory / "run.py"
    script.write_text(render_run_script(spec), encoding="ascii")
    return start_file(script, *options, **environment)


def start_file(script: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with nothing of ours in its environment, on one thread, without network."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRNSCOUT"))}
    return subprocess.run(
        [sys.executable, str(script), *options],
        env={**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **environment},
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )


def run_on_cpu(spec: RunSpec, directory: Path, *options: str, **environment: str) -> dict[str, Any]:
    """The JSON line of a run that must succeed."""
    done = start(spec, directory, "--device", "cpu", *options, **environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1, done.stdout
    result: dict[str, Any] = json.loads(lines[0])
    assert result.keys() == JSON_KEYS
    return result


def load(directory: Path, auto: Any = transformers.AutoModelForCausalLM) -> Any:
    """The model in float32, as run.py loads it."""
    return auto.from_pretrained(directory, dtype="float32").eval()


def greedy_tokens(model: Any, prompt_ids: list[int]) -> list[int]:
    """Greedy decoding without generate() and without any cache."""
    ids = torch.tensor([prompt_ids])
    new: list[int] = []
    with torch.no_grad():
        while len(new) < NEW_TOKENS and tiny_models.TOKEN_ID["<eos>"] not in new:
            token = int(model(ids, use_cache=False).logits[0, -1].argmax())
            new.append(token)
            ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
    return new


# ---- what the script is made of -----------------------------------------------------------


NASTY = [
    'it\'s "quoted" \'\'\'three\'\'\' """times"""',
    "line\nbreak\rreturn\ttab\x00null\x1b[31m",
    "back\\slash\\",
    "{braces} {0} %s %(x)s @MODEL@ @INPUTS@ $HOME `ls`",
    "größe \N{SNOWMAN} \U0001f600 \u2028 \udcff",
    "'; import os; os.system('true') #",
    "# -*- coding: latin-1 -*-",
]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("task", DEFAULT_PROMPTS)
def test_run_script_keeps_any_text_a_literal(task: Any, text: str) -> None:
    spec = RunSpec(model=text, task=task, revision=text, prompt=text)
    script = render_run_script(spec)
    plain = render_run_script(replace(spec, model="m", revision="r", prompt="p"))
    assert script.isascii()
    found = {}
    tree, plain_tree = ast.parse(script), ast.parse(plain)
    assert len(tree.body) == len(plain_tree.body)
    for node, plain_node in zip(tree.body, plain_tree.body, strict=True):
        name = node.targets[0].id if isinstance(node, ast.Assign) else None  # type: ignore[attr-defined]
        if name in LITERALS:
            assert isinstance(node, ast.Assign)
            found[name] = ast.literal_eval(node.value)
        else:
            assert ast.dump(node) == ast.dump(plain_node)
    assert found == {name: getattr(spec, field) for name, field in LITERALS.items()}


def test_run_script_writes_token_ids_as_literals() -> None:
    script = render_run_script(replace(TEXT, prompt_token_ids=(1, 2, 3)))
    assert "\nPROMPT_TOKEN_IDS = [1, 2, 3]  #" in script


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
@pytest.mark.parametrize("spec", [TEXT, IMAGE], ids=lambda spec: spec.task)
def test_run_script_parses_as_each_supported_python(spec: RunSpec, minor: int) -> None:
    ast.parse(render_run_script(spec), feature_version=(3, minor))


@pytest.mark.parametrize("spec", [TEXT, IMAGE], ids=lambda spec: spec.task)
def test_run_script_imports_only_torch_transformers_pillow_and_the_library(spec: RunSpec) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(render_run_script(spec))):
        if isinstance(node, ast.Import):
            imported.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert node.module is not None
            imported.add(node.module.split(".")[0])
    allowed = {"torch", "transformers"} | ({"PIL"} if spec is IMAGE else set())
    assert imported - sys.stdlib_module_names == allowed


def test_run_script_is_written_without_torch() -> None:
    code = (
        "import sys, trnscout.run_script as r; r.render_run_script(r.RunSpec(model='m'));"
        "assert not {'torch', 'transformers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task": "fill-mask"}, "task is 'fill-mask'; it must be one of text-generation, image-te"),
        ({"dtype": "int8"}, "dtype is 'int8'; it must be one of bfloat16, float16, float32"),
        ({"cache": "paged"}, "cache is 'paged'; it must be one of static, dynamic"),
        ({"model": ""}, "model is empty; give a directory or a hub id"),
        ({"prompt": ""}, "prompt is empty; leave it out to take the default prompt"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0; at least 1 is needed"),
        ({"prompt_token_ids": ()}, r"prompt_token_ids are \[\]; at least one id is needed"),
        ({"prompt_token_ids": (4, -1)}, r"prompt_token_ids are \[4, -1\]; .* none below 0"),
        (
            {"prompt_token_ids": (4,), "task": "image-text-to-text"},
            "prompt_token_ids cannot be used for task image-text-to-text",
        ),
    ],
)
def test_run_spec_refuses_what_no_script_could_run(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        replace(TEXT, **fields)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({"config.json", "tokenizer.json", "tokenizer_config.json"}, True),
        ({"vocab.json", "merges.txt"}, True),
        ({"qwen.tiktoken"}, True),
        ({"config.json", "tokenizer_config.json", "model.safetensors"}, False),
    ],
)
def test_has_tokenizer_asks_for_a_vocabulary(names: set[str], found: bool) -> None:
    assert has_tokenizer(names) is found


# ---- what it does -------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_run_script_gives_the_tokens_of_a_plain_greedy_loop(
    tiny: Any, tmp_path: Path, cache: Any
) -> None:
    directory = tiny("llama", with_tokenizer=True)
    result = run_on_cpu(replace(TEXT, model=str(directory), cache=cache), tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    prompt_ids = tokenizer(f"user: {PROMPT}\nassistant: ")["input_ids"]
    assert result["prompt_token_ids"] == prompt_ids
    assert result["token_ids"] == greedy_tokens(load(directory), prompt_ids)
    assert result["text"] == tokenizer.decode(result["token_ids"], skip_special_tokens=True)
    assert (result["cache"], result["cache_reason"]) == (cache, "as asked")
    assert (result["task"], result["model"]) == ("text-generation", str(directory))
    assert (result["device"], result["dtype"]) == ("cpu", "float32")
    assert (result["revision"], result["experts_implementation"]) == (None, None)
    assert (result["stopped"], result["device_peak_bytes"]) == ("length", None)
    assert result["host_peak_bytes"] > 100e6  # torch alone takes more
    times = result["times_s"]
    assert len(times["further_tokens"]) == NEW_TOKENS - 1
    parts = [times["import"], times["load"], times["first_token"], *times["further_tokens"]]
    assert min(parts) > 0
    assert sum(parts) <= times["total"]
    assert result["versions"]["torch"] == torch.__version__
    assert result["versions"]["transformers"] == transformers.__version__


def test_run_script_takes_token_ids_in_place_of_a_tokenizer(tiny: Any, tmp_path: Path) -> None:
    directory = tiny("llama", with_tokenizer=False)
    spec = replace(TEXT, model=str(directory), prompt_token_ids=PROMPT_IDS)
    result = run_on_cpu(spec, tmp_path)
    assert result["prompt_token_ids"] == PROMPT_IDS
    assert result["token_ids"] == greedy_tokens(load(directory), PROMPT_IDS)
    assert result["text"] is None


def test_run_script_options_replace_model_cache_and_length(tiny: Any, tmp_path: Path) -> None:
    directory = tiny("gpt2", with_tokenizer=False)
    spec = replace(TEXT, model="nowhere/at-all", revision="abc", prompt_token_ids=PROMPT_IDS)
    options = ("--model", str(directory), "--cache", "dynamic", "--max-new-tokens", "2")
    result = run_on_cpu(spec, tmp_path, *options)
    assert (result["model"], result["revision"]) == (str(directory), None)
    assert result["cache"] == "dynamic"
    assert result["token_ids"] == greedy_tokens(load(directory), PROMPT_IDS)[:2]


def test_run_script_says_that_the_model_ended(tiny: Any, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    tiny_models.make_tiny_model("llama", directory)
    third = greedy_tokens(load(directory), PROMPT_IDS)[2]
    path = directory / "generation_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "eos_token_id": [1, third]}))
    spec = replace(TEXT, model=str(directory), prompt_token_ids=PROMPT_IDS)
    result = run_on_cpu(spec, tmp_path)
    assert result["stopped"] == "eos"
    assert len(result["token_ids"]) == 3
    assert result["token_ids"][-1] == third


def test_run_script_tells_why_a_stateful_model_has_this_cache(tiny: Any, tmp_path: Path) -> None:
    directory = tiny("mamba", with_tokenizer=False)
    spec = replace(TEXT, model=str(directory), prompt_token_ids=PROMPT_IDS)
    result = run_on_cpu(spec, tmp_path)
    assert result["cache"] == "static"
    assert result["cache_reason"] == (
        "as asked; MambaForCausalLM keeps a state of fixed size in either kind, no keys and values"
    )
    assert result["token_ids"] == greedy_tokens(load(directory), PROMPT_IDS)


def test_run_script_tells_that_a_model_ignores_the_cache(tmp_path: Path) -> None:
    config = transformers.RwkvConfig(
        vocab_size=288, hidden_size=64, attention_hidden_size=64, num_hidden_layers=2
    )
    directory = tmp_path / "rwkv"
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    spec = replace(TEXT, model=str(directory), prompt_token_ids=PROMPT_IDS)
    result = run_on_cpu(spec, tmp_path)
    assert result["cache"] == "own"
    assert result["cache_reason"] == (
        "RwkvForCausalLM keeps its own state (list) and ignores cache_implementation"
    )


def test_run_script_runs_experts_on_the_cpu_as_generate_does_on_a_device(
    tiny: Any, tmp_path: Path
) -> None:
    directory = tiny("mixtral", with_tokenizer=False)
    spec = replace(TEXT, model=str(directory), prompt_token_ids=PROMPT_IDS)
    (tmp_path / "run.py").write_text(render_run_script(spec), encoding="ascii")
    spy = tmp_path / "spy.py"
    spy.write_text(
        "import runpy, sys\n"
        "from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS as functions\n"
        "def watch(name, function):\n"
        "    def call(*args, **kwargs):\n"
        "        print('experts', name, file=sys.stderr)\n"
        "        return function(*args, **kwargs)\n"
        "    functions.register(name, call)\n"
        "for name in ('grouped_mm', 'batched_mm'):\n"
        "    watch(name, functions[name])\n"
        "sys.argv = ['run.py', '--device', 'cpu']\n"
        "runpy.run_path('run.py', run_name='__main__')\n"
    )
    done = start_file(spy)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    layers = transformers.AutoConfig.from_pretrained(directory).num_hidden_layers
    called = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("experts")]
    assert called == ["grouped_mm"] * layers + ["batched_mm"] * layers * (NEW_TOKENS - 1)
    assert result["experts_implementation"] == {
        "prefill": {"": "grouped_mm"},
        "decode": {"": "batched_mm"},
    }
    assert result["token_ids"] == greedy_tokens(load(directory), PROMPT_IDS)


@pytest.mark.parametrize("family", sorted(tiny_models.IMAGE_FAMILIES))
def test_run_script_shows_the_model_the_picture_it_drew(
    tiny: Any, tmp_path: Path, family: str
) -> None:
    directory = tiny(family, with_tokenizer=True)
    result = run_on_cpu(replace(IMAGE, model=str(directory)), tmp_path)

    picture = Image.new("RGB", (336, 336), "white")
    picture.paste("red", (84, 84, 252, 252))
    content = [{"type": "image", "image": picture}, {"type": "text", "text": PROMPT}]
    inputs = tiny_models.make_processor(family).apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    model = load(directory, transformers.AutoModelForImageTextToText)
    prompt_tokens = inputs["input_ids"].shape[1]
    expected = model.generate(**inputs, use_cache=False, do_sample=False, max_new_tokens=NEW_TOKENS)
    assert result["prompt_token_ids"] == inputs["input_ids"][0].tolist()
    assert result["token_ids"] == expected[0, prompt_tokens:].tolist()
    assert isinstance(result["text"], str)

    # The picture matters: the same prompt over a black one continues otherwise.
    dark = {**inputs, "pixel_values": torch.full_like(inputs["pixel_values"], -1.0)}
    other = model.generate(**dark, use_cache=False, do_sample=False, max_new_tokens=NEW_TOKENS)
    assert result["token_ids"] != other[0, prompt_tokens:].tolist()


def test_run_script_reports_progress_and_keeps_stdout_for_the_line(
    tiny: Any, tmp_path: Path
) -> None:
    chatter = tmp_path / "chatter"
    chatter.mkdir()
    (chatter / "sitecustomize.py").write_text(
        "import atexit, os\n"
        "def talk():\n"
        "    print('python chatter', flush=True)\n"
        "    os.system('echo native chatter')\n"
        "atexit.register(talk)\n"
    )
    directory = tiny("llama", with_tokenizer=False)
    spec = replace(TEXT, model=str(directory), prompt_token_ids=PROMPT_IDS, max_new_tokens=2)
    done = start(spec, tmp_path, "--device", "cpu", PYTHONPATH=str(chatter))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout).keys() == JSON_KEYS
    assert "python chatter" in done.stderr
    assert "native chatter" in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("run.py: ")]
    assert said == [
        "run.py: phase import",
        "run.py: phase load",
        "run.py: phase generate",
        "run.py: token 1 of 2",
        "run.py: token 2 of 2",
    ]


ON_CPU = ("--device", "cpu")


@pytest.mark.parametrize(
    ("family", "spec", "options", "message"),
    [
        ("llama", TEXT, (), "torch .* has no device 'neuron': .*torch_neuronx.*--device cpu"),
        ("llama", TEXT, ON_CPU, "the model's tokenizer does not load: "),
        ("gpt2", TEXT, ON_CPU, "the model's tokenizer has no vocabulary: are its files missing"),
        ("idefics3", IMAGE, ON_CPU, "the model's processor does not load: "),
        (None, TEXT, ON_CPU, "the model's config does not load: "),
    ],
    ids=["device", "tokenizer", "empty tokenizer", "processor", "config"],
)
def test_run_script_exits_2_and_names_what_is_missing(
    tiny: Any,
    tmp_path: Path,
    family: str | None,
    spec: RunSpec,
    options: tuple[str, ...],
    message: str,
) -> None:
    model = tmp_path / "nothing" if family is None else tiny(family, with_tokenizer=False)
    # Without autoload there is no device "neuron" on a Trainium instance either.
    autoload = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = start(replace(spec, model=str(model)), tmp_path, *options, **autoload)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert re.search(f"^run.py: error: {message}", done.stderr, re.MULTILINE), done.stderr


def test_run_script_exits_2_where_a_library_is_missing(tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("raise ImportError('not here, on purpose')\n")
    done = start(TEXT, tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "run.py: error: torch or transformers does not import: not here" in done.stderr
