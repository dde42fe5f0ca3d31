"""The same layer of experts in transformers: qwen3_moe's block, forward and backward in fp32. Prints its seconds, the shortest of several runs.

usage: peer.py eager|grouped_mm D F E K N [REPETITIONS]
"""
import json
import sys
import time

import torch
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock


def main(path: str, hidden: int, width: int, experts: int, chosen: int, tokens: int, repetitions: int = 5) -> None:
    config = Qwen3MoeConfig(hidden_size=hidden, moe_intermediate_size=width, num_experts=experts, num_experts_per_tok=chosen, norm_topk_prob=True)
    config._experts_implementation = path
    block = Qwen3MoeSparseMoeBlock(config).train()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(0.0, 0.02)
    tokens_in = torch.randn(1, tokens, hidden, requires_grad=True)
    shortest = [float("inf"), float("inf")]
    for _ in range(repetitions):
        tokens_in.grad = None
        for parameter in block.parameters():
            parameter.grad = None
        begin = time.perf_counter()
        output = block(tokens_in)
        output = output[0] if isinstance(output, tuple) else output
        middle = time.perf_counter()
        output.backward(output.detach())
        end = time.perf_counter()
        shortest = [min(shortest[0], middle - begin), min(shortest[1], end - middle)]
    print(json.dumps({"forward": shortest[0], "backward": shortest[1]}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
