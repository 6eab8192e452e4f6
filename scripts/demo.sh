#!/usr/bin/env bash
# The main job on the bundled real model: does anything stop it from running on
# one Trainium2 core? Ends with the verdict.
set -euo pipefail
cd "$(dirname "$0")/.."

model=.models/SmolLM2-135M-Instruct
.venv/bin/trnscout demo-model "$model" >/dev/null
mkdir -p build/demo
.venv/bin/trnscout check "$model" --json build/demo/record.json
echo
echo "demo: the record is build/demo/record.json; its run_py is the script to take to a trn2 instance"
