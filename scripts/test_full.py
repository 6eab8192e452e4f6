"""Runs the long tests, one process each, and goes on where it was stopped.

A test that passed is not run again until a tracked file changes. The marks lie in
build/test-full/STATE, where STATE is a hash of the working tree.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "-m", "full", "-q"]


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout


def state() -> str:
    """Return a name for the tracked files as they are now."""
    now = git("rev-parse", "HEAD") + git("diff", "HEAD")
    return hashlib.sha256(now.encode()).hexdigest()[:16]


def main() -> int:
    """Run what has not passed yet; return the exit code."""
    listed = subprocess.run(
        [*PYTEST, "--collect-only"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    tests = [line for line in listed.splitlines() if "::" in line]
    marks = REPOSITORY / "build" / "test-full" / state()
    marks.mkdir(parents=True, exist_ok=True)
    failed = []
    for number, test in enumerate(tests, start=1):
        mark = marks / hashlib.sha256(test.encode()).hexdigest()[:16]
        if mark.exists():
            print(f"test-full: {number} of {len(tests)} passed before: {test}", flush=True)
            continue
        print(f"test-full: {number} of {len(tests)}: {test}", flush=True)
        if subprocess.run([*PYTEST, "--no-header", test], cwd=REPOSITORY).returncode == 0:
            mark.write_text(test)
        else:
            failed.append(test)
    print(f"test-full: {len(tests) - len(failed)} of {len(tests)} passed")
    for test in failed:
        print(f"test-full: FAILED {test}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
