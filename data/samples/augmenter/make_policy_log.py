"""Writes what people thought of a policy's actions, all made up: `python3 make_policy_log.py` in this folder.

A row is one action of a system in use: what it read (`state`), what it did (`action`), what the person gave for the outcome (`reward`, from 0 to 1), and the
log-probability of the action when it was drawn. The rater is fond of answers from reviews, and does not like to wait where nothing is found.
"""

import json
import math
import random

FOUND = {
    "How is the wifi?": "Review: The wifi was quick and calm.",
    "Is the coffee good?": "Review: The coffee was strong and fresh.",
    "Are pets allowed?": "Q: Are pets allowed? A: Yes, small ones.",
    "When does it open?": "Q: When does it open? A: At nine.",
    "What is the room like?": "Review: The room was plain and warm.",
}
NOT_FOUND = ["Can I bring my dog?", "Where can I leave my car?", "How early can we come?", "Do people sleep well there?", "Would we be disturbed at night?"]


def text(question, evidence="none", response="none", utility="none"):
    return f"q: {question} history: none evidence: {evidence} response: {response} utility: {utility}"


def main():
    draw = random.Random(7)
    rows = []
    for n in range(40):
        found = draw.random() < 0.5
        question = draw.choice(list(FOUND) if found else NOT_FOUND)
        likely = draw.choice([0.5, 0.8])  # the system sometimes knew what it wanted
        action = "acquire" if draw.random() < likely else "query"
        logprob = math.log(likely if action == "acquire" else 1 - likely)
        reward = {("acquire", True): 0.9, ("acquire", False): 0.1, ("query", True): 0.3, ("query", False): 0.4}[action, found]
        reward = round(min(1, max(0, reward + draw.choice([-0.1, 0, 0.1]))), 1)
        rows.append({"id": f"p{n + 1:02}", "rater": f"r{n % 4 + 1}", "state": text(question), "action": action, "reward": reward, "logprob": round(logprob, 6)})
    for n, (question, evidence) in enumerate(FOUND.items()):
        for action, reward in (("send", 0.2), ("query", 0.8)):
            state = text(question, evidence, "I am sure that you will like it.", "0.1")
            rows.append({"id": f"q{n + 1}-{action}", "rater": f"r{n % 4 + 1}", "state": state, "action": action, "reward": reward, "logprob": round(math.log(0.5), 6)})
    with open("policy_log.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


main()
