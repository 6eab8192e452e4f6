"""What one core must hold, from the safetensors headers alone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ._core import TRN2_CORE_MEMORY_BYTES, Checkpoint, format_bytes
from .record import ErrorClass
from .task import LeftOut

# Bytes of an element after from_pretrained(dtype=...), which casts what floats and keeps the rest.
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_KEPT_BYTES = {
    "I64": 8,
    "U64": 8,
    "I32": 4,
    "U32": 4,
    "I16": 2,
    "U16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
_DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class OneCorePlan:
    """The weights of a model on one core, in bytes."""

    weights_bytes: int


def plan_one_core(checkpoint: Checkpoint, dtype: str) -> OneCorePlan:
    """Sum the weights as they will lie on the core.

    Raises:
        LeftOut: an element type cannot be loaded, or the sum passes a real core or this host.
    """
    total = 0
    for tensor in checkpoint.tensors:
        if tensor.dtype in _FLOATS:
            size = _DTYPE_BYTES[dtype]
        elif tensor.dtype in _KEPT_BYTES:
            size = _KEPT_BYTES[tensor.dtype]
        else:
            raise LeftOut(
                ErrorClass.DTYPE_NOT_COVERED,
                f"tensor {tensor.name} has element type {tensor.dtype}; a run here loads "
                f"{', '.join(sorted(_FLOATS))} and whole numbers",
            )
        elements = 1
        for length in tensor.shape:
            elements *= length
        total += elements * size
    if total > TRN2_CORE_MEMORY_BYTES:
        cores = -(-total // TRN2_CORE_MEMORY_BYTES)
        raise LeftOut(
            ErrorClass.TOO_LARGE_FOR_ONE_CORE,
            f"the weights take {format_bytes(total)} ({total} bytes) in {dtype}, one Trainium2 "
            f"core holds {format_bytes(TRN2_CORE_MEMORY_BYTES)}: at least {cores} cores are "
            "needed, and a check runs one for now",
        )
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if total > host:
        raise LeftOut(
            ErrorClass.TOO_LARGE_FOR_THIS_HOST,
            f"the weights take {format_bytes(total)} ({total} bytes) in {dtype}, this machine "
            f"has {format_bytes(host)} of memory",
        )
    return OneCorePlan(total)
