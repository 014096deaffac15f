"""Writes the synthetic user study in this folder: answers.jsonl and actions.jsonl.

usage: python3 data/samples/user_study/make.py

No person took part. The totals are those that TeachMe (Dalvi, Tafjord and Clark 2022, section 4.2) reports
of its eight users; who is behind which answer is drawn here with a fixed seed. Some users teach
better than others and some questions are helped more easily, so that answers of one user, and answers
to one question, are not independent. Python's standard library is enough.
"""

import json
import math
import pathlib
import random

USERS = 8
FACTS = 5                   # core facts, with one training question each
TEST_QUESTIONS = 26
RIGHT_BEFORE = 10           # test questions; before anybody teaches, all users see the same answers
WRONG_TO_RIGHT, RIGHT_TO_WRONG = 41, 7
TRAINING_RIGHT_AFTER = 39   # of 40: 97 % as printed
# 108 actions are 13.5 a user. The printed shares (24, 12, 6, 5, 5, 10 and 37 %) sum to 99, and no
# 108 actions round to all of them: `bad reasoning` has one more here.
ACTIONS = {
    "fact is missing": 26,
    "fact is false": 13,
    "fact is true": 7,
    "bad reasoning": 6,
    "fact is irrelevant": 5,
    "use old fact": 11,
    "use new fact": 40,
}


def weighted_sample(rng, cells, weight, number):
    """`number` different cells; a cell of twice the weight is twice as likely to come first."""
    keys = {cell: -math.log(1.0 - rng.random()) / weight(cell) for cell in cells}
    return set(sorted(cells, key=keys.get)[:number])


def main():
    rng = random.Random(20220427)
    users = [f"user-{n}" for n in range(1, USERS + 1)]
    training = [f"training-{n}" for n in range(1, FACTS + 1)]
    test = [f"test-{n:02}" for n in range(1, TEST_QUESTIONS + 1)]
    fact = {question: f"fact-{n % FACTS + 1}" for n, question in enumerate(training)}
    fact |= {question: f"fact-{n % FACTS + 1}" for n, question in enumerate(test)}
    right = set(rng.sample(test, RIGHT_BEFORE))

    skill = {user: math.exp(rng.gauss(0, 0.7)) for user in users}
    ease = {question: math.exp(rng.gauss(0, 0.9)) for question in test}
    cells = [(user, question) for user in users for question in test]
    gained = weighted_sample(
        rng, [cell for cell in cells if cell[1] not in right], lambda c: skill[c[0]] * ease[c[1]], WRONG_TO_RIGHT
    )
    lost = weighted_sample(
        rng, [cell for cell in cells if cell[1] in right], lambda c: ease[c[1]] / skill[c[0]], RIGHT_TO_WRONG
    )
    taught = [(user, question) for user in users for question in training]
    failed = set(rng.sample(taught, len(taught) - TRAINING_RIGHT_AFTER))

    answers = []
    for user in users:
        for question in training:
            after = (user, question) not in failed
            answers.append(row(user, question, "training", fact, False, after))
        for question in test:
            before = question in right
            after = (user, question) in gained or before and (user, question) not in lost
            answers.append(row(user, question, "test", fact, before, after))

    # At least one action for each user and training question, the rest where it falls.
    names = [name for name, number in ACTIONS.items() for _ in range(number)]
    rng.shuffle(names)
    places = taught + rng.choices(taught, k=len(names) - len(taught))
    actions, count = [], {}
    for (user, question), name in zip(sorted(places), names):
        count[user, question] = count.get((user, question), 0) + 1
        actions.append({"user_id": user, "question_id": question, "place": count[user, question], "action": name})

    folder = pathlib.Path(__file__).resolve().parent
    for name, rows in (("answers", answers), ("actions", actions)):
        text = "".join(json.dumps(one) + "\n" for one in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{len(rows)} rows written to {name}.jsonl")


def row(user, question, split, fact, before, after):
    return {
        "user_id": user,
        "question_id": question,
        "split": split,
        "core_fact": fact[question],
        "right_before": before,
        "right_after": after,
    }


if __name__ == "__main__":
    main()
