"""From what two runs left behind to a verdict."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from .child import ChildRun
from .record import ErrorClass

_TAIL_LINES = 15


def compare_tokens(
    token_ids: Sequence[int], reference_token_ids: Sequence[int], device: str
) -> str | None:
    """Say where two greedy sequences part, in words; None where they are equal.

    Positions count new tokens from 0.
    """
    for position, (ours, theirs) in enumerate(zip(token_ids, reference_token_ids, strict=False)):
        if ours != theirs:
            return (
                f"tokens differ first at position {position}: {device} made {ours}, "
                f"the CPU made {theirs}"
            )
    if len(token_ids) != len(reference_token_ids):
        position = min(len(token_ids), len(reference_token_ids))
        longer, name = (
            (token_ids, device) if len(token_ids) > position else (reference_token_ids, "the CPU")
        )
        return (
            f"tokens differ first at position {position}: {name} went on with "
            f"{longer[position]}, the other had stopped"
        )
    return None


def classify_failure(run: ChildRun, timeout_s: float) -> tuple[ErrorClass, str]:
    """Name why a run gave no answer, with the run's own words."""
    if run.timed_out:
        return (
            ErrorClass.TIMEOUT,
            f"run.py did not end within {timeout_s:g} s; it was in phase {run.phase}",
        )
    if run.exit_code < 0:
        name = signal.Signals(-run.exit_code).name
        hint = "; the host may have run out of memory" if name == "SIGKILL" else ""
        return ErrorClass.CRASH, _with_tail(
            f"run.py died by {name} in phase {run.phase}{hint}", run
        )
    if run.exit_code == 0:
        return ErrorClass.NO_ANSWER, _with_tail("run.py ended well but printed no JSON line", run)
    error = run.evidence["error"] if run.evidence else None
    if error is None:
        kind = ErrorClass.LOAD_ERROR if run.phase == "load" else ErrorClass.RUN_ERROR
        return kind, _with_tail(f"run.py exited with {run.exit_code} in phase {run.phase}", run)
    short = error["type"].removeprefix("builtins.")
    words = f"{short}: {error['message']}"
    if short == "torch.OutOfMemoryError":
        return ErrorClass.OUT_OF_DEVICE_MEMORY, error["message"]
    if short == "NotImplementedError":
        return ErrorClass.OPERATOR_MISSING, words
    if short.startswith(("torch._dynamo.", "torch._inductor.")):
        return ErrorClass.COMPILE_ERROR, words
    return (ErrorClass.LOAD_ERROR if run.phase == "load" else ErrorClass.RUN_ERROR), words


def _with_tail(message: str, run: ChildRun) -> str:
    tail = [line for line in run.stderr_tail if line.strip()][-_TAIL_LINES:]
    return "\n".join([message, *tail])
