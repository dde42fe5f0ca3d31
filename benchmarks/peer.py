"""The other side of the comparison: Hugging Face transformers with torch's fused AdamW, as one would write it.

  peer.py make-model DIR --dtype   a model of SmolLM2-135M's shape with random weights (of bf16 precision), saved as a Hugging Face directory
  peer.py train DIR --dtype    trains on random tokens; prints "steps 1 to N" before the first step, "step N | ..." after each
  peer.py train-fsdp2 DIR      the same as one rank of FSDP2, started by torch.distributed.run
  peer.py decode DIR --dtype   decodes greedily; prints tokens per second
  peer.py gemm                 prints the machine's fp32 GEMM rate
"""

import argparse
import json
import time

import torch
import transformers

VOCABULARY = 49152


def make_model(directory: str, dtype: str) -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        max_position_embeddings=8192, rope_theta=100000.0, rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
    transformers.LlamaForCausalLM(config).bfloat16().to(getattr(torch, dtype)).save_pretrained(directory)


def load(directory: str, dtype: str) -> torch.nn.Module:
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype))


def train(directory: str, dtype: str, steps: int, rows: int, length: int) -> None:
    model = load(directory, dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    generator = torch.Generator().manual_seed(0)
    print(f"steps 1 to {steps}", flush=True)
    for step in range(1, steps + 1):
        tokens = torch.randint(0, VOCABULARY, (rows, length), generator=generator)
        start = time.perf_counter()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds = time.perf_counter() - start
        print(f"step {step} | loss {loss.item():.4f} | grad_norm {norm.item():.4f} | tps {rows * length / seconds:.2f}", flush=True)


def train_fsdp2(directory: str, dtype: str, steps: int, rows: int, length: int) -> None:
    """One rank of PyTorch's FSDP2 over gloo: every block and the rest sharded, `rows` of the global batch split among the ranks."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = load(directory, dtype).train()
    for block in model.model.layers:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    generator = torch.Generator().manual_seed(0)
    if rank == 0:
        print(f"steps 1 to {steps}", flush=True)
    for step in range(1, steps + 1):
        tokens = torch.randint(0, VOCABULARY, (rows, length), generator=generator).chunk(world)[rank]
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        if rank == 0:
            print(f"step {step} | loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


@torch.inference_mode()
def decode(directory: str, dtype: str, tokens: int) -> None:
    model = load(directory, dtype).eval()
    prompt = torch.arange(100, 116).unsqueeze(0)
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        model.generate(prompt, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0)
        rates.append(tokens / (time.perf_counter() - start))
    print(json.dumps({"tokens_per_second": max(rates)}))


@torch.inference_mode()
def gemm() -> None:
    size = 2048
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = 0.0
    for _ in range(10):
        start = time.perf_counter()
        a @ b
        best = max(best, 2 * size**3 / (time.perf_counter() - start))
    print(json.dumps({"flops_per_second": best}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["make-model", "train", "train-fsdp2", "decode", "gemm"])
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    if options.action == "make-model":
        make_model(options.directory, options.dtype)
    elif options.action == "train":
        train(options.directory, options.dtype, options.steps, options.rows, options.length)
    elif options.action == "train-fsdp2":
        train_fsdp2(options.directory, options.dtype, options.steps, options.rows, options.length)
    elif options.action == "decode":
        decode(options.directory, options.dtype, options.tokens)
    else:
        gemm()


if __name__ == "__main__":
    main()
