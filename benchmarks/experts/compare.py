"""Runs experts_benchmark and transformers' layer one after the other and prints ratios; benchmarks/experts/run calls it."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent


class Layer(NamedTuple):
    hidden: int
    width: int
    experts: int
    chosen: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.experts} experts of {self.width}, {self.chosen} a token, {self.tokens} x {self.hidden}"


# Half the experts of Qwen3-30B-A3B's layer, a mixtral's proportions, and something between.
LAYERS = [Layer(2048, 768, 64, 8, 512), Layer(1024, 1024, 32, 4, 512), Layer(1024, 3584, 8, 2, 512)]


def json_lines(command: list[str], threads: int) -> list[dict]:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def compare_grouped(program: pathlib.Path, threads: int) -> list[dict]:
    results = json_lines([str(program), "grouped"], threads)
    print("grouped products, speed by that of one dense product of the same FLOPs")
    for result in results:
        flops = 2 * result["experts"] * result["rows"] * result["outputs"] * result["inputs"]
        result["ratio"] = sum(result["dense"]) / sum(result["grouped"])
        forward, backward = (dense / grouped for dense, grouped in zip(result["dense"], result["grouped"]))
        print(f"  {result['experts']:3} experts x {result['rows']:3} rows, {result['outputs']:4} x {result['inputs']:4}   "
              f"forward {forward:.2f}   backward {backward:.2f}   both {result['ratio']:.2f}   (dense {3 * flops / sum(result['dense']) / 1e9:.0f} GFLOP/s)", flush=True)
    return results


def seconds(command: list[str], layer: Layer, repetitions: int, threads: int) -> float:
    (result,) = json_lines([*command, *map(str, layer), str(repetitions)], threads)
    return result["forward"] + result["backward"]


def compare_layer(program: pathlib.Path, layer: Layer, threads: int) -> dict:
    """In turn, twice, the shorter of each: a machine's rate moves."""
    paths = {"ours": ([str(program), "layer"], 7), "grouped_mm": ([sys.executable, str(HERE / "peer.py"), "grouped_mm"], 7),
             "eager": ([sys.executable, str(HERE / "peer.py"), "eager"], 1)}
    figures = {name: float("inf") for name in paths}
    for _ in range(2):
        for name, (command, repetitions) in paths.items():
            figures[name] = min(figures[name], seconds(command, layer, repetitions, threads))
    print(f"  {str(layer):<52} {figures['ours'] * 1e3:7.1f} ms   grouped_mm {figures['grouped_mm'] / figures['ours']:.2f} x   "
          f"eager {figures['eager'] / figures['ours']:.2f} x", flush=True)
    return {"layer": layer._asdict(), **figures}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=["grouped", "layer"])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    figures = {}
    if options.only != "layer":
        figures["grouped"] = compare_grouped(options.program, options.threads)
    if options.only != "grouped":
        print("layer of experts, forward and backward: time here, and transformers' time by it")
        figures["layers"] = [compare_layer(options.program, layer, options.threads) for layer in LAYERS]
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
