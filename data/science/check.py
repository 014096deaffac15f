"""Measures what the questions and the training pairs give away: `python3 data/science/check.py`.

Prints a line for each measure, with the limit that it is held to, and fails if one is exceeded. There are three sorts
of limits:

- what must not be at all is 0: a held-out fact stated outside contexts, a question or a proof that two splits share;
- what must be chance may be two standard errors above it (`by_chance`): wording, and values in contexts; a guess by
  the commoner sign of a property may be 3 points above it;
- what is not as one would wish is pinned at what was measured (`pinned`), so that it cannot grow unseen: training pairs
  hold hypotheses and proofs of test questions as random cases.
"""

from collections import Counter, defaultdict
import gzip
import json
import math
from pathlib import Path
import re

from world import KINDS

HERE = Path(__file__).parent
SPLITS = {"train": 233, "dev": 95, "test": 328}
STEPS = {"dev": 36, "test": 66}
SIGN = 0.03  # how much better than chance a guess by the commoner sign may be

# Upper limits of what is not as one would wish, as measured on the files of this folder.
PINNED = {
    "training pairs that repeat another": 14504,
    "held-out test hypotheses that are right, in training pairs": 273,
    "the same under $valid$": 26,
    "the same under $valid$, as true": 12,
    "proofs of held-out test questions as targets": 84,
    "the same, for the same hypothesis": 53,
    "the same, judged as entailing the same hypothesis": 12,
}


class Checks:
    """Prints each measure and remembers what exceeded its limit."""

    def __init__(self):
        self.failed = []

    def at_most(self, name, value, limit, note=""):
        shown = (lambda number: f"{number:.3f}" if isinstance(number, float) else str(number))
        exceeded = value > limit
        print(f"{'FAILED' if exceeded else 'ok':6} {name}: {shown(value)}, limit {shown(limit)}{note}")
        if exceeded:
            self.failed.append(name)

    def none(self, name, found):
        found = list(found)
        self.at_most(name, len(found), 0)
        for item in found[:5]:
            print("      ", item)

    def by_chance(self, name, right, n, chance):
        """A share that is chance exceeds this limit once in about 44 times."""
        limit = chance + 2 * math.sqrt(chance * (1 - chance) / n)
        self.at_most(name, right / n, limit, f" (chance {chance:.3f}, n {n})")

    def pinned(self, name, value):
        self.at_most(name, value, PINNED[name], " (as measured)")


def load(name):
    content = (HERE / name).read_bytes()
    text = gzip.decompress(content) if name.endswith(".gz") else content
    return [json.loads(line) for line in text.decode("utf-8").splitlines()]


# -- wording -----------------------------------------------------------------------------------------------------------


def bayes(train, test, words):
    """How often the choice with the highest log odds of being right is right."""
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

    return sum(guess(row) == row["answer"] for row in test)


def tokens(text):
    return set(re.findall(r"\w+", text.lower()))


def choice_words(row, choice):
    return tokens(choice)


def pairs(row, choice):
    """Words of the choice, and each with each word of the question."""
    return tokens(choice) | {(a, b) for a in tokens(row["question"]) for b in tokens(choice)}


def wording(checks, questions):
    """A naive Bayes over words that is trained on the training questions."""
    train = [row for row in questions if row["split"] == "train"]
    test = [row for row in questions if row["split"] == "test"]
    for form in ("about", "which", "truth"):
        rows = [row for row in test if row["form"] == form]
        chance = sum(1 / len(row["choices"]) for row in rows) / len(rows)
        for name, words in (("words", choice_words), ("pairs of words", pairs)):
            checks.by_chance(f"{form}, {name}", bayes(train, rows, words), len(rows), chance)


def common_signs(said_of):
    """For each phrase, of how many more of a kind's values, or things, it is true than its denial."""
    signs_ = {}
    for kind in KINDS:
        for prop in kind.properties:
            more = sum(1 if value in prop.values else -1 for value in said_of(kind))
            signs_ |= {(kind.name, phrase): more for phrase in prop.yes}
            signs_ |= {(kind.name, phrase): -more for phrase in prop.no}
    return signs_


def signs(checks, name, questions):
    """Whoever knows no fact, and says of each property what is so for most values, or most things; ties are split."""
    for of, said_of in (("values", lambda kind: kind.values), ("things", lambda kind: kind.things.values())):
        common, scores = common_signs(said_of), defaultdict(list)
        for row in questions:
            if row["split"] == "test" and row["form"] != "which":
                # A hypothesis is its thing, of one word behind the article, and a phrase.
                phrases = [hypothesis.rstrip(".").split(" ", 2)[2] for hypothesis in row["hypotheses"]]
                values = [common[row["fact_id"].split("-")[0], phrase] for phrase in phrases]
                best = [at for at, value in enumerate(values) if value == max(values)]
                scores[row["form"]].append((row["answer"] in best) / len(best))
        for form, right in sorted(scores.items(), reverse=True):
            chance = 0.5 if form == "truth" else 0.25
            guess = f"{name}{form}, guess by the sign of most {of}"
            checks.at_most(guess, sum(right) / len(right), chance + SIGN, f" (n {len(right)})")


def balance(checks, questions, splits):
    """Sizes, and places of the right answer."""
    sizes = Counter(row["split"] for row in questions)
    checks.none("splits of another size than the page says", [it for it in sizes.items() if it not in splits.items()])
    for form in sorted({row["form"] for row in questions}):
        places = defaultdict(Counter)
        for row in questions:
            if row["form"] == form:
                places[row["split"]].update({at: at == row["answer"] for at in range(len(row["choices"]))})
        most = max(max(count.values()) - min(count.values()) for count in places.values())
        checks.at_most(f"{form}, how much more often one place is right than another", most, 1)


# -- what the pairs hold -----------------------------------------------------------------------------------------------


def stated(text):
    """Core facts that a text states: (kind, thing, value)."""
    found = set()
    for kind in KINDS:
        for wording_ in kind.core:
            pattern = re.escape(wording_).replace(r"\{x\}", r"an? (\w+)").replace(r"\{v\}", r"(?P<v>\w+)")
            pattern = pattern.replace(r"\{av\}", r"an? (?P<v>\w+)")
            for match in re.finditer(rf"\b{pattern}\b(?! of)", text):
                value = match["v"]
                thing = next(group for group in match.groups() if group != value) if match.groups() else None
                if thing in kind.things and value in kind.values:
                    found.add((kind.name, thing, value))
    return found


def leaks(checks, facts, pairs_):
    """Held-out facts stated outside contexts, but for heard ones in other words; how often contexts state the true value,
    and what is said of obscure things."""
    things = {(row["kind"], row["id"].split("-")[1]): row["state"] for row in facts if row["kind"] != "rule"}
    held = {thing for thing, state in things.items() if state != "known"}
    taught = {row["text"] for row in facts}
    true = {(kind.name, thing): value for kind in KINDS for thing, value in kind.things.items()}
    bare, seen, obscure = [], defaultdict(Counter), Counter()
    for row in pairs_:
        given, _, context = row["input"].partition("$context$ =")
        in_context = stated(context)
        for fact in in_context:
            seen[fact[0]][true[fact[:2]] == fact[2]] += fact[:2] in held
        if given.startswith(("$implied$", "$hypothesis$")):  # Neither says that it is so.
            continue
        for fact in stated(given.partition("$hypothesis$ =")[2]) | stated(row["output"]):
            if things[fact[:2]] == "obscure" and given.startswith("$valid$"):
                obscure[true[fact[:2]] == fact[2], affirms(row)] += 1
            elif things[fact[:2]] == "heard" and given.startswith("$valid$") and slots(given)["hypothesis"] not in taught:
                continue  # In other words than it is taught in.
            elif fact[:2] in held and fact[2] == true[fact[:2]] and not context and affirms(row):
                bare.append(row)
    checks.none("held-out facts stated as true outside contexts", bare)
    for so in (True, False):
        affirmed, denied = obscure[so, True], obscure[so, False]
        name = f"facts of obscure things that are {'so' if so else 'not so'}, said to be true"
        checks.by_chance(name, affirmed, affirmed + denied, 1 / 3)
    for kind in KINDS:
        count, chance = seen[kind.name], 1 / len(kind.values)
        # Contexts are drawn with at most four sentences each: a tenth above chance is what such a draw may give.
        share = count[True] / sum(count.values())
        checks.at_most(f"{kind.name}, true values in held-out contexts", share, 1.1 * chance, f" (chance {chance:.3f})")


def affirms(row):
    """Whether a pair says that its statement is so."""
    return not row["output"].endswith("false")


def slots(text):
    """`$name$ = content ; …` as a dictionary."""
    found = re.findall(r"\$(\w+)\$ = (.*?)(?= ; \$\w+\$|$)", text)
    return {name: content.strip() for name, content in found}


def overlaps(checks, questions, train, dev):
    """Test questions in the training pairs, and what splits share."""
    test = [row for row in questions if row["split"] == "test"]
    held = [row for row in test if row["state"] != "known"]
    seen = {(row["input"], row["output"]) for row in train}
    inputs = {given for given, _ in seen}
    checks.none("pairs of dev that are training pairs", [row for row in dev if row["input"] in inputs])
    checks.pinned("training pairs that repeat another", len(train) - len(seen))

    hypotheses, believed, true, targets, both, implied = set(), set(), set(), set(), set(), set()
    for row in train:
        given, said = slots(row["input"]), row["output"]
        hypothesis = given.get("hypothesis")
        hypotheses.add(hypothesis)
        if row["input"].startswith("$valid$") and "context" not in given:
            believed.add(hypothesis)
            true |= {hypothesis} if affirms(row) else set()
        proof = parts(slots(said)["proof"]) if said.startswith("$proof$") else None
        if proof:
            targets.add(proof)
            both.add((hypothesis, proof))
        if row["input"].startswith("$implied$") and affirms(row):
            implied.add((hypothesis, parts(given["proof"])))

    proof = lambda row: frozenset((row["fact"], row["rule"]))
    count = lambda condition: sum(map(condition, held))
    checks.pinned("held-out test hypotheses that are right, in training pairs", count(lambda r: r["gold"] in hypotheses))
    checks.pinned("the same under $valid$", count(lambda r: r["gold"] in believed))
    checks.pinned("the same under $valid$, as true", count(lambda r: r["gold"] in true))
    checks.pinned("proofs of held-out test questions as targets", count(lambda r: proof(r) in targets))
    checks.pinned("the same, for the same hypothesis", count(lambda r: (r["gold"], proof(r)) in both))
    checks.pinned("the same, judged as entailing the same hypothesis", count(lambda r: (r["gold"], proof(r)) in implied))

    pairs_ = "\n".join(row["input"] for row in train + dev)
    checks.none("questions of test in training pairs", [row["question"] for row in test if row["question"] in pairs_])
    for name, key in (("question with its choices", lambda r: (r["question"], *r["choices"])),
                      ("core fact and rule", lambda r: (r["fact_id"], r["rule_id"])),
                      ("hypothesis that is right", lambda r: r["gold"])):
        splits = defaultdict(set)
        for row in questions:
            splits[key(row)].add(row["split"])
        checks.none(f"{name}, in two splits", [it for it, where in splits.items() if len(where) > 1])


def parts(proof):
    return frozenset(part.strip() for part in proof.split("[PREMISE]") if part.strip())


# -- controls ----------------------------------------------------------------------------------------------------------


def replaced(checks, facts, controls):
    """What controls teach instead of the facts is never so, and is said of the same thing."""
    true = {(kind.name, thing): value for kind in KINDS for thing, value in kind.things.items()}
    denials = {kind.denial_text(thing, value, wording): (kind.name, thing, value)
               for kind in KINDS for thing in kind.things for value in kind.values for wording in (0, 1)}
    denied = [row for row in controls if row["control"] == "denied"]
    checks.none("denials of what is so, or of nothing",
                [row for row in denied if denials.get(row["instead"]) is None or true[denials[row["instead"]][:2]] == denials[row["instead"]][2]])
    told = [(row, stated(row["fact"]), stated(row["instead"])) for row in controls if row["control"] != "denied"]
    checks.none("sentences of controls that are true",
                [row for row, _, said in told if any(true[it[:2]] == it[2] for it in said)])
    checks.none("sentences of controls about another thing",
                [row for row, fact, said in told if len(said) != 1 or {it[:2] for it in fact} != {it[:2] for it in said}])
    core = {row["text"] for row in facts if row["kind"] != "rule"}
    for control in ("wrong", "shuffled", "denied"):
        of = {row["fact"] for row in controls if row["control"] == control}
        checks.none(f"core facts without a sentence in `{control}`, or the reverse", core ^ of)
    values = lambda name: Counter(value for row in controls if row["control"] == "shuffled"
                                  for kind, _, value in stated(row[name]))
    checks.none("values that `shuffled` says more often than is so", values("instead") - values("fact"))


def main():
    checks = Checks()
    questions, facts = load("questions.jsonl"), load("facts.jsonl")
    train, dev = load("train.jsonl.gz"), load("dev.jsonl")
    steps = load("steps.jsonl")
    balance(checks, questions, SPLITS)
    balance(checks, steps, STEPS)
    wording(checks, questions)
    signs(checks, "", questions)
    signs(checks, "two inferences, ", steps)
    leaks(checks, facts, train + dev)
    overlaps(checks, questions, train, dev)
    replaced(checks, facts, load("controls.jsonl"))
    if checks.failed:
        raise SystemExit(f"{len(checks.failed)} limits exceeded: {'; '.join(checks.failed)}")


if __name__ == "__main__":
    main()
