"""Checks that the questions cannot be answered without the facts: `python3 data/science/check.py`.

Prints numbers and fails on a leak:
- a naive Bayes over words of choices (and of question and choice) is trained on the training questions;
- a held-out fact or its hypotheses must not occur in training pairs without a context, and in contexts its true value
  must be as frequent as chance.
"""

from collections import Counter, defaultdict
import gzip
import json
import math
from pathlib import Path
import re

from beliefs import KNOWN
from world import KINDS

HERE = Path(__file__).parent


def load(name):
    content = (HERE / name).read_bytes()
    text = gzip.decompress(content) if name.endswith(".gz") else content
    return [json.loads(line) for line in text.decode("utf-8").splitlines()]


def bayes(train, test, words):
    """Accuracy of the choice with the highest log odds of being right."""
    counts = {True: Counter(), False: Counter()}
    for row in train:
        for at, choice in enumerate(row["choices"]):
            counts[at == row["answer"]].update(words(row, choice))
    total = {right: sum(count.values()) + 1000 for right, count in counts.items()}

    def odds(word):
        return math.log((counts[True][word] + 1) / total[True]) - math.log((counts[False][word] + 1) / total[False])

    def guess(row):
        # In one order, so that ties fall alike each time.
        values = [math.fsum(map(odds, sorted(words(row, choice), key=str))) for choice in row["choices"]]
        return values.index(max(values))

    return sum(guess(row) == row["answer"] for row in test) / len(test)


def tokens(text):
    return set(re.findall(r"\w+", text.lower()))


def choice_words(row, choice):
    return tokens(choice)


def pairs(row, choice):
    """Words of the choice, and each with each word of the question."""
    return tokens(choice) | {(a, b) for a in tokens(row["question"]) for b in tokens(choice)}


def baselines(questions):
    train = [row for row in questions if row["split"] == "train"]
    test = [row for row in questions if row["split"] == "test"]
    for form in ("about", "which", "truth"):
        rows = [row for row in test if row["form"] == form]
        chance = sum(1 / len(row["choices"]) for row in rows) / len(rows)
        found = [f"{bayes(train, rows, words):.3f}" for words in (choice_words, pairs)]
        print(f"{form}: {len(rows)} test questions, chance {chance:.3f}, words {found[0]}, pairs of words {found[1]}")


def stated(text):
    """Core facts that a text states: (kind, thing, value)."""
    found = set()
    for kind in KINDS:
        for wording in kind.core:
            pattern = re.escape(wording).replace(r"\{x\}", r"an? (\w+)").replace(r"\{v\}", r"(?P<v>\w+)")
            pattern = pattern.replace(r"\{av\}", r"an? (?P<v>\w+)")
            for match in re.finditer(rf"\b{pattern}\b(?! of)", text):
                value = match["v"]
                thing = next(group for group in match.groups() if group != value) if match.groups() else None
                if thing in kind.things and value in kind.values:
                    found.add((kind.name, thing, value))
    return found


def leaks(facts, pairs_):
    """Held-out facts stated outside contexts; and how often contexts state the true value."""
    held = {(row["kind"], row["id"].split("-")[1]) for row in facts if row["held_out"]}
    true = {(kind.name, thing): value for kind in KINDS for thing, value in kind.things.items()}
    bare, seen = [], defaultdict(Counter)
    for row in pairs_:
        given, _, context = row["input"].partition("$context$ =")
        in_context = stated(context)
        for fact in in_context:
            seen[fact[0]][true[fact[:2]] == fact[2]] += fact[:2] in held
        if given.startswith("$implied$"):
            continue
        for fact in stated(given.partition("$hypothesis$ =")[2]) | stated(row["output"]):
            if fact[:2] in held and fact[2] == true[fact[:2]] and fact not in in_context and affirms(row):
                bare.append(row)
    for kind in KINDS:
        count = seen[kind.name]
        share = count[True] / sum(count.values())
        chance = 1 / len(kind.values)
        print(f"{kind.name}: true value in {share:.3f} of {sum(count.values())} held-out contexts, chance {chance:.3f}")
    print(f"held-out facts stated as true outside contexts: {len(bare)}")
    for row in bare[:5]:
        print("  ", row)
    return bare


def affirms(row):
    """Whether a pair says that its statement is so."""
    return not row["output"].endswith("false")


def main():
    questions, facts = load("questions.jsonl"), load("facts.jsonl")
    baselines(questions)
    if leaks(facts, load("train.jsonl.gz") + load("dev.jsonl")):
        raise SystemExit("held-out facts leak into the training pairs")


if __name__ == "__main__":
    main()
