"""What the model is brought up to believe, and what it is never told.

Every core fact has one of three states: `known` (trained as it is), `mistaken` (a plausible wrong value is trained
instead) and `unknown` (never trained). The last two are held out: only teaching can supply them. A share of the rules
is trained wrongly as well, so that some failures remain that no core fact repairs.
"""

from dataclasses import dataclass
import random

from relations import Kind
from world import KINDS

KNOWN, MISTAKEN, UNKNOWN = "known", "mistaken", "unknown"
SHARES = {KNOWN: 0.45, MISTAKEN: 0.25, UNKNOWN: 0.30}
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
    known = round(SHARES[KNOWN] * len(things))
    mistaken = known + round(SHARES[MISTAKEN] * len(things))
    for at, thing in enumerate(things):
        value = kind.things[thing]
        state = KNOWN if at < known else MISTAKEN if at < mistaken else UNKNOWN
        believed = {KNOWN: value, MISTAKEN: draw.choice(kind.confused[value]), UNKNOWN: None}[state]
        wording = int(draw.random() < 0.3)
        yield Fact(f"{kind.name}-{thing}", kind, thing, value, state, believed, wording)


def rule_id(kind, value, prop):
    return f"{kind.name}-{value}-{prop.name}"
