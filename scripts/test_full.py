"""Runs the long tests, one function after the other, and goes on where it was stopped.

A function whose cases all passed is not run again until a tracked file changes. The marks lie in
build/test-full/STATE, where STATE is a hash of the working tree. Its cases share the cores.
"""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# A worker a core: more threads than cores only wait.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
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
    tests = Counter(line.partition("[")[0] for line in listed.splitlines() if "::" in line)
    marks = REPOSITORY / "build" / "test-full" / state()
    marks.mkdir(parents=True, exist_ok=True)
    failed = []
    for number, (test, cases) in enumerate(tests.items(), start=1):
        mark = marks / hashlib.sha256(test.encode()).hexdigest()[:16]
        title = f"{number} of {len(tests)}: {test}, {cases} cases"
        if mark.exists():
            print(f"test-full: {title}, passed before", flush=True)
            continue
        print(f"test-full: {title}", flush=True)
        shared = ["-n", str(min(cases, os.cpu_count() or 1)), "--dist", "worksteal"]
        command = [*PYTEST, "--no-header", *(shared if cases > 1 else []), test]
        if subprocess.run(command, cwd=REPOSITORY, env=ONE_THREAD).returncode == 0:
            mark.write_text(test)
        else:
            failed.append(test)
    cases_in_all = sum(tests.values())
    print(f"test-full: {len(tests) - len(failed)} of {len(tests)} passed, {cases_in_all} cases")
    for test in failed:
        print(f"test-full: FAILED {test}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
