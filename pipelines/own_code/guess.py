"""Guesses answers by words (pipelines/own_code.yaml)."""

import json
import re


def words(text, least_letters):
    """The longer words of a text, in lower case."""
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) >= least_letters}


def guess(row, least_letters):
    """The choice that shares most words with the fact; the first of equals."""
    fact = words(row["fact"], least_letters)
    choices = json.loads(row["choices"])
    best = max(choices, key=lambda choice: len(fact & words(choice["text"], least_letters)))
    return {
        "id": row["id"],
        "guess": best["label"],
        "shared": sorted(fact & words(best["text"], least_letters)),
        "is_right": best["label"] == row["answer_key"],
    }
