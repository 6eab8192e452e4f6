"""Writes the .pyi files of the extensions from the built modules.

`python scripts/stubs.py` writes them; with `--check` it says which are not as the modules are.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "trnscout"
MODULES = ("_core", "_runtime")


def generate(directory: Path) -> dict[str, str]:
    """Return the text of each module's stub."""
    stubs = {}
    for name in MODULES:
        # torch first: _runtime stands on its libraries.
        code = (
            "import torch, sys; from pybind11_stubgen import main; "
            f"sys.argv[1:] = ['trnscout.{name}', '-o', {str(directory)!r}, '--exit-code']; main()"
        )
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        stubs[name] = (directory / "trnscout" / f"{name}.pyi").read_text()
        tidy = ["ruff", "format", "-q", "--stdin-filename", f"{name}.pyi", "-"]
        tidied = subprocess.run(
            [sys.executable, "-m", *tidy],
            input=stubs[name],
            check=True,
            capture_output=True,
            text=True,
        )
        stubs[name] = tidied.stdout
    return stubs


def main() -> int:
    """Write or check; return the exit code."""
    with tempfile.TemporaryDirectory() as directory:
        stubs = generate(Path(directory))
    stale = []
    for name, text in stubs.items():
        path = PACKAGE / f"{name}.pyi"
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        print(f"stale: {', '.join(stale)}; run `make stubs`")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
