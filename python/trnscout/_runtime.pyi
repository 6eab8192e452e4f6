"""
Parts of trnscout on libtorch.
"""

from __future__ import annotations
import trnscout._core
import typing

__all__: list[str] = [
    "MAX_VIRTUAL_CORES",
    "core_memory",
    "default_generator",
    "enable_virtual_cores",
    "virtual_cores",
]

def core_memory(core: typing.SupportsInt | typing.SupportsIndex) -> trnscout._core.MemorySnapshot:
    """
    Returns the core's memory by category.
    """

def default_generator(core: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
    """
    Returns the torch.Generator that the core draws from by default.
    """

def enable_virtual_cores(
    cores: typing.SupportsInt | typing.SupportsIndex,
    core_memory_bytes: typing.SupportsInt | typing.SupportsIndex,
) -> None:
    """
    Registers the device; trnscout.enable_virtual_cores does the rest.
    """

def virtual_cores() -> tuple[int, int]:
    """
    Returns (cores, core_memory_bytes) in force.
    """

MAX_VIRTUAL_CORES: int = 64
