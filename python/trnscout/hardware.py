"""Whether this host drives real Neuron cores."""

from __future__ import annotations

import importlib.util


def neuron_package() -> str | None:
    """Name the installed package that drives real Neuron cores; None without one."""
    return "torch_neuronx" if importlib.util.find_spec("torch_neuronx") else None
