"""Runs both sides, measures them from outside in the same way, and prints a table of ratios. Called by benchmarks/run."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "benchmarks/work/model"
TESSERA = ROOT / "build/bin/tessera"
PEER = [sys.executable, str(ROOT / "benchmarks/peer.py")]
TOKENS_PER_STEP = 4 * 256
UNCOUNTED_STEPS = 2

# Multiply-adds of one training step: three products per weight and token (forward, input gradient, weight gradient), head included, embedding not;
# attention scores on top (causal, so half of all pairs), forward and twice that backward.
LAYERS, HIDDEN, FEED_FORWARD, KEY_VALUE, VOCABULARY, LENGTH = 30, 576, 1536, 192, 49152, 256
WEIGHTS = LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * KEY_VALUE + 3 * HIDDEN * FEED_FORWARD) + HIDDEN * VOCABULARY
FLOPS_PER_STEP = TOKENS_PER_STEP * (6 * WEIGHTS + 6 * LAYERS * HIDDEN * LENGTH)

# Hides AVX-512 and AMX from oneDNN, MKL and ATen: what is left has no bf16 instructions.
WITHOUT_BFLOAT16 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


def environment(threads: int, extra: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", **(extra or {})}


def measure_training(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """Reads "step N | ..." lines as they come: speed from the time between them, start of the first step by going back one step from its line."""
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ends, rates, output = [], [], []
    for line in process.stdout:
        output.append(line)
        if re.match(r"step \d+ \|", line):
            ends.append(time.monotonic() - start)
            rates.append(float(re.search(r"tps ([\d.]+)", line).group(1)))
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0 or len(ends) <= UNCOUNTED_STEPS:
        sys.exit(f"error: {' '.join(command)} failed\n{''.join(output[-20:])}")
    seconds = statistics.median(b - a for a, b in zip(ends[UNCOUNTED_STEPS - 1 :], ends[UNCOUNTED_STEPS:]))
    return {
        "tokens_per_second": TOKENS_PER_STEP / seconds,
        "peak_gib": usage.ru_maxrss / 2**20,
        "start_seconds": ends[0] - TOKENS_PER_STEP / rates[0],
        "flops_per_second": FLOPS_PER_STEP / seconds,
    }


def measure_answer(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """A command that prints one JSON object."""
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed\n{done.stderr[-2000:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def compare_training(dtype: str, threads: int, steps: int) -> dict:
    extra = WITHOUT_BFLOAT16 if dtype == "bfloat16" else {}
    env = environment(threads, extra)
    tessera = [str(TESSERA), "train", "benchmarks/train.yaml", "--model.torch_dtype", dtype, "--step_scheduler.max_steps", str(steps),
               "--model.pretrained_model_name_or_path", str(MODEL), "--checkpoint.checkpoint_dir", "benchmarks/work/run"]
    # bf16 without instructions is so slow for the peer that three steps say enough.
    peer_steps = steps if dtype == "float32" else UNCOUNTED_STEPS + 1
    return {
        "tessera": measure_training(tessera, env),
        "peer": measure_training([*PEER, "train", str(MODEL), "--dtype", dtype, "--steps", str(peer_steps)], env),
    }


def compare_decoding(dtype: str, threads: int) -> dict:
    env = environment(threads)
    return {
        "tessera": measure_answer([str(TESSERA), "bench", "generate", str(MODEL), "--dtype", dtype, "--tokens", "64", "--json"], env),
        "peer": measure_answer([*PEER, "decode", str(MODEL), "--dtype", dtype, "--tokens", "64"], env),
    }


def print_row(name: str, sides: dict, key: str, unit: str, inverse: bool = False) -> None:
    tessera, peer = sides["tessera"][key], sides["peer"][key]
    ratio = peer / tessera if inverse else tessera / peer
    note = "of the peer's" if not inverse else "times less"
    print(f"  {name:<34} {tessera:>10.2f} {peer:>10.2f}  {unit:<9} {ratio:>7.2f} {note}", flush=True)


def print_training(name: str, sides: dict, peak: float | None) -> None:
    print(f"{name:<36} {'Tessera':>10} {'peer':>10}")
    print_row("training", sides, "tokens_per_second", "tokens/s")
    print_row("peak memory", sides, "peak_gib", "GiB")
    print_row("until the first step begins", sides, "start_seconds", "s", inverse=True)
    if peak:
        shares = [100 * sides[side]["flops_per_second"] / peak for side in ("tessera", "peer")]
        print(f"  {'share of the fp32 GEMM peak':<34} {shares[0]:>10.1f} {shares[1]:>10.1f}  %         (peak {peak / 1e9:.0f} GFLOP/s)", flush=True)


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{model.group(1) if model else 'unknown processor'}, {os.cpu_count()} cores"


def main() -> None:
    comparisons = ["train-float32", "train-bfloat16", "decode-float32", "decode-bfloat16"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", action="append", choices=comparisons)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()

    if not (MODEL / "model.safetensors").exists():
        MODEL.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*PEER, "make-model", str(MODEL)], check=True)
    print(f"{machine()}; {options.threads} threads; batch 4 x 256 tokens\n", flush=True)
    figures = {"machine": machine(), "threads": options.threads}
    for name in options.only or comparisons:
        kind, dtype = name.split("-")
        if kind == "train":
            peak = measure_answer([*PEER, "gemm"], environment(options.threads))["flops_per_second"] if dtype == "float32" else None
            figures[name] = compare_training(dtype, options.threads, options.steps) | {"gemm_peak": peak}
            label = name if dtype == "float32" else f"{name} (held to AVX2)"
            print_training(label, figures[name], peak)
        else:
            figures[name] = compare_decoding(dtype, options.threads)
            print(f"{name:<36} {'Tessera':>10} {'peer':>10}")
            print_row("greedy decoding", figures[name], "tokens_per_second", "tokens/s")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
