"""Questions whose gold answer follows from one core fact and one rule.

Three forms: `about` (four statements about one thing), `which` (four things, one statement) and `truth` (true or
false). Each held-out fact has questions in every split, about different properties, so that a fact taught after a
training question helps with a test question that asks something else. Answers are balanced over positions. Of the
properties that a question could ask about, those are taken that leave nothing to whoever knows no fact: who says of
each property what is so for most values, or most things, is right as often as chance would have it, and each phrase is
right as often, for its uses.
"""

from collections import Counter
from itertools import combinations
import random

from beliefs import KNOWN, OBSCURE, rule_id
from relations import article

ABOUT = ("Which of these is true of {x}?", "What can be said about {x}?", "Which statement fits {x}?")
WHICH = ("Which of these {p}: {x}?", "Which {n} {p}: {x}?", "Name the {n} that {p}: {x}.")
TRUTH = ("True or false: {h}.", "Is it true that {h}?", "Right or wrong: {h}.")
SPLITS = ("train", "dev", "test")


# How much a phrase that was right too often counts against a guess that was.
SURPLUS = 0.1


def lean(kind, prop, of):
    """Of how many more values (0) or things (1) a property is true than false."""
    said_of = (kind.values, kind.things.values())[of]
    return sum(1 if value in prop.values else -1 for value in said_of)


def guesses(kind, options, answer):
    """How often the option is the right one that is true of most values, and of most things; ties are split."""
    for of in (0, 1):
        leans = [lean(kind, prop, of) * (1 if sign else -1) for prop, sign in options]
        best = [at for at, lean_ in enumerate(leans) if lean_ == max(leans)]
        yield (answer in best) / len(best)


class Maker:
    """Makes questions one after another; counts what it used, to balance."""

    def __init__(self, facts, seed):
        self.draw = random.Random(f"{seed} questions")
        self.facts = facts
        self.right = Counter()  # (split, property, holds) -> how often the gold answer
        self.used = Counter()  # ... -> how often an option
        self.guessed = Counter()  # (split, form, of) -> sum over questions of how much a guess was right above chance
        self.turn = Counter()  # (split, form) -> questions, for positions

    def surplus(self, split, prop, sign, options):
        """How much more often a phrase was right than 1 in `options` of its uses."""
        key = (split, prop.name, sign)
        return self.right[key] * options - self.used[key]

    def choose(self, split, form, kind, candidates):
        """Of lists of options `(property, sign)`, the first of each the right one, that which gives away least."""
        def cost(options):
            above = [guess - 1 / len(options) for guess in guesses(kind, options, 0)]
            clues = sum(abs(self.guessed[split, form, of] + above[of]) for of in (0, 1))
            surplus = [self.surplus(split, *option, len(options)) for option in options]
            return clues + SURPLUS * (surplus[0] - sum(surplus[1:]) / (len(options) - 1))

        options = min(self.draw.sample(candidates, len(candidates)), key=cost)
        for of, guess in enumerate(guesses(kind, options, 0)):
            self.guessed[split, form, of] += guess - 1 / len(options)
        for prop, sign in options:
            self.used[split, prop.name, sign] += 1
        prop, sign = options[0]
        self.right[split, prop.name, sign] += 1
        return options

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

    def about(self, split, fact, free):
        kind = fact.kind
        holds = lambda prop: fact.value in prop.values
        candidates = [
            [(prop, holds(prop)), *((other, not holds(other)) for other in others)]
            for prop in free
            for others in combinations([other for other in kind.properties if other is not prop], 3)
        ]
        (prop, _), *options = chosen = self.choose(split, "about", kind, candidates)
        self.draw.shuffle(options)
        answer = self.position(split, "about", 4)
        options.insert(answer, chosen[0])
        wordings = [self.draw.randrange(2) for _ in options]
        choices = [option.phrase(sign, word) for (option, sign), word in zip(options, wordings)]
        question = self.draw.choice(ABOUT).format(x=article(fact.thing))
        hypotheses = [f"{article(fact.thing)} {choice}." for choice in choices]
        return prop, self.row(split, "about", fact, prop, question, choices, hypotheses, answer)

    def which(self, split, fact, free):
        kind, holds = fact.kind, lambda prop: fact.value in prop.values
        others = {prop.name: [other.thing for other in self.facts if other.kind is kind and other.state != KNOWN
                              and (other.value in prop.values) != holds(prop)] for prop in free}
        prop = self.draw.choice([prop for prop in free if len(others[prop.name]) >= 3])
        phrase = prop.phrase(holds(prop), self.draw.randrange(2))
        things = self.draw.sample(others[prop.name], 3)
        answer = self.position(split, "which", 4)
        things.insert(answer, fact.thing)
        choices = [article(thing) for thing in things]
        named = f"{', '.join(choices[:-1])} or {choices[-1]}"
        question = self.draw.choice(WHICH).format(p=phrase, n=kind.noun, x=named)
        hypotheses = [f"{choice} {phrase}." for choice in choices]
        return prop, self.row(split, "which", fact, prop, question, choices, hypotheses, answer)

    def truth(self, split, fact, free):
        kind = fact.kind
        # True or false: the other option is the same property's other sign.
        candidates = [[(prop, sign), (prop, not sign)] for prop in free for sign in [fact.value in prop.values]]
        (prop, holds), _ = self.choose(split, "truth", kind, candidates)
        answer = self.position(split, "truth", 2)
        said = holds if answer == 0 else not holds
        wording = self.draw.randrange(2)
        hypotheses = [kind.hypothesis(fact.thing, prop, sign, wording) for sign in (said, not said)]
        question = self.draw.choice(TRUTH).format(h=hypotheses[0].rstrip("."))
        return prop, self.row(split, "truth", fact, prop, question, ["true", "false"], hypotheses, answer)


# In the order in which properties are given away: those that balance are few.
HELD_OUT = (("test", "about"), ("test", "truth"), ("test", "which"), ("train", "about"), ("train", "truth"), ("dev", "about"))
KNOWN_ALREADY = (("test", "about"), ("train", "about"))


def make(facts, seed):
    """Two questions in train, one in dev and three in test for each held-out fact, about as many properties; one in
    train and in test for every second known fact; none about obscure things."""
    maker = Maker(facts, seed)
    rows = []
    known = 0
    for fact in maker.draw.sample(facts, len(facts)):
        free = list(fact.kind.properties)
        plan = HELD_OUT
        if fact.state == OBSCURE:
            continue
        if fact.state == KNOWN:
            known += 1
            plan = KNOWN_ALREADY if known % 2 else ()
        for split, form in plan:
            prop, row = getattr(maker, form)(split, fact, free)
            free.remove(prop)
            rows.append(row)
    return sorted(rows, key=lambda row: (SPLITS.index(row["split"]), row["id"]))


def steps(facts, seed):
    """Questions that take two inferences: nothing is known of the thing, and what a user teaches is a mark of it. Three
    for each obscure thing, of which every third is in dev and the others in test."""
    maker = Maker(facts, f"{seed} steps")
    rows = []
    for at, fact in enumerate(fact for fact in facts if fact.state == OBSCURE):
        split = "test" if at % 3 else "dev"
        free, kind = list(fact.kind.properties), fact.kind
        mark = maker.draw.choice(kind.marks[fact.value])
        for form in ("about", "truth", "about"):
            prop, row = getattr(maker, form)(split, fact, free)
            free.remove(prop)
            told = {"fact": kind.mark_text(fact.thing, mark), "bridge": kind.mark_rule(mark, fact.value),
                    "middle": kind.core_text(fact.thing, fact.value)}
            rows.append({**row, **told})
    return sorted(rows, key=lambda row: (SPLITS.index(row["split"]), row["id"]))


def open_questions(facts, seed):
    """What a thing is, without choices: for as many known as obscure things. Of obscure ones a mark can be taught."""
    draw = random.Random(f"{seed} open")
    obscure = [fact for fact in facts if fact.state == OBSCURE]
    known = draw.sample([fact for fact in facts if fact.state == KNOWN], len(obscure))
    for fact in sorted(known + obscure, key=lambda fact: fact.id):
        kind = fact.kind
        mark = kind.mark_text(fact.thing, draw.choice(kind.marks[fact.value]))
        yield {"id": fact.id, "state": fact.state, "question": kind.question(fact.thing, draw.randrange(2)),
               "answer": fact.value, "gold": kind.core_text(fact.thing, fact.value),
               "fact": mark if fact.state == OBSCURE else None}
