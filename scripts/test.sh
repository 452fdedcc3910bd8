#!/usr/bin/env bash
# All tests: units (GoogleTest), IR (lit), the whole product end to end (pytest), and, without arguments, a minute of fuzzing.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
export PYTHONDONTWRITEBYTECODE=1
ctest --test-dir build --output-on-failure --no-tests=error
/usr/bin/python3 -m pytest -q -p no:cacheprovider test/e2e "$@"
(($#)) || scripts/fuzz.sh 60
