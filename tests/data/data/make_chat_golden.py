"""Makes chat.json: what NeMo AutoModel's format_chat_template gives for a few conversations, templates and masks.

    python make_chat_golden.py PATH_TO/nemo_automodel/components/datasets/llm/formatting_utils.py

needs torch and transformers. The C++ tests read only what it writes.
"""

import importlib.util
import json
import sys
from pathlib import Path

from transformers import AutoTokenizer

HERE = Path(__file__).parent
OPEN = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
REASONING = "{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
TOOLS = "{% if tools %}{{ tools | tojson }}{{ '\n' }}{% endif %}"
CALLS = "{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments }}){% endfor %}"
BODY = "{{ m['content'] }}" + CALLS
END = "{{ '<|im_end|>' + '\n' }}"
TEMPLATES = {
    "plain": TOOLS + OPEN + BODY + END + "{% endfor %}",
    "reasoning": TOOLS + OPEN + REASONING + BODY + END + "{% endfor %}",
    "generation": TOOLS + OPEN + "{% if m.role == 'assistant' %}{% generation %}" + REASONING + BODY + "{{ '<|im_end|>' }}{% endgeneration %}"
    + "{{ '\n' }}{% else %}" + BODY + END + "{% endif %}{% endfor %}",
}
TOOL = [{"type": "function", "function": {"name": "keeper", "description": "Who keeps it", "parameters": {"type": "object", "properties": {}}}}]
CALL = {"id": "call_0", "type": "function", "function": {"name": "keeper", "arguments": "{\"name\": \"lighthouse\"}"}}
CONVERSATIONS = {
    "one": {"messages": [("user", "Who keeps it?"), ("assistant", "Oda Brennick.")]},
    "turns": {"messages": [("system", "Be brief."), ("user", "Wer hütet — 灯台?"), ("assistant", "Öda 🙂"), ("user", "And?"), ("assistant", "Nobody else.")]},
    "reasons": {"messages": [("user", "Who?"), ("assistant", "Oda.", "The keeper is known."), ("user", "Sure?"), ("assistant", "Yes.", "I checked.")]},
    "tools": {"messages": [("user", "Ask."), ("assistant", ""), ("tool", "Oda"), ("assistant", "It is Oda.")], "tools": TOOL},
}
OPTIONS = [
    {},
    {"train_on_last_turn_only": True},
    {"mask_reasoning_content": True},
    {"train_on_last_turn_only": True, "mask_reasoning_content": True},
    {"seq_length": 40, "truncation": True},
]


def message(role, content, reasoning=None):
    made = {"role": role, "content": content}
    if reasoning:
        made["reasoning_content"] = reasoning
    if role == "assistant" and not content:
        made["tool_calls"] = [CALL]
    if role == "tool":
        made["tool_call_id"] = "call_0"
    return made


def main():
    spec = importlib.util.spec_from_file_location("formatting_utils", sys.argv[1])
    formatting = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(formatting)
    tokenizer = AutoTokenizer.from_pretrained(HERE / "tokenizer")
    cases = []
    for template_name, template in TEMPLATES.items():
        tokenizer.chat_template = template
        for name, conversation in CONVERSATIONS.items():
            messages = [message(*turn) for turn in conversation["messages"]]
            for options in OPTIONS:
                row = formatting.format_chat_template(
                    tokenizer, messages, tokenizer.eos_token_id, tokenizer.pad_token_id, tools=conversation.get("tools"), **options
                )
                case = {"template": template, "messages": messages, "tools": conversation.get("tools"), "options": options}
                cases.append(dict(case, name=f"{template_name} {name}", input_ids=row["input_ids"], labels=row["labels"]))
    (HERE / "chat.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


main()
