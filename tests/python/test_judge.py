"""Verdicts from what runs leave behind, and that a child leaves no process behind."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from trnscout.child import ChildRun, VirtualTarget, run_child
from trnscout.judge import classify_failure, compare_tokens
from trnscout.record import ErrorClass


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([], [], None),
        ([1, 9, 3], [1, 2, 3], "first at position 1: neuron made 9, the CPU made 2"),
        ([1, 2, 3], [1, 2], "first at position 2: neuron went on with 3, the other had stopped"),
        ([1], [1, 2], "first at position 1: the CPU went on with 2, the other had stopped"),
    ],
)
def test_tokens_are_compared_to_the_first_difference(
    ours: list[int], theirs: list[int], words: str | None
) -> None:
    said = compare_tokens(ours, theirs, "neuron")
    assert (said is None) if words is None else (said is not None and words in said)


def failed_run(error_type: str | None, *, phase: str = "generate", **changes: Any) -> ChildRun:
    evidence = error_type and {"error": {"type": error_type, "message": "words"}}
    values = {"exit_code": 1, "timed_out": False, "result": None, "start_error": None, **changes}
    return ChildRun(phase=phase, evidence=evidence or None, **values)


@pytest.mark.parametrize(
    ("run", "error_class", "words"),
    [
        (failed_run("torch.OutOfMemoryError"), ErrorClass.OUT_OF_DEVICE_MEMORY, "words"),
        (
            failed_run("builtins.NotImplementedError"),
            ErrorClass.OPERATOR_MISSING,
            "NotImplementedError: words",
        ),
        (
            failed_run("torch._dynamo.exc.BackendCompilerFailed"),
            ErrorClass.COMPILE_ERROR,
            "BackendCompilerFailed: words",
        ),
        (failed_run("builtins.OSError", phase="load"), ErrorClass.LOAD_ERROR, "OSError: words"),
        (failed_run("builtins.OSError"), ErrorClass.RUN_ERROR, "OSError: words"),
        (failed_run(None, phase="load"), ErrorClass.LOAD_ERROR, "exited with 1 in phase load"),
        (failed_run(None, exit_code=-9), ErrorClass.CRASH, "the host may have run out of memory"),
        (failed_run(None, exit_code=-11), ErrorClass.CRASH, "died by SIGSEGV in phase generate"),
        (failed_run(None, exit_code=0), ErrorClass.NO_ANSWER, "printed no JSON line"),
        (failed_run(None, timed_out=True), ErrorClass.TIMEOUT, "did not end within 5 s"),
    ],
)
def test_failure_has_its_class(run: ChildRun, error_class: ErrorClass, words: str) -> None:
    found, said = classify_failure(run, 5)
    assert found is error_class
    assert words in said


def child(tmp_path: Path, code: str, **options: Any) -> ChildRun:
    run_py = tmp_path / "run.py"
    run_py.write_text(code)
    options = {"target": None, "timeout_s": 60, **options}
    return run_child(run_py, [], **options)


def test_child_brings_back_its_json_line_and_progress(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    run = child(
        tmp_path,
        "import sys\n"
        "for s in ('phase load', 'phase generate', 'token 1 of 2', 'token 2 of 2'):\n"
        "    print('run.py:', s, file=sys.stderr)\n"
        "print('chatter'); print('{\"token_ids\": [1]}')",
        progress=lambda *step: seen.append(step),
    )
    assert run.ok and run.result == {"token_ids": [1]}
    assert seen == [("load", 0, 0), ("generate", 0, 0), ("generate", 1, 2), ("generate", 2, 2)]


def test_error_message_of_several_lines_comes_back_whole(tmp_path: Path) -> None:
    run = child(
        tmp_path,
        "import sys; print('run.py: error: one\\ntwo', file=sys.stderr); sys.exit(2)",
    )
    assert (run.exit_code, run.start_error) == (2, "one\ntwo")


@pytest.mark.parametrize("line", ["", "no json", "[1]", '{"cut":'])
def test_child_without_an_answer_has_none(tmp_path: Path, line: str) -> None:
    run = child(tmp_path, f"print({line!r})")
    assert not run.ok and run.exit_code == 0 and run.result is None


def test_child_that_hangs_is_gone_with_all_it_started(tmp_path: Path) -> None:
    run = child(
        tmp_path,
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n"
        "time.sleep(600)",
        timeout_s=3,
    )
    assert run.timed_out
    grandchild = int((tmp_path / "pid").read_text())
    for _ in range(50):
        status = Path(f"/proc/{grandchild}/stat")
        if not status.exists() or status.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    os.kill(grandchild, 9)
    pytest.fail("the grandchild outlived the child")


def test_childs_place_is_decided_by_its_target_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRNSCOUT_VIRTUAL_CORES", "9")
    code = (
        "import json, os\n"
        "print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('TRNSCOUT_')}))"
    )
    assert child(tmp_path, code).result == {}
    result = child(tmp_path, code, target=VirtualTarget(3, 4096)).result
    assert result is not None
    assert result["TRNSCOUT_VIRTUAL_CORES"] == "3"
    assert result["TRNSCOUT_CORE_MEMORY_BYTES"] == "4096"
