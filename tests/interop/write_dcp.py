"""Saves a few sharded tensors with torch.distributed.checkpoint, or compares what `tessera convert` made of them.

usage: torchrun --nproc-per-node 2 write_dcp.py FOLDER; write_dcp.py FOLDER compare
"""
import pathlib
import sys

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed import checkpoint
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {"rows.weight": torch.randn(7, 5, generator=generator), "columns.weight": torch.randn(4, 6, generator=generator).to(torch.bfloat16),
            "norm.weight": torch.randn(5, generator=generator)}


def save(folder: pathlib.Path) -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    placements = {"rows.weight": Shard(0), "columns.weight": Shard(1), "norm.weight": Replicate()}
    state = {name: distribute_tensor(tensor, mesh, [placements[name]]) for name, tensor in tensors().items()}
    checkpoint.save(state, storage_writer=HuggingFaceStorageWriter(str(folder / "safetensors"), save_distributed=True))
    checkpoint.save(state, checkpoint_id=str(folder / "pickle"))
    (folder / "safetensors" / "config.json").write_text('{"model_type": "llama"}\n')
    dist.destroy_process_group()


def compare(folder: pathlib.Path) -> None:
    loaded = load_file(folder / "converted" / "model.safetensors")
    expected = tensors()
    assert loaded.keys() == expected.keys(), loaded.keys()
    for name, tensor in expected.items():
        assert loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor), name
    print(f"{len(expected)} tensors are equal")


if __name__ == "__main__":
    (compare if sys.argv[2:] == ["compare"] else save)(pathlib.Path(sys.argv[1]))
