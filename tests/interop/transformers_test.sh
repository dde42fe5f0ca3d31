#!/usr/bin/env bash
# Trains two steps, then lets the Python world read the checkpoint: transformers computes the same logits from model/consolidated, and the reader of
# torch.distributed.checkpoint finds the same tensors by the headers of the shards in model/.
#   transformers_test.sh BUILD [VENV]    VENV holds torch and transformers (default: benchmarks/.venv, which benchmarks/run creates)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
tessera="$(realpath "$1")/bin/tessera"
export OMP_WAIT_POLICY=passive
python="${2:-$here/../../benchmarks/.venv}/bin/python"

if ! "$python" -c 'import safetensors, torch, transformers' 2>/dev/null; then
  echo "no Python with torch and transformers (scripts/test --peer VENV)"
  exit 77
fi
work="$(mktemp -d "${TMPDIR:-/tmp}/tessera-interop-XXXXXX")"
trap 'rm -rf "$work"' EXIT

for family in llama_tied_llama3_rope gpt2 gemma2 qwen3 phi3_longrope mixtral qwen2_moe gpt_oss deepseek_v3_yarn glm4_moe; do
  echo "--- $family"
  cat >"$work/recipe.yaml" <<END
step_scheduler: {global_batch_size: 4, local_batch_size: 2, max_steps: 2}
model: {pretrained_model_name_or_path: $here/../data/goldens/$family, torch_dtype: float32}
dataset: {_target_: mock_unpacked, num_sentences: 16, mean_len: 14, std_len: 6, vocab_size: 64, max_sentence_len: 30}
optimizer: {_target_: adamw, lr: 1.0e-2}
checkpoint: {checkpoint_dir: $work/$family, save_consolidated: true}
END
  "$tessera" train "$work/recipe.yaml" >"$work/train.log" 2>&1 || { cat "$work/train.log" && exit 1; }
  "$python" "$here/read_checkpoint.py" "$work/$family/LATEST" "$work/golden"
  "$tessera" verify "$work/golden" --steps 0
  rm -rf "$work/golden"
done
