"""Writes threads about news that never were, in the shape of DSTC7 Track 2: `python3 make_news.py` in this folder.

Six columns and no header: id (with thread, board and site), score, matched words, passage, thread (`START EOS … EOS …`) and response.
"""

import random

TOWNS = "Merrow Oldbury Tarnwick Lissom Farside Kelmere Brackwater Dunmoor Hallow Pendry".split()
EVENTS = [
    ("ferry", "the old ferry of {t} was sold to a museum for {n} crowns", "What became of the ferry?", "It was sold to a museum for {n} crowns ."),
    ("bridge", "the bridge of {t} is closed because {n} of its bolts were loose", "Why is the bridge closed?", "Because {n} of its bolts were loose ."),
    ("bakery", "a bakery in {t} baked a loaf of {n} metres for the fair", "How long was that loaf?", "The loaf was {n} metres long ."),
    ("owl", "an owl has moved into the town hall of {t} and caught {n} mice", "Is there really an owl in the town hall?", "Yes , and it has caught {n} mice ."),
    ("tower", "the clock tower of {t} was {n} minutes slow for a year", "Was the clock wrong all the time?", "It was {n} minutes slow for a year ."),
]


def main():
    draw = random.Random(23)
    rows, used = [], set()
    while len(rows) < 24:
        town, (word, fact, question, reply) = draw.choice(TOWNS), draw.choice(EVENTS)
        if (town, word) in used:
            continue
        used.add((town, word))
        n = str(draw.randrange(3, 40))
        passage = "<p> The paper says that " + fact.format(t=town, n=n) + " . </p>"
        thread = f"START EOS News from {town} : something about the {word} . EOS Did anybody read it ? EOS I live in {town} . {question}"
        number = len(rows) + 1
        rows.append([f"made{number:03},t{number:03},smalltown,news.invalid", "1.0", "{'" + word + "':1.0}", passage, thread, reply.format(t=town, n=n)])
    with open("news.tsv", "w", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
