#!/usr/bin/env python3
"""Writes quantized.safetensors beside itself: weights as Hugging Face checkpoints quantise them, and what the reference makes of them.

usage: make_quantized.py        needs: torch, transformers, safetensors

fp8.weight, fp8.weight_scale_inv   FP8 (E4M3) in blocks of 128 x 128, the last of them cut short; every finite value is there
fp8.expected                       float32, the values converted by torch and multiplied by their block's scale
mxfp4_blocks, mxfp4_scales         MXFP4 as gpt_oss has it
mxfp4.expected                     float32, by transformers.integrations.mxfp4, which gives the order of unquantised weights
"""
import pathlib

import torch
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

generator = torch.Generator().manual_seed(11)
rows, columns = 131, 150
codes = torch.randint(0, 256, (rows, columns), generator=generator, dtype=torch.int32)
codes.view(-1)[:256] = torch.arange(256, dtype=torch.int32)
codes[(codes & 0x7F) == 0x7F] = 0x7E  # NaN
fp8 = codes.to(torch.uint8).view(torch.float8_e4m3fn)
scales = torch.rand((2, 2), generator=generator) * 3e-3
spread = scales.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]

blocks = torch.randint(0, 256, (3, 5, 2, 16), generator=generator, dtype=torch.int32).to(torch.uint8)
exponents = torch.randint(110, 140, (3, 5, 2), generator=generator, dtype=torch.int32).to(torch.uint8)
save_file(
    {
        "fp8.weight": fp8,
        "fp8.weight_scale_inv": scales,
        "fp8.expected": fp8.float() * spread,
        "mxfp4_blocks": blocks,
        "mxfp4_scales": exponents,
        "mxfp4.expected": convert_moe_packed_tensors(blocks, exponents, dtype=torch.float32).contiguous(),
    },
    pathlib.Path(__file__).with_name("quantized.safetensors"),
)
