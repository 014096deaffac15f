"""Writes the science world's files beside this one: `python3 data/science/make.py`. `--check` only compares them, and
`--questions SEED FOLDER` writes other questions about the same world, and their controls, into a folder.

The same Python version or another gives the same rows: nothing but `random.Random` with fixed seeds is drawn from.
"""

import gzip
import json
from pathlib import Path
import sys

import beliefs as upbringing
import controls
import questions
from beliefs import KNOWN, rule_id
from examples import Examples
from world import KINDS

SEED = 7
DEV_PAIRS = 600
HERE = Path(__file__).parent


def facts(beliefs):
    """Core facts and rules as they are, with what the model is brought up to believe where that differs."""
    for fact in beliefs.facts:
        row = {"id": fact.id, "text": fact.text, "topic": fact.kind.topic, "kind": fact.kind.name,
               "held_out": fact.state != KNOWN, "state": fact.state}
        if fact.believed not in (None, fact.value):
            row["believed"] = fact.kind.core_text(fact.thing, fact.believed)
        yield row
    for kind in KINDS:
        for value in kind.values:
            for prop in kind.properties:
                holds = value in prop.values
                row = {"id": rule_id(kind, value, prop), "text": kind.rule_text(value, prop, holds),
                       "topic": kind.topic, "kind": "rule", "held_out": False, "state": KNOWN}
                if beliefs.holds(kind, value, prop) != holds:
                    row |= {"state": "mistaken", "believed": kind.rule_text(value, prop, not holds)}
                yield row


def write(name, rows):
    (HERE / name).write_bytes(gzip.compress(text(rows), mtime=0) if name.endswith(".gz") else text(rows))


def fresh(seed, folder):
    """Questions that no training, no setting and no table has seen, about what the shipped model was brought up on."""
    facts = upbringing.make(SEED).facts
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, rows in (("questions.jsonl", questions.make(facts, seed)), ("controls.jsonl", controls.make(facts, seed))):
        (Path(folder) / name).write_bytes(text(rows))


def check(name, rows):
    """Packed bytes differ between versions of zlib; what they hold must not."""
    found = (HERE / name).read_bytes()
    if (gzip.decompress(found) if name.endswith(".gz") else found) != text(rows):
        raise SystemExit(f"{name} is not what this program makes: run it without --check")


def text(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def main(put):
    beliefs = upbringing.make(SEED)
    examples = Examples(beliefs, SEED)
    train = examples.make()
    put("facts.jsonl", facts(beliefs))
    put("train.jsonl.gz", train)
    put("dev.jsonl", examples.unseen(train, DEV_PAIRS))
    put("questions.jsonl", questions.make(beliefs.facts, SEED))
    put("steps.jsonl", questions.steps(beliefs.facts, SEED))
    put("open.jsonl", questions.open_questions(beliefs.facts, SEED))
    put("controls.jsonl", controls.make(beliefs.facts, SEED))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--questions", seed, folder] if seed.isdigit():
            fresh(int(seed), folder)
        case ["--check"]:
            main(check)
        case []:
            main(write)
        case _:
            raise SystemExit(__doc__)
