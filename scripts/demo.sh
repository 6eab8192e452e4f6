#!/usr/bin/env bash
# The main job on the bundled real model: does anything stop it from running on
# one Trainium2 core? Ends with the verdict.
set -euo pipefail
cd "$(dirname "$0")/.."

model=.models/SmolLM2-135M-Instruct
.venv/bin/trnscout demo-model "$model" >/dev/null
mkdir -p build/demo
echo "demo: checking $model; the record goes to build/demo/record.json, and its run_py is"
echo "demo: the script to take to a trn2 instance"
.venv/bin/trnscout check "$model" --json build/demo/record.json
