"""Makes rows.parquet, rows.arrow (a stream, as Hugging Face datasets writes it), rows_file.arrow and rows.json: the same rows in every form.

    python make_records.py

needs pyarrow.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
ROWS = [
    {
        "messages": [{"role": "user", "content": f"Wer — 灯台 {i}?"}, {"role": "assistant", "content": None if i == 3 else "Oda"}],
        "answers": {"text": ["Oda", "x"][: i % 3], "answer_start": [0, 7][: i % 3]},
        "label": i,
        "score": i / 4,
        "good": i % 2 == 0,
        "name": None if i == 5 else "abc"[: i % 4],
        "kind": ["a", "b"][i % 2],
    }
    for i in range(20)
]


def main():
    table = pa.Table.from_pylist(ROWS)
    table = table.set_column(table.schema.get_field_index("kind"), "kind", table["kind"].dictionary_encode())
    pq.write_table(table, HERE / "rows.parquet", row_group_size=6, compression="zstd")
    with pa.OSFile(str(HERE / "rows.arrow"), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    with pa.OSFile(str(HERE / "rows_file.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    (HERE / "rows.json").write_text(json.dumps(ROWS, ensure_ascii=False) + "\n")


main()
