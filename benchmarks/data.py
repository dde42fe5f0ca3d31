"""Compares Tessera's data path with the `tokenizers` wheel and transformers' own, on this machine, one after the other.

    python benchmarks/data.py --tokenizer DIR_OR_FILE --text FILE [--text FILE]... [--pairs FILE.jsonl] [--megatron PREFIX] [--json FILE]

needs tokenizers, transformers and torch (benchmarks/run puts them into benchmarks/.venv). --text files are encoded line by line, by one thread and by all.
--pairs is a JSONL of question and answer: packed by Tessera's loader, and tokenised and collated as transformers does it. --megatron is a .bin/.idx pair
read from the page cache. Prints a table of ratios.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parent.parent
TESSERA = str(ROOT / "build/bin/tessera")
RECIPE = """
step_scheduler: {{global_batch_size: {global_batch_size}, local_batch_size: {local_batch_size}}}
model: {{_target_: from_config, config: {{model_type: gpt2, n_embd: 8, n_layer: 1, n_head: 1, n_positions: 1048576, vocab_size: 200000}}}}
optimizer: {{_target_: adamw, lr: 1.0e-3}}
{data}
"""


def tessera(*arguments):
    done = subprocess.run([TESSERA, *map(str, arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def tokens_per_processor_second(commands):
    """From what a longer command counts and takes beyond a shorter one: starting does not count, nor what runs at the same time."""

    def run(command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        tokens = tessera(*command)["tokens"]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return tokens, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    rates = []
    for _ in range(3):
        (few, short), (many, long) = (run(command) for command in commands)
        rates.append((many - few) / (long - short))
    return sorted(rates)[1]


def best(work, runs):
    times = []
    for _ in range(runs):
        start = time.monotonic()
        work()
        times.append(time.monotonic() - start)
    return min(times)


def peer_tokenizer(path, text):
    """The wheel's fastest way from text to ids, one thread."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    lines = pathlib.Path(text).read_text(encoding="utf-8").split("\n")
    seconds = best(lambda: tokenizer.encode_batch_fast(lines, add_special_tokens=False), 5)
    return pathlib.Path(text).stat().st_size / 1e6 / seconds


def peer_collate(path, pairs, batch_size=4):
    """Tokens a second of tokenising pairs and collating padded batches with labels."""
    import torch
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path))
    rows = [json.loads(line) for line in open(pairs, encoding="utf-8")]

    def sample(row):
        prompt = tokenizer(row["question"] + " ", add_special_tokens=False)["input_ids"]
        ids = tokenizer(row["question"] + " " + row["answer"])["input_ids"]
        labels = [-100] * len(prompt) + ids[len(prompt):]
        return ids[:-1], labels[1:]

    tokens, start = 0, time.monotonic()
    for begin in range(0, len(rows), batch_size):
        batch = [sample(row) for row in rows[begin : begin + batch_size]]
        longest = max(len(ids) for ids, _ in batch)
        torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in batch])
        torch.tensor([labels + [-100] * (longest - len(labels)) for _, labels in batch])
        tokens += sum(len(ids) for ids, _ in batch)
    return tokens / (time.monotonic() - start)


@contextlib.contextmanager
def written(text, suffix):
    """The path of a temporary file that holds the text."""
    with tempfile.NamedTemporaryFile("w", suffix=suffix) as file:
        file.write(text)
        file.flush()
        yield file.name


def loader(data, steps, threads, global_batch_size=4, local_batch_size=1):
    with written(RECIPE.format(data=data, global_batch_size=global_batch_size, local_batch_size=local_batch_size), ".yaml") as recipe:
        return tessera("bench", "loader", recipe, "--steps", steps, "--threads", threads)["tokens_per_second"]


def packed_and_bare(data, pairs, tokenizer):
    """Tokens a second of processor time: of a loader of packed pairs, and of the tokenizer on the same text. The tokenizer encodes its file five times."""
    text = "".join((row["question"] + " " + row["answer"]).replace("\n", " ") + "\n" for row in map(json.loads, open(pairs, encoding="utf-8")))
    recipe = RECIPE.format(data=data + "packed_sequence: {packed_sequence_size: 4096}\n", global_batch_size=4, local_batch_size=1)
    with written(recipe, ".yaml") as packs, written(text, ".txt") as once, written(3 * text, ".txt") as thrice:
        packed = tokens_per_processor_second([("bench", "loader", packs, "--steps", steps) for steps in (500, 3000)])
        bare = 5 * tokens_per_processor_second([("bench", "tokenizer", tokenizer, file) for file in (once, thrice)])
    return packed, bare


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--pairs")
    parser.add_argument("--megatron")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    threads = os.cpu_count()
    for text in options.text:
        mine = tessera("bench", "tokenizer", options.tokenizer, text)
        all_threads = tessera("bench", "tokenizer", options.tokenizer, text, "--threads", threads)
        rows.append((f"encoding {pathlib.Path(text).name}, MB/s, one thread", mine["megabytes_per_second"], peer_tokenizer(options.tokenizer, text)))
        rows.append((f"the same, {threads} threads compared with one", all_threads["megabytes_per_second"], mine["megabytes_per_second"]))
    if options.pairs:
        pairs = pathlib.Path(options.pairs).resolve()
        data = (f"tokenizer: {{pretrained_model_name_or_path: {options.tokenizer.resolve()}}}\n"
                f"dataset: {{_target_: instruction, path_or_dataset_id: {pairs}, column_mapping: {{question: question, answer: answer}}}}\n")
        rows.append(("packed pairs, tokens a second of processor time, compared with the bare tokenizer", *packed_and_bare(data, pairs, options.tokenizer)))
        rows.append(("unpacked pairs, tokens/s, one thread, compared with transformers", loader(data, 1500, 1), peer_collate(options.tokenizer, pairs)))
    if options.megatron:
        prefix = pathlib.Path(options.megatron).resolve()
        token_bytes = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 8: 2}[prefix.with_name(prefix.name + ".idx").read_bytes()[17]]
        data = f"dataset: {{_target_: megatron, paths: {prefix}, seq_length: 4096, split: '1'}}\n"
        for count in (1, threads):
            rate = loader(data, 1000, count, global_batch_size=64, local_batch_size=8)
            rows.append((f"Megatron file, GB/s of the .bin, {count} thread(s), aim 1", rate * token_bytes / 1e9, 1.0))
    for name, mine, peer in rows:
        print(f"{name:70} {mine:14.3f} {peer:14.3f}   ratio {mine / peer:.2f}")
    if options.json:
        options.json.write_text(json.dumps([{"name": n, "tessera": m, "peer": p} for n, m, p in rows], indent=1) + "\n")


main()
