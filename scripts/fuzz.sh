#!/usr/bin/env bash
# scripts/fuzz.sh SECONDS [TARGET...]: fuzzes each target (all: schema, template, tokenizer, stream, request) for an equal
# share of SECONDS, from the seeds in test/fuzz/seeds and what earlier runs found (build-fuzz/corpus). Exit 1 with the input in
# build-fuzz/crashes when one crashes, hangs (10 s) or takes more than 2 GiB.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $# -lt 1 || ! $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: scripts/fuzz.sh SECONDS [TARGET...]" >&2
  exit 2
fi
seconds=$1
shift
cmake -S . -B build-fuzz -G Ninja -DDSV3_FUZZ=ON -DCMAKE_BUILD_TYPE=None \
  "-DCMAKE_CXX_FLAGS=-O1 -gline-tables-only" -DCMAKE_C_COMPILER=clang-22 \
  -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld-22 -DCMAKE_C_COMPILER_LAUNCHER=ccache \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >build-fuzz.log 2>&1 || { cat build-fuzz.log >&2; exit 1; }
mv build-fuzz.log build-fuzz/configure.log
targets=("$@")
if ((${#targets[@]} == 0)); then
  targets=(schema template tokenizer stream)
  grep -q 'fuzz_request' build-fuzz/build.ninja && targets+=(request)
fi
ninja -C build-fuzz "${targets[@]/#/fuzz_}" >build-fuzz/build.log 2>&1 || { tail -50 build-fuzz/build.log >&2; exit 1; }
mkdir -p build-fuzz/crashes
share=$((seconds / ${#targets[@]}))
((share > 0)) || share=1
failed=0
for target in "${targets[@]}"; do
  mkdir -p "build-fuzz/corpus/$target"
  seeds=()
  [[ -d test/fuzz/seeds/$target ]] && seeds=("test/fuzz/seeds/$target")
  [[ $target == template ]] && cp test/data/templates/*.jinja build-fuzz/corpus/template/
  dictionary=()
  [[ -e test/fuzz/$target.dict ]] && dictionary=("-dict=test/fuzz/$target.dict")
  echo "fuzz: $target for $share s"
  if ! "build-fuzz/bin/fuzz_$target" "build-fuzz/corpus/$target" "${seeds[@]}" -max_total_time="$share" -timeout=10 \
    -rss_limit_mb=2048 -max_len=8192 "${dictionary[@]}" -artifact_prefix="build-fuzz/crashes/$target-" -print_final_stats=1 \
    >"build-fuzz/$target.log" 2>&1; then
    tail -60 "build-fuzz/$target.log" >&2
    failed=1
  else
    grep -E 'number_of_executed_units|peak_rss_mb' "build-fuzz/$target.log"
  fi
done
exit $failed
