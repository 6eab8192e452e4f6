#!/usr/bin/env bash
# Installs what trnscout needs and builds it: system packages with apt, the rest
# into .venv of this clone. Safe to run again; a second run only checks.
#
#   scripts/setup.sh          build the package, for `make demo`
#   scripts/setup.sh --tests  also build the C++ tests, with ASan and UBSan, for
#                             `make test`
#
# PYTHON names the Python to make .venv with (3.11 or newer). pip's own settings
# (PIP_INDEX_URL and so on) say where packages come from.
set -euo pipefail
cd "$(dirname "$0")/.."

build_tests=OFF
[ "${1:-}" = --tests ] && build_tests=ON

say() { printf 'setup: %s\n' "$*"; }

packages=(
  build-essential ca-certificates ccache clang-format cmake git ninja-build
  shellcheck libabsl-dev libbenchmark-dev libeigen3-dev libgmock-dev libgtest-dev
  nlohmann-json3-dev
)

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Says which Python can make a virtual environment with headers to build against.
usable_python() {
  local python
  for python in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$python" - >/dev/null 2>&1 <<'PROBE'; then
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 11) and os.path.exists(header)))
PROBE
      command -v "$python"
      return
    fi
  done
  return 1
}

install_system_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  usable_python >/dev/null || missing+=(python3 python3-venv python3-dev)
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      say "these need root, and there is no sudo: ${missing[*]}" >&2
      exit 1
    }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

make_environment() {
  local python
  python=$(usable_python) || {
    say "no Python 3.11 or newer with venv and headers; set PYTHON" >&2
    exit 1
  }
  # A half-made environment has no pip that starts; make it anew.
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "making .venv with $python"
    rm -rf .venv
    "$python" -m venv .venv
  fi
  .venv/bin/python scripts/requirements.py >.venv/requirements.txt
  if ! cmp -s .venv/requirements.txt .venv/installed.txt; then
    say "installing Python packages (torch is large)"
    .venv/bin/python -m pip install -q -r .venv/requirements.txt
    cp .venv/requirements.txt .venv/installed.txt
  fi
}

# A C++ file that includes ATen takes about 1 GB to compile.
build_jobs() {
  local by_memory
  by_memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  local cores
  cores=$(nproc)
  local jobs=$((by_memory < cores ? by_memory : cores))
  echo $((jobs > 0 ? jobs : 1))
}

build() {
  say "building"
  CMAKE_BUILD_PARALLEL_LEVEL=$(build_jobs)
  export CMAKE_BUILD_PARALLEL_LEVEL
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  .venv/bin/python -m pip install -q --no-build-isolation --no-deps \
    --editable . -C build-dir=build/release
  if [ "$build_tests" = ON ]; then
    cmake --preset asan-ubsan >/dev/null
    cmake --build --preset asan-ubsan
  fi
}

install_system_packages
make_environment
build
say "done: .venv/bin/trnscout"
