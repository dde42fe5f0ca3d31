#!/usr/bin/env python3
"""Writes greedy.json beside itself: how transformers, in float64, continues a prompt with each of the committed goldens that have experts.

usage: make_greedy.py        needs: torch, transformers

Each entry has the prompt's ids, the ids that follow, and the smallest gap between the two largest logits on the way: far above rounding, so that any
correct program picks the same.
"""
import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["mixtral", "qwen2_moe", "gpt_oss", "deepseek_v3_yarn", "glm4_moe"]
PROMPT, NEW = 9, 24


@torch.inference_mode()
def greedy(directory: pathlib.Path) -> dict:
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    prompt = torch.randint(3, model.config.vocab_size, (1, PROMPT), generator=torch.Generator().manual_seed(7))
    ids, cache, gap = prompt, None, float("inf")
    step = prompt
    for _ in range(NEW):
        output = model(input_ids=step, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        best = output.logits[0, -1].topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        step = best.indices[:1].view(1, 1)
        ids = torch.cat([ids, step], dim=1)
    assert gap > 1e-4, (directory.name, gap)
    return {"prompt": ids[0, :PROMPT].tolist(), "continuation": ids[0, PROMPT:].tolist(), "smallest_gap": round(gap, 6)}


if __name__ == "__main__":
    result = {name: greedy(HERE.parent / "goldens" / name) for name in NAMES}
    (HERE / "greedy.json").write_text("{\n" + ",\n".join(f'  "{name}": {json.dumps(entry)}' for name, entry in result.items()) + "\n}\n")
