"""`--require`: what is read, what is refused, and when a record does not meet it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiny_models import make_tiny_model
from trnscout import InvalidArgumentError
from trnscout.dataset import Dataset
from trnscout.record import Depth, RunRecord, Verdict
from trnscout.requirement import parse_requirements, unmet
from trnscout.rows import record_values


def record(**values: Any) -> RunRecord:
    return replace(RunRecord(Verdict.NO_BLOCKER, Depth.VIRTUAL, None, None, "m", None), **values)


@pytest.mark.parametrize(
    ("text", "values", "met"),
    [
        ("cores<=4", {"cores": 4}, True),
        ("cores<4", {"cores": 4}, False),
        ("cores >= 4 , new_tokens>=512", {"cores": 4, "new_tokens": 512}, True),
        ("cores>4", {"cores": 5}, True),
        ("cores!=4", {"cores": 4}, False),
        ("fallbacks==0", {"fallbacks": 0}, True),
        ("fallbacks==0", {"fallbacks": 1}, False),
        ("load_s<=1.5", {"load_s": 1.5}, True),
        ("compiled==false", {"compiled": False}, True),
        ("compiled==true", {"compiled": False}, False),
        ("verdict==NO_BLOCKER", {}, True),
        ("error_class!=crash", {"error_class": "crash"}, False),
        ('model=="a,b"', {"model": "a,b"}, True),
        (r'model=="a\"b"', {"model": 'a"b'}, True),
    ],
)
def test_record_meets_what_it_should(text: str, values: dict[str, Any], met: bool) -> None:
    assert (unmet(parse_requirements(text), record(**values)) == []) is met


def test_null_never_meets_and_says_so() -> None:
    for text in ("fallbacks==0", "fallbacks!=0", "fallbacks>=0", "text!=x"):
        column = text[: text.index("=") - (text[text.index("=") - 1] in "!>")]
        (why,) = unmet(parse_requirements(text), record())
        assert why.endswith(f": {column} was not measured")


def test_what_is_not_met_is_said_with_its_value() -> None:
    found = unmet(parse_requirements("cores<=4,new_tokens>=512"), record(cores=8, new_tokens=9))
    assert found == ["cores<=4: cores is 8", "new_tokens>=512: new_tokens is 9"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "requirement '' is not COLUMN OPERATOR VALUE, such as cores<=4"),
        ("cores", "requirement 'cores' is not COLUMN OPERATOR VALUE"),
        ("cores<=", "requirement 'cores<=' is not COLUMN OPERATOR VALUE"),
        ("<=4", "requirement '<=4' is not COLUMN OPERATOR VALUE"),
        ("cores<=4,,", "requirement '' is not COLUMN OPERATOR VALUE"),
        ('model=="a', "requirement 'model==\"a' is not COLUMN OPERATOR VALUE"),
        ("cores=4", "requirement 'cores=4': operator = is unknown, must be one of <= >= == != < >"),
        ("cores=<4", "operator =< is unknown"),
        ("modle==x", "column modle is unknown; schema 1"),
        ("token_ids==1", "column token_ids is a list<int32>, which cannot be compared"),
        ("times_s==1", "column times_s is a json, which cannot be compared"),
        ("cores<=four", "column cores is a int64, four is none"),
        ("cores<=4.5", "column cores is a int64, 4.5 is none"),
        ("load_s<nan", "column load_s is a double, nan is none"),
        ("compiled==1", "column compiled is a bool, 1 is none"),
        ("compiled<true", "column compiled is a bool, which has == and != but not <"),
        ("verdict>FAIL", "column verdict is a Verdict, which has == and != but not >"),
        ("verdict==FIAL", "column verdict is a Verdict, FIAL is none"),
    ],
)
def test_requirement_that_says_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        parse_requirements(text)
    assert words in str(refused.value)


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trnscout", "check", *map(str, arguments)],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_good_verdict_that_misses_a_requirement_is_exit_4(tmp_path: Path) -> None:
    """And the record of that check is in the dataset, without what was to be kept out."""
    model = make_tiny_model("llama", tmp_path / "llama", with_tokenizer=True)
    data = tmp_path / "data"
    process = check(
        *(model, "--max-new-tokens", "3", "--json", "-", "--dataset", data, "--redact"),
        *(
            "--prompt",
            "a secret",
            "--require",
            "cores<=1,new_tokens>=3",
            "--require",
            "fallbacks==0",
        ),
    )
    assert process.returncode == 4, process.stderr
    assert "not met: fallbacks==0: fallbacks was not measured" in process.stderr
    assert process.stderr.count("not met:") == 1
    record = json.loads(process.stdout)
    assert (record["verdict"], record["new_tokens"]) == ("NO_BLOCKER", 3)
    assert record["parameters"] > 0 and record["architecture"] == "LlamaForCausalLM"
    assert record["reference_device"] == "cpu" and record["first_mismatch"] is None
    assert record["redacted"] and "a secret" not in process.stdout
    for column in ("weights_hash", "tokenizer_hash", "prompt_hash", "run_py_hash"):
        assert record[column].startswith("sha256:"), column
    (path,) = Dataset(data).parquet_files()
    assert path.stem == f"neuronx-cc-none_transformers-{record['versions']['transformers']}"
    (row,) = record_values(Dataset(data).read().table)
    assert row == record


def test_bad_requirement_and_dataset_are_refused_before_the_run(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for arguments, words in (
        (("--require", "modle==x"), "column modle is unknown"),
        (("--dataset", str(file)), "file: cannot be written: File exists"),
    ):
        process = check(tmp_path, *arguments)
        assert (process.returncode, process.stdout) == (2, "")
        assert words in process.stderr and "Traceback" not in process.stderr
