"""Makes tests/data/formats with the reference implementations: pip install numpy safetensors gguf huggingface_hub transformers torch.

gguf_blocks.safetensors: for every type, random blocks ("Q4_0.blocks") and what gguf.quants.dequantize makes of them ("Q4_0.values").
reference.safetensors: a file of every dtype as the safetensors package writes it.
reference.gguf: a file as the gguf package writes it.
sharded/: a tiny model that transformers saved in several shards.
"""

import pathlib
import sys

import gguf
import numpy as np
import safetensors.torch
import torch
import transformers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "data/formats")
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
HALF_OFFSETS = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(random, name, count):
    """Uniform bytes; scales are finite halves, subnormal ones among them."""
    _, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in HALF_OFFSETS.get(name, []):
        halves = random.integers(0, 0x7C00, count).astype(np.uint16) | (random.integers(0, 2, count).astype(np.uint16) << 15)
        blocks[:, offset : offset + 2] = halves.view(np.uint8).reshape(count, 2)
    if name == "F32":
        blocks = random.standard_normal((count, 1)).astype(np.float32).view(np.uint8)
    if name == "BF16":
        blocks = (random.standard_normal((count, 1)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return blocks


def make_blocks():
    random = np.random.default_rng(1)
    tensors = {}
    for name in TYPES:
        blocks = random_blocks(random, name, 8 if name.endswith("_K") else 24)
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32).reshape(-1)
        tensors[name + ".blocks"] = torch.from_numpy(blocks.reshape(-1).copy())
        tensors[name + ".values"] = torch.from_numpy(values.copy())
    safetensors.torch.save_file(tensors, OUT / "gguf_blocks.safetensors")


def make_safetensors():
    dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32, torch.int16,
              torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool]
    tensors = {}
    for dtype in dtypes:
        for name in ["b", "a"]:
            tensors[f"{name}.{str(dtype)[6:]}"] = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    tensors["empty"] = torch.zeros(0, 5)
    tensors["scalar"] = torch.tensor(2.5)
    tensors['quote"back\\slash/ünïcode\n'] = torch.tensor([1.0, 2.0])
    safetensors.torch.save_file(tensors, OUT / "reference.safetensors", metadata={"format": "pt"})


def make_gguf():
    random = np.random.default_rng(2)
    writer = gguf.GGUFWriter(OUT / "reference.gguf", "llama")
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -3)
    writer.add_uint64("test.u64", 2**40)
    writer.add_int32("test.i32", -70000)
    writer.add_float32("test.f32", 0.5)
    writer.add_float64("test.f64", 1e-5)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "héllo")
    writer.add_array("test.strings", ["a", "bc", ""])
    writer.add_array("test.integers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, 1.5])
    writer.add_array("test.nested", [[1, 2], [3]])
    weight = random.standard_normal((4, 64)).astype(np.float32)
    writer.add_tensor("plain", weight)
    writer.add_tensor("half", weight[:2, :3].astype(np.float16))
    quantized = gguf.quants.quantize(weight, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("quantized", quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    expected = {"plain": torch.from_numpy(weight), "quantized": torch.from_numpy(gguf.quants.dequantize(quantized, gguf.GGMLQuantizationType.Q8_0))}
    safetensors.torch.save_file(expected, OUT / "reference_gguf_values.safetensors")


def make_sharded():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2)
    transformers.LlamaForCausalLM(config).save_pretrained(OUT / "sharded", max_shard_size=2500)


OUT.mkdir(parents=True, exist_ok=True)
make_blocks()
make_safetensors()
make_gguf()
make_sharded()
