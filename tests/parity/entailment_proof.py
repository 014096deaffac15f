"""Reference scores of multi-step proofs, written from the description of EntailmentBank's scorer.

usage: entailment_proof.py goldens [FILE]      write udfs/tests/entailment_goldens.json
       entailment_proof.py corrupt DATA FILE   the same for the gold proofs of EntailmentBank
       entailment_proof.py predict GOLD FILE   write a table of predictions: each gold proof of a
                                               file with a corruption, for entailment_scores.yaml

DATA is a folder with `dataset/task_1/{dev,test}.jsonl`. Each gold proof is scored against itself and
against seeded corruptions of itself. The goldens are over proofs that are made here. What the
first two write is compared with the SQL function by `udfs/tests/entailment.rs`. Python's standard
library is enough.
"""

import json
import pathlib
import random
import re
import sys

STEP = re.compile(r"^\s*([\w-]+(?:\s*&\s*[\w-]+)*)\s*->\s*(hypothesis|int[\w-]*)\s*(?::(.*))?$", re.S)
THRESHOLD = 0.5


# ---------------------------------------------------------------- the scorer


def parse(text):
    """A list of (premises, name, text, leaves); None if the text is no proof.

    A premise is ("leaf", name), ("step", place) or ("unknown",).
    """
    nodes = []
    for part in text.split(";"):
        if not part.strip():
            continue
        match = STEP.match(part)
        if not match:
            return None
        left, name, says = match.groups()
        premises, leaves = [], set()
        for premise in (word.strip() for word in left.split("&")):
            earlier = [place for place, node in enumerate(nodes) if node[1] == premise]
            if earlier:
                premises.append(("step", earlier[-1]))
                leaves |= nodes[earlier[-1]][3]
            elif premise == "hypothesis" or premise.startswith("int"):
                premises.append(("unknown",))
            else:
                premises.append(("leaf", premise))
                leaves.add(premise)
        nodes.append((premises, name, (says or "").strip() or None, leaves))
    return nodes or None


def align(predicted, gold, ties):
    """For each predicted node the place of the gold node and the Jaccard similarity."""
    places, taken = [], set()
    for node in predicted:
        similar = []
        for other in gold:
            union = node[3] | other[3]
            similar.append(len(node[3] & other[3]) / len(union) if union else 0.0)
        best = max(similar)
        if best == 0:
            places.append((None, 0.0))
            continue
        candidates = [place for place, value in enumerate(similar) if value == best]
        fresh = [place for place in candidates if place not in taken]
        place = fresh[0] if ties == "unused" and fresh else candidates[0]
        taken.add(place)
        places.append((place, best))
    return places


def prf(common_predicted, predicted, common_gold, gold):
    precision, recall = common_predicted / predicted, common_gold / gold
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def scores(predicted_text, gold_text, ties, similarities):
    """The fields of the SQL function; those that are NULL are left out, `problem` is a truth value."""
    predicted, gold = parse(predicted_text), parse(gold_text)
    if predicted is None or gold is None:
        return {"problem": True}
    result = {}

    def put(part, values):
        for name, value in zip(("precision", "recall", "f1"), values):
            result[f"{part}_{name}"] = value
        result[f"{part}_acc"] = values[2] == 1

    ours, theirs = set().union(*(n[3] for n in predicted)), set().union(*(n[3] for n in gold))
    both = len(ours & theirs)
    put("leaves", prf(both, len(ours), both, len(theirs)) if ours and theirs else (float(ours == theirs),) * 3)

    aligned = align(predicted, gold, ties)

    def strings(nodes, place_of):
        lines = []
        for at, (premises, *_) in enumerate(nodes):
            names = []
            for premise in premises:
                if premise[0] == "leaf":
                    names.append("leaf " + premise[1])
                elif premise[0] == "step" and place_of(premise[1]) is not None:
                    names.append(f"gold {place_of(premise[1])}")
                else:
                    names.append(None)
            if None in names or place_of(at) is None:
                lines.append(None)
            else:
                lines.append(" & ".join(sorted(names)) + f" -> {place_of(at)}")
        return lines

    steps = strings(predicted, lambda place: aligned[place][0])
    expected = strings(gold, lambda place: place)
    common = len((set(steps) & set(expected)) - {None})
    put("steps", prf(common, len(steps), common, len(expected)))

    pairs = [(at, place) for at, (place, _) in enumerate(aligned) if place is not None]
    if all(similarities[at] is not None for at, _ in pairs):
        right = [(at, place) for at, place in pairs if similarities[at] >= THRESHOLD]
        put("intermediates", prf(len(right), len(predicted), len({place for _, place in right}), len(gold)))
        result["overall_acc"] = all(result[f"{part}_acc"] for part in ("leaves", "steps", "intermediates"))

    result["alignment"] = []
    for at, (place, jaccard) in enumerate(aligned):
        entry = {"place": at + 1, "predicted": predicted[at][1], "jaccard": jaccard}
        if predicted[at][2] is not None:
            entry["predicted_text"] = predicted[at][2]
        if place is not None:
            entry["gold"] = gold[place][1]
            if gold[place][2] is not None:
                entry["gold_text"] = gold[place][2]
        result["alignment"].append(entry)
    return result


# ---------------------------------------------------------------- corruptions


def take_apart(proof):
    steps = []
    for part in proof.split(";"):
        if part.strip():
            left, right = part.split("->")
            steps.append(([name.strip() for name in left.split("&")], right.strip()))
    return steps


def put_together(steps):
    return " ".join(f"{' & '.join(premises)} -> {right};" for premises, right in steps)


def name_of(right):
    return right.split(":")[0].strip()


def rename(rng, steps):
    old = [name_of(right) for _, right in steps if name_of(right) != "hypothesis"]
    new = dict(zip(old, rng.sample([f"int{n}" for n in range(1, 40)], len(old))))
    renamed = []
    for premises, right in steps:
        name, colon, says = right.partition(":")
        renamed.append(([new.get(p, p) for p in premises], new.get(name.strip(), name.strip()) + colon + says))
    return renamed


def shuffle(rng, steps):
    return [(rng.sample(premises, len(premises)), right) for premises, right in steps]


def drop_step(rng, steps):
    at = rng.randrange(len(steps))
    return steps[:at] + steps[at + 1 :]


def change_leaf(new):
    def change(rng, steps):
        at = rng.randrange(len(steps))
        premises, right = steps[at]
        place = rng.randrange(len(premises))
        leaves = sorted({p for ps, _ in steps for p in ps if not p.startswith("int")}) or ["sent1"]
        premises = new(rng, premises, place, leaves)
        return steps[:at] + [(premises, right)] + steps[at + 1 :]

    return change


def merge(rng, steps):
    """An intermediate gives way to its premises wherever it is used."""
    inner = [at for at, (_, right) in enumerate(steps) if name_of(right) != "hypothesis"]
    if not inner:
        return steps
    gone = rng.choice(inner)
    premises, right = steps[gone]
    merged = []
    for at, (left, conclusion) in enumerate(steps):
        if at != gone:
            new = [q for p in left for q in (premises if p == name_of(right) else [p])]
            merged.append((new, conclusion))
    return merged


def repeat_step(rng, steps):
    at = rng.randrange(len(steps))
    return steps[: at + 1] + steps[at:]


def same_name(rng, steps):
    """All intermediates have one name, so that each means the one before."""
    return [
        (["int1" if p.startswith("int") else p for p in ps], re.sub(r"^int\d+", "int1", right))
        for ps, right in steps
    ]


def foreign(rng, steps):
    return [([p if p.startswith("int") else f"other-{p}" for p in ps], right) for ps, right in steps]


def other_order(rng, steps):
    return steps[::-1]


CORRUPTIONS = {
    "same": lambda rng, steps: steps,
    "rename": rename,
    "shuffle": shuffle,
    "drop_step": drop_step,
    "swap_leaf": change_leaf(lambda rng, ps, at, leaves: ps[:at] + [rng.choice(leaves)] + ps[at + 1 :]),
    "duplicate_leaf": change_leaf(lambda rng, ps, at, leaves: ps[: at + 1] + ps[at:]),
    "new_leaf": change_leaf(lambda rng, ps, at, leaves: ps[:at] + ["sent999"] + ps[at + 1 :]),
    "add_leaf": change_leaf(lambda rng, ps, at, leaves: ps + [rng.choice(leaves)]),
    "merge": merge,
    "repeat_step": repeat_step,
    "same_name": same_name,
    "foreign": foreign,
    "other_order": other_order,
}


def broken(rng, proof):
    return rng.choice([
        proof.replace("->", "=>", 1),
        proof.replace("&", "and", 1) if "&" in proof else "",
        proof.replace("hypothesis", "sent1"),
        " ; ",
        proof + " -> int9;",
    ])


def rows(rng, named):
    made = []
    for name, gold in named:
        for kind, corrupt in CORRUPTIONS.items():
            predicted = put_together(corrupt(rng, take_apart(gold)))
            made.append((f"{name}/{kind}", predicted, gold))
        twice = put_together(merge(rng, drop_step(rng, rename(rng, take_apart(gold)))))
        made.append((f"{name}/several", twice, gold))
        made.append((f"{name}/broken", broken(rng, gold), gold))
    return [row(rng, *parts) for parts in made]


def row(rng, name, predicted, gold):
    nodes = parse(predicted) or []
    similarities = [rng.choice([None, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0]) for _ in nodes]
    made = {"id": name, "predicted": predicted, "gold": gold, "similarities": similarities}
    made["first"] = scores(predicted, gold, "first", similarities)
    unused = scores(predicted, gold, "unused", similarities)
    if unused != made["first"]:
        made["unused"] = unused
    return made


# ---------------------------------------------------------------- proofs


def made_proof(rng):
    """A tree over some leaves, of which some are used twice and some steps have one premise."""
    open_items = [f"sent{n}" for n in rng.sample(range(1, 26), rng.randint(1, 8))]
    leaves, steps = list(open_items), []
    while len(open_items) > 2 and rng.random() < 0.85:
        taken = rng.sample(open_items, rng.choice([1, 2, 2, 2, 3]))
        open_items = [item for item in open_items if item not in taken]
        if rng.random() < 0.2:
            taken.append(rng.choice(leaves))
        name = f"int{len(steps) + 1}"
        steps.append((taken, f"{name}: {rng.choice(['a rock', 'the sun', 'a plant'])} is {rng.choice(['old', 'hot'])}"))
        open_items.append(name)
    steps.append((open_items, "hypothesis"))
    return put_together(steps)


BY_HAND = [
    (
        "published",
        "sent1 & sent2 -> int1: b; int1 & sent4 -> hypothesis;",
        "sent1 & sent2 -> int1: a; int1 & sent3 -> hypothesis;",
    ),
    ("unknown premise", "int3 & sent1 -> hypothesis;", "sent2 & sent1 -> int3: a; int3 & sent1 -> hypothesis;"),
    ("no leaf", "int3 -> hypothesis;", "sent2 & sent1 -> hypothesis;"),
    ("no leaf in both", "int3 -> hypothesis;", "int3 -> hypothesis;"),
    ("colons", "sent1 -> int1: a: b -> c; int1 -> hypothesis: d", "sent1 -> int1:; int1 -> hypothesis"),
    ("tight", "sent1&sent2->int1:a;int1->hypothesis", "  sent1  &  sent2  ->  int1 :  a ;  int1 -> hypothesis ;;"),
    ("empty", "", "sent1 -> hypothesis"),
    ("broken gold", "sent1 -> hypothesis", "sent1"),
    ("a sentence", "The sun is hot.", "sent1 -> hypothesis"),
]


def dump(made, path):
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in made)
    pathlib.Path(path).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(made)} cases written to {path}")


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main():
    rng = random.Random(20211104)
    if sys.argv[1] == "goldens":
        root = pathlib.Path(__file__).resolve().parents[2]
        named = [(f"made-{number}", made_proof(rng)) for number in range(10)]
        made = [row(rng, *parts) for parts in BY_HAND] + rows(rng, named)
        dump(made, sys.argv[2] if len(sys.argv) > 2 else root / "udfs/tests/entailment_goldens.json")
        return
    if sys.argv[1] == "predict":
        lines = []
        for record in records(pathlib.Path(sys.argv[2])):
            kind = rng.choice([*CORRUPTIONS, "broken"])
            if kind == "broken":
                proof = broken(rng, record["proof"])
            else:
                proof = put_together(CORRUPTIONS[kind](rng, take_apart(record["proof"])))
            lines.append(json.dumps({"id": record["id"], "kind": kind, "proof": proof}) + "\n")
        pathlib.Path(sys.argv[3]).write_text("".join(lines), encoding="utf-8")
        return
    named = []
    for split in ("dev", "test"):
        path = pathlib.Path(sys.argv[2]) / "dataset" / "task_1" / f"{split}.jsonl"
        for record in records(path):
            named.append((f"{split}/{record['id']}", record["proof"]))
    dump(rows(rng, named), sys.argv[3])


if __name__ == "__main__":
    main()
