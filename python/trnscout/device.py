"""Virtual Neuron cores: PyTorch's device `neuron`, simulated in host memory.

Importing this module imports torch but registers nothing; `enable_virtual_cores` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

from . import _runtime
from ._core import TRN2_CORE_MEMORY_BYTES, MemorySnapshot
from .errors import Error
from .hardware import neuron_package

MAX_VIRTUAL_CORES: int = _runtime.MAX_VIRTUAL_CORES


@dataclass(frozen=True)
class VirtualCores:
    """The virtual cores of this process."""

    cores: int
    core_memory_bytes: int


def enable_virtual_cores(
    cores: int = 1, *, core_memory_bytes: int = TRN2_CORE_MEMORY_BYTES
) -> None:
    """Register PyTorch's device `neuron` with virtual cores, for the rest of the process.

    Afterwards `tensor.to("neuron")`, `torch.neuron` and `torch.compile(backend="neuron")` work.
    Calling it again with equal arguments does nothing.

    Raises:
        InvalidArgumentError: `cores` is not in [1, 64] or `core_memory_bytes` is not positive.
        Error: cores are enabled with other arguments, another device owns PrivateUse1, or a real
            torch_neuronx is installed: virtual cores never stand beside real ones.
    """
    if package := neuron_package():
        raise Error(
            f"virtual cores: {package} is installed here and drives real Neuron cores; "
            "virtual cores never stand beside them"
        )
    _runtime.enable_virtual_cores(cores, core_memory_bytes)
    from . import dynamo_backend, neuron

    if getattr(torch, "neuron", None) is neuron:
        return
    rename_privateuse1_backend("neuron")
    torch._register_device_module("neuron", neuron)  # type: ignore[no-untyped-call]
    generate_methods_for_privateuse1_backend(for_storage=True)
    dynamo_backend.register(cores)


def virtual_cores() -> VirtualCores:
    """Return the virtual cores in force.

    Raises:
        Error: none are enabled in this process.
    """
    return VirtualCores(*_runtime.virtual_cores())


def core_memory(core: int = 0) -> MemorySnapshot:
    """Return what `core` holds by category, in bytes, now and at its peak.

    Raises:
        Error: no virtual cores are enabled.
        OutOfRangeError: there is no such core.
    """
    return _runtime.core_memory(core)
