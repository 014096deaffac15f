"""The parts of a world: relations, their properties and marks, and how they are put into words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Property:
    """What can be said of a thing, and its denial; each in the wording of rules and in another one."""

    name: str
    yes: tuple
    no: tuple
    values: frozenset  # those of which `yes` is true

    def phrase(self, holds, wording=0):
        return (self.yes if holds else self.no)[wording]


@dataclass(frozen=True)
class Kind:
    """One relation. `core`, `denied` and `rule` hold the wordings, the usual one first."""

    name: str
    topic: str
    noun: str  # what its things are, for questions
    asked: tuple  # the wordings of a question for the value
    core: tuple
    denied: tuple  # the same, denied
    hearsay: tuple  # other wordings, in which nobody teaches
    rule: tuple
    confused: dict  # value -> values that somebody may take it for
    marks: dict  # value -> phrases that are true of its things alone
    properties: tuple
    things: dict  # thing -> value

    @property
    def values(self):
        return tuple(self.confused)

    # Sentences, each with its full stop.

    def core_text(self, thing, value, wording=0):
        return self.core[wording].format(x=article(thing), v=value, av=article(value)) + "."

    def question(self, thing, wording=0):
        return self.asked[wording].format(x=article(thing))

    def denial_text(self, thing, value, wording=0):
        return self.denied[wording].format(x=article(thing), v=value, av=article(value)) + "."

    def hearsay_text(self, thing, value, wording):
        return self.hearsay[wording].format(x=article(thing), v=value, av=article(value)) + "."

    def mark_text(self, thing, mark):
        return f"{article(thing)} {mark}."

    def mark_rule(self, mark, value):
        return self.core[0].format(x=f"whatever {mark}", v=value, av=article(value)) + "."

    def rule_text(self, value, prop, holds, wording=0):
        subject = self.rule[wording].format(v=value, av=article(value))
        return f"{subject} {prop.phrase(holds)}."

    def hypothesis(self, thing, prop, holds, wording=0):
        return f"{article(thing)} {prop.phrase(holds, wording)}."


def article(noun):
    """`a nail`, `an anvil`."""
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"


def prop(name, values, yes, no):
    """A property from lines `usual wording | other wording`."""
    split = lambda text: tuple(part.strip() for part in text.split("|"))
    return Property(name, split(yes), split(no), frozenset(values.split()))


def table(text):
    """`value: thing thing ...`, one value a line, as thing -> value."""
    rows = (line.split(":") for line in text.strip().splitlines())
    return {thing: value.strip() for value, things in rows for thing in things.split()}


def marks(text):
    """`value: phrase | phrase`, one value a line."""
    rows = (line.split(":") for line in text.strip().splitlines())
    return {value.strip(): tuple(phrase.strip() for phrase in phrases.split("|")) for value, phrases in rows}


def confusions(text):
    """`value: value value`, one a line."""
    rows = (line.split(":") for line in text.strip().splitlines())
    return {value.strip(): tuple(others.split()) for value, others in rows}
