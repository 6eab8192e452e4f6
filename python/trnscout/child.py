"""Runs a run.py in a process of its own, and brings back all that it left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# (phase, tokens done, tokens in all); the last two are 0 outside phase "generate".
Progress = Callable[[str, int, int], None]

_PHASE = re.compile(r"run\.py: phase (\w+)")
_TOKEN = re.compile(r"run\.py: token (\d+) of (\d+)")
_ERROR = re.compile(r"run\.py: error: (.*)")
_KEPT_LINES = 200
# What decides where a child runs; a parent's own values must not leak into it.
_OURS = ("TRNSCOUT_VIRTUAL_CORES", "TRNSCOUT_CORE_MEMORY_BYTES", "TRNSCOUT_EVIDENCE")


@dataclass
class ChildRun:
    """What one run of run.py left behind.

    `exit_code` is negative for a death by signal. `result` is its JSON line, None without one.
    `evidence` is what trnscout saw inside it, None if it was not on virtual cores or was killed.
    """

    exit_code: int
    timed_out: bool
    phase: str
    result: dict[str, Any] | None
    evidence: dict[str, Any] | None
    start_error: str | None
    stderr_tail: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether it ended well and answered."""
        return self.exit_code == 0 and self.result is not None


@dataclass(frozen=True)
class VirtualTarget:
    """Virtual cores for a child."""

    cores: int
    core_memory_bytes: int


def run_child(
    run_py: Path,
    arguments: Sequence[str],
    *,
    target: VirtualTarget | None,
    timeout_s: float,
    progress: Progress = lambda phase, done, total: None,
) -> ChildRun:
    """Run `run_py` with this Python; with a `target` on virtual cores, else as the host is.

    The child and all that it starts are gone when this returns or raises.
    """
    evidence = run_py.with_name("evidence.json")
    evidence.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, str(run_py), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=_environment(target, evidence),
        cwd=run_py.parent,
        start_new_session=True,
    )
    run = ChildRun(0, False, "start", None, None, None)
    reader = threading.Thread(target=_read_stderr, args=(process, run, progress), daemon=True)
    reader.start()
    stdout: list[str] = []
    collector = threading.Thread(target=_read_all, args=(process, stdout), daemon=True)
    collector.start()
    try:
        run.exit_code = process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        run.timed_out = True
    finally:
        _kill_group(process)
    run.exit_code = process.wait()
    reader.join()
    collector.join()
    run.result = _last_json_line("".join(stdout))
    run.evidence = _read_json(evidence)
    return run


def _environment(target: VirtualTarget | None, evidence: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in _OURS}
    # What was hashed is what runs: the hub's cache, never a newer download.
    env["HF_HUB_OFFLINE"] = "1"
    env["TOKENIZERS_PARALLELISM"] = "false"
    env.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    if target is not None:
        env["TRNSCOUT_VIRTUAL_CORES"] = str(target.cores)
        env["TRNSCOUT_CORE_MEMORY_BYTES"] = str(target.core_memory_bytes)
        env["TRNSCOUT_EVIDENCE"] = str(evidence)
    return env


def _read_stderr(process: subprocess.Popen[str], run: ChildRun, progress: Progress) -> None:
    tail: deque[str] = deque(maxlen=_KEPT_LINES)
    assert process.stderr is not None
    for line in process.stderr:
        line = line.rstrip("\n")
        if found := _TOKEN.fullmatch(line):
            progress(run.phase, int(found[1]), int(found[2]))
            continue
        tail.append(line)
        if found := _PHASE.fullmatch(line):
            run.phase = found[1]
            progress(run.phase, 0, 0)
        elif found := _ERROR.fullmatch(line):
            run.start_error = found[1]
        elif run.start_error is not None:  # the message went on
            run.start_error += f"\n{line}"
    run.stderr_tail = list(tail)


def _read_all(process: subprocess.Popen[str], into: list[str]) -> None:
    assert process.stdout is not None
    into.append(process.stdout.read())


def _kill_group(process: subprocess.Popen[str]) -> None:
    # Also after a normal end: what the child started must not outlive it.
    for attempt in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, attempt)
        except ProcessLookupError:
            return
        if attempt is signal.SIGTERM and process.poll() is None:
            time.sleep(0.2)


def _last_json_line(text: str) -> dict[str, Any] | None:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    try:
        value = json.loads(lines[-1])
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return value if isinstance(value, dict) else None
