"""`torch.compile(backend="neuron")` on virtual cores: a pass-through that says so.

Dynamo traces the model, so graph breaks and recompilations are real, but what runs is the traced
graph, operator by operator. Nothing is compiled yet, and `dynamo_metrics` says `compiled: False`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

_NOTICE = (
    'torch.compile(backend="neuron") on virtual cores passes the traced graph through: '
    "it runs operator by operator, nothing is compiled"
)


@dataclass
class _Metrics:
    graphs: int = 0
    nodes: int = 0


_metrics = _Metrics()


def dynamo_metrics() -> dict[str, Any]:
    """Return `compiled` (always False) and how many graphs and nodes were passed through."""
    return {"compiled": False, "passed_graphs": _metrics.graphs, "passed_nodes": _metrics.nodes}


def reset_dynamo_metrics() -> None:
    """Let the counts start again at zero."""
    _metrics.graphs = 0
    _metrics.nodes = 0


def _pass_through(
    graph: torch.fx.GraphModule, example_inputs: list[torch.Tensor], **_: Any
) -> Callable[..., Any]:
    if _metrics.graphs == 0:
        warnings.warn(_NOTICE, stacklevel=2)
    _metrics.graphs += 1
    _metrics.nodes += len(graph.graph.nodes)
    return graph.forward


class _NeuronInterface(DeviceInterface):
    """What Dynamo asks of a device."""

    Event = torch.Event
    Stream = torch.Stream

    class Worker:
        """Compile workers ask the same of a device, without touching it."""

        @staticmethod
        def set_device(device: int) -> None:
            torch.accelerator.set_device_index(device)

        @staticmethod
        def current_device() -> int:
            return torch.accelerator.current_device_index()

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return torch.neuron.get_device_properties(device)  # type: ignore[attr-defined]

    @staticmethod
    def current_device() -> int:
        return torch.accelerator.current_device_index()

    @staticmethod
    def set_device(device: Any) -> None:
        torch.accelerator.set_device_index(device)

    @staticmethod
    def exchange_device(device: int) -> int:
        before = torch.accelerator.current_device_index()
        torch.accelerator.set_device_index(device)
        return before

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return _NeuronInterface.exchange_device(device) if device >= 0 else -1

    @staticmethod
    def device_count() -> int:
        return torch.accelerator.device_count()

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def synchronize(device: Any = None) -> None:
        torch.accelerator.synchronize(device)

    @staticmethod
    def get_device_properties(device: Any = None) -> Any:
        return _NeuronInterface.Worker.get_device_properties(device)

    @staticmethod
    def get_compute_capability(device: Any = None) -> int:
        return 0

    @staticmethod
    def get_raw_stream(device: int) -> int:
        return 0

    @staticmethod
    def current_stream() -> torch.Stream:
        return torch.accelerator.current_stream()

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        return torch.accelerator.memory_allocated(device)


def register(cores: int) -> None:
    """Tell Dynamo of backend and device `neuron`; once a process."""
    torch._dynamo.register_backend(_pass_through, name="neuron")
    register_interface_for_device("neuron", _NeuronInterface)
    for core in range(cores):
        register_interface_for_device(f"neuron:{core}", _NeuronInterface)
