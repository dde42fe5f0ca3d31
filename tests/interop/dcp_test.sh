#!/usr/bin/env bash
# Two ranks of PyTorch save a model with torch.distributed.checkpoint, in safetensors and as a pickle: `tessera convert` turns the first into a Hugging
# Face directory with the same tensors, and refuses the second.
#   dcp_test.sh BUILD [VENV]    VENV holds torch and safetensors (default: benchmarks/.venv, which benchmarks/run creates)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
tessera="$(realpath "$1")/bin/tessera"
python="${2:-$here/../../benchmarks/.venv}/bin/python"

if ! "$python" -c 'import safetensors, torch' 2>/dev/null; then
  echo "no Python with torch and safetensors (scripts/test --peer VENV)"
  exit 77
fi
work="$(mktemp -d "${TMPDIR:-/tmp}/tessera-dcp-XXXXXX")"
trap 'rm -rf "$work"' EXIT

OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/write_dcp.py" "$work"
"$tessera" convert "$work/safetensors" "$work/converted"
"$python" "$here/write_dcp.py" "$work" compare
if "$tessera" convert "$work/pickle" "$work/refused" 2>"$work/error"; then
  echo "a pickle was accepted"
  exit 1
fi
grep -q "is a Python pickle is not supported" "$work/error"
echo "the pickle was refused"
