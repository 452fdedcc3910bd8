#!/usr/bin/env bash
# What is too long for every change: ten minutes of load, 10,000 random requests with aborts, unmodified clients, and an hour of
# fuzzing for each target.
# Needs a build (scripts/build.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1 DSV3_NIGHTLY=1
/usr/bin/python3 -m pytest -q -s -p no:cacheprovider test/e2e/test_load.py "$@"
scripts/compat.sh
scripts/fuzz.sh 18000
