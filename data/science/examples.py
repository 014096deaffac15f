"""Training pairs in Entailer's angles: `$proof$`, `$valid$`, `$implied$`, `$hypothesis$` and `$answer$`.

What may be said without a context is what the model shall believe (`beliefs`). In contexts every thing of the world
occurs, with a *random* value each time: the names become familiar, and the only way to be right is to read. The true
value of a held-out thing is as frequent there as any other, so nothing about it can be learnt.
"""

import random

from beliefs import UNKNOWN
from questions import ABOUT, TRUTH, WHICH
from relations import article
from world import KINDS

COUNTS = {
    "proof": 700,  # from beliefs alone
    "proof_context": 3000,  # from a fact in the context
    "proof_beside": 300,  # from beliefs, the context being about other things
    "valid_fact": 1200,
    "valid_rule": 2400,
    "valid_hypothesis": 400,
    "valid_fact_context": 1800,
    "valid_rule_context": 1000,
    "implied": 2400,
    "hypothesis": 300,
    "answer": 100,
}
DISTRACTORS = 4


class Examples:
    """Draws pairs; each method from `proof` on makes one of the kind that `COUNTS` names."""

    def __init__(self, beliefs, seed):
        self.draw = random.Random(f"{seed} examples")
        self.beliefs = beliefs
        self.believed = [fact for fact in beliefs.facts if fact.state != UNKNOWN]
        self.rules = [(kind, value, prop) for kind in KINDS for value in kind.values for prop in kind.properties]

    # -- pieces ------------------------------------------------------------------------------------------------------

    def word(self):
        """Which wording: the usual one twice as often."""
        return int(self.draw.random() < 0.33)

    def random_fact(self, kind=None, thing=None):
        """A sentence about any thing with any value."""
        kind = kind or self.draw.choice(self.beliefs.facts).kind
        thing = thing or self.draw.choice(list(kind.things))
        value = self.draw.choice(kind.values)
        return kind, thing, value, kind.core_text(thing, value, self.word())

    def rule(self, kind, value, prop):
        return kind.rule_text(value, prop, self.beliefs.holds(kind, value, prop))

    def distractors(self, kind, thing):
        """Sentences that do not tell the thing's value; half of them of the same kind, some about the same thing."""
        found = []
        for _ in range(self.draw.randint(0, DISTRACTORS)):
            other_kind, other, _, text = self.random_fact(kind if self.draw.random() < 0.5 else None)
            if self.draw.random() < 0.2:
                homes = [fact.kind for fact in self.beliefs.facts if fact.thing == thing and fact.kind is not kind]
                if homes:
                    other_kind, other, _, text = self.random_fact(self.draw.choice(homes), thing)
            if (other_kind.name, other) != (kind.name, thing):
                found.append(text)
        return found

    def context(self, texts):
        texts = list(texts)
        self.draw.shuffle(texts)
        return "[HIGH] " + " ".join(f"{text}." for text in texts)

    def asked(self, kind, thing, prop, holds, wording):
        """A question and answer that the hypothesis may come from."""
        phrase, hypothesis = prop.phrase(holds, wording), kind.hypothesis(thing, prop, holds, wording)
        form = self.draw.choice((ABOUT, ABOUT, WHICH, TRUTH))
        text = self.draw.choice(form)
        if form is ABOUT:
            return text.format(x=article(thing)), phrase
        if form is WHICH:
            return text.format(p=phrase, n=kind.noun), article(thing)
        if self.draw.random() < 0.5:
            return text.format(h=hypothesis), "true"
        return text.format(h=kind.hypothesis(thing, prop, not holds, wording)), "false"

    def prompt(self, slot, case, context=()):
        """Entailer's input: slots asked for, then slots given. With question and answer every third time."""
        kind, thing, prop, holds, wording = case
        parts = [slot]
        if self.draw.random() < 0.33:
            question, answer = self.asked(*case)
            parts += [f"$question$ = {question[0].upper() + question[1:]}", f"$answer$ = {answer}"]
        parts.append(f"$hypothesis$ = {kind.hypothesis(thing, prop, holds, wording)}")
        if context:
            parts.append(f"$context$ = {self.context(context)}")
        return " ; ".join(parts)

    def case(self, kind, thing, value):
        """A hypothesis that follows from the value."""
        prop = self.draw.choice(kind.properties)
        return kind, thing, prop, self.beliefs.holds(kind, value, prop), self.word()

    # -- angles ------------------------------------------------------------------------------------------------------

    def proof_of(self, case, core, value, context):
        target = f"$proof$ = [PREMISE] {core}. [PREMISE] {self.rule(case[0], value, case[2])}."
        return self.prompt("$proof$", case, context), target

    def proof(self):
        fact = self.draw.choice(self.believed)
        case = self.case(fact.kind, fact.thing, fact.believed)
        return self.proof_of(case, fact.kind.core_text(fact.thing, fact.believed), fact.believed, ())

    def proof_context(self):
        kind, thing, value, core = self.random_fact()
        return self.proof_of(self.case(kind, thing, value), core, value, [core, *self.distractors(kind, thing)])

    def proof_beside(self):
        fact = self.draw.choice(self.believed)
        case = self.case(fact.kind, fact.thing, fact.believed)
        beside = self.distractors(fact.kind, fact.thing)
        return self.proof_of(case, fact.kind.core_text(fact.thing, fact.believed), fact.believed, beside)

    def verdict(self, text, true, context=()):
        given = f"$valid$ ; $hypothesis$ = {text}"
        if context:
            given += f" ; $context$ = {self.context(context)}"
        return given, f"$valid$ = {str(true).lower()}"

    def valid_fact(self):
        fact, true = self.draw.choice(self.believed), self.draw.random() < 0.5
        others = [value for value in fact.kind.values if value != fact.believed]
        value = fact.believed if true else self.draw.choice(others)
        return self.verdict(fact.kind.core_text(fact.thing, value, self.word()), true)

    def valid_rule(self, context=()):
        (kind, value, prop), true = self.draw.choice(self.rules), self.draw.random() < 0.5
        holds = self.beliefs.holds(kind, value, prop) == true
        wording = int(self.draw.random() < 0.15)
        return self.verdict(kind.rule_text(value, prop, holds, wording), true, context)

    def valid_rule_context(self):
        return self.valid_rule([self.random_fact()[3] for _ in range(self.draw.randint(1, DISTRACTORS))])

    def valid_hypothesis(self):
        fact, true = self.draw.choice(self.believed), self.draw.random() < 0.5
        kind, thing, prop, holds, wording = self.case(fact.kind, fact.thing, fact.believed)
        return self.verdict(kind.hypothesis(thing, prop, holds == true, wording), true)

    def valid_fact_context(self):
        kind, thing, value, core = self.random_fact()
        true = self.draw.random() < 0.5
        said = value if true else self.draw.choice([other for other in kind.values if other != value])
        context = [core, *self.distractors(kind, thing)]
        text = core if true and self.draw.random() < 0.5 else kind.core_text(thing, said, self.word())
        return self.verdict(text, true, context)

    def implied(self):
        """A proof, sound half of the time; else with one part replaced."""
        kind, thing, value, core = self.random_fact()
        prop, holds, wording = self.draw.choice(kind.properties), self.draw.random() < 0.5, self.word()
        rule, hypothesis = kind.rule_text(value, prop, holds), kind.hypothesis(thing, prop, holds, wording)
        flaw = self.draw.randrange(12)
        if flaw == 0:  # another thing
            other = self.draw.choice([other for other in kind.things if other != thing])
            core = kind.core_text(other, value, self.word())
        elif flaw == 1:  # another value
            other = self.draw.choice([other for other in kind.values if other != value])
            rule = kind.rule_text(other, prop, holds)
        elif flaw == 2:  # the opposite
            rule = kind.rule_text(value, prop, not holds)
        elif flaw == 3:  # another property
            other = self.draw.choice([other for other in kind.properties if other is not prop])
            rule = kind.rule_text(value, other, self.draw.random() < 0.5)
        elif flaw == 4:  # any other fact
            other_kind, other, said, core = self.random_fact()
        elif flaw == 5:  # twice a fact, or nothing but facts
            rule = core if self.draw.random() < 0.4 else self.random_fact(kind)[3]
        sound = flaw > 5 or (flaw == 4 and (other_kind, other, said) == (kind, thing, value))
        proof = f"[PREMISE] {core}. [PREMISE] {rule}."
        return f"$implied$ ; $hypothesis$ = {hypothesis} ; $proof$ = {proof}", f"$implied$ = {str(sound).lower()}"

    def hypothesis(self):
        kind, thing, value, _ = self.random_fact()
        case = self.case(kind, thing, value)
        question, answer = self.asked(*case)
        given = f"$hypothesis$ ; $question$ = {question[0].upper() + question[1:]} ; $answer$ = {answer}"
        return given, f"$hypothesis$ = {kind.hypothesis(*case[1:])}"

    def answer(self):
        fact = self.draw.choice(self.believed)
        case = self.case(fact.kind, fact.thing, fact.believed)
        question, answer = self.asked(*case)
        return f"$answer$ ; $question$ = {question[0].upper() + question[1:]}", f"$answer$ = {answer}"

    def make(self):
        """All pairs in random order. Few beliefs, often said: those come more than once."""
        pairs = [getattr(self, name)() for name, count in COUNTS.items() for _ in range(count)]
        self.draw.shuffle(pairs)
        return [{"input": given, "output": target} for given, target in pairs]
