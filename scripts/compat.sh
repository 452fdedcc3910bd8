#!/usr/bin/env bash
# Runs unmodified clients (openai, lm-evaluation-harness, guidellm) against dsv3-serve and the example model, and prints a
# table. Arguments go to test/compat/run.py: --problems 50, --only lm_eval, --vllm /path/to/vllm for `vllm bench serve`.
#   DSV3_COMPAT_VENV      environment with the clients, made when it is not there (default: ~/.cache/dsv3/compat)
#   DSV3_COMPAT_ARTIFACT  artifact of examples/dsv3-tiny to serve, instead of one compiled here
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${DSV3_COMPAT_VENV:-$HOME/.cache/dsv3/compat}

if [[ ! -x $venv/bin/guidellm ]]; then
  echo "compat: installing clients into $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q openai 'lm-eval[api]' guidellm
fi

artifact=${DSV3_COMPAT_ARTIFACT:-}
if [[ -z $artifact ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  artifact=$folder/tiny.dsv3
  build/bin/compile-model examples/dsv3-tiny -o "$artifact" --dtype=bf16 --max-model-len=2048 --max-batch=16
fi
export PYTHONDONTWRITEBYTECODE=1
"$venv/bin/python" test/compat/run.py "$artifact" "$@"
