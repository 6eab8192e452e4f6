"""Makes a process's virtual core go wrong on purpose, without a hook in trnscout.

A fault is a package with an entry point `torch.backends`, as any device plugin is: torch runs it
at the end of its import. It overrides one operator of the core.
"""

from __future__ import annotations

import os
from pathlib import Path

_MODULE = """
import os, signal, sys

def install():
    if not os.environ.get("TRNSCOUT_VIRTUAL_CORES"):
        return {elsewhere}
    from trnscout._autoload import autoload
    autoload()
    import torch
    global library
    library = torch.library.Library("aten", "IMPL")
    library.impl("{operator}", wrong, "PrivateUse1")

def wrong(*args, **kwargs):
    import torch
    {body}
"""


def fault_environment(
    directory: Path, operator: str, body: str, *, elsewhere: str = "None"
) -> dict[str, str]:
    """Return the environment in which `operator` runs `body` on the core.

    `args` and `kwargs` hold its arguments. `elsewhere` is evaluated in processes without cores.
    """
    info = directory / "trnscout_fault-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trnscout-fault\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nfault = trnscout_fault:install\n")
    (directory / "trnscout_fault.py").write_text(
        _MODULE.format(operator=operator, body=body, elsewhere=elsewhere)
    )
    path = os.pathsep.join(p for p in (str(directory), os.environ.get("PYTHONPATH")) if p)
    return {"PYTHONPATH": path}
