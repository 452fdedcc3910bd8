#!/usr/bin/env bash
# From nothing to text: installs what is missing, builds, compiles the example model and streams an answer.
set -euo pipefail
cd "$(dirname "$0")/.."
phase() { echo "quickstart: $*" >&2; }
phase "setup: packages"
scripts/setup.sh
phase "build: about 10 minutes on 2 cores the first time"
scripts/build.sh dsv3-run compile-model
out=build/dsv3-tiny.dsv3
phase "compile: examples/dsv3-tiny to $out"
build/bin/compile-model examples/dsv3-tiny -o "$out" --force
phase "run"
build/bin/dsv3-run "$out" --chat "${1:-Tom has 12 apples. He buys 30 more and then gives 17 to Lily. How many apples does Tom have now?}"
