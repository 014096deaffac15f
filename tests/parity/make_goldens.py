"""Writes udfs/tests/goldens.json: inputs and expected numbers of the text metrics and statistics.

usage: make_goldens.py GOLDEN_FILE [OUTPUT]

GOLDEN_FILE holds every golden case of the project with full inputs (format 1). Cases of retrieval
indices and models belong to other crates and are left out. Long texts are stored once.
"""

import json
import pathlib
import sys

ELSEWHERE = ("bm25.", "faiss.", "core.", "entailer", "entailmentbank", "pgra")


def main():
    source = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    assert source["format"] == 1, source["format"]
    root = pathlib.Path(__file__).resolve().parents[2]
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "udfs/tests/goldens.json"
    names = {}
    for name, text in source["texts"].items():
        for index, part in enumerate(text if isinstance(text, list) else [text]):
            names[part] = f"{name}{index + 1}" if isinstance(text, list) else name
    cases = []
    for case in source["cases"]:
        if case["id"].startswith(ELSEWHERE):
            continue
        cases.append({
            "id": case["id"],
            "inputs": shorten(case["inputs"], names),
            "params": case["params"],
            "expected": case["expected"],
            "tolerance": case["tolerance"],
        })
    lines = ",\n".join("    " + json.dumps(case, ensure_ascii=False) for case in cases)
    head = json.dumps({"computed_with": source["computed_with"]}, indent=2)[:-2]
    texts = json.dumps({name: text for text, name in names.items()}, ensure_ascii=False, indent=4)
    texts = texts.replace("\n}", "\n  }")
    output.write_text(
        f'{head},\n  "texts": {texts},\n  "cases": [\n{lines}\n  ]\n}}\n', encoding="utf-8"
    )
    print(f"{len(cases)} cases written to {output}")


def shorten(value, names):
    """Replaces the long texts by `@name`."""
    if isinstance(value, str):
        return "@" + names[value] if value in names else value
    if isinstance(value, list):
        return [shorten(part, names) for part in value]
    if isinstance(value, dict):
        return {key: shorten(part, names) for key, part in value.items()}
    return value


if __name__ == "__main__":
    main()
