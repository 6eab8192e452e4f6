"""Writes run.py, the self-contained script that a check runs and a person takes to the chip."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, get_args

from .errors import InvalidArgumentError

Task = Literal["text-generation", "image-text-to-text"]
CacheKind = Literal["static", "dynamic"]

DTYPES = ("bfloat16", "float16", "float32")
# The text prompt has an answer of 32 tokens that even a small model is sure of: no near tie that
# another cache or another chip could tip over.
DEFAULT_PROMPTS: dict[Task, str] = {
    "text-generation": "Name the months of the year.",
    "image-text-to-text": "What shape is in this picture, and what colour is it?",
}

# Any one of these files makes a tokenizer; tokenizer_config.json alone does not.
_TOKENIZER_FILES = frozenset(
    {
        "sentencepiece.bpe.model",
        "spiece.model",
        "tekken.json",
        "tokenizer.json",
        "tokenizer.model",
        "vocab.json",
        "vocab.txt",
    }
)
_INPUTS: dict[Task, str] = {
    "text-generation": "run_script_text.py.in",
    "image-text-to-text": "run_script_image.py.in",
}


@dataclass(frozen=True)
class RunSpec:
    """What one run.py asks of one model: everything that the script holds as a literal.

    `model` is a directory or a hub id, and `revision` pins the latter. `prompt` is a question;
    None takes the one of `DEFAULT_PROMPTS`. `prompt_token_ids` stand in for the prompt when the
    checkpoint has no tokenizer; the text is then not decoded. Decoding is greedy and ends after
    `max_new_tokens` or at the model's end token.

    Errors: InvalidArgumentError - `task`, `dtype` or `cache` is not one of those named here,
            `model` or `prompt` is empty, `max_new_tokens` is below 1, or `prompt_token_ids` are
            empty, negative or given for a picture.
    """

    model: str
    task: Task = "text-generation"
    revision: str | None = None
    dtype: str = "bfloat16"
    cache: CacheKind = "static"
    max_new_tokens: int = 32
    prompt: str | None = None
    prompt_token_ids: Sequence[int] | None = None

    def __post_init__(self) -> None:
        """Refuses what no script could run."""
        _require_one_of("task", self.task, get_args(Task))
        _require_one_of("dtype", self.dtype, DTYPES)
        _require_one_of("cache", self.cache, get_args(CacheKind))
        if not self.model:
            raise InvalidArgumentError("model is empty; give a directory or a hub id")
        if self.prompt is not None and not self.prompt:
            raise InvalidArgumentError("prompt is empty; leave it out to take the default prompt")
        if self.max_new_tokens < 1:
            raise InvalidArgumentError(
                f"max_new_tokens is {self.max_new_tokens}; at least 1 is needed"
            )
        ids = self.prompt_token_ids
        if ids is None:
            return
        if self.task == "image-text-to-text":
            raise InvalidArgumentError(
                "prompt_token_ids cannot be used for task image-text-to-text; the model's "
                "processor makes the token ids from the picture"
            )
        if not ids or min(ids) < 0:
            raise InvalidArgumentError(
                f"prompt_token_ids are {list(ids)}; at least one id is needed, and none below 0"
            )


def render_run_script(spec: RunSpec) -> str:
    """Returns the text of run.py for `spec`, in plain ASCII.

    The values stand in the script as Python literals, whatever characters they hold.
    """
    ids = spec.prompt_token_ids
    values = {
        "TASK": ascii(spec.task),
        "MODEL": ascii(spec.model),
        "REVISION": ascii(spec.revision),
        "DTYPE": ascii(spec.dtype),
        "CACHE": ascii(spec.cache),
        "MAX_NEW_TOKENS": ascii(int(spec.max_new_tokens)),
        "PROMPT": ascii(spec.prompt or DEFAULT_PROMPTS[spec.task]),
        "PROMPT_TOKEN_IDS": ascii(None if ids is None else [int(token) for token in ids]),
        "INPUTS": _read(_INPUTS[spec.task]).rstrip("\n"),
    }
    # One pass over the template: a value that looks like a marker is never looked at again.
    return re.sub("@([A-Z_]+)@", lambda found: values[found[1]], _read("run_script_template.py.in"))


def has_tokenizer(file_names: Iterable[str]) -> bool:
    """Tells whether a checkpoint with these files can turn a prompt into token ids.

    Trying it with Transformers would not tell: some families get an empty tokenizer.
    """
    return any(name in _TOKENIZER_FILES or name.endswith(".tiktoken") for name in file_names)


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _require_one_of(field: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(f"{field} is {value!r}; it must be one of {', '.join(allowed)}")
