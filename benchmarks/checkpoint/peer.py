"""Saves or loads the state of checkpoint_benchmark.cpp with torch.distributed.checkpoint, as one JSON line from rank 0.

usage: torchrun --nproc-per-node 4 peer.py save|async|load DIRECTORY GIB
"""
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

ROWS = 2048


def state(gib: float, mesh) -> dict[str, DTensor]:
    matrices = int(gib * 2**30 / (ROWS * ROWS * 12))
    rows = ROWS // mesh.size()
    names = [f"{kind}.layers.{i}.weight" for i in range(matrices) for kind in ("model", "exp_avg", "exp_avg_sq")]
    return {name: DTensor.from_local(torch.full((rows, ROWS), float(i)), mesh, [Shard(0)]) for i, name in enumerate(names)}


def main() -> None:
    mode, directory, gib = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3])
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    values = state(gib, init_device_mesh("cpu", (dist.get_world_size(),)))
    dist.barrier()
    start = time.perf_counter()
    figures = {}
    if mode == "save":
        checkpoint.save(values, checkpoint_id=str(directory / "peer"))
    elif mode == "async":
        saving = checkpoint.async_save(values, checkpoint_id=str(directory / "peer-async"))
        figures["stall"] = time.perf_counter() - start
        saving.result()
    else:
        checkpoint.load(values, checkpoint_id=str(directory / "peer"))
    dist.barrier()
    figures["seconds"] = time.perf_counter() - start
    if dist.get_rank() == 0:
        print(json.dumps(figures), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
