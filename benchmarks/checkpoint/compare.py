"""Runs checkpoint_benchmark and PyTorch's distributed checkpoint one after the other and prints rates and ratios; benchmarks/checkpoint/run calls it."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def last_json(command: list[str]) -> dict:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


class Runs:
    def __init__(self, options: argparse.Namespace, directory: pathlib.Path):
        self.options, self.directory = options, directory

    def ours(self, mode: str, ranks: int | None = None) -> dict:
        command = ["mpirun", "-n", str(ranks or self.options.ranks), "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
        return last_json([*command, str(self.options.program), mode, str(self.directory), str(self.options.gib)])

    def peer(self, mode: str) -> dict:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.options.ranks)]
        return last_json([*launcher, str(HERE / "peer.py"), mode, str(self.directory), str(self.options.gib)])


def measure(runs: Runs) -> dict:
    figures = {"write": runs.ours("write")["seconds"], "save": runs.ours("save")["seconds"]}
    figures["peer save"] = runs.peer("save")["seconds"]
    figures["load, warm"] = min(runs.ours("load")["seconds"] for _ in range(2))
    loaded = runs.ours("load")
    figures["load, warm"] = min(figures["load, warm"], loaded["seconds"])
    figures["memory in addition to the state"] = loaded["peak_growth_share"]
    figures["load by one rank less"] = min(runs.ours("load", runs.options.ranks - 1)["seconds"] for _ in range(3))
    figures["peer load, warm"] = min(runs.peer("load")["seconds"] for _ in range(2))
    runs.ours("evict")
    figures["load, cold"] = runs.ours("load")["seconds"]
    figures["copy"] = runs.ours("copy")["seconds"]
    asynchronous = runs.ours("async")
    figures["async stall"], figures["async"] = asynchronous["stall"], asynchronous["seconds"]
    figures["peer async stall"] = runs.peer("async")["stall"]
    figures["write again"] = runs.ours("write")["seconds"]
    return figures


def ratios(figures: dict) -> dict:
    disk = (figures["write"] + figures["write again"]) / 2
    return {
        "save rate / disk's": disk / figures["save"],
        "save rate / peer's": figures["peer save"] / figures["save"],
        "warm load rate / peer's": figures["peer load, warm"] / figures["load, warm"],
        "cold load rate / disk's write rate": disk / figures["load, cold"],
        "async stall / copy": figures["async stall"] / figures["copy"],
        "load by one rank less / by as many": figures["load by one rank less"] / figures["load, warm"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--directory", default=None, help="on the disk to measure (default: the temporary directory)")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tessera-checkpoint-", dir=options.directory))
    try:
        figures = measure(Runs(options, directory))
    finally:
        shutil.rmtree(directory)
    for name, value in figures.items():
        rate = "" if name.startswith("memory") else f"{options.gib * 1073.741824 / value:10.0f} MB/s"
        print(f"{name:<36} {value:8.3f}{'' if not rate else ' s'}{rate}")
    for name, value in ratios(figures).items():
        print(f"{name:<36} {value:8.2f}")
    if options.json:
        options.json.write_text(json.dumps({"seconds": figures, "ratios": ratios(figures)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
