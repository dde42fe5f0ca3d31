"""Makes datasets.json: what NeMo AutoModel's own datasets give for a few records.

    PYTHONPATH=PATH_TO_AUTOMODEL python make_dataset_golden.py

needs torch and transformers; the `datasets` package is replaced by lists. The C++ tests read only what it writes.
"""

import json
import sys
import tempfile
import types
from pathlib import Path

from transformers import AutoTokenizer

hub = types.ModuleType("datasets")
hub.load_dataset = hub.VerificationMode = None
sys.modules["datasets"] = hub

from nemo_automodel.components.datasets.llm import chat_dataset, hellaswag, xlam  # noqa: E402
from nemo_automodel.components.datasets.utils import SFTSingleTurnPreprocessor  # noqa: E402

HERE = Path(__file__).parent
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}"
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{{ m['content'] }}"
    "{% for c in m.tool_calls or [] %}<{{ c.id }} {{ c.type }} {{ c.function.name }} {{ c.function.arguments }}>{% endfor %}"
    "{{ '<|im_end|>' + '\n' }}{% endfor %}"
)
HELLASWAG = [
    {"ctx": "The keeper of the lighthouse", "endings": [" climbs the stairs.", " answers yes.", " eats.", " sleeps."], "label": "1"},
    {"ctx": "A cliff", "endings": [" falls — 灯台", " stands on the northern cliff.", "", "x"], "label": 0},
]
XLAM = [
    {
        "id": 7,
        "query": "Where is the keeper?",
        "tools": [
            {
                "name": "find",
                "description": "Finds é",
                "parameters": {
                    "who": {"type": "str", "description": "whom"},
                    "count": {"type": "int", "description": "how many", "default": 1},
                    "deep": {"type": "List[int]"},
                    "near": {"type": "float", "enum": [1.5, 2]},
                },
            },
            {"description": "no name"},
        ],
        "answers": [{"name": "find", "arguments": {"who": "Öda", "count": 2}}, {"arguments": {}}, {"name": "find", "arguments": "{}"}],
    },
    {"query": "Nothing?", "tools": "[]", "answers": "[{\"name\": \"none\", \"arguments\": {\"a\": true, \"b\": null, \"c\": 1.0}}]"},
]
CHAT = [
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Who"}, {"type": "image"}, {"text": "keeps it?"}]}, {"role": "assistant", "content": "Oda"}]},
    {"conversations": [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "Who?"}, {"from": "gpt", "value": "Oda"}]},
    {
        "messages": [
            {"role": "user", "content": "Ask."},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "keeper", "arguments": {"who": "Öda", "n": [1, 2.5]}}}]},
            {"role": "tool", "content": "Oda", "tool_call_id": "call_0"},
            {"role": "assistant", "content": "It is Oda."},
        ],
        "tools": "[{\"type\": \"function\", \"function\": {\"name\": \"keeper\"}}]",
    },
    {"messages": [{"role": "user", "content": 3}, {"role": "assistant", "content": True}], "tools": []},
]


def row_of(sample):
    return {"input_ids": list(sample["input_ids"]), "labels": list(sample["labels"])}


def hellaswag_rows(tokenizer):
    processor = SFTSingleTurnPreprocessor(tokenizer)
    columns = {key: [record[key] for record in HELLASWAG] for key in HELLASWAG[0]}
    rows = processor._tokenize_function(columns, hellaswag.HellaSwag.__new__(hellaswag.HellaSwag))
    return [{"input_ids": ids, "labels": labels} for ids, labels in zip(rows["input_ids"], rows["labels"])]


def chat_rows(tokenizer):
    rows = []
    for record in CHAT:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            rows.append(row_of(chat_dataset.ChatDataset(file.name, tokenizer)[0]))
    return rows


def main():
    golden = {"template": TEMPLATE, "hellaswag": {}}
    for name in ["tokenizer", "tokenizer_bos_eos"]:
        tokenizer = AutoTokenizer.from_pretrained(HERE / name)
        golden["hellaswag"][name] = {"records": HELLASWAG, "rows": hellaswag_rows(tokenizer)}
    tokenizer = AutoTokenizer.from_pretrained(HERE / "tokenizer")
    tokenizer.chat_template = TEMPLATE
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    golden["xlam"] = {"records": XLAM, "rows": [row_of(xlam._format_example(record, tokenizer, eos, pad, padding=False, truncation=False)) for record in XLAM]}
    golden["chat"] = {"records": CHAT, "rows": chat_rows(tokenizer)}
    (HERE / "datasets.json").write_text(json.dumps(golden) + "\n")


main()
