#!/usr/bin/env bash
# Every test that is quick enough for each change: style, C++ under ASan+UBSan,
# Python. scripts/setup.sh --tests has built what they need.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\ntest: %s\n' "$*"; }

say "style"
git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
git ls-files '*.sh' .ci/run | xargs shellcheck
.venv/bin/ruff format --check -q .
.venv/bin/ruff check -q .
.venv/bin/mypy

say "C++ under ASan and UBSan"
ctest --preset asan-ubsan --parallel "$(nproc)" --progress

say "Python"
# Made once here, so that parallel workers find it.
.venv/bin/trnscout demo-model .models/SmolLM2-135M-Instruct >/dev/null
# A worker a core, each on one thread: more threads than cores only wait.
OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal
