"""Writes golden.json and golden.safetensors into every checkpoint that make.py made.

    python golden.py --data data
    python golden.py --data elsewhere --seed 3 --only t5,llama

compare.md says what the files hold.
"""

import argparse
import json
import pathlib

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoTokenizer

import classification
import embedding
import generation


ENCODERS = ["bert", "dpr", "roberta", "xlm-roberta"]


def write(folder, seed):
    """Both files of one checkpoint."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    maker = embedding if config["model_type"] in ENCODERS else generation
    if config["architectures"][0].endswith("ForSequenceClassification"):
        maker = classification
    with torch.no_grad():
        record, tensors = maker.make(folder, tokenizer, seed)
    check_tokenizer(folder, record["texts"])
    save_golden(folder, record, tensors)
    print(folder.name, summary(record), flush=True)


def check_tokenizer(folder, listed):
    """The file read without transformers must give the same tokens."""
    plain = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    plain.no_truncation()
    plain.no_padding()
    for entry in listed:
        assert plain.encode(entry["text"]).ids == entry["ids"], entry["text"]


def save_golden(folder, record, tensors):
    """One line of JSON per key or per entry of a list, and the tensors beside it."""
    versions = dict(transformers=transformers.__version__, torch=torch.__version__.split("+")[0])
    record = dict(computed_with=versions) | record

    def line(value):
        return json.dumps(value, ensure_ascii=False)

    def block(value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join("  " + line(entry) for entry in value) + "\n ]"
        return line(value)

    lines = ",\n".join(f" {line(key)}: {block(value)}" for key, value in record.items())
    (folder / "golden.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "golden.safetensors")


def summary(record):
    """What a person wants to see: how near f32 is to the truth, and how clear the choices are."""
    said = f"f32 against f64 {record['f32_error']:.1e}"
    if record["kind"] in ("encoder", "classifier"):
        return said
    gap = min(gap for run in record["greedy"] for gap in run["gaps"])
    lengths = [len(run["tokens"]) for run in record["greedy"]]
    distinct = len({token for run in record["greedy"] for token in run["tokens"]})
    stable = [run["stable"] for search in record["beam"] for run in search["runs"]]
    beams = [len(a["tokens"]) for s in record["beam"] for run in s["runs"] for a in run["answers"]]
    sampled = [len(run["tokens"]) for setting in record["sampled"] for run in setting["runs"]]
    sampled_gap = min(min(r["gaps"]) for setting in record["sampled"] for r in setting["runs"])
    likely = sum(c["is_greedy"] for entry in record["scores"] for c in entry["continuations"])
    return (f"{said}; greedy lengths {lengths}, {distinct} tokens, least gap {gap:.0e}; "
            f"beams {sum(stable)}/{len(stable)} stable, lengths {beams}; "
            f"sampled lengths {sampled}, least gap {sampled_gap:.0e}; greedy scores {likely}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of checkpoints")
    parser.add_argument("--only", help="comma-separated names of checkpoints")
    parser.add_argument("--seed", type=int, default=1, help="seed of the texts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # one order of additions
    names = arguments.only.split(",") if arguments.only else sorted(
        path.parent.name for path in arguments.data.glob("*/config.json"))
    for name in names:
        write(arguments.data / name, arguments.seed)


if __name__ == "__main__":
    main()
