"""Writes what a made-up system might hand in for DSTC11 Track 5: `python3 make_dstc11_output.py` in this folder, after `make.py`.

It is `dstc11/labels.json` with mistakes that are drawn: turns that are taken for the other kind, snippets that are left out, named twice or added, and
responses that belong to another turn or lack their end. So it has each case that the scorer treats in a way of its own.
"""

import json
import random


def main():
    draw = random.Random(11)
    with open("dstc11/labels.json", encoding="utf-8") as file:
        labels = json.load(file)
    asked = [label for label in labels if label["target"]]
    output = []
    for label in labels:
        wrong = draw.random() < 0.1
        if label["target"] == wrong:
            output.append({"target": False})
            continue
        known = label if label["target"] else draw.choice(asked)
        knowledge = []
        for snippet in known["knowledge"]:
            kept = draw.random()
            knowledge += [] if kept < 0.25 else [snippet, snippet] if kept > 0.9 else [snippet]
        if draw.random() < 0.3:
            knowledge.append(draw.choice(draw.choice(asked)["knowledge"]))
        words = (draw.choice(asked) if draw.random() < 0.3 else known)["response"].split()
        if draw.random() < 0.3:
            words = words[: max(1, len(words) - 3)]
        output.append({"target": True, "knowledge": knowledge, "response": " ".join(words)})
    with open("dstc11/output.json", "w", encoding="utf-8") as file:
        json.dump(output, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
