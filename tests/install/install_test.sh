#!/usr/bin/env bash
# Installs a build, moves the tree, runs the program with an empty environment, and builds a program of ten lines with find_package(Tessera).
#   install_test.sh BUILD
set -euo pipefail
build="$(realpath "$1")"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

if [[ -n "$(cached TESSERA_SANITIZE)" ]]; then
  echo "a sanitizer build is not for installing"
  exit 77
fi
work="$(mktemp -d "${TMPDIR:-/tmp}/tessera-install-XXXXXX")"
trap 'rm -rf "$work"' EXIT
cmake="$(cached CMAKE_COMMAND)"

"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/moved"

echo "--- the program runs from the moved tree"
program="$work/moved/bin/tessera"
env -i "$program" --version | grep -E '^tessera [0-9.]+ \(libtorch [0-9.]+.*\)$'
libraries="$(env -i LD_TRACE_LOADED_OBJECTS=1 "$program")"
grep -F "$work/moved/bin/../lib/torch/lib/libtorch_cpu.so" <<<"$libraries"
if grep -E '/\.venv/|python|not found' <<<"$libraries"; then
  echo "the program still needs the build's own tree, or Python"
  exit 1
fi

echo "--- a program builds against the package"
"$cmake" -G Ninja -S "$here" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" \
  -DCMAKE_C_COMPILER="$(cached CMAKE_C_COMPILER)" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || { cat "$work/configure.log" && exit 1; }
"$cmake" --build "$work/consumer"
env -i "$work/consumer/consumer" | tee "$work/output"
grep -qx 'parameters: 134515008' "$work/output"
if grep -rlF "$build" "$work/moved/lib/cmake"; then
  echo "the package names the build's own tree"
  exit 1
fi
