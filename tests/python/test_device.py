"""The device as PyTorch's Python sees it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import trnscout

pytestmark = pytest.mark.usefixtures("neuron")


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh process, where no device is registered unless `env` asks for it."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def last_line(process: subprocess.CompletedProcess[str]) -> str:
    lines = (process.stdout if process.returncode == 0 else process.stderr).strip().splitlines()
    return lines[-1] if lines else ""


# How the device comes to be.


def test_device_is_absent_until_it_is_asked_for() -> None:
    code = (
        "import torch, trnscout, trnscout.device\n"
        "print(hasattr(torch, 'neuron'), torch._C._get_privateuse1_backend_name(),\n"
        "      torch.accelerator.is_available())\n"
        "import pathlib; print('libtrnscout_device' in pathlib.Path('/proc/self/maps').read_text())"
    )
    process = run_python(code)
    assert process.stdout.split() == ["False", "privateuseone", "False", "False"], process.stderr


def test_environment_makes_the_device_at_import_of_torch() -> None:
    code = (
        "import torch; print(torch.neuron.device_count(), torch.neuron.mem_get_info(2)[1],\n"
        "torch.ones(2, device='neuron:2').device)"
    )
    process = run_python(code, TRNSCOUT_VIRTUAL_CORES="3", TRNSCOUT_CORE_MEMORY_BYTES="1000000")
    assert process.stdout.split() == ["3", "1000000", "neuron:2"], process.stderr


def test_core_has_24_gib_by_default() -> None:
    process = run_python(
        "import torch; print(torch.neuron.mem_get_info()[1])", TRNSCOUT_VIRTUAL_CORES="1"
    )
    assert int(process.stdout) == 24 * 2**30


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"TRNSCOUT_VIRTUAL_CORES": "two"}, "TRNSCOUT_VIRTUAL_CORES is 'two'"),
        ({"TRNSCOUT_VIRTUAL_CORES": "-1"}, "TRNSCOUT_VIRTUAL_CORES is '-1'"),
        ({"TRNSCOUT_VIRTUAL_CORES": "65"}, "cores is 65, must be in [1, 64]"),
        (
            {"TRNSCOUT_VIRTUAL_CORES": "1", "TRNSCOUT_CORE_MEMORY_BYTES": "24GiB"},
            "TRNSCOUT_CORE_MEMORY_BYTES is '24GiB'",
        ),
    ],
)
def test_environment_with_a_bad_value_stops_import_of_torch(
    env: dict[str, str], message: str
) -> None:
    process = run_python("import torch", **env)
    assert process.returncode != 0
    assert message in process.stderr


def test_import_of_trnscout_imports_no_torch() -> None:
    process = run_python("import trnscout, sys; print('torch' in sys.modules)")
    assert process.stdout.strip() == "False"
    process = run_python(
        "import trnscout, sys; trnscout.Checkpoint, trnscout.RunSpec; print('torch' in sys.modules)"
    )
    assert process.stdout.strip() == "False"


def test_enabling_again_takes_equal_arguments_only() -> None:
    trnscout.enable_virtual_cores(2)
    with pytest.raises(trnscout.Error, match="so 4 cores of 25769803776 bytes cannot be"):
        trnscout.enable_virtual_cores(4)
    assert trnscout.virtual_cores().cores == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [("0", "cores is 0"), ("1, core_memory_bytes=0", "core_memory_bytes is 0")],
)
def test_enabling_refuses_bad_arguments(arguments: str, message: str) -> None:
    process = run_python(f"import trnscout; trnscout.enable_virtual_cores({arguments})")
    assert "InvalidArgumentError" in process.stderr
    assert message in process.stderr


def test_questions_about_cores_need_cores() -> None:
    for question in ("virtual_cores()", "core_memory(0)"):
        process = run_python(f"import trnscout; trnscout.{question}")
        assert last_line(process).startswith("trnscout.errors.Error: virtual cores: none are")


def test_missing_core_is_an_index_error() -> None:
    with pytest.raises(trnscout.OutOfRangeError, match="there is no core 7, only 0 to 1"):
        trnscout.core_memory(7)
    with pytest.raises(IndexError, match="neuron:7 does not exist"):
        torch.neuron.set_device(7)


def test_virtual_cores_never_stand_beside_a_real_package(tmp_path: Path) -> None:
    (tmp_path / "torch_neuronx").mkdir()
    (tmp_path / "torch_neuronx" / "__init__.py").write_text("")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    process = run_python(
        "import torch; print(hasattr(torch, 'neuron'))",
        TRNSCOUT_VIRTUAL_CORES="1",
        PYTHONPATH=path,
    )
    assert process.stdout.strip() == "False"
    assert "TRNSCOUT_VIRTUAL_CORES is ignored: torch_neuronx" in process.stderr
    process = run_python("import trnscout; trnscout.enable_virtual_cores(1)", PYTHONPATH=path)
    assert "torch_neuronx is installed here" in last_line(process)


def test_another_owner_of_the_device_slot_is_named() -> None:
    code = (
        "import torch; torch.utils.rename_privateuse1_backend('other')\n"
        "import trnscout; trnscout.enable_virtual_cores(1)"
    )
    assert "already taken by 'other'" in last_line(run_python(code))


# Memory.


def test_operator_on_one_gibibyte_copies_nothing() -> None:
    """Host memory rises by the operator's own output and by no more than 16 MiB beside it."""
    code = """
import resource, torch
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
GIB = 2**30
x = torch.ones(GIB // 4, device="neuron")
start = peak()
x.add_(1)                           # in place: no output
in_place = peak() - start
view = x.view(-1, 1024)[::2].t()    # views: no output
total = view.sum()                  # boxed, reads half of it
views = peak() - start
y = x * 2                           # structured: one output
structured = peak() - start
del y
z = torch.where(x > 1, x, x)        # unstructured: kernel allocates, result is taken over
print(in_place, views, structured, peak() - start, total.item())
"""
    process = run_python(code, TRNSCOUT_VIRTUAL_CORES="1")
    assert process.returncode == 0, process.stderr
    in_place, views, structured, unstructured, total = map(float, process.stdout.split())
    slack = 16 * 2**20
    assert in_place < slack
    assert views < slack
    assert structured < 2**30 + slack
    # The condition, a byte an element, is alive beside the output.
    assert unstructured < 2**30 + 2**28 + slack
    assert total == 2 * 2**27


def test_memory_statistics_agree_with_the_ledger() -> None:
    core = "neuron:1"
    torch.neuron.reset_peak_memory_stats(core)
    before = torch.neuron.memory_allocated(core)
    t = torch.empty(1000, dtype=torch.int16, device=core)
    assert torch.accelerator.memory_allocated(1) == before + 2000
    assert trnscout.core_memory(1).total.present_bytes == before + 2000
    del t
    assert torch.neuron.memory_allocated(core) == before
    assert torch.neuron.max_memory_allocated(core) == before + 2000
    assert torch.neuron.memory_reserved(core) == before
    assert torch.neuron.memory_stats(core)["allocated_bytes.all.current"] == before
    free, total = torch.neuron.mem_get_info(core)
    assert (free, total) == (24 * 2**30 - before, 24 * 2**30)
    assert torch.accelerator.get_memory_info(1) == (free, total)
    held = torch.ones(3, device=core)
    assert "held by blocks made in" in torch.neuron.memory_summary(held.device)


def test_out_of_memory_is_torchs_own_error_with_the_table() -> None:
    refusals = torch.neuron.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(2**36, device="neuron")
    for part in ("neuron:0 is out of memory", "256.00 GiB", "limit 24.00 GiB", "scratchpad"):
        assert part in str(caught.value)
    assert torch.neuron.memory_stats()["num_ooms"] == refusals + 1
    torch.neuron.reset_accumulated_memory_stats()
    assert torch.neuron.memory_stats()["num_ooms"] == 0
    assert torch.ones(2, device="neuron").sum().item() == 2


# Semantics.


def test_views_stay_views() -> None:
    base = torch.zeros(6, device="neuron")
    base.view(2, 3)[1].unfold(0, 2, 1)[1].fill_(7)
    assert base.tolist() == [0, 0, 0, 0, 7, 7]
    assert base.view(3, 2).data_ptr() == base.data_ptr()
    assert base[2:]._is_view()
    real = torch.zeros(3, dtype=torch.complex64, device="neuron")
    torch.view_as_real(real)[:, 1] = 2
    assert real.cpu().tolist() == [2j, 2j, 2j]


def test_host_tensor_with_dimensions_is_refused_by_name() -> None:
    weight = torch.ones(4, 2, device="neuron")
    with pytest.raises(RuntimeError, match="'index' is on cpu, expected neuron:0"):
        torch.nn.functional.embedding(torch.tensor([1]), weight)
    with pytest.raises(RuntimeError, match="neuron:0"):
        weight + torch.ones(4, 2)
    assert (weight + torch.tensor(2.0)).sum().item() == 24
    assert weight[torch.tensor([0, 1])].shape == (2, 2)


def test_tensors_of_two_cores_are_refused_but_may_be_copied() -> None:
    a = torch.ones(3, device="neuron:0")
    b = torch.ones(3, device="neuron:1")
    with pytest.raises(RuntimeError, match="neuron:1"):
        torch.cat([a, b])
    assert a.to("neuron:1").device.index == 1
    b.copy_(a * 3)
    assert b.tolist() == [3, 3, 3]


def test_conjugate_and_negative_views_copy() -> None:
    z = torch.randn(5, dtype=torch.complex64)
    d = z.to("neuron")
    assert torch.equal(d.conj().cpu(), z.conj().resolve_conj())
    assert torch.equal(d.conj().resolve_conj().cpu(), z.conj().resolve_conj())
    assert torch.equal(d.conj().imag.cpu(), z.conj().imag.resolve_neg())
    assert torch.equal((d.conj() * d).cpu(), z.conj() * z)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.float32])
def test_histogram_counts_integers_too(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 1, 3, 3, 3], dtype=dtype)
    got = torch.histc(values.to("neuron"), bins=4, min=0, max=3)
    assert got.dtype == dtype
    assert got.tolist() == [1, 2, 0, 3]
    out = torch.empty(0, dtype=dtype, device="neuron")
    assert torch.histc(values.to("neuron"), bins=4, min=0, max=3, out=out) is out
    assert out.tolist() == [1, 2, 0, 3]


def test_attention_takes_the_kernel_of_the_cpu() -> None:
    q, k, v = (torch.randn(1, 4, 10, 16) for _ in range(3))
    mask = torch.rand(10, 10) > 0.3
    for mask_or_none in (None, mask):
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask_or_none)
        got = torch.nn.functional.scaled_dot_product_attention(
            *(t.to("neuron") for t in (q, k, v)),
            None if mask_or_none is None else mask_or_none.to("neuron"),
        )
        assert torch.equal(got.cpu(), expected)


def test_seed_gives_the_numbers_of_the_cpu() -> None:
    torch.manual_seed(5)
    expected = [torch.randn(7), torch.rand(3), torch.randperm(9)]
    torch.manual_seed(5)
    got = [
        torch.randn(7, device="neuron"),
        torch.rand(3, device="neuron"),
        torch.randperm(9, device="neuron"),
    ]
    assert all(torch.equal(a.cpu(), b) for a, b in zip(got, expected, strict=True))


def test_generator_state_can_be_kept_and_set() -> None:
    torch.neuron.manual_seed_all(3)
    assert torch.neuron.initial_seed() == 3
    state = torch.neuron.get_rng_state()
    first = torch.randn(4, device="neuron")
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.randn(4, device="neuron"), first)
    own = torch.Generator(device="neuron:1").manual_seed(9)
    expected = torch.randn(4, generator=torch.Generator().manual_seed(9))
    assert torch.equal(torch.randn(4, device="neuron:1", generator=own).cpu(), expected)
    with pytest.raises(RuntimeError, match="Expected a 'neuron' device type for generator"):
        torch.randn(4, device="neuron", generator=torch.Generator())
    assert torch.neuron.seed() == torch.neuron.initial_seed()


def test_autocast_lowers_matrix_products_and_keeps_what_needs_range() -> None:
    a = torch.randn(4, 4, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
        assert torch.softmax((a @ a), -1).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(torch.rand_like(a), torch.rand_like(a))
    assert (a @ a).dtype == torch.float32


def test_training_step_equals_the_cpu() -> None:
    torch.manual_seed(0)
    host = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.GroupNorm(2, 4),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 5),
    )
    core = copy.deepcopy(host).to("neuron")
    x = torch.randn(2, 3, 6, 6)
    for model, data in ((host, x), (core, x.to("neuron"))):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
        model(data).square().mean().backward()
        optimizer.step()
    for ours, theirs in zip(core.parameters(), host.parameters(), strict=True):
        assert torch.equal(ours.cpu(), theirs)


def test_tensors_save_load_and_move_between_places(tmp_path: Path) -> None:
    t = torch.arange(5, device="neuron:1")
    torch.save(t, tmp_path / "t.pt")
    assert torch.load(tmp_path / "t.pt").device == torch.device("neuron:1")
    assert torch.load(tmp_path / "t.pt", map_location="neuron:0").device.index == 0
    assert torch.load(tmp_path / "t.pt", map_location="cpu").tolist() == [0, 1, 2, 3, 4]
    assert t.neuron(0).device.index == 0
    assert copy.deepcopy(t).device.index == 1
    t.data = torch.ones(2, device="neuron:1")
    assert t.tolist() == [1, 1]
    t.untyped_storage().resize_(64)
    assert t.untyped_storage().nbytes() == 64
    assert t.tolist() == [1, 1]


def test_streams_and_events_are_there_and_synchronous() -> None:
    stream = torch.neuron.Stream()
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    with torch.neuron.stream(stream):
        start.record()
        torch.randn(64, 64, device="neuron").sum()
        end.record()
    end.synchronize()
    assert end.query()
    assert 0 < start.elapsed_time(end) < 60_000
    torch.neuron.synchronize()
    assert torch.neuron.current_stream() == torch.neuron.default_stream()
    torch.accelerator.empty_host_cache()


def test_pinned_host_memory_says_so() -> None:
    pinned = torch.arange(4).pin_memory()
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert not torch.arange(4).is_pinned()
    assert pinned.to("neuron", non_blocking=True).tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="only host memory can be pinned"):
        torch.empty(2, device="neuron", pin_memory=True)


def test_current_core_belongs_to_its_thread() -> None:
    seen = []

    def other() -> None:
        with torch.neuron.device(1):
            seen.append(torch.ones(1, device="neuron").device.index)
        seen.append(torch.neuron.current_device())

    thread = threading.Thread(target=other)
    with torch.device("neuron:0"):
        thread.start()
        thread.join()
        assert torch.ones(1).device.index == 0
    assert seen == [1, 0]


def test_module_speaks_as_torchneuron_does() -> None:
    assert torch.neuron.is_available() and torch.neuron.is_initialized()
    assert torch.neuron.device_count() == 2
    assert torch.neuron.get_device_name(1) == "neuron:1"
    assert torch.neuron.is_bf16_supported()
    assert torch.neuron.get_amp_supported_dtype() == [
        torch.float32,
        torch.float16,
        torch.bfloat16,
    ]
    properties = torch.neuron.get_device_properties("neuron:1")
    assert properties.name == "virtual trn2" and properties.total_memory == 24 * 2**30
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    with pytest.raises(ValueError, match="expected a neuron device, got cpu"):
        torch.neuron.get_device_name("cpu")
    for name in torch.neuron.__all__:
        assert hasattr(torch.neuron, name)


def test_compile_passes_through_and_says_so() -> None:
    torch.compiler.reset()
    torch.neuron.reset_dynamo_metrics()
    with pytest.warns(UserWarning, match="nothing is compiled"):
        compiled = torch.compile(lambda x: torch.sin(x) * 2, backend="neuron", fullgraph=True)
        got = compiled(torch.ones(3, device="neuron"))
    assert torch.equal(got.cpu(), torch.sin(torch.ones(3)) * 2)
    metrics = torch.neuron.get_dynamo_metrics()
    assert metrics["compiled"] is False and metrics["passed_graphs"] == 1


def test_sparse_layout_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="neuron"):
        torch.ones(2, 2, device="neuron").to_sparse()


# What a process leaves behind.


def test_evidence_holds_memory_and_the_error(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    process = run_python(
        "import torch; t = torch.ones(250, device='neuron'); raise KeyError('lost')",
        TRNSCOUT_VIRTUAL_CORES="1",
        TRNSCOUT_EVIDENCE=str(path),
    )
    assert process.returncode == 1
    assert "KeyError: 'lost'" in process.stderr
    evidence = json.loads(path.read_text())
    assert evidence["error"]["type"] == "builtins.KeyError"
    assert "lost" in evidence["error"]["message"]
    assert "line 1, in <module>" in evidence["error"]["traceback"]
    assert evidence["cores"][0]["peak_bytes"] == 1000
    assert evidence["cores"][0]["peak_bytes_by_category"]["tensors"] == 1000
    assert list(tmp_path.iterdir()) == [path]
