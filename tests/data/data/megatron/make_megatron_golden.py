"""Makes the .bin/.idx pairs of this folder and megatron.json: the samples that Megatron's own code (as NeMo AutoModel carries it) draws from them.

    PYTHONPATH=PATH_TO_AUTOMODEL python make_megatron_golden.py

needs torch, transformers and the compiled helpers_cpp of nemo_automodel/components/datasets/llm/megatron. The C++ tests read only what it writes.
"""

import json
import tempfile
from pathlib import Path

import numpy
import torch.distributed
from nemo_automodel.components.datasets.llm.megatron.builder import BlendedMegatronDatasetBuilder
from nemo_automodel.components.datasets.llm.megatron.gpt_dataset import GPTDatasetConfig
from nemo_automodel.components.datasets.llm.megatron.indexed_dataset import DType, IndexedDatasetBuilder

HERE = Path(__file__).parent


class Tokenizer:
    name_or_path = "none"
    pad_token_id = 60000
    eos_token_id = 60001
    unique_identifiers = {}


def write(name, lengths, first, vocab_size):
    builder = IndexedDatasetBuilder(str(HERE / f"{name}.bin"), dtype=DType.optimal_dtype(vocab_size))
    token = first
    for length in lengths:
        builder.add_document(list(range(token, token + length)), [length] if length else [])
        token += length
    builder.finalize(str(HERE / f"{name}.idx"))


CASES = [
    {"paths": ["a"], "split": "900,50,50", "seq_length": 16, "sizes": [None, None, None]},
    {"paths": ["a"], "split": "70,20,10", "seq_length": 8, "sizes": [150, 20, 3]},
    {"paths": ["a"], "split": "1", "seq_length": 32, "sizes": [29, None, None]},
    {"paths": ["a"], "split": "1", "seq_length": 32, "sizes": [58, None, None], "seed": 7},
    {"paths": ["a"], "split": "0.99, 0.01, 0.00", "seq_length": 5, "sizes": [400, None, None], "seed": 0},
    {"paths": ["a", "b"], "weights": [0.3, 0.7], "split": "9,1,0", "seq_length": 8, "sizes": [100, 10, None]},
    {"paths": ["a", "b"], "weights": [70, 30], "split": "1", "seq_length": 12, "sizes": [61, None, None]},
    {"paths": ["a", "b"], "split": "1", "seq_length": 8, "sizes": [None, None, None]},
    {"paths": ["a", "b"], "split": "1", "seq_length": 8, "sizes": [50, None, None]},
]


def samples_of(case):
    with tempfile.TemporaryDirectory() as cache:
        config = GPTDatasetConfig(
            random_seed=case.get("seed", 1234),
            sequence_length=case["seq_length"],
            tokenizer=Tokenizer(),
            path_to_cache=cache,
            reset_position_ids=False,
            create_attention_mask=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            blend=[[str(HERE / path) for path in case["paths"]], case.get("weights")],
            split=case["split"],
        )
        datasets = BlendedMegatronDatasetBuilder(case["sizes"], lambda: True, config).build()
        # Every token is unlike all others: its first says which sample it is.
        return [None if d is None else [[int(d[i]["input_ids"][0]), int(d[i]["labels"][-1])] for i in range(len(d))] for d in datasets]


def main():
    torch.distributed.get_rank = lambda: 0  # asked by the blend, which is built here without ranks
    random = numpy.random.RandomState(3)
    write("a", [int(n) for n in random.randint(1, 40, size=60)] + [0, 0, 5], 0, 50000)
    write("b", [int(n) for n in random.randint(1, 90, size=17)], 100000, 200000)
    shuffles = {}
    for count in [1, 2, 3, 10, 1000]:
        state = numpy.random.RandomState(count + 1)
        values = numpy.arange(count)
        state.shuffle(values)
        state.shuffle(values)
        shuffles[count] = values.tolist()
    cases = [dict(case, samples=samples_of(case)) for case in CASES]
    (HERE / "megatron.json").write_text(json.dumps({"shuffles": shuffles, "cases": cases}) + "\n")


main()
