"""`trnscout check` and `script` as a user runs them: exit codes, words, and the record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from fake_hub import COMMIT, OWNER_NAME, fake_hub
from faults import fault_environment
from tiny_models import make_tiny_model
from trnscout.record import Depth, ErrorClass, RunRecord, Verdict, write_whole

REQUIRED_KEYS = {
    "verdict",
    "depth",
    "error_class",
    "error",
    "task",
    "model",
    "revision",
    "content_hash",
    "cores",
    "tp_degree",
    "ep_degree",
    "dtype",
    "compiled",
    "prompt_token_ids",
    "token_ids",
    "reference_token_ids",
    "text",
    "device_peak_bytes",
    "host_peak_bytes",
    "times_s",
    "versions",
    "run_py",
    "boundary",
}


def trnscout(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trnscout", *map(str, arguments)],
        env={**os.environ, "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        timeout=280,
    )


def record_of(process: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(process.stdout)
    return record


def refused(process: subprocess.CompletedProcess[str]) -> str:
    """Check for exit 2 with one clear message and no traceback; return the message."""
    assert process.returncode == 2, process.stderr
    assert process.stdout == ""
    assert "Traceback" not in process.stderr
    message = process.stderr.strip()
    assert message.startswith("trnscout: ")
    return message


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model("llama", tmp_path_factory.mktemp("llama"), with_tokenizer=True)


@pytest.fixture
def llama_copy(llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama, tmp_path / "model"))


@pytest.fixture(scope="session")
def answered(llama: Path) -> subprocess.CompletedProcess[str]:
    """One good check, read by several tests."""
    return trnscout("check", llama, "--json", "-", "--max-new-tokens", "6")


# Good news.


def test_check_finds_no_blocker(answered: subprocess.CompletedProcess[str], llama: Path) -> None:
    assert answered.returncode == 0, answered.stderr
    record = record_of(answered)
    assert record.keys() >= REQUIRED_KEYS
    assert record["verdict"] == "NO_BLOCKER"
    assert record["depth"] == "virtual"
    assert record["error_class"] is None and record["error"] is None
    assert record["task"] == "text-generation"
    assert record["model"] == str(llama)
    assert (record["cores"], record["tp_degree"], record["ep_degree"]) == (1, 1, 1)
    assert record["compiled"] is False
    assert record["graphs"] >= 1
    assert record["cache"] == "static"
    assert record["dtype"] == "float32"
    assert "not a pass" in record["boundary"] and "neuronx-cc" in record["boundary"]
    assert set(record["versions"]) >= {"trnscout", "torch", "transformers", "python"}


def test_tokens_are_transformers_own(
    answered: subprocess.CompletedProcess[str], llama: Path
) -> None:
    record = record_of(answered)
    model = transformers.AutoModelForCausalLM.from_pretrained(llama)
    ids = torch.tensor([record["prompt_token_ids"]])
    output = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6
    )
    expected = output[0, ids.shape[1] :].tolist()
    assert record["token_ids"] == expected
    assert record["reference_token_ids"] == expected
    tokenizer = transformers.AutoTokenizer.from_pretrained(llama)
    assert record["text"] == tokenizer.decode(expected, skip_special_tokens=True)


def test_memory_and_times_are_measured(
    answered: subprocess.CompletedProcess[str], llama: Path
) -> None:
    record = record_of(answered)
    weights = sum(
        p.numel() * 4 for p in transformers.AutoModelForCausalLM.from_pretrained(llama).parameters()
    )
    assert record["weights_bytes"] == weights
    assert weights < record["device_peak_bytes"] < 100 * weights
    assert record["device_peak_bytes_by_category"]["tensors"] == record["device_peak_bytes"]
    assert record["host_peak_bytes"] > record["device_peak_bytes"]
    times = record["times_s"]
    assert len(times["further_tokens"]) == len(record["token_ids"]) - 1
    parts = times["import"] + times["load"] + times["first_token"] + sum(times["further_tokens"])
    assert 0 < parts <= times["total"]


def test_recorded_script_is_what_ran(
    answered: subprocess.CompletedProcess[str], llama: Path, tmp_path: Path
) -> None:
    """Run by hand, it gives the record's tokens; `script` writes the same bytes."""
    record = record_of(answered)
    run_py = tmp_path / "run.py"
    run_py.write_bytes(record["run_py"].encode())
    process = subprocess.run(
        [sys.executable, run_py],
        env={**os.environ, "TRNSCOUT_VIRTUAL_CORES": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert json.loads(process.stdout)["token_ids"] == record["token_ids"], process.stderr
    written = tmp_path / "written.py"
    script = trnscout("script", llama, "--max-new-tokens", "6", "-o", written)
    assert script.returncode == 0, script.stderr
    assert written.read_bytes() == run_py.read_bytes()


def test_human_reading_stdout_sees_the_verdict(
    answered: subprocess.CompletedProcess[str],
) -> None:
    for part in ("NO_BLOCKER", "core peak", "first token", "each further token", "neuronx-cc"):
        assert part in answered.stderr


def test_picture_model_is_checked_with_its_processor(tmp_path: Path) -> None:
    model = make_tiny_model("idefics3", tmp_path / "idefics3", with_tokenizer=True)
    process = trnscout("check", model, "--json", "-", "--max-new-tokens", "3")
    assert process.returncode == 0, process.stderr
    record = record_of(process)
    assert record["task"] == "image-text-to-text"
    assert record["token_ids"] == record["reference_token_ids"] != []


def test_hub_id_is_pinned_to_its_commit(llama: Path, tmp_path: Path) -> None:
    with fake_hub(llama) as address:
        env = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hub")}
        process = trnscout("check", OWNER_NAME, "--json", "-", "--max-new-tokens", "2", **env)
        assert process.returncode == 0, process.stderr
        record = record_of(process)
        missing = refused(trnscout("check", OWNER_NAME, "--revision", "v9", **env))
        unknown = refused(trnscout("check", "tester/absent", **env))
    assert (record["model"], record["revision"]) == (OWNER_NAME, COMMIT)
    assert f"REVISION = '{COMMIT}'" in record["run_py"]
    assert "tester/tiny at revision v9: the repository has no such revision" in missing
    assert "tester/absent at revision main: there is no such directory" in unknown
    offline = refused(
        trnscout("check", OWNER_NAME, HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path / "e"))
    )
    assert "tester/tiny at revision main: cannot be downloaded" in offline


# Exit 1: the model ran into something.


def test_core_limit_of_100_mb_is_out_of_device_memory(demo_model_dir: Path) -> None:
    process = trnscout("check", demo_model_dir, "--core-memory", "100MB", "--json", "-")
    assert process.returncode == 1, process.stderr
    record = record_of(process)
    assert record["verdict"] == "FAIL"
    assert record["error_class"] == "out_of_device_memory"
    assert "neuron:0 is out of memory" in record["error"]
    assert "limit 95.37 MiB (100000000 bytes)" in record["error"]
    assert "held by blocks made in" in record["error"]
    assert 0 < record["device_peak_bytes"] <= 100_000_000
    assert "out_of_device_memory" in process.stderr


def test_wrong_operator_is_a_token_mismatch(llama: Path, tmp_path: Path) -> None:
    env = fault_environment(tmp_path / "fault", "silu", "return torch.relu(args[0])")
    process = trnscout("check", llama, "--json", "-", "--max-new-tokens", "8", **env)
    assert process.returncode == 1, process.stderr
    record = record_of(process)
    assert (record["verdict"], record["error_class"]) == ("FAIL", "token_mismatch")
    pairs = zip(record["token_ids"], record["reference_token_ids"], strict=True)
    first, (ours, theirs) = next((i, p) for i, p in enumerate(pairs) if p[0] != p[1])
    assert record["error"] == (
        f"tokens differ first at position {first}: neuron made {ours}, the CPU made {theirs}"
    )


@pytest.mark.parametrize(
    ("body", "error_class", "words"),
    [
        ("raise NotImplementedError('no silu here')", "operator_missing", "no silu here"),
        ("raise RuntimeError('silu broke')", "run_error", "silu broke"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crash", "died by SIGSEGV in phase generate"),
    ],
)
def test_fault_of_the_core_has_its_class(
    body: str, error_class: str, words: str, llama: Path, tmp_path: Path
) -> None:
    env = fault_environment(tmp_path / "fault", "silu", body)
    process = trnscout("check", llama, "--json", "-", "--max-new-tokens", "2", **env)
    assert process.returncode == 1, process.stderr
    record = record_of(process)
    assert (record["verdict"], record["error_class"]) == ("FAIL", error_class)
    assert words in record["error"]


def test_run_past_its_time_is_stopped(llama: Path) -> None:
    process = trnscout("check", llama, "--json", "-", "--timeout", "0.5")
    assert process.returncode == 1, process.stderr
    record = record_of(process)
    assert record["error_class"] == "timeout"
    assert "run.py did not end within 0.5 s" in record["error"]


# Exit 3: no verdict on the model.


def test_failure_on_the_cpu_too_blames_no_device(llama: Path, tmp_path: Path) -> None:
    env = fault_environment(
        tmp_path / "fault",
        "silu",
        "raise RuntimeError('on the core')",
        elsewhere="sys.argv[1:2] == ['--device'] and os._exit(7)",
    )
    process = trnscout("check", llama, "--json", "-", "--max-new-tokens", "2", **env)
    assert process.returncode == 3, process.stderr
    record = record_of(process)
    assert (record["verdict"], record["error_class"]) == ("LEFT_OUT", "reference_fails")
    assert "fails on the CPU too" in record["error"] and "exited with 7" in record["error"]


@pytest.mark.parametrize(
    ("change", "error_class", "words"),
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "task_not_covered", "bert"),
        ({"model_type": "unheard_of"}, "task_not_covered", "does not know model_type 'unheard_of'"),
        (
            {"model_type": "unheard_of", "auto_map": {"AutoModel": "x.Y"}},
            "custom_code",
            "trnscout never runs that",
        ),
    ],
)
def test_model_outside_the_tasks_is_left_out(
    change: dict[str, Any], error_class: str, words: str, llama_copy: Path
) -> None:
    path = llama_copy / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    process = trnscout("check", llama_copy, "--json", "-")
    assert process.returncode == 3, process.stderr
    record = record_of(process)
    assert (record["verdict"], record["depth"]) == ("LEFT_OUT", "plan")
    assert record["error_class"] == error_class
    assert words in record["error"]
    assert trnscout("script", llama_copy).returncode == 3


def write_sparse_checkpoint(directory: Path, dtype: str, shape: list[int], nbytes: int) -> None:
    """Write a checkpoint of one tensor whose bytes are a hole in the file."""
    header = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, nbytes]}})
    data = header.encode().ljust(-(-len(header) // 8) * 8)
    with (directory / "model.safetensors").open("wb") as file:
        file.write(len(data).to_bytes(8, "little") + data)
        file.truncate(8 + len(data) + nbytes)


def test_weights_past_one_core_are_left_out(
    llama_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trnscout import CheckRequest, check
    from trnscout.model_source import ModelSource

    # Hashing a hole of 26 GiB would take long and is not what is tested.
    monkeypatch.setattr(ModelSource, "file_hashes", lambda self, report: {})
    size = 26 * 2**30
    write_sparse_checkpoint(llama_copy, "BF16", [size // 2], size)
    record = check(CheckRequest(str(llama_copy), dtype="bfloat16"))
    assert (record.verdict, record.error_class) == ("LEFT_OUT", "too_large_for_one_core")
    assert record.exit_code == 3
    assert "26.00 GiB" in str(record.error) and "at least 2 cores" in str(record.error)


def test_weights_past_this_host_are_left_out(
    llama_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trnscout import CheckRequest, check

    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1}
    monkeypatch.setattr(os, "sysconf", lambda name: pages[name])
    record = check(CheckRequest(str(llama_copy)))
    assert (record.verdict, record.error_class) == ("LEFT_OUT", "too_large_for_this_host")
    assert "this machine has 4.00 KiB" in str(record.error)


def test_element_type_no_run_can_load_is_left_out(llama_copy: Path) -> None:
    write_sparse_checkpoint(llama_copy, "F4", [2, 8], 8)
    process = trnscout("check", llama_copy, "--json", "-")
    assert process.returncode == 3, process.stderr
    record = record_of(process)
    assert record["error_class"] == "dtype_not_covered"
    assert "tensor w has element type F4" in record["error"]


# Exit 2: the question could not be asked.


def test_directory_without_config_is_refused(tmp_path: Path) -> None:
    message = refused(trnscout("check", tmp_path))
    assert f"{tmp_path}: there is no config.json" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"model_type": "llama",}', "not JSON at line 1, column"),
        ("[]", "must hold an object, not list"),
        ("{}", "model_type is None"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_damaged_config_is_refused(text: str, words: str, llama_copy: Path) -> None:
    (llama_copy / "config.json").write_text(text)
    message = refused(trnscout("check", llama_copy))
    assert "config.json" in message and words in message


def test_config_that_is_not_text_is_refused(llama_copy: Path) -> None:
    (llama_copy / "config.json").write_bytes(b'{"a": "\xff"}')
    assert "config.json: not UTF-8 at byte 7" in refused(trnscout("check", llama_copy))


def test_cut_shard_is_refused_with_both_sizes(llama_copy: Path) -> None:
    path = llama_copy / "model.safetensors"
    size = path.stat().st_size
    os.truncate(path, size - 1000)
    message = refused(trnscout("check", llama_copy))
    assert "model.safetensors" in message
    assert str(size) in message and str(size - 1000) in message


def test_git_lfs_pointer_is_refused_by_name(llama_copy: Path) -> None:
    (llama_copy / "model.safetensors").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4976698672\n"
    )
    message = refused(trnscout("check", llama_copy))
    assert "Git LFS pointer" in message and "4976698672" in message


def test_index_with_a_missing_shard_is_refused(llama_copy: Path) -> None:
    os.rename(llama_copy / "model.safetensors", llama_copy / "model-00001-of-00002.safetensors")
    index = {
        "weight_map": {
            "a": "model-00001-of-00002.safetensors",
            "b": "model-00002-of-00002.safetensors",
        }
    }
    (llama_copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00002-of-00002.safetensors" in refused(trnscout("check", llama_copy))


def test_shard_path_that_leaves_the_directory_is_refused(llama_copy: Path) -> None:
    """C106."""
    os.rename(llama_copy / "model.safetensors", llama_copy.parent / "outside.safetensors")
    index = {"weight_map": {"a": "../outside.safetensors"}}
    (llama_copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "../outside.safetensors" in refused(trnscout("check", llama_copy))


def test_directory_without_weights_is_refused(llama_copy: Path) -> None:
    (llama_copy / "model.safetensors").unlink()
    assert "model.safetensors" in refused(trnscout("check", llama_copy))


def test_tokenizer_that_does_not_load_is_refused(llama_copy: Path) -> None:
    (llama_copy / "tokenizer.json").write_text("{}")
    assert "tokenizer" in refused(trnscout("check", llama_copy))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent/dir/x"], "absent/dir/x: there is no such directory"),
        (["./absent"], "./absent: there is no such directory"),
        (["not a hub id"], "'not a hub id' is neither a directory nor a hub id"),
        (["MODEL", "--revision", "main"], "is a directory, which has no revision 'main'"),
        (["MODEL/config.json"], "is a file; give the directory"),
        (["MODEL", "--task", "translation"], "task is 'translation'"),
        (["MODEL", "--dtype", "int4"], "dtype is 'int4'"),
        (["MODEL", "--cache", "paged"], "cache is 'paged'"),
        (["MODEL", "--max-new-tokens", "0"], "max_new_tokens is 0"),
        (["MODEL", "--core-memory", "lots"], "core memory is 'lots'"),
        (["MODEL", "--core-memory", "0"], "core memory is '0'"),
        (["MODEL", "--timeout", "0"], "timeout is 0.0 s"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], words: str, llama: Path) -> None:
    arguments = [a.replace("MODEL", str(llama)) for a in arguments]
    assert words in refused(trnscout("check", *arguments))


def test_record_that_cannot_be_written_is_said_before_it_runs(llama: Path) -> None:
    message = refused(trnscout("check", llama, "--json", "/absent/record.json"))
    assert "/absent/record.json: cannot be written" in message


def test_prompt_without_tokenizer_is_refused(tmp_path: Path) -> None:
    model = make_tiny_model("llama", tmp_path / "plain")
    message = refused(trnscout("check", model, "--prompt", "hello"))
    assert "has no tokenizer, so it cannot read the prompt 'hello'" in message


# The record's own rules.


def test_pass_exists_on_hardware_only() -> None:
    from trnscout import InvalidArgumentError

    with pytest.raises(InvalidArgumentError, match="PASS needs depth hardware, depth is virtual"):
        RunRecord(Verdict.PASS, Depth.VIRTUAL, None, None, "m", None)
    assert RunRecord(Verdict.PASS, Depth.HARDWARE, None, None, "m", None).exit_code == 0


def test_content_hash_follows_content_not_place(llama: Path, llama_copy: Path) -> None:
    from trnscout.model_source import find_model

    first = find_model(str(llama)).content_hash()
    assert find_model(str(llama_copy)).content_hash() == first
    (llama_copy / "notes.txt").write_text("changes nothing")
    assert find_model(str(llama_copy)).content_hash() == first
    with (llama_copy / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    assert find_model(str(llama_copy)).content_hash() != first


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("24GiB", 24 * 2**30), ("100MB", 100_000_000), ("1.5 gib", 3 * 2**29), ("4096", 4096)],
)
def test_sizes_are_read(text: str, bytes_: int) -> None:
    from trnscout.cli import parse_bytes

    assert parse_bytes(text) == bytes_


def test_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_whole(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "two\ud800")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_record_has_one_json_value_a_field() -> None:
    record = RunRecord(Verdict.FAIL, Depth.VIRTUAL, ErrorClass.CRASH, "words", "m", None)
    assert json.loads(record.to_json()) == json.loads(json.dumps(asdict(record)))
