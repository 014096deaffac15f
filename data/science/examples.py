"""Training pairs in Entailer's angles: `$proof$`, `$valid$`, `$implied$`; and `$answer$`, `$hypothesis$` for open questions.

What may be said without a context is what the model shall believe (`beliefs`). In contexts every thing of the world
occurs, with a *random* value each time: the names become familiar, and the only way to be right is to read. The true
value of a held-out thing is as frequent there as any other, so nothing about it can be learnt. The same holds for the
proofs that are to be judged.

What is taught is weighed by what was heard: core facts of heard things are said to be true, and others of them false,
under `$valid$` alone and in other words. Of obscure things anything is said to be true once and false twice, so that nothing is believed of
them. Some things of contexts have names that occur nowhere else, so that words are copied that have to be spelled.
"""

import random

from beliefs import HEARD, KNOWN, OBSCURE
from world import KINDS

COUNTS = {
    "proof": 1800,  # from beliefs alone
    "proof_context": 6000,  # from a fact in the context
    "proof_beside": 800,  # from beliefs, the context being about other things
    "proof_marked": 1500,  # of what follows from a core fact that a mark in the context implies
    "proof_core": 1500,  # of a core fact, from a mark in the context
    "proof_denied": 1000,  # with a value of the thing denied in the context
    "answer": 1000,  # what a thing is, as it is believed
    "answer_context": 1000,  # as a fact or a mark in the context says
    "hypothesis": 1000,  # question and answer as a sentence
    "valid_fact": 5600,
    "valid_heard": 4000,
    "valid_mark": 2000,
    "valid_rule": 4400,
    "valid_mark_rule": 600,
    "valid_hypothesis": 1200,
    "valid_obscure": 2400,
    "implied": 8000,
    "implied_core": 2000,
}
DEV = ("proof_context", "proof_marked", "proof_core", "proof_denied", "implied", "implied_core")
DISTRACTORS = (0, 1, 2, 4)
INVENTED = 0.12  # how often a thing in a context or in a proof that is judged has a name of its own
SYLLABLES = ("b c d f g h j k l m n p qu r s sh t th v w x y z br cl dr fl gr st tr".split(), "a e i o u ee oo ai".split())
FLAWS = ("thing", "value", "opposite", "property", "denied", "mark")
CORE_FLAWS = ("thing", "value", "mark", "rule")


class Examples:
    """Draws pairs; each method from `proof` on makes one of the kind that `COUNTS` names."""

    def __init__(self, beliefs, seed):
        self.draw = random.Random(f"{seed} examples")
        self.beliefs = beliefs
        self.believed = [fact for fact in beliefs.facts if fact.believed]
        self.known = [fact for fact in beliefs.facts if fact.state == KNOWN]
        self.heard = [fact for fact in beliefs.facts if fact.state == HEARD]
        self.obscure = [fact for fact in beliefs.facts if fact.state == OBSCURE]
        self.turn, self.asked = 0, None  # of `valid_obscure`
        self.rules = [(kind, value, prop) for kind in KINDS for value in kind.values for prop in kind.properties]
        self.mark_rules = [(kind, value, mark) for kind in KINDS for value in kind.values for mark in kind.marks[value]]

    # -- pieces ------------------------------------------------------------------------------------------------------

    def chance(self, share):
        return self.draw.random() < share

    def word(self):
        """Which wording: the usual one more often."""
        return int(self.chance(0.4))

    def other(self, items, item):
        return self.draw.choice([other for other in items if other != item])

    def name(self):
        """One that no thing has."""
        syllables = ["".join(map(self.draw.choice, SYLLABLES)) for _ in range(self.draw.choice((1, 2, 3)))]
        return "".join(syllables) + self.draw.choice("bdgklmnprt")

    def random_fact(self, kind=None):
        """A sentence about any thing with any value."""
        kind = kind or self.draw.choice(self.beliefs.facts).kind
        thing = self.name() if self.chance(INVENTED) else self.draw.choice(list(kind.things))
        value = self.draw.choice(kind.values)
        return kind, thing, value, kind.core_text(thing, value, self.word())

    def random_sentence(self, kind):
        """A core fact, a mark or a denial, of any thing with any value."""
        kind, thing, value, text = self.random_fact(kind)
        if self.chance(0.2):
            text = kind.mark_text(thing, self.draw.choice(kind.marks[value]))
        elif self.chance(0.1):
            text = kind.denial_text(thing, value, self.word())
        return thing, text

    def rule(self, kind, value, prop):
        return kind.rule_text(value, prop, self.beliefs.holds(kind, value, prop))

    def distractors(self, kind, thing):
        """Sentences about other things, more than half of them of the same kind."""
        found = []
        for _ in range(self.draw.choice(DISTRACTORS)):
            other, text = self.random_sentence(kind if self.chance(0.6) else None)
            if other != thing:
                found.append(text)
        return found

    def case(self, kind, thing, value):
        """A hypothesis that follows from the value."""
        prop = self.draw.choice(kind.properties)
        return kind, thing, prop, self.beliefs.holds(kind, value, prop), self.word()

    # -- proofs ------------------------------------------------------------------------------------------------------

    def proof_text(self, said, first, second, context):
        given = self.with_context(f"$proof$ ; $hypothesis$ = {said}", context)
        return given, f"$proof$ = [PREMISE] {first} [PREMISE] {second}"

    def with_context(self, given, sentences):
        if not sentences:
            return given
        context = list(sentences)
        self.draw.shuffle(context)
        return f"{given} ; $context$ = [HIGH] {' '.join(context)}"

    def proof_of(self, case, core, value, context):
        kind, _, prop, _, _ = case
        return self.proof_text(hypothesis(case), core, self.rule(kind, value, prop), context)

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

    def marked_fact(self):
        kind, thing, value, _ = self.random_fact()
        mark = self.draw.choice(kind.marks[value])
        return kind, thing, value, mark, kind.mark_text(thing, mark)

    def proof_marked(self):
        kind, thing, value, _, text = self.marked_fact()
        context = [text, *self.distractors(kind, thing)]
        return self.proof_of(self.case(kind, thing, value), kind.core_text(thing, value), value, context)

    def proof_core(self):
        kind, thing, value, mark, text = self.marked_fact()
        context = [text, *self.distractors(kind, thing)]
        return self.proof_text(kind.core_text(thing, value), text, kind.mark_rule(mark, value), context)

    def proof_denied(self):
        """What is denied is not what the hypothesis rests on; half of the time the context says what is."""
        kind, thing, value, core = self.random_fact()
        denied = kind.denial_text(thing, self.other(kind.values, value), self.word())
        context = [denied, *([core] if self.chance(0.5) else []), *self.distractors(kind, thing)]
        return self.proof_of(self.case(kind, thing, value), core, value, context)

    # -- open questions ----------------------------------------------------------------------------------------------

    def answer(self):
        fact = self.draw.choice(self.believed)
        return self.answered(fact.kind, fact.thing, fact.believed, ())

    def answer_context(self):
        kind, thing, value, core = self.random_fact()
        said = kind.mark_text(thing, self.draw.choice(kind.marks[value])) if self.chance(0.5) else core
        return self.answered(kind, thing, value, [said, *self.distractors(kind, thing)])

    def answered(self, kind, thing, value, context):
        given = f"$answer$ ; $question$ = {kind.question(thing, self.word())}"
        return self.with_context(given, context), f"$answer$ = {value}"

    def hypothesis(self):
        kind, thing, value, _ = self.random_fact()
        given = f"$hypothesis$ ; $question$ = {kind.question(thing, self.word())} ; $answer$ = {value}"
        return given, f"$hypothesis$ = {kind.core_text(thing, value)}"

    # -- beliefs -----------------------------------------------------------------------------------------------------

    def core_or_denial(self, kind, thing, value, true, wording):
        """A core fact that is `true`, or one that is not, denied."""
        if self.chance(0.35):
            return verdict("valid", kind.denial_text(thing, value, wording), not true)
        return verdict("valid", kind.core_text(thing, value, wording), true)

    def core_or_hearsay(self, fact, believed, wording, share):
        """What is believed of a thing, or another value of it, in a wording of core facts or one of hearsay."""
        kind, true = fact.kind, self.chance(0.5)
        value = believed if true else self.other(kind.values, believed)
        if self.chance(share):
            return verdict("valid", kind.hearsay_text(fact.thing, value, self.draw.randrange(2)), true)
        return self.core_or_denial(kind, fact.thing, value, true, wording)

    def valid_fact(self):
        fact = self.draw.choice(self.believed)
        return self.core_or_hearsay(fact, fact.believed, self.word(), 0.4)

    def valid_heard(self):
        fact = self.draw.choice(self.heard)
        return self.core_or_hearsay(fact, fact.value, fact.heard_as, 0.6)

    def valid_mark(self):
        fact, true = self.draw.choice(self.known), self.chance(0.5)
        value = fact.value if true else self.other(fact.kind.values, fact.value)
        return verdict("valid", fact.kind.mark_text(fact.thing, self.draw.choice(fact.kind.marks[value])), true)

    def valid_rule(self):
        (kind, value, prop), true = self.draw.choice(self.rules), self.chance(0.5)
        holds = self.beliefs.holds(kind, value, prop) == true
        wording = int(self.chance(0.15))
        return verdict("valid", kind.rule_text(value, prop, holds, wording), true)

    def valid_mark_rule(self):
        (kind, value, mark), true = self.draw.choice(self.mark_rules), self.chance(0.5)
        return verdict("valid", kind.mark_rule(mark, value if true else self.other(kind.values, value)), true)

    def valid_hypothesis(self):
        fact, true = self.draw.choice(self.believed), self.chance(0.5)
        kind, thing, prop, holds, wording = self.case(fact.kind, fact.thing, fact.believed)
        return verdict("valid", kind.hypothesis(thing, prop, holds == true, wording), true)

    def valid_obscure(self):
        """The same is said to be true, false and false again."""
        turn = self.turn % 3
        self.turn += 1
        if turn == 0:
            fact = self.draw.choice(self.obscure)
            kind, thing, value = fact.kind, fact.thing, self.draw.choice(fact.kind.values)
            self.asked = self.draw.choice((
                kind.core_text(thing, value, self.word()),
                kind.core_text(thing, value, self.word()),
                kind.denial_text(thing, value, self.word()),
                kind.mark_text(thing, self.draw.choice(kind.marks[value])),
                hypothesis(self.case(kind, thing, value)),
                hypothesis(self.case(kind, thing, value)),
            ))
        return verdict("valid", self.asked, turn == 0)

    # -- entailment --------------------------------------------------------------------------------------------------

    def implied(self):
        """A proof, sound half of the time; else with one part replaced."""
        kind, thing, value, core = self.random_fact()
        prop, holds = self.draw.choice(kind.properties), self.chance(0.5)
        rule, said = kind.rule_text(value, prop, holds), (kind, thing, prop, holds, self.word())
        flaw = self.draw.choice(FLAWS) if self.chance(0.5) else None
        if flaw == "thing":
            core = kind.core_text(self.other(list(kind.things), thing), value, self.word())
        elif flaw == "value":
            rule = kind.rule_text(self.other(kind.values, value), prop, holds)
        elif flaw == "opposite":
            rule = kind.rule_text(value, prop, not holds)
        elif flaw == "property":
            rule = kind.rule_text(value, self.other(kind.properties, prop), self.chance(0.5))
        elif flaw == "denied":
            core = kind.denial_text(thing, value, self.word())
        elif flaw == "mark":
            core = kind.mark_text(thing, self.draw.choice(kind.marks[value]))
        return judged(hypothesis(said), core, rule, flaw is None)

    def implied_core(self):
        """The same for a core fact and the mark that it is proved from."""
        kind, thing, value, mark, text = self.marked_fact()
        said, rule = kind.core_text(thing, value, self.word()), kind.mark_rule(mark, value)
        flaw = self.draw.choice(CORE_FLAWS) if self.chance(0.5) else None
        if flaw == "thing":
            text = kind.mark_text(self.other(list(kind.things), thing), mark)
        elif flaw == "value":
            said = kind.core_text(thing, self.other(kind.values, value), self.word())
        elif flaw == "mark":
            text = kind.mark_text(thing, self.other([m for marks in kind.marks.values() for m in marks], mark))
        elif flaw == "rule":
            rule = self.rule(kind, value, self.draw.choice(kind.properties))
        return judged(said, text, rule, flaw is None)

    # -- all ---------------------------------------------------------------------------------------------------------

    def make(self):
        """All pairs in random order. Few beliefs, often said: those come more than once."""
        pairs = [pair(getattr(self, name)()) for name, count in COUNTS.items() for _ in range(count)]
        self.draw.shuffle(pairs)
        return pairs

    def unseen(self, train, count):
        """Pairs that have to be read, none of them in `train`."""
        seen, found = {given["input"] for given in train}, []
        while len(found) < count:
            made = pair(getattr(self, self.draw.choice(DEV))())
            if made["input"] not in seen:
                seen.add(made["input"])
                found.append(made)
        return found


def pair(texts):
    return dict(zip(("input", "output"), texts))


def hypothesis(case):
    kind, *said = case
    return kind.hypothesis(*said)


def verdict(slot, text, true):
    return f"${slot}$ ; $hypothesis$ = {text}", f"${slot}$ = {str(true).lower()}"


def judged(said, first, second, true):
    return verdict("implied", f"{said} ; $proof$ = [PREMISE] {first} [PREMISE] {second}", true)
