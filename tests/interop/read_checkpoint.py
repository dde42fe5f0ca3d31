#!/usr/bin/env python3
"""Reads a checkpoint of Tessera as other programs would.

usage: read_checkpoint.py CHECKPOINT GOLDEN

Loads CHECKPOINT/model/consolidated with transformers and writes GOLDEN, a directory for `tessera verify`: those weights, and the logits and loss that
transformers computes from them in float64. Then loads CHECKPOINT/model with torch.distributed.checkpoint and compares tensor by tensor.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.distributed import checkpoint
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader


def weights_of(directory: pathlib.Path) -> dict[str, torch.Tensor]:
    return {name: tensor for file in sorted(directory.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def write_golden(consolidated: pathlib.Path, golden: pathlib.Path) -> None:
    model, report = transformers.AutoModelForCausalLM.from_pretrained(consolidated, dtype=torch.float32, attn_implementation="eager",
                                                                      experts_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind], f"{kind}: {report[kind]}"
    shutil.copytree(consolidated, golden)
    generator = torch.Generator().manual_seed(1)
    stream = torch.randint(3, model.config.vocab_size, (3, 25), generator=generator)
    ids, labels = stream[:, :-1].contiguous(), stream[:, 1:].contiguous()
    with torch.no_grad():
        logits = model.double().eval()(input_ids=ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    save_file({"input_ids": ids, "labels": labels, "logits": logits.float().contiguous()}, golden / "golden.safetensors")
    (golden / "golden.json").write_text(json.dumps({"loss": loss.item(), "adamw_trace": []}))


def check_shards(model: pathlib.Path) -> None:
    expected = weights_of(model / "consolidated")
    for file in model.glob("*.safetensors"):
        with safe_open(file, "pt") as shard:
            assert "DCP_SHARDING_INFO" in shard.metadata(), file
    loaded = {name: torch.full_like(tensor, float("nan")) for name, tensor in expected.items()}
    checkpoint.load(loaded, storage_reader=HuggingFaceStorageReader(str(model)), no_dist=True)
    for name, tensor in expected.items():
        assert torch.equal(loaded[name], tensor), name
    print(f"torch.distributed.checkpoint read {len(loaded)} tensors")


if __name__ == "__main__":
    saved, target = map(pathlib.Path, sys.argv[1:])
    write_golden(saved / "model" / "consolidated", target)
    check_shards(saved / "model")
