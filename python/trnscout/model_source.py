"""Where a model's files are: a directory, or a revision of a hub repository."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .errors import InvalidArgumentError, NotFoundError

_WEIGHT_PATTERNS = ("*.safetensors", "*.safetensors.index.json")
# What decides a run beside the weights.
_SETTING_PATTERNS = (
    "added_tokens.json",
    "chat_template*",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "*.model",
    "*.tiktoken",
    "tekken.json",
    "tokenizer*",
    "video_preprocessor_config.json",
    "vocab.*",
)
# The hub's own rule for "owner/name" and bare names.
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
_HASH_CHUNK_BYTES = 8 << 20
_CARD_BYTES = 64 << 10
# `license: apache-2.0` between the two lines of dashes that a model card may begin with.
_LICENCE = re.compile(r"""---\r?\n(?:(?!---).*\n)*?license: *["']?([\w.+-]+)""", re.ASCII)


@dataclass(frozen=True)
class ModelSource:
    """A model's files on this disk.

    `name` is what run.py loads: an absolute directory, or a hub id together with `revision`, the
    commit that the asked-for revision stood for.
    """

    name: str
    revision: str | None
    directory: Path

    def files(self) -> list[Path]:
        """Return the files that decide a run, by name."""
        wanted = _WEIGHT_PATTERNS + _SETTING_PATTERNS
        return sorted(
            path
            for path in self.directory.iterdir()
            if path.is_file() and any(fnmatchcase(path.name, pattern) for pattern in wanted)
        )

    def config(self) -> dict[str, Any]:
        """Return config.json.

        Raises:
            NotFoundError: there is none.
            InvalidArgumentError: it is not a JSON object; the message names line and column.
        """
        path = self.directory / "config.json"
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            raise NotFoundError(
                f"{self.directory}: there is no config.json, so this is not a Transformers model"
            ) from None
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(f"{path}: not UTF-8 at byte {error.start}") from None
        try:
            config = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidArgumentError(
                f"{path}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
            ) from None
        except RecursionError:
            raise InvalidArgumentError(f"{path}: nested too deeply") from None
        if not isinstance(config, dict):
            raise InvalidArgumentError(f"{path}: must hold an object, not {type(config).__name__}")
        return config

    def file_hashes(
        self, report: Callable[[int, int], None] = lambda done, total: None
    ) -> dict[str, str]:
        """Return the SHA-256 of every deciding file's content, by the file's name.

        `report` is called with the bytes done and the bytes there are.
        """
        files = self.files()
        total = sum(path.stat().st_size for path in files)
        done = 0
        hashes = {}
        for path in files:
            content = hashlib.sha256()
            with path.open("rb") as file:
                while chunk := file.read(_HASH_CHUNK_BYTES):
                    content.update(chunk)
                    done += len(chunk)
                    report(done, total)
            hashes[path.name] = content.hexdigest()
        return hashes

    def content_hash(self, report: Callable[[int, int], None] = lambda done, total: None) -> str:
        """Return "sha256:" and the hash over every deciding file's name and content."""
        return combined_hash(self.file_hashes(report))

    def tokenizer_template(self) -> str | None:
        """Return the chat template in tokenizer_config.json as JSON text, None without one."""
        try:
            settings = json.loads((self.directory / "tokenizer_config.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None  # a damaged file is named by the run that loads it
        template = settings.get("chat_template") if isinstance(settings, dict) else None
        return None if template is None else json.dumps(template, sort_keys=True)

    def licence(self) -> str | None:
        """Return the licence that the model card's front matter names."""
        try:
            card = (self.directory / "README.md").read_bytes()[:_CARD_BYTES]
        except OSError:
            return None
        found = _LICENCE.match(card.decode("utf-8", "replace"))
        return found[1] if found else None


def combined_hash(hashes: dict[str, str]) -> str:
    """Return "sha256:" and the hash over files' names and content, in the order of the names."""
    whole = hashlib.sha256()
    for name in sorted(hashes):
        whole.update(f"{name}\0{hashes[name]}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def is_hub_id(model: str) -> bool:
    """Tell whether `model` has the form of a hub id and names nothing on this disk."""
    return _HUB_ID.fullmatch(model) is not None and not Path(model).expanduser().exists()


def find_model(
    model: str, revision: str | None = None, *, with_weights: bool = True
) -> ModelSource:
    """Find a model's files; a hub id is downloaded into the hub's cache unless it is there.

    Raises:
        NotFoundError: no such directory, repository or revision, or the hub cannot be reached.
        InvalidArgumentError: `model` is neither a directory nor a hub id, or a revision is given
            for a directory.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        if revision is not None:
            raise InvalidArgumentError(
                f"{model} is a directory, which has no revision {revision!r}; "
                "leave --revision out, or give a hub id"
            )
        directory = path.resolve()
        return ModelSource(name=str(directory), revision=None, directory=directory)
    if path.exists():
        raise InvalidArgumentError(f"{model} is a file; give the directory that holds config.json")
    if model.startswith(("/", ".", "~")) or model.count("/") > 1:
        raise NotFoundError(f"{model}: there is no such directory")
    if _HUB_ID.fullmatch(model) is None:
        raise InvalidArgumentError(f"{model!r} is neither a directory nor a hub id (owner/name)")
    return _from_hub(model, revision, with_weights)


def _from_hub(model: str, revision: str | None, with_weights: bool) -> ModelSource:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    patterns = [*_SETTING_PATTERNS, "README.md", *(_WEIGHT_PATTERNS if with_weights else ())]
    asked = f"{model} at revision {revision or 'main'}"
    try:
        directory = Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except HFValidationError as error:
        raise InvalidArgumentError(f"{model!r} is not a hub id: {error}") from None
    except RevisionNotFoundError:
        raise NotFoundError(f"{asked}: the repository has no such revision") from None
    except RepositoryNotFoundError:
        raise NotFoundError(
            f"{asked}: there is no such directory here and no such repository on the hub, "
            "or it is private or gated and no token is set"
        ) from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise NotFoundError(f"{asked}: cannot be downloaded: {error}") from None
    return ModelSource(name=model, revision=directory.name, directory=directory)
