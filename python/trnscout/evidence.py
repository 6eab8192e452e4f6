"""What a process on virtual cores saw, written to a file when it ends.

The process runs a script that knows nothing of trnscout; its parent reads the file.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from ._core import MemorySnapshot, memory_table
from .device import core_memory, virtual_cores
from .dynamo_backend import dynamo_metrics

_TRACEBACK_LINES = 60


def describe_memory(snapshot: MemorySnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON values, sizes in bytes."""
    return {
        "core": snapshot.core,
        "limit_bytes": snapshot.limit_bytes,
        "present_bytes": snapshot.total.present_bytes,
        "peak_bytes": snapshot.total.peak_bytes,
        "refusals": snapshot.refusals,
        "peak_bytes_by_category": {
            name: use.peak_bytes for name, use in snapshot.categories.items()
        },
        "table": memory_table(snapshot),
    }


def _describe_error(kind: type[BaseException], error: BaseException) -> dict[str, str]:
    lines = traceback.format_exception(kind, error, error.__traceback__)
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "message": str(error),
        "traceback": "\n".join("".join(lines).splitlines()[-_TRACEBACK_LINES:]),
    }


def write_at_exit(path: str) -> None:
    """Write the evidence to `path` when this process ends, however Python ends it.

    The file appears whole or not at all. A process that is killed leaves none.
    """
    evidence: dict[str, Any] = {"error": None}
    hook_before = sys.excepthook

    def note_error(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        evidence["error"] = _describe_error(kind, error)
        hook_before(kind, error, trace)

    def write() -> None:
        evidence["cores"] = [describe_memory(core_memory(i)) for i in range(virtual_cores().cores)]
        evidence["dynamo"] = dynamo_metrics()
        partial = Path(f"{path}.{os.getpid()}.partial")
        partial.write_text(json.dumps(evidence))
        partial.replace(path)

    sys.excepthook = note_error
    atexit.register(write)
