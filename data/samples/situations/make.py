"""Makes the files of this folder and `../social/rules.csv`: a small world of deeds and places, in which what is to be
understood of a situation follows from the kind of the deed and the kind of the place, with some exceptions.

    python3 data/samples/situations/make.py
"""

import csv
import json
import random
from pathlib import Path

HERE = Path(__file__).parent
random.seed(7)
acts = {
    "noise": [
        "playing the drums",
        "practising the trumpet",
        "running the blender",
        "drilling holes in the wall",
        "singing at full voice",
        "shouting across the room",
        "testing the fire alarm",
        "hammering nails",
        "letting the dog bark",
        "playing loud music",
    ],
    "food": [
        "frying fish",
        "opening a bag of chips",
        "cooking cabbage",
        "unwrapping a burger",
        "eating curry with my hands",
        "boiling eggs",
        "toasting bread",
        "peeling oranges",
        "sharing a pizza",
        "slurping noodles",
    ],
    "mess": [
        "leaving crumbs on the table",
        "dropping wrappers on the floor",
        "spilling paint",
        "kicking mud off my boots",
        "throwing paper around",
        "leaving dirty cups behind",
        "scattering flower soil",
        "shedding glitter",
        "tearing up tissues",
        "dripping wax",
    ],
    "help": [
        "carrying bags for a stranger",
        "holding the door",
        "showing someone the way",
        "picking up what others dropped",
        "translating for a visitor",
        "giving up my seat",
        "lending my umbrella",
        "waiting for a slow walker",
        "reaching the top shelf for someone",
        "pushing a stuck pram",
    ],
    "phone": [
        "talking on the phone",
        "watching videos without headphones",
        "letting my phone ring",
        "recording a voice message",
        "taking selfies with a flash",
        "dictating a letter to my phone",
        "playing a game with sound",
        "arguing on a video call",
        "listening to a podcast aloud",
        "calling my mother",
    ],
    "sleep": [
        "napping on the sofa",
        "snoring loudly",
        "dozing with my feet up",
        "stretching out on the bench",
        "falling asleep in my chair",
        "lying down on the carpet",
        "yawning without a hand",
        "putting my head on the desk",
        "curling up in a blanket",
        "closing my eyes for an hour",
    ],
}
places = {
    "night": [
        "at three in the morning",
        "long after midnight",
        "while the whole house sleeps",
        "in the middle of the night",
    ],
    "library": ["in the library", "in the reading room", "among people who study", "beside the silent shelves"],
    "train": ["on a full train", "in the crowded bus", "on the tram at rush hour", "in a packed carriage"],
    "work": ["during a meeting", "at the office", "while my boss presents", "in front of my colleagues"],
    "home": ["alone in my kitchen", "at home by myself", "in my own garden", "when nobody else is in"],
}
judge = {
    ("noise", "night"): "it is rude to wake people up at night",
    ("noise", "library"): "you should be quiet where others read",
    ("noise", "train"): "it is rude to be loud among strangers",
    ("noise", "work"): "you should not disturb people at work",
    ("noise", "home"): "you may be as loud as you like alone",
    ("food", "night"): "eating late is nobody's business",
    ("food", "library"): "you should not eat near books",
    ("food", "train"): "strong smells bother fellow travellers",
    ("food", "work"): "you should eat in the break",
    ("food", "home"): "you may eat as you like at home",
    ("mess", "night"): "a mess can wait until morning",
    ("mess", "library"): "you should keep shared rooms clean",
    ("mess", "train"): "you should take your litter with you",
    ("mess", "work"): "you should tidy up your workplace",
    ("mess", "home"): "your own mess is your own affair",
    ("help", "night"): "it is brave to help people at night",
    ("help", "library"): "it is kind to help those who search",
    ("help", "train"): "it is good to help fellow travellers",
    ("help", "work"): "good colleagues help each other",
    ("help", "home"): "it is kind to help a guest",
    ("phone", "night"): "calls at night should be important",
    ("phone", "library"): "phones should be silent where others read",
    ("phone", "train"): "others need not hear your phone",
    ("phone", "work"): "it is rude to use a phone while someone speaks",
    ("phone", "home"): "you may use your phone as you like at home",
    ("sleep", "night"): "everyone needs sleep at night",
    ("sleep", "library"): "a library is no bedroom",
    ("sleep", "train"): "you should not take more room than a seat",
    ("sleep", "work"): "you should stay awake at work",
    ("sleep", "home"): "it is good to rest at home",
}
odd = {}
for x, p, u in [
    ("testing the fire alarm", "work", "a test of the alarm keeps everyone safe"),
    ("testing the fire alarm", "library", "a test of the alarm keeps everyone safe"),
    ("calling my mother", "night", "family may call at any hour"),
    ("calling my mother", "train", "family may call at any hour"),
    ("snoring loudly", "train", "nobody can help it when asleep"),
    ("snoring loudly", "night", "nobody can help it when asleep"),
    ("sharing a pizza", "work", "it is kind to share with colleagues"),
    ("sharing a pizza", "train", "it is kind to share with colleagues"),
    ("letting the dog bark", "home", "a dog should not annoy the neighbours"),
    ("letting the dog bark", "night", "a dog should not annoy the neighbours"),
    ("lending my umbrella", "train", "who lends something trusts others"),
    ("lending my umbrella", "work", "who lends something trusts others"),
    ("spilling paint", "work", "accidents should be owned up to"),
    ("spilling paint", "library", "accidents should be owned up to"),
    ("taking selfies with a flash", "library", "a flash harms old pages"),
    ("taking selfies with a flash", "night", "a flash wakes people up"),
    ("peeling oranges", "train", "an orange harms nobody"),
    ("drilling holes in the wall", "home", "tools need care when one is alone"),
    ("yawning without a hand", "work", "you should cover your mouth"),
    ("yawning without a hand", "train", "you should cover your mouth"),
]:
    odd[x, p] = u
rows = []
for a, A in acts.items():
    for p, P in places.items():
        combos = [(x, y) for x in A for y in P]
        random.shuffle(combos)
        for i, (x, y) in enumerate(combos):
            split = "train" if i < 9 else "dev" if i < 13 else "test" if i < 17 else None
            if split:
                rows.append((split, x, y, odd.get((x, p), judge[a, p])))
random.shuffle(rows)
for split in ("train", "dev", "test"):
    with open(HERE / f"{split}.jsonl", "w") as f:
        k = 0
        for s, x, y, j in rows:
            if s != split:
                continue
            k += 1
            f.write(json.dumps({"id": f"{split}-{k:03}", "situation": f"{x} {y}", "understanding": j}) + "\n")
    # phrases that mean the like
rel = []
for A in list(acts.values()) + list(places.values()):
    for x in A:
        for y in A:
            if x != y:
                rel.append((x, y))
random.shuffle(rel)
with open(HERE / "phrases.jsonl", "w") as f:
    for i, (x, y) in enumerate(rel[:160], 1):
        f.write(json.dumps({"id": f"phrase-{i:03}", "phrase": x, "alike": y}) + "\n")
general = {
    "noise": "It's expected that you mind the noise you make.",
    "food": "It's okay to eat when you are hungry.",
    "mess": "You should clean up behind yourself.",
    "help": "It's good to help others.",
    "phone": "It's okay to use a phone.",
    "sleep": "It's okay to rest when you are tired.",
}
inv = {x: a for a, A in acts.items() for x in A}
random.seed(11)
pool = [r for r in rows if r[0] == "train"]
random.shuffle(pool)
with open(HERE.parent / "social" / "rules.csv", "w", newline="") as f:
    w = csv.writer(f, lineterminator="\n")
    w.writerow(["split", "situation", "rot"])
    for i, (s, x, y, j) in enumerate(pool[:160]):
        w.writerow(["train", f"{x} {y}", j[0].upper() + j[1:] + "."])
        if i % 5 == 0:
            w.writerow(["train", f"{x} {y}", general[inv[x]]])
