#!/usr/bin/env bash
# examples/training_loop learns, and two ranks give at every step what one process gives.
#   training_loop_test.sh BUILD
set -euo pipefail
program="$(realpath "$1")/tests/training_loop"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
mpirun=(mpirun)
if mpirun --version 2>/dev/null | grep -qE 'Open MPI|OpenRTE'; then mpirun+=(--oversubscribe --allow-run-as-root --bind-to none); fi
work="$(mktemp -d "${TMPDIR:-/tmp}/tessera-example-XXXXXX")"
trap 'rm -rf "$work"' EXIT

"$program" >"$work/alone"
timeout 120 "${mpirun[@]}" -n 2 "$program" </dev/null >"$work/ranks"
grep '^rank 0 ' "$work/ranks" >"$work/rank_0"
grep '^rank 1 ' "$work/ranks" >"$work/rank_1"

echo "--- both ranks report the same"
diff <(cut -d' ' -f3- "$work/rank_0") <(cut -d' ' -f3- "$work/rank_1")

echo "--- and what one process reports, to 1e-5"
paste -d' ' "$work/alone" "$work/rank_0" | awk '
  $4 != $12 { print "step " $4 " is beside step " $12; exit 1 }
  { difference = ($6 - $14) / $6 }
  difference > 1e-5 || difference < -1e-5 { print "step " $4 ": loss " $6 " alone, " $14 " on two ranks"; exit 1 }
  END { if (NR != 30) { print NR " steps"; exit 1 } }'

echo "--- the loss falls"
awk 'NR == 1 { first = $6 } { last = $6 } END { print first " -> " last; exit !(last < first / 2) }' "$work/rank_0"
