"""`torch.neuron` on virtual cores.

Names and meanings are those of TorchNeuron's module of that name, so that a script written for it
runs here; the rest is what PyTorch asks of a device module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.accelerator import memory

from . import _runtime
from ._core import memory_table
from .dynamo_backend import dynamo_metrics, reset_dynamo_metrics

Device = torch.device | int | str | None
Event = torch.Event


def _index(device: Device) -> int:
    """Return the core a device argument names; None and a bare "neuron" mean the current one."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "neuron":
        raise ValueError(f"torch.neuron: expected a neuron device, got {device}")
    return current_device() if device.index is None else device.index


def is_available() -> bool:
    """Return whether there are cores."""
    return True


def is_initialized() -> bool:
    """Return whether the cores are ready for use; they always are."""
    return True


def init() -> None:
    """Do nothing: enabling the cores initialised them."""


def _lazy_init() -> None:
    init()


def _is_in_bad_fork() -> bool:
    # Virtual cores are plain memory, which a fork copies.
    return False


def device_count() -> int:
    """Return the number of cores of this process."""
    return _runtime.virtual_cores()[0]


def current_device() -> int:
    """Return the calling thread's current core."""
    return torch.accelerator.current_device_index()


def set_device(device: Device) -> None:
    """Make `device` the calling thread's current core; IndexError if there is no such core."""
    torch.accelerator.set_device_index(_index(device))


class device:  # noqa: N801 - PyTorch's name for it
    """Context manager that changes the current core."""

    def __init__(self, device: Device) -> None:
        self._core = _index(device)
        self._before = -1

    def __enter__(self) -> None:
        self._before = current_device()
        set_device(self._core)

    def __exit__(self, *exc: object) -> None:
        set_device(self._before)


def get_device_name(device: Device = None) -> str:
    """Return the core's name, "neuron:N"."""
    return f"neuron:{_index(device)}"


@dataclass(frozen=True)
class DeviceProperties:
    """What a core says of itself. `name` tells virtual cores from real ones."""

    name: str
    total_memory: int


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Return name and memory in bytes of a core."""
    return DeviceProperties("virtual trn2", _runtime.core_memory(_index(device)).limit_bytes)


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Return (0, 0): Neuron cores have no such number."""
    _index(device)
    return 0, 0


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes torch.autocast takes."""
    return [torch.float32, torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True, as on every Neuron core."""
    return True


# Streams: one a core, and work is done when the call returns.


def Stream(device: Device = None, priority: int = 0, **_: Any) -> torch.Stream:  # noqa: N802
    """Return the core's only stream."""
    return torch.Stream(device=f"neuron:{_index(device)}", priority=priority)


def current_stream(device: Device = None) -> torch.Stream:
    """Return the core's current stream."""
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: Device = None) -> torch.Stream:
    """Return the core's default stream, which is its only one."""
    return torch.accelerator.current_stream(_index(device))


def set_stream(stream: torch.Stream) -> None:
    """Make `stream` current."""
    torch.accelerator.set_stream(stream)


@contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """Run the block on `stream`; with None, change nothing."""
    if stream is None:
        yield
        return
    with stream:
        yield


def synchronize(device: Device = None) -> None:
    """Return at once: work on a virtual core is done when its call returns."""
    torch.accelerator.synchronize(_index(device))


def wait_stream(stream: torch.Stream) -> None:
    """Make the current stream wait for `stream`."""
    current_stream().wait_stream(stream)


def wait_event(event: torch.Event) -> None:
    """Make the current stream wait for `event`."""
    current_stream().wait_event(event)


def record_event(event: torch.Event | None = None) -> torch.Event:
    """Record an event on the current stream."""
    return current_stream().record_event(event)


def query() -> bool:
    """Return whether the current stream has done its work."""
    return current_stream().query()


def _sleep(cycles: int) -> None:
    """Do nothing, as TorchNeuron does."""


# Random numbers: a core draws what the CPU draws from the same seed.


def _generator(device: Device) -> torch.Generator:
    return default_generators[_index(device)]


class _Generators:
    """The default generators, one a core, in order."""

    def __getitem__(self, core: int) -> torch.Generator:
        generator: torch.Generator = _runtime.default_generator(core)
        return generator

    def __len__(self) -> int:
        return device_count()


default_generators = _Generators()


def manual_seed(seed: int) -> None:
    """Seed the current core's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every core's generator."""
    for core in range(device_count()):
        _generator(core).manual_seed(int(seed))


def seed() -> int:
    """Seed the current core's generator with a random number and return it."""
    return _generator(None).seed()


def seed_all() -> None:
    """Seed every core's generator with one random number."""
    manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    """Return the seed of the current core's generator."""
    return _generator(None).initial_seed()


def get_rng_state(device: Device = None) -> torch.Tensor:
    """Return the state of a core's generator, a uint8 tensor on the CPU."""
    return _generator(device).get_state()


def set_rng_state(state: torch.Tensor, device: Device = None) -> None:
    """Set the state of a core's generator."""
    _generator(device).set_state(state)


# Memory: every tensor is one exact allocation, so reserved equals allocated.


def memory_allocated(device: Device = None) -> int:
    """Return the bytes a core holds."""
    return torch.accelerator.memory_allocated(_index(device))


def max_memory_allocated(device: Device = None) -> int:
    """Return the most bytes a core held since the last reset."""
    return torch.accelerator.max_memory_allocated(_index(device))


def memory_reserved(device: Device = None) -> int:
    """Return the bytes a core holds."""
    return torch.accelerator.memory_reserved(_index(device))


def max_memory_reserved(device: Device = None) -> int:
    """Return the most bytes a core held since the last reset."""
    return torch.accelerator.max_memory_reserved(_index(device))


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Return PyTorch's flat dictionary of allocator statistics."""
    return dict(torch.accelerator.memory_stats(_index(device)))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Return (free, total) bytes of a core."""
    free, total = torch.accelerator.get_memory_info(_index(device))
    return free, total


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Return the ledger's table of who holds what."""
    return memory_table(_runtime.core_memory(_index(device)))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let peaks start again at what is held now."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let counts start again at zero."""
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def empty_cache() -> None:
    """Do nothing: freed memory goes back at once."""


def get_dynamo_metrics() -> dict[str, Any]:
    """Return what torch.compile(backend="neuron") did."""
    return dynamo_metrics()


__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_dynamo_metrics",
    "get_rng_state",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "query",
    "record_event",
    "reset_accumulated_memory_stats",
    "reset_dynamo_metrics",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_stream",
    "stream",
    "synchronize",
    "wait_event",
    "wait_stream",
]
