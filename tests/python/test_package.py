"""The C++ package as a stranger's project finds it, and the repository's own rules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

REPOSITORY = Path(__file__).resolve().parents[2]


def run(*command: str | Path, **env: str) -> str:
    process = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_stand_alone_project_uses_both_targets_from_an_install_tree(
    tmp_path: Path, demo_model_dir: Path
) -> None:
    prefix = tmp_path / "prefix"
    run(
        *("cmake", "--install", REPOSITORY / "build" / "release"),
        *("--prefix", prefix, "--component", "dev"),
    )
    build = tmp_path / "build"
    run(
        *("cmake", "-S", REPOSITORY / "examples" / "cpp" / "consumer", "-B", build, "-G", "Ninja"),
        f"-DCMAKE_PREFIX_PATH={prefix};{torch.utils.cmake_prefix_path}",
        "-DCMAKE_BUILD_TYPE=Release",
    )
    run("cmake", "--build", build, "-j", "1")
    # The tree must not lean on the place it was built in.
    hidden = prefix.rename(tmp_path / "prefix-moved")
    hidden.rename(prefix)
    assert "equal to the CPU: yes" in run(build / "virtual_core")
    assert "272 tensors, 256.57 MiB" in run(build / "inspect_checkpoint", demo_model_dir)


def test_core_target_needs_no_torch(tmp_path: Path) -> None:
    """Its tests link without torch; here, its public headers name none either."""
    # Names alone: the addresses beside them may well spell c10.
    names = [line.split()[0] for line in run("ldd", _installed("_core")).splitlines()]
    assert any(name.startswith("libabsl") for name in names)
    assert [name for name in names if re.match(r"libtorch|libc10", name)] == []


def _installed(module: str) -> Path:
    code = f"import importlib.util as u; print(u.find_spec('trnscout.{module}').origin)"
    return Path(run(sys.executable, "-c", code).strip())


def test_installed_libraries_hold_no_path_of_the_machine_that_built_them() -> None:
    folder = _installed("_core").parent
    for library in folder.glob("*.so"):
        dynamic = run("readelf", "-d", library)
        (runpath,) = re.findall(r"R(?:UN)?PATH\)\s+Library r(?:un)?path: \[(.*)\]", dynamic)
        assert runpath == "$ORIGIN:$ORIGIN/../torch/lib", library.name


def test_stubs_are_those_of_the_modules() -> None:
    run(sys.executable, REPOSITORY / "scripts" / "stubs.py", "--check")


def test_layers_point_down_only() -> None:
    """ARCHITECTURE.md's arrows: core knows no torch, the runtime no Python, headers neither."""
    allowed = {
        "src/core": ("torch/", "ATen/", "c10/", "Python.h", "pybind11"),
        "include/trnscout": ("torch/", "ATen/", "c10/", "Python.h", "pybind11"),
        "src/runtime": ("Python.h", "pybind11", "torch/torch.h", "torch/csrc"),
    }
    for folder, forbidden in allowed.items():
        for path in (REPOSITORY / folder).rglob("*.[hc]*"):
            for included in re.findall(r"#include [<\"](.*?)[>\"]", path.read_text()):
                assert not included.startswith(forbidden), f"{path.name} includes {included}"


def test_run_scripts_import_no_trnscout() -> None:
    package = REPOSITORY / "python" / "trnscout"
    for path in package.glob("run_script_*.py.in"):
        assert "import trnscout" not in path.read_text()
        assert "from trnscout" not in path.read_text()
