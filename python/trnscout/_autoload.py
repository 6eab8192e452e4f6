"""What runs at the end of `import torch`, through PyTorch's entry point `torch.backends`.

Virtual cores appear only where the environment asks for them:

- `TRNSCOUT_VIRTUAL_CORES=N`: N cores; without it nothing here does anything.
- `TRNSCOUT_CORE_MEMORY_BYTES=B`: bytes of each core, 24 GiB by default.
- `TRNSCOUT_EVIDENCE=FILE`: at exit, write what the cores held as JSON to FILE.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """Enable virtual cores if the environment asks for them.

    Raises:
        InvalidArgumentError: a variable is not a whole number, or out of range.
    """
    if not os.environ.get("TRNSCOUT_VIRTUAL_CORES"):
        return
    from .hardware import neuron_package

    if package := neuron_package():
        import warnings

        warnings.warn(
            f"TRNSCOUT_VIRTUAL_CORES is ignored: {package} drives real cores here", stacklevel=2
        )
        return
    from ._core import TRN2_CORE_MEMORY_BYTES
    from .device import enable_virtual_cores

    enable_virtual_cores(
        _whole_number("TRNSCOUT_VIRTUAL_CORES", 0),
        core_memory_bytes=_whole_number("TRNSCOUT_CORE_MEMORY_BYTES", TRN2_CORE_MEMORY_BYTES),
    )
    if path := os.environ.get("TRNSCOUT_EVIDENCE"):
        from .evidence import write_at_exit

        write_at_exit(path)


def _whole_number(variable: str, default: int) -> int:
    text = os.environ.get(variable)
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        from .errors import InvalidArgumentError

        raise InvalidArgumentError(f"{variable} is {text!r}, must be a whole number")
    return int(text)
