"""Random CSV, JSON Lines and Parquet files, read by proofmill and by Python's own readers; and files that are damaged.

    python3 tests/parity/sources.py --bin target/debug/proofmill --files 60 --seed 1

Every file is a `read` stage of one pipeline. What Python's `csv` and `json` and pyarrow wrote comes back value for value. Of a file
of JSON Lines one line of which was damaged, all other lines come back. A Parquet file that was damaged ends its stage with an error,
or gives rows: its pages have no checksums. Nothing ends the program. Exit code 1 if any of this does not hold. Wants `pyarrow`
(`tests/parity/requirements.txt`).
"""

import argparse
import csv
import datetime
import gzip
import io
import json
import math
import random
import string
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

TEXTS = ["", "a", "b c", '"', '""', "x,y", "a\nb", "é", " lead", "trail ", "'", "\\", "#", "null", "\t", ";", "|", "=1+1",
         "\u2028", "\u200d", "😀", "NULL", "0x10", "-0", "1e5", "true", "\x7f"]
NUMBERS = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.1, -2.5, 1e-300, 1e300, 123456.789, 5e-324]


class Case:
    """A file, its settings, and what it must give: rows, or `None` where any answer will do but a crash."""

    def __init__(self, name, data, settings, rows=None, but=None):
        self.name, self.data, self.settings, self.rows, self.but = name, data, settings, rows, but


def text(rng):
    return rng.choice(TEXTS) + rng.choice(["", "z", rng.choice(TEXTS)])


def delimited(rng, name):
    """Texts that Python's csv wrote: an empty text in quotes is a text."""
    width, delimiter = rng.randrange(1, 6), rng.choice([",", ";", "|", "\t"])
    encoding = rng.choice(["utf-8", "utf-8-sig", "utf-16le", "gb18030"])
    rows = [[text(rng) for _ in range(width)] for _ in range(rng.randrange(0, 40))]
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, delimiter=delimiter, lineterminator=rng.choice(["\n", "\r\n"]))
    names = [f"c{i}" for i in range(width)]
    writer.writerows([names, *rows])
    data = out.getvalue().encode(encoding)
    settings = {"format": "csv", "delimiter": delimiter, "columns": {it: {"type": "string"} for it in names}}
    if encoding not in ("utf-8", "utf-8-sig"):
        settings["encoding"] = encoding
    if rng.random() < 0.3:
        data, settings["compression"] = gzip.compress(data), "gzip"
    return Case(f"{name}.csv", data, settings, [dict(zip(names, row)) for row in rows])


def lines(rng, name):
    """Objects that Python's json wrote, with fields of one type each, in any order, some missing; one line may be damaged."""
    kinds = {
        "i": lambda: rng.choice(NUMBERS), "f": lambda: rng.choice(FLOATS), "s": lambda: text(rng),
        "b": lambda: rng.random() < 0.5, "l": lambda: [text(rng) for _ in range(rng.randrange(3))],
        "o": lambda: {"x": rng.choice(NUMBERS), "y": text(rng)},
    }
    names = rng.sample(sorted(kinds), rng.randrange(1, 6))
    rows = []
    for i in range(rng.randrange(1, 40)):
        # The first has all, so that each column is known.
        own = [it for it in names if i == 0 or rng.random() < 0.8]
        rng.shuffle(own)
        rows.append({it: None if i and rng.random() < 0.1 else kinds[it]() for it in own})
    separators = rng.choice([(",", ":"), (", ", ": "), (" ,\t", " :  ")])
    written = [json.dumps(row, ensure_ascii=rng.random() < 0.5, separators=separators).encode() for row in rows]
    expected = [{it: row.get(it) for it in names} for row in rows]
    settings = {"format": "jsonl", "columns": {it: it for it in names}}
    but = None
    if len(rows) > 1 and rng.random() < 0.5:
        but = rng.randrange(1, len(rows))
        damaged = bytearray(written[but])
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice([b for b in range(256) if b not in b"\r\n"])
        written[but] = bytes(damaged)
    end = rng.choice([b"\n", b"\r\n"])
    return Case(f"{name}.jsonl", end.join(written) + rng.choice([b"", end]), settings, expected, but)


def arrays(rng, rows):
    """A column of any type, some of it NULL."""
    def some(value):
        return [None if rng.random() < 0.2 else value() for _ in range(rows)]
    moment = datetime.datetime(1970, 1, 1)
    whole = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
    kind = rng.choice(["whole", "unsigned", "float", "half", "text", "large", "bool", "binary", "time", "date", "list", "struct", "dict"])
    if kind == "whole":
        of = rng.choice(list(whole))
        return pa.array(some(lambda: rng.randrange(-(1 << whole[of]), 1 << whole[of])), of)
    if kind == "unsigned":
        return pa.array(some(lambda: rng.randrange(1 << 32)), pa.uint32())
    if kind == "float":
        return pa.array(some(lambda: rng.choice(FLOATS + [math.inf, -math.inf, -0.0])), pa.float64())
    if kind == "half":
        return pa.array(some(lambda: rng.choice([0.5, -1.25, 3.0])), pa.float32())
    if kind == "bool":
        return pa.array(some(lambda: rng.random() < 0.5))
    if kind == "binary":
        return pa.array(some(lambda: rng.randbytes(rng.randrange(5))), pa.binary())
    if kind == "time":
        return pa.array(some(lambda: moment + datetime.timedelta(microseconds=rng.randrange(-(10**15), 10**15))), pa.timestamp("us"))
    if kind == "date":
        return pa.array(some(lambda: moment.date() + datetime.timedelta(days=rng.randrange(-9000, 9000))), pa.date32())
    if kind == "list":
        return pa.array(some(lambda: [rng.choice([1, None, 2]) for _ in range(rng.randrange(4))]), pa.list_(pa.int64()))
    if kind == "struct":
        fields = pa.struct([("x", pa.int64()), ("y", pa.string())])
        return pa.array(some(lambda: {"x": rng.choice([None, 1]), "y": text(rng)}), fields)
    texts = some(lambda: text(rng) + "".join(rng.choices(string.ascii_letters, k=rng.randrange(60))))
    if kind == "dict":
        # pyarrow writes no dictionary that holds NULL.
        return pa.array([it or "" for it in texts]).dictionary_encode()
    return pa.array(texts, pa.string() if kind == "text" else pa.large_string())


def columns(rng, name):
    """Tables that pyarrow wrote; some are damaged."""
    rows = rng.choice([0, 1, 3, 17, 2000])
    table = pa.table({f"c{i}": arrays(rng, rows) for i in range(rng.randrange(1, 7))})
    out = io.BytesIO()
    parquet.write_table(table, out, row_group_size=rng.choice([1, 7, 1000, None]), use_dictionary=rng.random() < 0.5,
                        compression=rng.choice(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]), data_page_size=rng.choice([1, 100, None]),
                        data_page_version=rng.choice(["1.0", "2.0"]), version=rng.choice(["1.0", "2.4", "2.6"]),
                        store_schema=rng.random() < 0.5, write_statistics=rng.random() < 0.5, write_page_index=rng.random() < 0.5)
    data = bytearray(out.getvalue())
    if rng.random() < 0.4:
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return Case(f"{name}.parquet", bytes(data[: rng.choice([None, rng.randrange(len(data))])]), {"format": "parquet"})
    return Case(f"{name}.parquet", bytes(data), {"format": "parquet"}, table.to_pylist())


def same(found, expected):
    """Numbers by value and sign, everything else as it is."""
    if isinstance(expected, float) and isinstance(found, (int, float)):
        return found == expected and math.copysign(1, found) == math.copysign(1, expected)
    if isinstance(expected, dict) and isinstance(found, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == expected


def rows(store, outcome):
    """The rows of a stage without their identities, and where error rows stood."""
    record = json.loads((store / outcome["artifact"]["key"]).read_text())
    tables = {kind: [parquet.read_table(store / part["key"]).to_pylist() for part in record[kind]] for kind in ("parts", "errors")}
    found = [row for part in tables["parts"] for row in part]
    return [{key: value for key, value in row.items() if key != "row_id"} for row in found], sum(tables["errors"], [])


def wrong(case, found):
    """Why what was found for a file is not right; `None` if it is."""
    if case.rows is None:
        return None
    if found is None:
        return "its stage failed"
    got, errors = found
    if case.but is None:
        return None if same(got, case.rows) and not errors else f"{got[:3]} and {errors[:2]}, expected {case.rows[:3]}"
    others = case.rows[: case.but] + case.rows[case.but + 1:]
    # The damaged line is an error row, or a row of its own.
    if errors:
        return None if same(got, others) and len(errors) == 1 else f"a damaged line {case.but} and {errors}"
    return None if same(got[: case.but] + got[case.but + 1:], others) else f"lines beside {case.but} that was damaged"


def answers(program, folder, cases):
    """What each file gave; `None` where its stage failed. Files that cannot be opened are left out, one pipeline after the other."""
    stages = {f"s{i}": {"read": {"path": case.name, **case.settings}, "max_error_rate": 1} for i, case in enumerate(cases)}
    (folder / "p.yaml").write_text(json.dumps({"pipeline": "p", "stages": stages}))
    done = subprocess.run([program, "run", "p.yaml", "--store", "store"], cwd=folder, capture_output=True, text=True)
    if done.returncode == 3 and len(cases) > 1:
        # One that cannot be opened is an error of the pipeline: each alone.
        return [found for case in cases for found in answers(program, folder, [case])]
    if done.returncode not in (0, 1, 3):
        sys.exit(f"exit code {done.returncode} for {[case.name for case in cases]}:\n{done.stderr[-2000:]}")
    if done.returncode == 3:
        return [None]
    if done.returncode == 1 and len(cases) > 1:
        return [found for case in cases for found in answers(program, folder, [case])]
    if done.returncode == 1:
        return [None]
    manifest = json.loads(max((folder / "store" / "runs").glob("*/manifest.json")).read_text())
    by_stage = {outcome["stage"]: outcome for outcome in manifest["stages"]}
    return [rows(folder / "store", by_stage[f"s{i}"]) for i in range(len(cases))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program, rng = str(Path(options.bin).resolve()), random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        makers = [delimited, lines, columns]
        cases = [makers[i % 3](rng, f"f{i}") for i in range(options.files)]
        for case in cases:
            (folder / case.name).write_bytes(case.data)
        whole = [case for case in cases if case.rows is not None]
        damaged = [case for case in cases if case.rows is None]
        found = answers(program, folder, whole)
        found += [answer for case in damaged for answer in answers(program, folder, [case])]
        faults = [(case, why) for case, answer in zip(whole + damaged, found) if (why := wrong(case, answer))]
        for case, why in faults:
            print(f"{case.name} {case.settings}: {why}")
        values = sum(len(row) for case in whole for row in case.rows)
    print(f"{len(cases)} files, {values} values, {len(damaged)} damaged Parquet files, {sum(case.but is not None for case in cases)} "
          f"with a damaged line: {len(faults)} wrong")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
