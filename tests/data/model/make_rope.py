#!/usr/bin/env python3
"""Write rope.json: what transformers' ROPE_INIT_FUNCTIONS compute for settings of every kind, at several lengths.

usage: make_rope.py > rope.json        needs: torch, transformers (written with 5.24.0)
"""
import json

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

SHORT, LONG = [1.0 + 0.05 * i for i in range(16)], [1.0 + 0.9 * i for i in range(16)]
CASES = {
    "default": dict(rope_type="default", rope_theta=500000.0),
    "linear": dict(rope_type="linear", rope_theta=10000.0, factor=4.0),
    "dynamic": dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0),
    "yarn": dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64),
    "yarn_untruncated": dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, original_max_position_embeddings=128, truncate=False,
                             beta_fast=24.0, beta_slow=2.0),
    "yarn_mscale": dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, original_max_position_embeddings=100, mscale=0.8, mscale_all_dim=1.2),
    "yarn_attention_factor": dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=128, attention_factor=1.25),
    "longrope": dict(rope_type="longrope", rope_theta=10000.0, short_factor=SHORT, long_factor=LONG, original_max_position_embeddings=96),
    "longrope_factor": dict(rope_type="longrope", rope_theta=10000.0, short_factor=SHORT, long_factor=LONG, original_max_position_embeddings=96,
                            factor=3.0),
    "llama3": dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=128),
    "llama3_wide": dict(rope_type="llama3", rope_theta=10000.0, factor=32.0, low_freq_factor=2.0, high_freq_factor=16.0,
                        original_max_position_embeddings=200),
}


def main():
    cases = []
    for name, parameters in CASES.items():
        config = dict(model_type="llama", vocab_size=32, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
                      max_position_embeddings=256, rope_parameters=parameters)
        results = []
        for length in (1, 96, 97, 256, 1000):
            built = LlamaConfig(**{k: v for k, v in config.items() if k != "model_type"})
            if parameters["rope_type"] == "default":
                frequencies, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(built)
            else:
                frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](built, torch.device("cpu"), seq_len=length)
            results.append(dict(length=length, attention_factor=float(factor), inverse_frequencies=[float(f"{x:.9g}") for x in frequencies.tolist()]))
        cases.append(dict(name=name, config=config, results=results))
    print(json.dumps(cases, separators=(",", ":")).replace('{"name"', '\n{"name"'))


main()
