"""The record's schema, what is made from it, and what a value may be."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trnscout import InvalidArgumentError
from trnscout.printable import printable
from trnscout.record import Depth, ErrorClass, RunRecord, Verdict, identify, redact, row_id
from trnscout.record_facts import complete, nearest_rank
from trnscout.run_record_schema import normalise, schema

REPOSITORY = Path(__file__).resolve().parents[2]


def record(**values: Any) -> RunRecord:
    made = RunRecord(Verdict.FAIL, Depth.VIRTUAL, ErrorClass.CRASH, "words", "m", None)
    return replace(made, **values)


def test_generated_files_are_those_of_the_schema() -> None:
    script = REPOSITORY / "scripts" / "run_record.py"
    process = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, timeout=100
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_schema_says_of_each_column_what_it_is() -> None:
    table = schema()
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert {field.name for field in fields(RunRecord)} == set(names)
    for column in table.columns:
        assert column.group in table.groups, column
        assert 1 <= column.since <= table.version, column
        assert column.says.endswith(".") and len(column.says) < 120, column
        assert column.how in (None, "measured", "counted", "either"), column
        assert column.nullable or column.required or column.default is not None, column


def test_columns_never_change() -> None:
    """Names and types of version 1: files with them exist."""
    first = [f"{c.name} {c.type}" for c in schema().columns if c.since == 1]
    digest = hashlib.sha256("\n".join(sorted(first)).encode()).hexdigest()
    assert digest == "5d1ba4134ced63f0a786af158e2181b5220e707713402fc2356f289a80bbb816"


def test_every_error_class_belongs_to_a_verdict() -> None:
    values = schema().enums["ErrorClass"].values
    assert [value.value for value in values] == [str(each) for each in ErrorClass]
    assert {value.verdict for value in values} == {"FAIL", "LEFT_OUT"}


def test_row_id_is_that_of_the_content() -> None:
    one = identify(record(load_s=1.0))
    assert one.row_id == row_id(json.loads(one.to_json()))
    assert row_id({**asdict(record()), "load_s": 1}) == one.row_id  # 1 and 1.0 are one value
    assert identify(record(load_s=2.0)).row_id != one.row_id
    assert len(str(one.row_id)) == len("sha256:") + 64


def test_record_of_the_cpp_test_is_one_of_ours() -> None:
    """tests/cpp/run_record_test.cc reads the same file."""
    text = (REPOSITORY / "tests" / "data" / "run_record.json").read_text()
    values = json.loads(text)
    assert row_id(values) == values["row_id"]
    assert RunRecord(**values).to_json() == text


def test_row_id_does_not_know_columns_without_a_value() -> None:
    """So that rows keep their ids when a later version brings columns."""
    values = {"verdict": "FAIL", "depth": "virtual", "model": "m"}
    assert row_id(values) == row_id({**values, "fallbacks": None})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"modle": "m"}, "column modle is unknown; schema 1 of the run record has none"),
        ({"x\x1b[2J": 1}, r"column x\x1b[2J is unknown"),
        ({"model": None}, "column model is null, must have a value"),
        ({"model": 3}, "column model is 3, must be a string"),
        ({"model": "a\ud800"}, "column model holds a lone surrogate at position 1"),
        ({"verdict": "MAYBE"}, "column verdict is 'MAYBE', must be one of PASS, NO_BLOCKER"),
        ({"cores": 1.5}, "column cores is 1.5, must be a whole number from"),
        ({"cores": True}, "column cores is True, must be a whole number from"),
        ({"cores": 2**63}, "must be a whole number from -9223372036854775808"),
        ({"token_ids": [2**31]}, "column token_ids is 2147483648, must be a whole number from"),
        ({"token_ids": 7}, "column token_ids is 7, must be a list"),
        ({"logit_kl": float("nan")}, "column logit_kl is nan, must be a finite number"),
        ({"logit_kl": "low"}, "column logit_kl is 'low', must be a finite number"),
        ({"compiled": 1}, "column compiled is 1, must be true or false"),
        ({"times_s": [1]}, "column times_s is [1], must be an object"),
        ({"times_s": {"load": float("inf")}}, "column times_s is inf, must be a finite number"),
        ({"versions": {"torch": 2}}, "column versions is 2, must be a string"),
        ({"finished_at": "yesterday"}, "column finished_at is 'yesterday', must be a time with"),
        ({"finished_at": "2026-12-01T12:00:00"}, "must be a time with its zone"),
        ({"verdict": "PASS"}, "PASS needs depth hardware, depth is virtual"),
    ],
)
def test_value_of_no_column_is_refused(values: dict[str, Any], words: str) -> None:
    good = {"verdict": "FAIL", "depth": "virtual", "model": "m"}
    with pytest.raises(InvalidArgumentError) as refused:
        normalise({**good, **values})
    assert words in str(refused.value)


def test_record_refuses_a_pass_of_virtual_cores_however_it_is_spelled() -> None:
    values: dict[str, Any] = {"verdict": "PASS", "depth": "virtual"}
    for spelled in (values, {"verdict": Verdict.PASS, "depth": Depth.VIRTUAL}):
        with pytest.raises(InvalidArgumentError, match="PASS needs depth hardware"):
            RunRecord(**spelled, error_class=None, error=None, model="m", revision=None)


def test_times_are_kept_in_utc() -> None:
    good = {"verdict": "FAIL", "depth": "virtual", "model": "m"}
    row = normalise({**good, "finished_at": "2026-12-01T14:00:00+02:00"})
    assert row["finished_at"] == "2026-12-01T12:00:00.000000Z"


def test_complete_derives_only_what_was_measured() -> None:
    further = [0.01 * n for n in range(1, 21)]
    times = {"import": 2.0, "load": 1.0, "first_token": 0.5, "further_tokens": further, "total": 9}
    done = complete(record(times_s=times, token_ids=[1, 2, 3], reference_token_ids=[1, 9, 3]))
    assert (done.new_tokens, done.first_mismatch) == (3, 1)
    assert done.run_s == 0.5 + sum(further)
    for share, value in (
        (0.5, done.token_p50_s),
        (0.9, done.token_p90_s),
        (0.99, done.token_p99_s),
    ):
        assert value == np.quantile(further, share, method="inverted_cdf")
    for column in ("fallbacks", "compile_s", "logit_kl", "device_peak_constants_bytes"):
        assert getattr(done, column) is None
    assert complete(record(token_ids=[1], reference_token_ids=[1])).first_mismatch is None
    assert complete(record(token_ids=[1], reference_token_ids=[1, 2])).first_mismatch == 1


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_percentile_is_numpys_nearest_rank(share: float) -> None:
    values = np.random.default_rng(0).random(101).tolist()
    for count in (1, 2, 3, 10, 100, 101):
        few = values[:count]
        assert nearest_rank(few, share) == np.quantile(few, share, method="inverted_cdf")


def test_redacted_record_does_not_hold_the_prompt() -> None:
    secret = "the launch code"
    whole = identify(
        record(
            prompt=secret,
            prompt_hash="sha256:1",
            prompt_token_ids=[5],
            token_ids=[6],
            reference_token_ids=[6],
            text="it is 7",
            run_py=f"PROMPT = {secret!r}",
            run_py_hash="sha256:2",
            error=f"cannot read {secret}",
            warnings=[f"{secret}?"],
            new_tokens=1,
        )
    )
    clean = redact(whole)
    assert secret not in clean.to_json() and "it is 7" not in clean.to_json()
    assert (clean.prompt_hash, clean.run_py_hash, clean.new_tokens) == ("sha256:1", "sha256:2", 1)
    assert clean.token_ids is clean.reference_token_ids is clean.prompt_token_ids is None
    assert clean.redacted and clean.row_id == row_id(json.loads(clean.to_json()))
    assert clean.error == "cannot read [redacted]"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain <b>text</b> é 語", "plain <b>text</b> é 語"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\nb\r", r"a\x0ab\x0d"),
        ("\x9b31m", r"\x9b31m"),
        ("\U000e0041", r"\U000e0041"),
        ("\u3164x\ufe0f", r"\u3164x\ufe0f"),
        ("a\u2028b", r"a\u2028b"),
    ],
)
def test_hidden_characters_are_spelled_out(text: str, shown: str) -> None:
    """C103."""
    assert printable(text) == shown
