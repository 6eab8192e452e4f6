"""
Parts of trnscout that start without torch.
"""

from __future__ import annotations
import os
import pathlib
import typing

__all__: list[str] = [
    "Checkpoint",
    "CheckpointShard",
    "MemoryHolder",
    "MemoryLedger",
    "MemorySnapshot",
    "MemoryUse",
    "TRN2_CORE_MEMORY_BYTES",
    "TensorInfo",
    "format_bytes",
    "memory_table",
]

class TensorInfo:
    """
    What a header says of one tensor, and where its bytes lie in the shard's file.
    """
    def __repr__(self) -> str: ...
    @property
    def begin_bytes(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def dtype(self) -> str:
        """
        As the format spells it, for example 'BF16'.
        """
    @property
    def end_bytes(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple:
        """
        In elements, also where an element is narrower than a byte.
        """
    @property
    def shard(self) -> int:
        """
        Index into the checkpoint's shards.
        """

class CheckpointShard:
    """
    One file of weights.
    """
    def __repr__(self) -> str: ...
    @property
    def bytes(self) -> int:
        """
        Size of the file, header included.
        """
    @property
    def file_name(self) -> str:
        """
        As the index spells it.
        """
    @property
    def path(self) -> pathlib.Path: ...

class Checkpoint:
    """
    The tensors of a model's directory, by name, from the headers alone.
    """
    @staticmethod
    def open(dir: os.PathLike | str | bytes) -> Checkpoint:
        """
        Opens the model in `dir` and checks every header against its file; weights are not read. Raises NotFoundError for files that are missing, InvalidArgumentError for files that are damaged or lead out of `dir`.
        """
    def __repr__(self) -> str: ...
    def find(self, name: str) -> TensorInfo:
        """
        Finds a tensor; None where no tensor has that name.
        """
    @property
    def shards(self) -> list[CheckpointShard]:
        """
        Every file of weights, sorted by name.
        """
    @property
    def tensors(self) -> list[TensorInfo]:
        """
        Every tensor, sorted by name.
        """
    @property
    def total_bytes(self) -> int:
        """
        Bytes of all tensors, from the headers.
        """
    @property
    def warnings(self) -> list[str]:
        """
        What is odd but does no harm.
        """

class MemoryUse:
    """
    Bytes held now, and the most held at one moment.
    """
    @property
    def peak_bytes(self) -> int: ...
    @property
    def present_bytes(self) -> int: ...

class MemoryHolder:
    """
    Bytes held now by the blocks one operator made.
    """
    @property
    def blocks(self) -> int: ...
    @property
    def category(self) -> str: ...
    @property
    def made_by(self) -> str: ...
    @property
    def present_bytes(self) -> int: ...

class MemorySnapshot:
    """
    One core's memory at one moment.
    """
    @property
    def categories(self) -> dict: ...
    @property
    def charged_bytes(self) -> int: ...
    @property
    def charges(self) -> int: ...
    @property
    def core(self) -> int: ...
    @property
    def holders(self) -> list[MemoryHolder]: ...
    @property
    def limit_bytes(self) -> int: ...
    @property
    def refusals(self) -> int: ...
    @property
    def total(self) -> MemoryUse: ...

class MemoryLedger:
    """
    Keeps one core's budget by category.
    """
    class Charge:
        """
        One accepted charge.
        """
        @property
        def bytes(self) -> int: ...

    def __init__(
        self,
        *,
        core: typing.SupportsInt | typing.SupportsIndex = 0,
        limit_bytes: typing.SupportsInt | typing.SupportsIndex = 25769803776,
    ) -> None: ...
    def charge(
        self, category: str, bytes: typing.SupportsInt | typing.SupportsIndex, made_by: str
    ) -> MemoryLedger.Charge:
        """
        Books bytes; raises ResourceExhaustedError with the table when they would pass the limit.
        """
    def release(self, charge: MemoryLedger.Charge) -> None:
        """
        Ends a charge; give each back once.
        """
    def reset_peaks(self) -> None:
        """
        Lets every peak start again at what is held now.
        """
    def snapshot(self) -> MemorySnapshot:
        """
        Returns what is held, by category.
        """

def format_bytes(bytes: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    Formats bytes with a binary unit and two decimals: '1.50 GiB'.
    """

def memory_table(snapshot: MemorySnapshot) -> str:
    """
    Formats a snapshot as the table of out-of-memory messages.
    """

TRN2_CORE_MEMORY_BYTES: int = 25769803776
