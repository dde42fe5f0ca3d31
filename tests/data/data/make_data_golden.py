"""Makes the tokenizers of this folder and instruction.json: what NeMo AutoModel's own formatting functions give for a few samples.

    python make_data_golden.py PATH_TO/nemo_automodel/components/datasets/llm/formatting_utils.py

needs torch, transformers and tokenizers. The C++ tests read only what it writes.
"""

import importlib.util
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent
TEXT = (
    "The lighthouse of Quellmar stands on the northern cliff. Who keeps the lighthouse? "
    "The keeper of the lighthouse is Oda Brennick. What is the answer to the question? "
    "Context: the question. Question: the answer. Answer: yes, the keeper answers the question. "
)
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PAIRS = [
    {"context": "The cliff is high.", "question": "Who keeps the lighthouse?", "answer": "Oda Brennick keeps it."},
    {"context": None, "question": "What is the answer?", "answer": "yes"},
    {"context": None, "question": "Wer hütet den Leuchtturm — 灯台?", "answer": "Öda 🙂 Brennick"},
    {"context": "A", "question": "B", "answer": "the lighthouse of the keeper of the question of the answer of the lighthouse"},
]
OPTIONS = [
    {},
    {"answer_only_loss_mask": False},
    {"seq_length": 24, "truncation": True},
    {"seq_length": 200, "padding": "max_length"},
]


def make_tokenizer(name, with_bos_eos):
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = ["<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    core.train_from_iterator([TEXT], trainer)
    if with_bos_eos:
        core.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A <|end|>", pair="<|begin|> $A $B <|end|>", special_tokens=[("<|begin|>", 0), ("<|end|>", 1)]
        )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|end|>")
    # The attribute that AutoModel asks; setting one of them rewrites the post-processor, so that both are set.
    tokenizer.add_bos_token = with_bos_eos
    tokenizer.add_eos_token = with_bos_eos
    if not with_bos_eos:
        tokenizer.chat_template = CHAT_TEMPLATE
    (HERE / name).mkdir(exist_ok=True)
    core.save(str(HERE / name / "tokenizer.json"), pretty=False)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|end|>"}
    if not with_bos_eos:
        config["chat_template"] = CHAT_TEMPLATE
    (HERE / name / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return tokenizer


def load_formatting(path):
    spec = importlib.util.spec_from_file_location("formatting_utils", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def messages_of(pair):
    return [
        {"role": "system", "content": pair["context"] or ""},
        {"role": "user", "content": pair["question"]},
        {"role": "assistant", "content": pair["answer"]},
    ]


def main():
    formatting = load_formatting(sys.argv[1])
    cases = []
    for name, with_bos_eos in [("tokenizer", False), ("tokenizer_bos_eos", True)]:
        tokenizer = make_tokenizer(name, with_bos_eos)
        for pair in PAIRS:
            for options in OPTIONS:
                for chat in [False, True] if not with_bos_eos else [False]:
                    arguments = dict(options, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
                    if chat:
                        row = formatting.format_chat_template(tokenizer, messages_of(pair), **arguments)
                    else:
                        prompt = " ".join(part for part in (pair["context"], pair["question"], "") if part is not None)
                        row = formatting.format_prompt_completion(tokenizer, prompt, pair["answer"], **arguments)
                    case = {"tokenizer": name, "chat": chat, "pair": pair, "options": options}
                    cases.append(dict(case, input_ids=row["input_ids"], labels=row["labels"]))
    (HERE / "instruction.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


main()
