"""The texts that goldens are made of, drawn from the syllables of the synthetic tokenizers."""

import random

from vocabularies import SYLLABLES

# Everything that tokenizers treat each in its own way: spaces in a row, capitals, digits, accents,
# other scripts, a sign outside the basic plane, a line break at the end.
ODD = "  Ba ne,  KO-12 don't cafe\u0301 ünï→ 日本 😀 1234567\n"


def words(rng, count):
    """So many made-up words of one to three syllables."""
    return " ".join(
        "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 3))) for _ in range(count)
    )


def prompts(seed):
    """Five prompts of different lengths, the last one odd."""
    rng = random.Random(seed)
    return [*(words(rng, count) for count in (1, 9, 4, 22)), ODD]


def continuations(seed):
    """What may follow a prompt; each begins with a space, so that no token spans the border."""
    rng = random.Random(f"continuations {seed}")
    return [" " + words(rng, count) for count in (1, 3, 2)]


def passages(seed):
    """Two questions with passages of different lengths."""
    rng = random.Random(f"passages {seed}")
    return [[words(rng, count) for count in counts] for counts in ((5, 12, 3), (8, 1))]
