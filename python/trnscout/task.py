"""Which task a model is asked to do, and what keeps it from being asked."""

from __future__ import annotations

from typing import Any

from .errors import InvalidArgumentError
from .record import ErrorClass
from .run_script import DTYPES, Task


class LeftOut(Exception):  # noqa: N818 - an answer, not an error
    """There will be no verdict on this model."""

    def __init__(self, error_class: ErrorClass, reason: str) -> None:
        super().__init__(reason)
        self.error_class = error_class
        self.reason = reason


def choose_task(config: dict[str, Any]) -> Task:
    """Return the task that Transformers' own tables give the model.

    `architectures` decides where it names a class of a table; else `model_type` does.

    Raises:
        InvalidArgumentError: config.json has no model_type.
        LeftOut: neither task fits, or the model brings its own code.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    )

    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise InvalidArgumentError(
            f"config.json: model_type is {model_type!r}, must be a string that names a family"
        )
    if model_type not in CONFIG_MAPPING_NAMES:
        if "auto_map" in config:
            raise LeftOut(
                ErrorClass.CUSTOM_CODE,
                f"model_type {model_type!r} needs Python code from the model's repository "
                "(auto_map); trnscout never runs that",
            )
        raise LeftOut(
            ErrorClass.TASK_NOT_COVERED,
            f"this Transformers does not know model_type {model_type!r}",
        )
    tables: list[tuple[Task, Any]] = [
        ("text-generation", MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
        ("image-text-to-text", MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES),
    ]
    named = config.get("architectures") or []
    for task, table in tables:
        classes = table.get(model_type, ())
        if any(name in ((classes,) if isinstance(classes, str) else classes) for name in named):
            return task
    if not named:
        for task, table in tables:
            if model_type in table:
                return task
    raise LeftOut(
        ErrorClass.TASK_NOT_COVERED,
        f"model_type {model_type!r} with architectures {named!r} does neither text-generation "
        "nor image-text-to-text",
    )


def choose_dtype(config: dict[str, Any], asked: str | None) -> str:
    """Return the dtype to load in: the one asked for, else the config's own, else bfloat16.

    Raises:
        InvalidArgumentError: the one asked for is not among float32, float16, bfloat16.
    """
    if asked is not None:
        if asked not in DTYPES:
            raise InvalidArgumentError(f"dtype is {asked!r}, must be one of {', '.join(DTYPES)}")
        return asked
    text_config = config.get("text_config")
    nested = text_config if isinstance(text_config, dict) else {}
    for holder in (config, nested):
        for key in ("dtype", "torch_dtype"):
            if holder.get(key) in DTYPES:
                return str(holder[key])
    return "bfloat16"
