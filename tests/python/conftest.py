"""What several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from trnscout.demo_model import make_demo_model

REPOSITORY = Path(__file__).resolve().parents[2]

CORES = 2


@pytest.fixture(scope="session")
def neuron() -> None:
    """Two virtual cores in this process, from the first test that asks for them on."""
    from trnscout import enable_virtual_cores

    enable_virtual_cores(CORES)


@pytest.fixture(scope="session")
def demo_model_dir() -> Path:
    """SmolLM2-135M-Instruct, made once and kept in the working tree (git ignores it)."""
    return make_demo_model(REPOSITORY / ".models" / "SmolLM2-135M-Instruct", report=print)
