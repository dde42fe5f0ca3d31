"""Makes datasets.json: what NeMo AutoModel's own datasets give for a few records.

    PYTHONPATH=PATH_TO_AUTOMODEL python make_dataset_golden.py

needs torch and transformers; the `datasets` package is replaced by lists. The C++ tests read only what it writes.
"""

import ast
import json
import re
import sys
import tempfile
import types
from pathlib import Path

from transformers import AutoTokenizer

hub = types.ModuleType("datasets")
hub.load_dataset = hub.VerificationMode = hub.Dataset = hub.DatasetDict = hub.IterableDataset = hub.concatenate_datasets = None
sys.modules["datasets"] = hub

from nemo_automodel.components.datasets.llm import agent_chat, chat_dataset, hellaswag, xlam  # noqa: E402
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

TOOLS = [{"type": "function", "function": {"name": "keeper"}}]
AGENT = [
    {
        "id": 7,
        "tools": json.dumps(TOOLS),
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Who keeps it?"},
            {"role": "tool_call", "content": "{\"name\": \"keeper\", \"arguments\": {\"where\": \"北\", \"n\": 1.0}}"},
            {"role": "tool_call", "content": {"name": "keeper"}},
            {"role": "tool_response", "content": {"name": "Öda"}},
            {"role": "tool", "content": None, "name": "keeper"},
            {"role": "tool_response", "content": "more"},
            {"role": "assistant", "content": "It is Oda."},
        ],
    },
    {
        "conversations": [
            {"from": "system", "value": "Be brief."},
            {"from": "human", "value": "Who?"},
            {"from": "gpt", "value": "I ask.", "reasoning_content": "Ask first."},
            {"from": "function_call", "value": "{\"name\": \"keeper\", \"arguments\": \"{}\"}"},
            {"from": "observation", "value": "Oda"},
            {"from": "gpt", "value": "Oda.", "reasoning_content": "It is known."},
            {"from": "human", "value": "Sure?"},
            {"from": "gpt", "value": "Yes.", "reasoning_content": ["I", 1]},
            {"from": "human", "value": "And then?"},
        ],
        "tools": " ",
    },
    {
        "id": "x",
        "tools": TOOLS,
        "messages": [
            {"role": "user", "content": 3},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a1", "function": {"name": "keeper", "arguments": {"who": "Öda"}}}, {"function": {"name": "keeper"}}],
            },
            {"role": "tool", "tool_call_id": "a1", "content": "Oda"},
            {"role": "tool", "content": [1, "two"]},
            {"role": "tool_call", "content": "{\"name\": \"keeper\", \"arguments\": null}"},
            {"role": "tool_response", "content": "no"},
            {"role": "assistant", "content": "It is Oda.", "tool_calls": []},
        ],
    },
]
AGENT_OPTIONS = [
    {},
    {"train_on_last_turn_only": True},
    {"mask_reasoning_content": True},
    {"drop_history_reasoning_content": True, "trim_incomplete_last_turn": True},
    {"truncate_history": True, "trim_incomplete_last_turn": True, "seq_length": 196},
    {"truncate_history": True, "trim_incomplete_last_turn": True, "seq_length": 139},
    {"truncate_history": True, "trim_incomplete_last_turn": True, "seq_length": 50, "truncation": True},
]
AGENT_TEMPLATE = TEMPLATE.replace(
    "{{ m['content'] }}", "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m['content'] }}{{ m.tool_call_id }}"
)
TULU = [
    {"id": "a", "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": " Who \n keeps it?\n"}, {"role": "assistant", "content": " Oda "}], "source": "x"},
    {"messages": [{"role": "user", "content": ""}, {"role": "tool", "content": "?"}, {"role": "assistant", "content": "Öda"}, {"role": "user", "content": "So."}]},
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


def tulu3_messages(record):
    """What AutoModel makes of a record, as text: a function of its source that needs nothing else of that module, which needs packages of images."""
    path = Path(agent_chat.__file__).parent.parent / "vlm" / "datasets.py"
    names = {"re": re}
    for part in ast.parse(path.read_text()).body:
        if isinstance(part, ast.FunctionDef) and part.name == "convert_sharegpt_to_conversation":
            exec(compile(ast.Module([part], []), path, "exec"), names)
    conversation = names["convert_sharegpt_to_conversation"](record)["conversation"]
    return [{"role": m["role"], "content": "".join(part["text"] for part in m["content"])} for m in conversation]


def agent_rows(tokenizer):
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    return [
        {"options": options, "rows": [row_of(agent_chat._format_example(record, tokenizer, eos, pad, **options)) for record in AGENT]}
        for options in AGENT_OPTIONS
    ]


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
    golden["tulu3"] = {"records": TULU, "messages": [tulu3_messages(record) for record in TULU]}
    tokenizer.chat_template = AGENT_TEMPLATE
    golden["agent_chat"] = {"template": AGENT_TEMPLATE, "records": AGENT, "cases": agent_rows(tokenizer)}
    (HERE / "datasets.json").write_text(json.dumps(golden) + "\n")


main()
