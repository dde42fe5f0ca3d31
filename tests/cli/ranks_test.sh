#!/usr/bin/env bash
# The whole program on two ranks when something goes wrong: a rank is killed or hangs, the ranks disagree, the run is told to stop.
#   ranks_test.sh BUILD
set -euo pipefail
program="$(realpath "$1")/bin/tessera"
command -v mpirun >/dev/null || { echo "no mpirun" && exit 77; }
work="$(mktemp -d "${TMPDIR:-/tmp}/tessera-ranks-XXXXXX")"
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_NUM_THREADS=1

cat >recipe.yaml <<'END'
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 4, local_batch_size: 1, max_steps: 1000000, num_epochs: 1000000, ckpt_every_steps: 1000000,
                 save_checkpoint_every_epoch: false}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config
  config: {model_type: llama, vocab_size: 128, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4}
dataset: {_target_: mock_unpacked, num_sentences: 64, vocab_size: 128, max_sentence_len: 20}
checkpoint: {checkpoint_dir: checkpoints}
END

fail() {
  printf '%s\n---- said:\n' "$1"
  tail -n 40 said
  exit 1
}

# begin ARGUMENT...: trains on two ranks in the background and waits for the third step.
begin() {
  : >said
  "$program" train recipe.yaml --nproc-per-node 2 "$@" >summary 2>said &
  run=$!
  for ((i = 0; i < 300; ++i)); do
    ! grep -q '^step 3 ' said || return 0
    sleep 0.1
  done
  fail "the run has not begun within 30 s"
}

# Process number of the rank.
rank() {
  local process
  for process in $(pgrep -x tessera); do
    [[ "$(readlink "/proc/$process/cwd")" == "$work" ]] || continue
    ! tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1\|PMI_RANK=$1" || echo "$process"
  done
}

# end: waits for the run; its status and the seconds since `since`.
end() {
  status=0
  wait "$run" || status=$?
  seconds=$((SECONDS - since))
}

echo "--- a killed rank ends all, and is named last"
begin --log-dir logs
since=$SECONDS
kill -KILL "$(rank 1)"
end
((status != 0 && seconds <= 10)) || fail "status $status after $seconds s"
tail -n 14 said | grep -qF "error: rank 1 ended the run: it was killed by signal 9 (Killed)" || fail "the cause is not on the last lines"
[[ -s logs/rank_0.log && -e logs/rank_1.log ]] || fail "no log of each rank"

echo "--- a rank that hangs is reported with the operation, and all end"
begin --dist_env.timeout_minutes 0.05
since=$SECONDS
kill -STOP "$(rank 1)"
end
((status != 0 && seconds <= 20)) || fail "status $status after $seconds s"
tail -n 4 said | grep -q 'error: rank 0: .* #[0-9]* over .* (ranks 0 1): nothing has moved for 3 s; \(nothing heard from\|not yet taken by\) rank 1' ||
  fail "operation, group and peer are not named"

echo "--- the launcher is told to stop: all ranks save"
begin
kill -TERM "$run"
since=$SECONDS
end
((status == 0 && seconds <= 20)) || fail "status $status after $seconds s"
[[ -e checkpoints/LATEST/manifest.json ]] || fail "nothing was saved"
rm -r checkpoints

echo "--- ranks die with a killed launcher"
begin
ranks="$(rank 0) $(rank 1)"
kill -KILL "$run"
end
for process in $ranks; do
  for ((i = 0; i < 100; ++i)); do
    [[ -e "/proc/$process" ]] || continue 2
    sleep 0.1
  done
  fail "rank $process lives on"
done

echo "--- ranks that disagree are told so"
options=()
! mpirun --version | grep -qi 'open mpi\|openrte' || options=(--oversubscribe --allow-run-as-root --bind-to none)
common=(train recipe.yaml --check-collectives --step_scheduler.max_steps 4 --checkpoint.enabled false)
mpirun "${options[@]}" -n 1 "$program" "${common[@]}" : -n 1 "$program" "${common[@]}" \
  --distributed.strategy ddp >summary 2>said && fail "they went on"
grep -q 'the ranks issued different operations as #\|all ranks of a group issue the same operations' said || fail "they were not told"

echo "--- checking what is issued changes nothing"
for option in "" --check-collectives; do
  # shellcheck disable=SC2086
  "$program" train recipe.yaml --nproc-per-node 2 --step_scheduler.max_steps 4 --checkpoint.enabled false --json $option >"summary$option" 2>said ||
    fail "training failed"
done
[[ "$(grep last_loss summary)" == "$(grep last_loss summary--check-collectives)" ]] || fail "another loss"
