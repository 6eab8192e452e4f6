"""What this version of PyTorch expects of a device, asked of its dispatcher.

A new torch that moves a kernel fails here, before it costs bit-equality somewhere in a model.
"""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

pytestmark = pytest.mark.usefixtures("neuron")


def has_kernel(operator: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(operator, key)


def test_no_decomposition_wins_over_a_cpu_kernel() -> None:
    """Where both exist, a device without a kernel decomposes and rounds differently."""
    lost = [
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and has_kernel(name, "CPU")
        and has_kernel(name, "CompositeExplicitAutograd")
        and not has_kernel(name, "PrivateUse1")
    ]
    assert lost == []


@pytest.mark.parametrize(
    "name",
    ["nn.functional.layer_norm", "nn.functional.group_norm", "stack", "addr", "any", "all"],
)
def test_decomposed_operators_equal_the_cpu_on_pytorchs_own_samples(name: str) -> None:
    (info,) = (info for info in op_db if info.name == name and info.variant_test_name == "")
    samples = 0
    for sample in info.sample_inputs("cpu", torch.float32):
        on_core = sample.transform(lambda t: t.to("neuron") if torch.is_tensor(t) else t)
        expected = info(sample.input, *sample.args, **sample.kwargs)
        got = info(on_core.input, *on_core.args, **on_core.kwargs)
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0, equal_nan=True)
        samples += 1
    assert samples > 0
