"""How a check looks on a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ._core import format_bytes
from .printable import printable
from .record import RunRecord, Verdict

_COLOURS = {
    Verdict.PASS: "bold green",
    Verdict.NO_BLOCKER: "bold green",
    Verdict.FAIL: "bold red",
    Verdict.LEFT_OUT: "bold yellow",
}
_STAGES = {
    "hash": "reading the files",
    "core start": "core: starting",
    "core import": "core: importing",
    "core load": "core: loading the model",
    "core generate": "core: making tokens",
    "reference start": "CPU: starting",
    "reference import": "CPU: importing",
    "reference load": "CPU: loading the model",
    "reference generate": "CPU: making tokens",
}


class CheckProgress:
    """Progress bars of a check; `report` is what `trnscout.check` calls."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("planning", total=None)
        self._stage = ""

    def __enter__(self) -> CheckProgress:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def report(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done in `stage`; a total of 0 is one not known."""
        if stage != self._stage:
            self._stage = stage
            self._progress.reset(self._task, description=_STAGES.get(stage, stage))
        self._progress.update(self._task, completed=done, total=total or None)


def show_record(record: RunRecord, console: Console) -> None:
    """Print what a person wants of a record: the verdict last, where the eye is."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(record):
        table.add_row(name, Text(printable(value, keep="\n")))
    console.print(table)
    for warning in record.warnings:
        console.print(Text(printable(f"warning: {warning}"), style="yellow"), soft_wrap=True)
    line = Text(str(record.verdict), style=_COLOURS[record.verdict])
    if record.error_class is not None:
        line.append(f"  {record.error_class}", style="bold")
    console.print()
    console.print(line)
    if record.error is not None:
        console.print(Text(printable(record.error, keep="\n")), soft_wrap=True)
    console.print(Text(record.boundary, style="italic"))


def _rows(record: RunRecord) -> list[tuple[str, str]]:
    rows = [
        ("model", record.model + (f" at {record.revision}" if record.revision else "")),
        ("depth", str(record.depth)),
        ("task", record.task or "-"),
        ("cores", f"{record.cores} (tp_degree {record.tp_degree}, ep_degree {record.ep_degree})"),
    ]
    if record.weights_bytes is not None:
        rows.append(("weights", f"{format_bytes(record.weights_bytes)} in {record.dtype}"))
    if record.device_peak_bytes is not None:
        limit = format_bytes(record.core_memory_bytes or 0)
        peak = record.device_peak_bytes
        rows.append(("core peak", f"{format_bytes(peak)} ({peak} bytes) of {limit}"))
    if record.host_peak_bytes is not None:
        peak = record.host_peak_bytes
        rows.append(("host peak", f"{format_bytes(peak)} ({peak} bytes)"))
    if record.cache is not None:
        rows.append(("cache", f"{record.cache} ({record.cache_reason})"))
    if record.compiled is not None:
        rows.append(
            ("compiled", f"{record.compiled} ({record.graphs} graphs traced and passed through)")
        )
    rows += [("times", text) for text in _times(record)]
    if record.token_ids is not None:
        rows.append(("tokens", f"{len(record.token_ids)}, ended by {record.stopped}"))
        rows.append(("text", record.text if record.text is not None else str(record.token_ids)))
    return rows


def _times(record: RunRecord) -> list[str]:
    lines = []
    for where, times in (("core", record.times_s), ("CPU", record.reference_times_s)):
        if times is None:
            continue
        further = times["further_tokens"]
        text = (
            f"{where}: import {times['import']:.2f} s, load {times['load']:.2f} s, "
            f"first token {times['first_token']:.3f} s"
        )
        if further:
            middle = sorted(further)[len(further) // 2]
            text += f", each further token {middle:.3f} s (median of {len(further)})"
        lines.append(text)
    return lines
