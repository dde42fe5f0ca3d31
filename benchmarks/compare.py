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
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The same weights in two checkpoints: as models are published, and widened.
MODEL = ROOT / "benchmarks/work/model-bfloat16"
MODEL_FLOAT32 = ROOT / "benchmarks/work/model-float32"
TESSERA = ROOT / "build/bin/tessera"
PEER = [sys.executable, str(ROOT / "benchmarks/peer.py")]


class Shape(NamedTuple):
    """The work of one training step."""

    rows: int
    length: int

    @property
    def tokens(self) -> int:
        return self.rows * self.length

    def __str__(self) -> str:
        return f"{self.rows} x {self.length} tokens"


class Steps(NamedTuple):
    """How many are run, and how many of the first are not counted."""

    total: int
    uncounted: int


# A step in bf16 without instructions takes the peer minutes, compared with which warming up is nothing: one step has to be enough, and a small one.
FLOAT32_SHAPE, BFLOAT16_SHAPE = Shape(4, 256), Shape(1, 512)
BFLOAT16_STEPS, BFLOAT16_PEER_STEPS = Steps(4, 2), Steps(1, 0)

# Multiply-adds of one training step: three products per weight and token (forward, input gradient, weight gradient), head included, embedding not;
# attention scores on top (causal, so half of all pairs), forward and twice that backward.
LAYERS, HIDDEN, FEED_FORWARD, KEY_VALUE, VOCABULARY = 30, 576, 1536, 192, 49152
WEIGHTS = LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * KEY_VALUE + 3 * HIDDEN * FEED_FORWARD) + HIDDEN * VOCABULARY


def flops_per_step(shape: Shape) -> int:
    return shape.tokens * (6 * WEIGHTS + 6 * LAYERS * HIDDEN * shape.length)


# Hides AVX-512 and AMX from oneDNN, MKL and ATen: what is left has no bf16 instructions.
WITHOUT_BFLOAT16 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


def environment(threads: int, extra: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", **(extra or {})}


def measure_training(command: list[str], env: dict[str, str], shape: Shape, steps: Steps) -> dict[str, float]:
    """Reads the lines as they come: "... steps 1 to N" just before the first step, then "step N | ..." after each. Speed is the time between those."""
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    times, output = [], []
    for line in process.stdout:
        output.append(line)
        if re.match(r"step \d+ \|", line) or (not times and re.search(r"steps 1 to \d+", line)):
            times.append(time.monotonic() - start)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0 or len(times) != 1 + steps.total:
        sys.exit(f"error: {' '.join(command)} failed\n{''.join(output[-20:])}")
    seconds = statistics.median(b - a for a, b in zip(times[steps.uncounted :], times[steps.uncounted + 1 :]))
    return {
        "tokens_per_second": shape.tokens / seconds,
        "peak_gib": usage.ru_maxrss / 2**20,
        "start_seconds": times[0],
        "flops_per_second": flops_per_step(shape) / seconds,
    }


def measure_answer(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """A command that prints one JSON object."""
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed\n{done.stderr[-2000:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def compare_training(dtype: str, threads: int, float32_steps: int) -> dict:
    narrow = dtype == "bfloat16"
    shape = BFLOAT16_SHAPE if narrow else FLOAT32_SHAPE
    steps = BFLOAT16_STEPS if narrow else Steps(float32_steps, uncounted=2)
    peer_steps = BFLOAT16_PEER_STEPS if narrow else steps
    env = environment(threads, WITHOUT_BFLOAT16 if narrow else {})
    tessera = [str(TESSERA), "train", "benchmarks/train.yaml", "--model.torch_dtype", dtype, "--step_scheduler.max_steps", str(steps.total),
               "--step_scheduler.global_batch_size", str(shape.rows), "--step_scheduler.local_batch_size", str(shape.rows),
               "--dataset.seq_len", str(shape.length),
               "--model.pretrained_model_name_or_path", str(MODEL), "--checkpoint.checkpoint_dir", "benchmarks/work/run"]
    peer = [*PEER, "train", str(MODEL), "--dtype", dtype, "--steps", str(peer_steps.total), "--rows", str(shape.rows),
            "--length", str(shape.length)]
    return {"tessera": measure_training(tessera, env, shape, steps), "peer": measure_training(peer, env, shape, peer_steps)}


def compare_ranks(float32_steps: int) -> dict:
    """Two ranks of one thread each, as fsdp2, compared with one process of two threads and with PyTorch's FSDP2."""
    shape, steps = FLOAT32_SHAPE, Steps(float32_steps, uncounted=2)
    tessera = [str(TESSERA), "train", "benchmarks/train.yaml", "--model.torch_dtype", "float32", "--step_scheduler.max_steps", str(steps.total),
               "--step_scheduler.global_batch_size", str(shape.rows), "--dataset.seq_len", str(shape.length),
               "--model.pretrained_model_name_or_path", str(MODEL), "--checkpoint.checkpoint_dir", "benchmarks/work/run"]
    one = [*tessera, "--step_scheduler.local_batch_size", str(shape.rows)]
    two = [*tessera, "--step_scheduler.local_batch_size", str(shape.rows // 2), "--nproc-per-node", "2", "--distributed.strategy", "fsdp2"]
    peer = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", PEER[1], "train-fsdp2", str(MODEL), "--dtype", "float32",
            "--steps", str(steps.total), "--rows", str(shape.rows), "--length", str(shape.length)]
    return {
        "tessera": measure_training(two, environment(1), shape, steps),
        "one_process": measure_training(one, environment(2), shape, steps),
        "peer": measure_training(peer, environment(1), shape, steps),
    }


# Two ranks share every layer: heads must divide, and at 16,384 tokens a few layers tell as much as thirty.
SPLIT_MODEL = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 72}
SPLITS = {
    "tensor-two": (FLOAT32_SHAPE, {"tp_size": 2}, {}),
    "sequence-two": (FLOAT32_SHAPE, {"tp_size": 2, "sequence_parallel": "true"}, {}),
    "context-two": (Shape(1, 16384), {"cp_size": 2}, {"num_hidden_layers": 2, "max_position_embeddings": 16384}),
}


def compare_split(name: str, float32_steps: int) -> dict:
    """Two ranks of one thread each that share every sample, compared with one process of two threads."""
    shape, distributed, fields = SPLITS[name]
    steps = Steps(float32_steps, uncounted=2) if shape == FLOAT32_SHAPE else Steps(3, uncounted=1)
    model = {"_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_config", "torch_dtype": "float32", "pretrained_model_name_or_path": MODEL}
    settings = {f"model.{key}": value for key, value in model.items()}
    settings |= {f"model.config.{key}": value for key, value in {**SPLIT_MODEL, **fields}.items()}
    settings |= {"step_scheduler.max_steps": steps.total, "step_scheduler.global_batch_size": shape.rows,
                 "step_scheduler.local_batch_size": shape.rows, "dataset.seq_len": shape.length}
    one = [str(TESSERA), "train", "benchmarks/train.yaml", *(f"--{key}={value}" for key, value in settings.items())]
    two = [*one, "--nproc-per-node", "2", *(f"--distributed.{key}={value}" for key, value in distributed.items())]
    return {"tessera": measure_training(two, environment(1), shape, steps), "one_process": measure_training(one, environment(2), shape, steps)}


def print_split(name: str, sides: dict) -> None:
    print(f"{name + ', ' + str(SPLITS[name][0]):<36} {'2 ranks':>10} {'1 process':>10}")
    both = {"tessera": sides["tessera"], "peer": sides["one_process"]}
    print_row("training", both, "tokens_per_second", "tokens/s")
    print_row("peak memory of a process", both, "peak_gib", "GiB")


def print_ranks(sides: dict) -> None:
    print(f"{'ranks-two':<36} {'Tessera':>10} {'other':>10}")
    print_row("2 ranks, and PyTorch FSDP2", sides, "tokens_per_second", "tokens/s")
    print_row("2 ranks, and 1 process (other)", {**sides, "peer": sides["one_process"]}, "tokens_per_second", "tokens/s")


def compare_decoding(model: pathlib.Path, dtype: str, threads: int) -> dict:
    env = environment(threads)
    return {
        "tessera": measure_answer([str(TESSERA), "bench", "generate", str(model), "--dtype", dtype, "--tokens", "64", "--json"], env),
        "peer": measure_answer([*PEER, "decode", str(model), "--dtype", dtype, "--tokens", "64"], env),
    }


def print_row(name: str, sides: dict, key: str, unit: str, inverse: bool = False) -> None:
    tessera, peer = sides["tessera"][key], sides["peer"][key]
    ratio = peer / tessera if inverse else tessera / peer
    note = "of the other's" if not inverse else "times less"
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
    comparisons = ["train-float32", "train-bfloat16", "decode-float32", "decode-float32-stored", "decode-bfloat16", "ranks-two", *SPLITS]
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", action="append", choices=comparisons)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()

    for directory, dtype in ((MODEL, "bfloat16"), (MODEL_FLOAT32, "float32")):
        if not (directory / "model.safetensors").exists():
            directory.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([*PEER, "make-model", str(directory), "--dtype", dtype], check=True)
    print(f"{machine()}; {options.threads} threads\n", flush=True)
    figures = {"machine": machine(), "threads": options.threads}
    for name in options.only or comparisons:
        kind, dtype, *stored = name.split("-")
        if kind == "train":
            peak = measure_answer([*PEER, "gemm"], environment(options.threads))["flops_per_second"] if dtype == "float32" else None
            figures[name] = compare_training(dtype, options.threads, options.steps) | {"gemm_peak": peak}
            label = f"{name}, {FLOAT32_SHAPE}" if dtype == "float32" else f"{name}, {BFLOAT16_SHAPE}, AVX2"
            print_training(label, figures[name], peak)
        elif name in SPLITS:
            figures[name] = compare_split(name, options.steps)
            print_split(name, figures[name])
        elif kind == "ranks":
            figures[name] = compare_ranks(options.steps)
            print_ranks(figures[name])
        else:
            figures[name] = compare_decoding(MODEL_FLOAT32 if stored else MODEL, dtype, options.threads)
            print(f"{name:<36} {'Tessera':>10} {'peer':>10}")
            print_row("greedy decoding", figures[name], "tokens_per_second", "tokens/s")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
