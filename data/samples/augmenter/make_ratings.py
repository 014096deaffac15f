"""Writes ratings of response pairs that nobody gave: `python3 make_ratings.py` in this folder.

60 items, 3 raters each of 6, two criteria. 5 means that the response on the right is much better, 1 that the one on the left is, 3 that they are alike. Which
system stands on which side is drawn for each item. Systems `augmenter` and `closed`: the first is made up to be liked more for usefulness and about as much
for humanness.
"""

import json
import random


def main():
    draw = random.Random(5)
    with open("ratings.jsonl", "w", encoding="utf-8") as file:
        for item in range(60):
            left, right = draw.sample(["augmenter", "closed"], 2)
            for rater in draw.sample(range(6), 3):
                for criterion, liking in [("usefulness", 0.45), ("humanness", 0.1)]:
                    opinion = max(-2, min(2, round(draw.gauss(liking, 1.0))))
                    rating = 3 + (opinion if right == "augmenter" else -opinion)
                    row = {"item": f"i{item:02}", "dialogue": f"d{item // 2:02}", "rater": f"r{rater}", "criterion": criterion, "left": left, "right": right, "rating": rating}
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
