"""What a study teaches instead of the core facts, to see that it is the true facts that help.

Three controls, each with one sentence for each core fact, in that fact's own wording: `wrong` says another value of the
relation, drawn alike from all others; `shuffled` says the value of another thing, so that each value is said as often
as it is true. Neither leaves a true sentence. `denied` denies a value that the thing does not have, which is true: the
one that is believed where there is one, or else one drawn alike.
"""

import random


def make(facts, seed):
    """Rows `control`, `fact_id`, `fact`, `instead`."""
    for control, values in (("wrong", wrong), ("shuffled", shuffled), ("denied", denied)):
        draw = random.Random(f"{seed} {control}")
        for kind in dict.fromkeys(fact.kind.name for fact in facts):
            of_kind = [fact for fact in facts if fact.kind.name == kind]
            for fact, value in zip(of_kind, values(of_kind, draw)):
                say = fact.kind.denial_text if control == "denied" else fact.kind.core_text
                yield {"control": control, "fact_id": fact.id, "fact": fact.text,
                       "instead": say(fact.thing, value, fact.wording)}


def wrong(facts, draw):
    return [draw.choice([value for value in fact.kind.values if value != fact.value]) for fact in facts]


def shuffled(facts, draw):
    """A permutation of the facts' values that leaves none in its place."""
    values = [fact.value for fact in facts]
    draw.shuffle(values)
    for at, fact in enumerate(facts):
        if values[at] == fact.value:
            others = [other for other in range(len(facts))
                      if values[other] != fact.value and facts[other].value != values[at]]
            other = draw.choice(others)
            values[at], values[other] = values[other], values[at]
    return values


def denied(facts, draw):
    others = wrong(facts, draw)
    return [other if fact.believed in (None, fact.value) else fact.believed for fact, other in zip(facts, others)]
