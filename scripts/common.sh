# Shared by the scripts in this folder: messages, long steps, the compiler and CMake that the build uses. Sourced, never run.
readonly ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly VENV="$ROOT/.venv"

if [[ -t 2 && "${TERM:-dumb}" != dumb ]]; then
  readonly ON_TERMINAL=1 RED=$'\e[31m' BOLD=$'\e[1m' PLAIN=$'\e[0m'
else
  readonly ON_TERMINAL=0 RED='' BOLD='' PLAIN=''
fi

say() { printf '%s\n' "${BOLD}==>${PLAIN} $*" >&2; }

# fail WHAT [RULE] [FIX]: the form of every error of Tessera, then exit 2.
fail() {
  printf '%s\n' "${RED}error${PLAIN}: $1" >&2
  [[ -n "${2:-}" ]] && printf '  rule: %s\n' "$2" >&2
  [[ -n "${3:-}" ]] && printf '  fix:  %s\n' "$3" >&2
  exit 2
}

# step LABEL COMMAND...: runs a step that may take long. Its output goes to a log; on a terminal the last line of the log is shown while it
# runs, elsewhere one line says that it began and one that it ended. On failure the end of the log is printed. Returns the command's status.
step() {
  local label="$1" log status=0 start=$SECONDS
  shift
  log="$(mktemp "${TMPDIR:-/tmp}/tessera-step-XXXXXX.log")"
  say "$label"
  "$@" >"$log" 2>&1 </dev/null &
  local process=$!
  trap 'kill '"$process"' 2>/dev/null; exit 130' INT TERM
  while ((ON_TERMINAL)) && kill -0 "$process" 2>/dev/null; do
    sleep 0.2
    printf '\r\e[K    %4d s  %.100s' "$((SECONDS - start))" "$(tail -n 1 "$log" | tr -d '\r')" >&2
  done
  wait "$process" || status=$?
  trap - INT TERM
  ((ON_TERMINAL)) && printf '\r\e[K' >&2
  if ((status != 0)); then
    tail -n 40 "$log" >&2
    printf '%s\n' "    failed after $((SECONDS - start)) s; the whole output is in $log" >&2
    return "$status"
  fi
  ((SECONDS - start < 2)) || printf '    %d s\n' "$((SECONDS - start))" >&2
  rm -f "$log"
}

# at_least VERSION MINIMUM
at_least() { [[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]; }

# Whether $1 is g++ 12 or newer, or clang++ 15 or newer.
is_usable_compiler() {
  local macros major
  macros="$("$1" -dM -E -x c++ /dev/null 2>/dev/null)" || return 1
  if major="$(grep -oP '^#define __clang_major__ \K\d+' <<<"$macros")"; then
    ((major >= 15))
  else
    major="$(grep -oP '^#define __GNUC__ \K\d+' <<<"$macros")" && ((major >= 12))
  fi
}

# Prints the C++ compiler to use: $CXX, the system's, or the newest usable one beside it. Fails when there is none.
find_compiler() {
  local candidate
  for candidate in ${CXX:-} c++ g++ clang++ g++-{14,13,12} clang++-{20,19,18,17,16,15}; do
    if command -v "$candidate" >/dev/null && is_usable_compiler "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# c_compiler_of CXX: prints the C compiler of the same name and version, which MPI's package asks for: gcc-12 beside g++-12.
c_compiler_of() { sed -E 's/clang\+\+([^/]*)$/clang\1/; s/g\+\+([^/]*)$/gcc\1/; s/c\+\+([^/]*)$/cc\1/' <<<"$1"; }

# Prints a CMake of at least 3.25: the system's or the virtual environment's.
find_cmake() {
  local candidate version
  for candidate in cmake "$VENV/bin/cmake"; do
    version="$("$candidate" --version 2>/dev/null | grep -oPm1 '[\d.]+')" || continue
    if at_least "$version" 3.25; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# install_cuda_headers VENV: where its torch is one with CUDA, the headers of the CUDA runtime that the wheels beside torch's leave out.
install_cuda_headers() {
  local packages runtime
  packages="$(compgen -G "$1/lib/python3*/site-packages")" || return 0
  runtime="$(compgen -G "$packages/nvidia_cuda_runtime-*.dist-info")" || return 0
  if compgen -G "$packages/nvidia/cu*/include/nv/target" >/dev/null; then return; fi
  runtime="$(grep -oP 'nvidia_cuda_runtime-\K\d+\.\d+' <<<"$runtime")"
  "$1/bin/pip" install --disable-pip-version-check --no-deps "nvidia-cuda-crt==$runtime.*" "nvidia-cuda-cccl==$runtime.*" ||
    say "the headers of CUDA $runtime could not be installed: ranks will not talk NCCL"
}

# configure BUILD_DIRECTORY [CMAKE_ARGUMENT...]: does nothing when the directory is configured with the same arguments and compiler.
configure() {
  local build="$1" compiler
  shift
  compiler="$(find_compiler)"
  local wanted="$compiler ${TESSERA_TORCH:-} $*"
  if [[ -f "$build/build.ninja" && -f "$build/.configured" && "$(<"$build/.configured")" == "$wanted" ]]; then return; fi
  mkdir -p "$build"
  # What a first attempt that failed has found out about the compilers is not trusted by the next.
  [[ -f "$build/build.ninja" ]] || rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
  step "configuring $(realpath --relative-to="$ROOT" "$build")" "$(find_cmake)" -G Ninja -S "$ROOT" -B "$build" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_C_COMPILER="$(c_compiler_of "$compiler")" -DTESSERA_TORCH="${TESSERA_TORCH:-}" -DCMAKE_BUILD_TYPE=Release "$@"
  printf '%s' "$wanted" >"$build/.configured"
}

# build BUILD_DIRECTORY JOBS [TARGET...]
build() {
  local directory="$1" jobs="$2"
  shift 2
  step "building $(realpath --relative-to="$ROOT" "$directory") (the first time takes some minutes)" \
    "$(find_cmake)" --build "$directory" --parallel "$jobs" --target "${@:-all}" || fail "the build failed" "" "see the compiler's messages above"
}
