#!/usr/bin/env bash
# Configures once and builds everything, or the targets given.
set -euo pipefail
cd "$(dirname "$0")/.."
# A precompiled header changes its time stamps, not its contents: tell ccache to trust the contents.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
[[ -f build/build.ninja ]] || cmake --preset default >/dev/null
cmake --build build --parallel "$(nproc)" -- --quiet "$@"
