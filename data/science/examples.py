"""Training pairs in Entailer's angles: `$proof$`, `$valid$` and `$implied$`.

What may be said without a context is what the model shall believe (`beliefs`). In contexts every thing of the world
occurs, with a *random* value each time: the names become familiar, and the only way to be right is to read. The true
value of a held-out thing is as frequent there as any other, so nothing about it can be learnt. The same holds for the
proofs that are to be judged.
"""

import random

from beliefs import UNKNOWN
from world import KINDS

COUNTS = {
    "proof": 1800,  # from beliefs alone
    "proof_context": 6000,  # from a fact in the context
    "proof_beside": 800,  # from beliefs, the context being about other things
    "valid_fact": 2400,
    "valid_rule": 4400,
    "valid_hypothesis": 1200,
    "implied": 8000,
}
DISTRACTORS = (0, 1, 2, 4)
FLAWS = ("thing", "value", "opposite", "property")


class Examples:
    """Draws pairs; each method from `proof` on makes one of the kind that `COUNTS` names."""

    def __init__(self, beliefs, seed):
        self.draw = random.Random(f"{seed} examples")
        self.beliefs = beliefs
        self.believed = [fact for fact in beliefs.facts if fact.state != UNKNOWN]
        self.rules = [(kind, value, prop) for kind in KINDS for value in kind.values for prop in kind.properties]

    # -- pieces ------------------------------------------------------------------------------------------------------

    def word(self):
        """Which wording: the usual one more often."""
        return int(self.draw.random() < 0.4)

    def other(self, items, item):
        return self.draw.choice([other for other in items if other != item])

    def random_fact(self, kind=None):
        """A sentence about any thing with any value."""
        kind = kind or self.draw.choice(self.beliefs.facts).kind
        thing, value = self.draw.choice(list(kind.things)), self.draw.choice(kind.values)
        return kind, thing, value, kind.core_text(thing, value, self.word())

    def rule(self, kind, value, prop):
        return kind.rule_text(value, prop, self.beliefs.holds(kind, value, prop))

    def distractors(self, kind, thing):
        """Sentences about other things, more than half of them of the same kind."""
        found = []
        for _ in range(self.draw.choice(DISTRACTORS)):
            _, other, _, text = self.random_fact(kind if self.draw.random() < 0.6 else None)
            if other != thing:
                found.append(text)
        return found

    def case(self, kind, thing, value):
        """A hypothesis that follows from the value."""
        prop = self.draw.choice(kind.properties)
        return kind, thing, prop, self.beliefs.holds(kind, value, prop), self.word()

    # -- angles ------------------------------------------------------------------------------------------------------

    def proof_of(self, case, core, value, context):
        kind, _, prop, _, _ = case
        given = f"$proof$ ; $hypothesis$ = {hypothesis(case)}"
        if context:
            context = list(context)
            self.draw.shuffle(context)
            given += f" ; $context$ = [HIGH] {' '.join(context)}"
        return given, f"$proof$ = [PREMISE] {core} [PREMISE] {self.rule(kind, value, prop)}"

    def proof_from_belief(self, beside):
        fact = self.draw.choice(self.believed)
        kind, thing, value = fact.kind, fact.thing, fact.believed
        context = self.distractors(kind, thing) if beside else ()
        return self.proof_of(self.case(kind, thing, value), kind.core_text(thing, value), value, context)

    def proof(self):
        return self.proof_from_belief(beside=False)

    def proof_beside(self):
        return self.proof_from_belief(beside=True)

    def proof_context(self):
        kind, thing, value, core = self.random_fact()
        return self.proof_of(self.case(kind, thing, value), core, value, [core, *self.distractors(kind, thing)])

    def valid_fact(self):
        fact, true = self.draw.choice(self.believed), self.draw.random() < 0.5
        value = fact.believed if true else self.other(fact.kind.values, fact.believed)
        return verdict("valid", fact.kind.core_text(fact.thing, value, self.word()), true)

    def valid_rule(self):
        (kind, value, prop), true = self.draw.choice(self.rules), self.draw.random() < 0.5
        holds = self.beliefs.holds(kind, value, prop) == true
        wording = int(self.draw.random() < 0.15)
        return verdict("valid", kind.rule_text(value, prop, holds, wording), true)

    def valid_hypothesis(self):
        fact, true = self.draw.choice(self.believed), self.draw.random() < 0.5
        kind, thing, prop, holds, wording = self.case(fact.kind, fact.thing, fact.believed)
        return verdict("valid", kind.hypothesis(thing, prop, holds == true, wording), true)

    def implied(self):
        """A proof, sound half of the time; else with one part replaced."""
        kind, thing, value, core = self.random_fact()
        prop, holds = self.draw.choice(kind.properties), self.draw.random() < 0.5
        rule, said = kind.rule_text(value, prop, holds), (kind, thing, prop, holds, self.word())
        flaw = self.draw.choice(FLAWS) if self.draw.random() < 0.5 else None
        if flaw == "thing":
            core = kind.core_text(self.other(list(kind.things), thing), value, self.word())
        elif flaw == "value":
            rule = kind.rule_text(self.other(kind.values, value), prop, holds)
        elif flaw == "opposite":
            rule = kind.rule_text(value, prop, not holds)
        elif flaw == "property":
            rule = kind.rule_text(value, self.other(kind.properties, prop), self.draw.random() < 0.5)
        proof = f"[PREMISE] {core} [PREMISE] {rule}"
        return verdict("implied", f"{hypothesis(said)} ; $proof$ = {proof}", flaw is None)

    def make(self):
        """All pairs in random order. Few beliefs, often said: those come more than once."""
        pairs = [getattr(self, name)() for name, count in COUNTS.items() for _ in range(count)]
        self.draw.shuffle(pairs)
        return [{"input": given, "output": target} for given, target in pairs]


def hypothesis(case):
    kind, *said = case
    return kind.hypothesis(*said)


def verdict(slot, text, true):
    return f"${slot}$ ; $hypothesis$ = {text}", f"${slot}$ = {str(true).lower()}"
