"""What the model is brought up to believe, and what it is never told.

Every core fact has one of four states: `known` (trained as it is), `mistaken` (a plausible wrong value is trained
instead), `heard` (it is said to be true when it is asked about, in other words than a user would teach it, and nothing
is ever proved from it) and `obscure` (nothing is trained of the thing). All but the first are held out of proofs: only
teaching can supply them. What is taught of a heard thing can be weighed, as a person recognises what did not come to
mind. A share of the rules is trained wrongly as well, so that some failures remain that no core fact repairs.
"""

from dataclasses import dataclass
import random

from relations import Kind
from world import KINDS

KNOWN, MISTAKEN, HEARD, OBSCURE = "known", "mistaken", "heard", "obscure"
SHARES = {KNOWN: 0.40, MISTAKEN: 0.14, HEARD: 0.30, OBSCURE: 0.16}
WRONG_RULES = 0.05


@dataclass(frozen=True)
class Fact:
    """One core fact: what is so, and what the model believes (`None`: nothing)."""

    id: str
    kind: Kind
    thing: str
    value: str
    state: str
    believed: str | None
    wording: int

    @property
    def text(self):
        return self.kind.core_text(self.thing, self.value, self.wording)

    @property
    def heard_as(self):
        """The wording in which it was heard: not that of `text`."""
        return 1 - self.wording


@dataclass(frozen=True)
class Beliefs:
    facts: tuple
    wrong: frozenset  # (kind, value, property) of the rules that are believed wrongly

    def holds(self, kind, value, prop):
        """What the model believes of a value."""
        return (value in prop.values) != ((kind.name, value, prop.name) in self.wrong)


def make(seed):
    draw = random.Random(f"{seed} beliefs")
    facts = tuple(fact for kind in KINDS for fact in facts_of(kind, draw))
    rules = [(kind.name, value, prop.name) for kind in KINDS for value in kind.values for prop in kind.properties]
    return Beliefs(facts, frozenset(draw.sample(rules, round(WRONG_RULES * len(rules)))))


def facts_of(kind, draw):
    """The kind's core facts; states have exact shares."""
    things = list(kind.things)
    draw.shuffle(things)
    counts = {state: round(share * len(things)) for state, share in SHARES.items()}
    counts[OBSCURE] += len(things) - sum(counts.values())
    states = [state for state, count in counts.items() for _ in range(count)]
    for thing, state in zip(things, states):
        value = kind.things[thing]
        believed = {KNOWN: value, MISTAKEN: draw.choice(kind.confused[value])}.get(state)
        wording = int(draw.random() < 0.3)
        yield Fact(f"{kind.name}-{thing}", kind, thing, value, state, believed, wording)


def rule_id(kind, value, prop):
    return f"{kind.name}-{value}-{prop.name}"
