"""Prints what pyproject.toml needs to build, run and test, for scripts/setup.sh."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
needed = [
    *project["build-system"]["requires"],
    *project["project"]["dependencies"],
    *project["project"]["optional-dependencies"]["dev"],
]
print("\n".join(dict.fromkeys(needed)))
