#!/usr/bin/env bash
# Installs what the project needs on Debian 12 and nothing it already has. Needs root (or sudo) only when something
# is missing.
set -euo pipefail

packages=(
  clang-22 llvm-22-dev libmlir-22-dev mlir-22-tools         # compiler, and what the project is built on
  libclang-rt-22-dev                                       # sanitizers and libFuzzer
  lld-22                                                   # links the build, and each code variant when compile-model runs
  cmake ninja-build ccache                                 # build
  nlohmann-json3-dev libcli11-dev libonig-dev libxxhash-dev # JSON, flags, the tokenizer's regex engine, hashes
  libboost-dev libspdlog-dev libyaml-cpp-dev                # the server: HTTP (headers only), logs, its configuration file
  libeigen3-dev                                            # matrix products and factorisations of calibration
  libgtest-dev libgmock-dev                                # tests
  python3 python3-numpy python3-pytest python3-xxhash binutils
)

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
((${#missing[@]})) || exit 0

sudo=
((EUID == 0)) || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
if [[ -z $(apt-cache policy llvm-22-dev | sed -n 's/ *Candidate: //p' | grep -v none) ]]; then
  echo "setup: LLVM 22 is not in this machine's package sources: add the LLVM project's repository for your release and run this again" >&2
  exit 1
fi
echo "setup: installing ${missing[*]}" >&2
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
