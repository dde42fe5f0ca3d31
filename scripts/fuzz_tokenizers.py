#!/usr/bin/env python3
"""Compares Tessera's tokenizers with the PyPI `tokenizers` wheel on random strings: ids, ids with special tokens, and decoded text.

    python scripts/fuzz_tokenizers.py [--strings N] [--seed N] [--tessera PROGRAM] TOKENIZER_JSON...

needs the `tokenizers` package. Strings are drawn from code points that this Python's Unicode tables know as assigned (their version is printed), the
tokenizer's own special tokens and texts of many kinds, so that merges, normal forms, boundaries between scripts and white space all come up. Prints one
line a tokenizer; differences are shown and kept in differences.jsonl, and make the exit code 1.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

from tokenizers import Tokenizer, __version__, normalizers

CHUNK = 10_000
RANGES = [
    (0x20, 0x7E, 12), (0x00, 0x1F, 1), (0x80, 0xFF, 3), (0x100, 0x24F, 2), (0x300, 0x36F, 3), (0x370, 0x5FF, 2), (0x600, 0x6FF, 2), (0x900, 0xDFF, 3),
    (0xE00, 0xEFF, 1), (0x1100, 0x11FF, 1), (0x1E00, 0x1FFF, 2), (0x2000, 0x206F, 3), (0x20A0, 0x2BFF, 2), (0x3000, 0x30FF, 2), (0x3400, 0x9FFF, 4),
    (0xAC00, 0xD7A3, 2), (0xF900, 0xFAFF, 1), (0xFB00, 0xFDFF, 1), (0xFE00, 0xFEFF, 1), (0xFF00, 0xFFEF, 2), (0x10000, 0x1FFFF, 3), (0x1F300, 0x1FAFF, 4),
    (0x20000, 0x3FFFF, 1), (0xE0000, 0xE01EF, 1),
]
WORDS = "the of and to in is don't I'm we'll THEY'VE naïve Straße ﬁle İstanbul ΑΣ hello world 2024 3.14 1,000,000 foo_bar camelCase https://x.y/z?a=b" \
    " \t \n \r\n \n\n \u00a0 \u2003 \u200b \u200d 'S 'll ’s -- ... ?! <b> </s> {} () def __init__(self):\n    return\n 中文 日本語テキスト 한국어 العربية हिन्दी ไทย 👩‍👩‍👧 🇩🇪 e\u0301 \u1e9b\u0323".split(" ")


def normal_form_differs(character):
    """Whether the wheel's tables are older than the character: alone, and between marks that it must change places with."""
    peer = normalizers.NFKD()
    texts = [character] + [a + b for mark in "\u0334\u0323\u0301" for a, b in ((mark, character), (character, mark))]
    return any(peer.normalize_str("a" + text) != unicodedata.normalize("NFKD", "a" + text) for text in texts)


def assigned_pools():
    """Characters by range, with the ranges' weights, and how many were left out because the wheel's normal forms are older."""
    pools, weights, left_out = [], [], set()
    for first, last, weight in RANGES:
        pool = [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
        newer = {c for c in pool if normal_form_differs(c)}
        left_out |= newer
        pools.append([c for c in pool if c not in newer])
        weights.append(weight)
    return pools, weights, len(left_out)


def random_string(rng, pools, weights, special):
    parts = []
    for _ in range(rng.choice([1, 1, 2, 3, 5, 8, 13])):
        kind = rng.random()
        if kind < 0.45:  # a run from one script
            pool = rng.choices(pools, weights)[0]
            parts.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 8))))
        elif kind < 0.85:
            parts.append(rng.choice(WORDS))
        elif kind < 0.90 and special:
            parts.append(rng.choice(special))
        elif kind < 0.95:
            parts.append(rng.choice([" ", "  ", "\n", "\t", " \n ", "   "]))
        else:
            parts.append(rng.choice("aeiou0127 ,.'\u0301\u00e9") * rng.randint(1, 12))
        if rng.random() < 0.5:
            parts.append(" ")
    return "".join(parts)


def tessera_encodings(program, path, strings, special):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(text) + "\n" for text in strings)
        file.flush()
        command = [program, "tokenize", str(path), "--jsonl", file.name] + (["--special"] if special else [])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def compare(path, options, pools, weights, kept):
    tokenizer = Tokenizer.from_file(str(path))
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    rng = random.Random(f"{options.seed} {path.name}")
    differences, start = 0, time.monotonic()
    for begin in range(0, options.strings, CHUNK):
        strings = [random_string(rng, pools, weights, special) for _ in range(min(CHUNK, options.strings - begin))]
        for with_special in (False, True):
            expected = tokenizer.encode_batch(strings, add_special_tokens=with_special)
            decoded = tokenizer.decode_batch([encoding.ids for encoding in expected], skip_special_tokens=False)
            for text, peer, peer_text, mine in zip(strings, expected, decoded, tessera_encodings(options.tessera, path, strings, with_special)):
                if mine["ids"] == peer.ids and mine["decoded"] == peer_text:
                    continue
                differences += 1
                kept.write(json.dumps({"tokenizer": path.name, "special": with_special, "text": text, "tokenizers": [peer.ids, peer_text],
                                       "tessera": [mine["ids"], mine["decoded"]]}) + "\n")
                if differences <= 3:
                    print(f"  {text!r}: tokenizers {peer.ids} {peer_text!r}, tessera {mine['ids']} {mine['decoded']!r}")
    print(f"{path.name:40} {options.strings} strings, {differences} differences, {time.monotonic() - start:.0f} s", flush=True)
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizers", nargs="+", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tessera", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/bin/tessera"))
    options = parser.parse_args()
    pools, weights, left_out = assigned_pools()
    print(f"tokenizers {__version__}, characters of Unicode {unicodedata.unidata_version} without {left_out} newer than the wheel's, seed {options.seed}")
    with open("differences.jsonl", "w", encoding="utf-8") as kept:
        found = sum(compare(path, options, pools, weights, kept) for path in options.tokenizers)
    sys.exit(1 if found else 0)


main()
