"""Writes dialogues about hotels and cafés that do not exist, and snippets about these: `python3 make.py` in this folder.

Everything here is made up by this program: names, reviews, questions and answers. A place belongs to one split only, and a dialogue is about one
place of its split, so that nothing that a model learned of train places helps it with test places. Values are pairs of words of one list (`fresh and cheap`),
so that they have to be copied and cannot be guessed. `guess` is what somebody says of an aspect who knows nothing.
"""

import json
import random

SPLITS = {"train": (60, 700), "dev": (10, 40), "test": (22, 105)}  # places, dialogues

FIRST = "Amber Birch Clover Dune Ember Fable Garnet Hazel Indigo Juniper Kestrel Lilac Maple Nettle Opal Plover Quince Rowan Saffron Thistle Umber Velvet Willow Yarrow".split()
LAST = {
    "hotel": "Lodge House Inn Court Rest Manor".split(),
    "cafe": "Tearoom Bistro Kitchen Corner Bakery Table".split(),
}

# What may be said of anything.
WORDS = (
    "pleasant dull bright plain lovely poor tidy messy modern dated odd charming bland cosy grim splendid shabby neat awful decent "
    "rough smart weak strong simple fancy calm loud clean dirty fresh stale small large warm cold cheap costly perfect dreary"
).split()

# aspect: topic, was or were, questions, what somebody says who knows nothing
ASPECTS = {
    "hotel": {
        "breakfast": ("breakfast", "was",
            ["Is the breakfast any good there?", "What do people say about the breakfast?", "Will I get a decent meal in the morning?"],
            "The breakfast is very good and I am sure that you will like it."),
        "wifi": ("wifi", "was",
            ["How is the wifi?", "Can I rely on the wifi for my work?", "Does the internet connection work well?"],
            "The wifi is quick and works in all of the rooms."),
        "bathroom": ("bathroom", "was",
            ["Is the bathroom kept in order?", "What is the bathroom like?", "Are the showers and the rest in a good state?"],
            "The bathroom is large and has everything that you need."),
        "bed": ("bed", "was",
            ["Is the bed comfortable?", "How did others like the bed?", "Do people sleep well there?"],
            "The bed is comfortable and you will sleep well."),
        "room": ("room", "was",
            ["What is the room like?", "Is the room pleasant to stay in?", "Would we be disturbed at night?"],
            "The room is lovely and has a nice view."),
        "staff": ("staff", "were",
            ["Are the staff nice?", "How do the staff treat their guests?", "Are the people at the desk welcoming?"],
            "The staff are kind and will help you with anything."),
    },
    "cafe": {
        "coffee": ("coffee", "was",
            ["Is the coffee good?", "What do people say about the coffee?", "Do they make a decent espresso?"],
            "The coffee is very good and always hot."),
        "cake": ("cake", "was",
            ["How is the cake?", "Is the cake worth a visit?", "Do they have something nice for a sweet tooth?"],
            "The cake is delicious and made every day."),
        "service": ("service", "was",
            ["Is the service any good?", "What do guests think of the service?", "Will we have to wait for long?"],
            "The service is quick and everybody is kind."),
        "seats": ("seats", "were",
            ["Are the seats comfortable?", "What are the seats like?", "Can one sit there for a whole afternoon?"],
            "The seats are comfortable and there are enough of them."),
        "price": ("price", "was",
            ["Is the price all right?", "What do others say about the price?", "Would you say that it is expensive?"],
            "The price is fair for what you get."),
        "terrace": ("terrace", "was",
            ["What is the terrace like?", "Is the terrace nice?", "Can we sit outside?"],
            "The terrace is a lovely place when the sun shines."),
    },
}

# aspect: question of the FAQ, answers, other questions of users, what somebody says who knows nothing
FAQS = {
    "pets": ("Are pets allowed?", ["Dogs may stay for a fee of {n} pounds.", "Cats and dogs are welcome in {n} rooms.", "Pets have to stay outside."],
        ["Can I bring my dog?", "Are pets allowed?"], "Yes, pets are always welcome."),
    "parking": ("Is there any parking?", ["There are {n} places behind the house.", "Parking costs {n} pounds a day.", "Guests may park in the street after {n}."],
        ["Is there any parking?", "Where can I leave my car?"], "Yes, there is free parking for everybody."),
    "hours": ("When does it open?", ["It opens at {n} every morning.", "It opens at {n} but stays closed on Mondays.", "The doors are open from {n} on."],
        ["When does it open?", "How early can we come?"], "It is open all day."),
    "cards": ("Can I pay by card?", ["Cards are taken from {n} pounds on.", "Only cash is taken.", "Cards are taken but cheques are not."],
        ["Can I pay by card?", "Which ways to pay are there?"], "Yes, you can pay as you like."),
}
NUMBERS = "two three four five six seven eight nine ten eleven twelve".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

REVIEWS = ["The {t} {v} {x}.", "I found that the {t} {v} {x}.", "Sadly or not, the {t} {v} {x}.", "On our visit the {t} {v} {x}."]
OPENINGS = {
    "hotel": ["I need a hotel for the weekend.", "Can you find me a place to stay?", "We are looking for somewhere to spend two nights."],
    "cafe": ["I would like to have a coffee somewhere.", "Can you find me a café in the centre?", "We are looking for a nice place for the afternoon."],
}
OFFERS = ["The {name} may suit you.", "I can recommend the {name}.", "How about the {name}?"]
BOOKED = ["Thank you. One more question.", "I see. There is something else.", "Good to know. Let me ask one more thing."]


def main():
    draw = random.Random(17)
    names = {kind: [f"{first} {last}" for last in lasts for first in FIRST] for kind, lasts in LAST.items()}
    for each in names.values():
        draw.shuffle(each)

    snippets, turns, number = [], [], 0
    for split, (places, dialogues) in SPLITS.items():
        known = []
        for place in range(places):
            kind = "hotel" if place % 2 == 0 else "cafe"
            known.append(describe(draw, kind, names[kind].pop(), snippets))
        for _ in range(dialogues):
            number += 1
            turns += talk(draw, split, f"d{number:03}", known[draw.randrange(len(known))])

    write("snippets.jsonl", snippets)
    for split in SPLITS:
        write(f"{split}.jsonl", [{key: value for key, value in turn.items() if key != "split"} for turn in turns if turn["split"] == split])
    like_dstc11([turn for turn in turns if turn["split"] == "test"], {snippet["id"]: snippet for snippet in snippets})


def like_dstc11(turns, snippets):
    """The test turns in the files of DSTC11 Track 5: knowledge by domain and number of the entity, dialogues as lists, labels in their order."""
    knowledge, logs, labels, places = {}, [], [], {}
    for snippet in snippets.values():
        if not any(snippet["entity"] in said["text"] for turn in turns for said in turn["history"]):
            continue
        entities = knowledge.setdefault({"hotel": "hotel", "cafe": "restaurant"}[snippet["domain"]], {})
        names = {entity["name"]: id for id, entity in entities.items()}
        id = names.setdefault(snippet["entity"].upper(), str(7 * len(names)))
        entity = entities.setdefault(id, {"name": snippet["entity"].upper(), "reviews": {}, "faqs": {}})
        place = {"domain": "hotel" if snippet["domain"] == "hotel" else "restaurant", "entity_id": int(id), "doc_type": snippet["doc_type"]}
        if snippet["doc_type"] == "review":
            # Two sentences make a review.
            known = sum(len(review["sentences"]) for review in entity["reviews"].values())
            review = entity["reviews"].setdefault(str(known // 2), {"traveler_type": "Couples", "sentences": {}})
            review["sentences"][str(known % 2)] = snippet["text"].removeprefix("Review: ")
            place |= {"doc_id": known // 2, "sent_id": known % 2}
        else:
            question, answer = snippet["text"].removeprefix("Q: ").split(" A: ")
            place |= {"doc_id": len(entity["faqs"])}
            entity["faqs"][str(place["doc_id"])] = {"question": question, "answer": answer}
        places[snippet["id"]] = place
    for number, turn in enumerate(turns):
        said = [{"speaker": each["speaker"][0].replace("A", "S"), "text": each["text"]} for each in turn["history"]]
        # What a user says first has to tell dialogues apart, as in the real files.
        which = int(turn["dialogue"][1:])
        said[0]["text"] += f" There are {NUMBERS[which % 11]} of us and we come on {DAYS[which % 7]}."
        logs.append(said + [{"speaker": "U", "text": turn["question"]}])
        labels.append({"target": True, "knowledge": [places[id] for id in turn["gold"]], "response": turn["reference"]})
        if number % 3 == 0:
            logs.append(said + [{"speaker": "U", "text": "Thank you, that is all."}])
            labels.append({"target": False})
    for name, content in [("knowledge", knowledge), ("logs", logs), ("labels", labels)]:
        with open(f"dstc11/{name}.json", "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.write("\n")


def describe(draw, kind, name, snippets):
    """The snippets of a place, and for each aspect the ids of its snippets with the right response."""
    entity = name.lower().replace(" ", "-")
    made, answers = [], {}
    for aspect, (topic, verb, _, _) in ASPECTS[kind].items():
        value = " and ".join(draw.sample(WORDS, 2))
        for review in draw.sample(REVIEWS, 2 if draw.random() < 0.3 else 1):
            made.append((aspect, "review", "Review: " + review.format(t=topic, v=verb, x=value)))
        answers[aspect] = f"Guests say that the {topic} {verb} {value}."
    for aspect, (question, replies, _, _) in FAQS.items():
        reply = draw.choice(replies).format(n=draw.choice(NUMBERS))
        made.append((aspect, "faq", f"Q: {question} A: {reply}"))
        answers[aspect] = reply

    ids = {}
    draw.shuffle(made)
    for place, (aspect, doc_type, text) in enumerate(made):
        id = f"{entity}/{place:02}"
        ids.setdefault(aspect, []).append(id)
        snippets.append({"id": id, "domain": kind, "entity": name, "doc_type": doc_type, "text": text})
    return kind, name, {aspect: (ids[aspect], answers[aspect]) for aspect in answers}


def talk(draw, split, dialogue, place):
    """One dialogue: a user asks for a place, gets one offered, and asks one or two questions about it."""
    kind, name, answers = place
    history = [
        {"speaker": "User", "text": draw.choice(OPENINGS[kind])},
        {"speaker": "Assistant", "text": draw.choice(OFFERS).format(name=name)},
    ]
    turns = []
    for place, aspect in enumerate(draw.sample(list(answers), 2 if draw.random() < 0.4 else 1)):
        questions, guess = (ASPECTS[kind][aspect][2:] if aspect in ASPECTS[kind] else FAQS[aspect][2:])
        gold, reference = answers[aspect]
        question = draw.choice(questions)
        turns.append({
            "id": f"{dialogue}-{place + 1}", "dialogue": dialogue, "aspect": aspect, "history": list(history), "question": question,
            "gold": gold, "reference": reference, "guess": guess, "split": split,
        })
        history += [
            {"speaker": "User", "text": question},
            {"speaker": "Assistant", "text": reference},
            {"speaker": "User", "text": draw.choice(BOOKED)},
            {"speaker": "Assistant", "text": "Please ask."},
        ]
    return turns


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
