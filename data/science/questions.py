"""Questions whose gold answer follows from one core fact and one rule.

Three forms: `about` (four statements about one thing), `which` (four things, one statement) and `truth` (true or
false). Each held-out fact has questions in every split, about different properties, so that a fact taught after a
training question helps with a test question that asks something else. Answers are balanced over positions, and of
the phrases that a question could ask about, the one is taken that was right least often for its uses. The sign of a
property stays a clue: what is so for most values is right more often than chance (`check.py` says how often).
"""

from collections import Counter
import random

from beliefs import KNOWN, rule_id
from relations import article

ABOUT = ("Which of these is true of {x}?", "What can be said about {x}?", "Which statement fits {x}?")
WHICH = ("Which of these {p}: {x}?", "Which {n} {p}: {x}?", "Name the {n} that {p}: {x}.")
TRUTH = ("True or false: {h}.", "Is it true that {h}?", "Right or wrong: {h}.")
SPLITS = ("train", "dev", "test")


class Maker:
    """Makes questions one after another; counts what it used, to balance."""

    def __init__(self, facts, seed):
        self.draw = random.Random(f"{seed} questions")
        self.facts = facts
        self.right = Counter()  # (split, property, holds) -> how often the gold answer
        self.used = Counter()  # ... -> how often an option
        self.turn = Counter()  # (split, form) -> questions, for positions

    def surplus(self, key, options):
        """How much more often a phrase was right than 1 in `options` of its uses."""
        return self.right[key] * options - self.used[key]

    def pick(self, split, fact, props, options):
        """The property of `props` whose true phrase was right least often, for its uses."""
        key = lambda prop: (split, prop.name, fact.value in prop.values)
        return min(self.draw.sample(props, len(props)), key=lambda prop: self.surplus(key(prop), options))

    def position(self, split, form, options):
        """Each position equally often: every run of `options` questions holds a permutation."""
        turn = self.turn[split, form]
        self.turn[split, form] += 1
        order = list(range(options))
        random.Random(f"{split} {form} {turn // options}").shuffle(order)
        return order[turn % options]

    def row(self, split, form, fact, prop, question, choices, hypotheses, answer):
        kind, number = fact.kind, sum(count for (name, _), count in self.turn.items() if name == split)
        return {
            "id": f"{split}-{number:03}",
            "split": split,
            "form": form,
            "question": question[0].upper() + question[1:],
            "choices": choices,
            "hypotheses": hypotheses,
            "answer": answer,
            "gold": hypotheses[answer],
            "fact_id": fact.id,
            "fact": fact.text,
            "rule_id": rule_id(kind, fact.value, prop),
            "rule": kind.rule_text(fact.value, prop, fact.value in prop.values),
            "state": fact.state,
        }

    def about(self, split, fact, prop):
        kind, holds = fact.kind, fact.value in prop.values
        others = [other for other in kind.properties if other is not prop]
        false = lambda other: (split, other.name, fact.value not in other.values)
        self.draw.shuffle(others)
        others.sort(key=lambda other: -self.surplus(false(other), 4))
        options = [(other, fact.value not in other.values) for other in others[:3]]
        self.draw.shuffle(options)
        answer = self.position(split, "about", 4)
        options.insert(answer, (prop, holds))
        for option, sign in options:
            self.used[split, option.name, sign] += 1
        self.right[split, prop.name, holds] += 1
        wordings = [self.draw.randrange(2) for _ in options]
        choices = [option.phrase(sign, word) for (option, sign), word in zip(options, wordings)]
        question = self.draw.choice(ABOUT).format(x=article(fact.thing))
        hypotheses = [f"{article(fact.thing)} {choice}." for choice in choices]
        return self.row(split, "about", fact, prop, question, choices, hypotheses, answer)

    def which(self, split, fact, prop):
        kind, holds = fact.kind, fact.value in prop.values
        phrase = prop.phrase(holds, self.draw.randrange(2))
        things = [other.thing for other in self.facts
                  if other.kind is kind and other.state != KNOWN and (other.value in prop.values) != holds]
        things = self.draw.sample(things, 3)
        answer = self.position(split, "which", 4)
        things.insert(answer, fact.thing)
        choices = [article(thing) for thing in things]
        named = f"{', '.join(choices[:-1])} or {choices[-1]}"
        question = self.draw.choice(WHICH).format(p=phrase, n=kind.noun, x=named)
        hypotheses = [f"{choice} {phrase}." for choice in choices]
        return self.row(split, "which", fact, prop, question, choices, hypotheses, answer)

    def truth(self, split, fact, prop):
        kind, holds = fact.kind, fact.value in prop.values
        answer = self.position(split, "truth", 2)
        said = holds if answer == 0 else not holds
        self.used[split, prop.name, said] += 1
        self.right[split, prop.name, said] += answer == 0
        wording = self.draw.randrange(2)
        hypotheses = [kind.hypothesis(fact.thing, prop, sign, wording) for sign in (said, not said)]
        question = self.draw.choice(TRUTH).format(h=hypotheses[0].rstrip("."))
        return self.row(split, "truth", fact, prop, question, ["true", "false"], hypotheses, answer)


def make(facts, seed):
    """Two questions in train and three in test for each held-out fact, one in dev where a property is left; one in
    train and in test for every second known fact."""
    maker = Maker(facts, seed)
    rows = []
    known = 0
    for fact in maker.draw.sample(facts, len(facts)):
        free = list(fact.kind.properties)
        if fact.state == KNOWN:
            known += 1
            plan = (("train", "about"), ("test", "about")) if known % 2 else ()
        else:
            plan = (("train", "about"), ("train", "truth"), ("test", "about"), ("test", "which"), ("test", "truth"))
            plan += (("dev", "about"),)
        for split, form in plan[: len(free)]:
            prop = maker.pick(split, fact, free, 2 if form == "truth" else 4)
            free.remove(prop)
            rows.append(getattr(maker, form)(split, fact, prop))
    return sorted(rows, key=lambda row: (SPLITS.index(row["split"]), row["id"]))
