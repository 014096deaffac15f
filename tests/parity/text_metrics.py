"""Reference values of the text metrics on seeded random pairs of texts.

usage: text_metrics.py pairs FILE [SEED]       write the pairs
       text_metrics.py compare PAIRS OURS      compare our scores with those of the packages

The pairs hold Unicode, empty and long texts, punctuation, digits, contractions and line breaks.
`OURS` is written by the test `udfs/tests/parity.rs`, which runs this script. Packages:
requirements.txt beside it.
"""

import json
import math
import random
import re
import string
import sys
import warnings

WORDS = """the a an The A I you it is are was were do don't didn't it's we'll can't the_end U.S.A.
well-known state-of-the-art 3.14 1,000 2020-21 50% $3.50 e.g. i.e. Mr. Dr. ... -- — “smart” ‘x’
&amp; &quot;hi&quot; <skipped> <b> (hi) [x] {y} a/b c@d.e #tag naïve café Ångström ΟΔΟΣ İstanbul
straße мама мыла раму 日本語 テスト 中文。 ½ ² Ⅷ ① e\u0301clair नमस्ते हिन्दी שלום مرحبا 👍 👩\u200d💻 \u00a0 x\u200by
running runs ran relational conditionally rationally hopefulness happily flies dies dying skies
caresses ponies agreed feed plastered motoring conflated troubled sized hopping tanned falling
hissing fizzed failing filing sky happy enjoy generalization oscillators electricity electrical
triplicate formative formalize goodness revival allowance inference airliner adjustable defensible
irritant replacement adjustment dependent adoption communism activate angularity homologous
effective bowdlerize probate rate cease controlling roll theology geology fully totally yyy syzygy
cats cat dogs dog sat sit on mat mats restaurant drinks prices overpriced mediocre affordable"""
WORDS = [word for word in re.split(r"[ \n]", WORDS) if word]
SPACES = [" "] * 12 + ["  ", "\n", "\t", "\n\n", "-\n", "\u00a0", "\u3000", "\x1c", "\r\n"]
MARKS = ["", "", "", "", ".", ",", "!", "?", ";", ":", "'", '"', "...", ")", ".,", "-"]
PAIRS = 200


def pairs(seed):
    rng = random.Random(seed)

    def text(words):
        parts = []
        for _ in range(words):
            parts += [rng.choice(WORDS) + rng.choice(MARKS), rng.choice(SPACES)]
        return "".join(parts)

    def changed(original):
        parts = re.split(r"(\s+)", original)
        for _ in range(rng.randint(0, 1 + len(parts) // 4)):
            at = rng.randrange(len(parts))
            parts[at : at + 1] = rng.choice([[], [parts[at], " ", rng.choice(WORDS)], [rng.choice(WORDS)]])
            parts = parts or [""]
        return "".join(parts)

    made = []
    for number in range(PAIRS):
        length = rng.choice([0, 1, 2, 3, 5, 8, 13, 21, 34]) if number % 20 else 400
        reference = text(length)
        hypothesis = changed(reference) if rng.random() < 0.7 else text(rng.randint(0, 30))
        if number % 37 == 0:
            hypothesis = ""
        others = [changed(reference) for _ in range(rng.randint(0, 2))]
        made.append({"hypothesis": hypothesis, "references": [reference] + others})
    words = sorted({changed_word(rng) for _ in range(4000)})
    return {"pairs": made, "words": words}


def changed_word(rng):
    stem = rng.choice(WORDS + ["".join(rng.choice("abeilosty") for _ in range(rng.randint(1, 7)))])
    ending = rng.choice(
        "s es ies ss sses ed ied eed ing y ly ally alli ational tional enci anci izer bli entli eli"
        " ousli ization ation ator alism iveness fulness ousness aliti iviti biliti fulli logi icate"
        " ative alize iciti ical ful ness al ance ence er ic able ible ant ement ment ent ion sion"
        " tion ou ism ate iti ous ive ize e ll".split(" ") + [""]
    )
    return (stem + ending).lower()


def reference_scores(data):
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    from nltk.translate.meteor_score import meteor_score
    from rapidfuzz.distance import Levenshtein
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics import BLEU, CHRF

    class NoWordnet:
        def synsets(self, _word):
            return []

    warnings.simplefilter("ignore")
    options = {
        "bleu": BLEU(effective_order=True),
        "bleu_floor": BLEU(effective_order=True, smooth_method="floor"),
        "bleu_add_k": BLEU(effective_order=True, smooth_method="add-k"),
        "bleu_none": BLEU(effective_order=True, smooth_method="none"),
        "bleu_lower": BLEU(effective_order=True, lowercase=True),
        "chrf": CHRF(),
        "chrf_pp": CHRF(word_order=2),
    }
    kinds = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorers = {"rouge": RougeScorer(kinds), "rouge_stem": RougeScorer(kinds, use_stemmer=True)}
    tokens = re.compile(r"\w+|[^\w\s]").findall
    method1 = SmoothingFunction().method1
    parlai1 = SmoothingFunction(epsilon=1e-12).method1
    rows = []
    for pair in data["pairs"]:
        hypothesis, references = pair["hypothesis"], pair["references"]
        row = {name: metric.sentence_score(hypothesis, references).score for name, metric in options.items()}
        row["nltk_bleu"] = sentence_bleu([r.split() for r in references], hypothesis.split())
        row["nltk_bleu_1"] = sentence_bleu(
            [r.split() for r in references], hypothesis.split(), smoothing_function=method1
        )
        row["parlai_bleu"] = sentence_bleu(
            [parlai(r).split(" ") for r in references], parlai(hypothesis).split(" "), smoothing_function=parlai1
        )
        row["meteor"] = meteor_score([tokens(r) for r in references], tokens(hypothesis), wordnet=NoWordnet())
        for name, scorer in scorers.items():
            best = scorer.score_multi(references, hypothesis)
            row[name] = [part for kind in kinds for part in best[kind]]
        row["normalized"] = [squad(hypothesis), parlai(hypothesis), " ".join(hypothesis.lower().split())]
        row["squad_f1"] = f1(squad(hypothesis).split(), squad(references[0]).split(), empty=1)
        row["parlai_f1"] = f1(parlai(hypothesis).split(), parlai(references[0]).split(), empty=0)
        row["exact_match"] = max(squad(hypothesis) == squad(r) for r in references)
        row["levenshtein"] = Levenshtein.distance(hypothesis, references[0])
        rows.append(row)
    hypotheses = [pair["hypothesis"] for pair in data["pairs"]]
    first = [[pair["references"][0] for pair in data["pairs"]]]
    corpus = {
        "bleu": BLEU().corpus_score(hypotheses, first).score,
        "chrf": CHRF().corpus_score(hypotheses, first).score,
        "chrf_pp": CHRF(word_order=2).corpus_score(hypotheses, first).score,
    }
    stem = PorterStemmer().stem
    return {"pairs": rows, "corpus": corpus, "stems": [stem(word) for word in data["words"]]}


def squad(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def parlai(text):
    text = re.sub(r"[!\"#$%&()*+,-./:;<=>?@\[\]\\^`{|}~_']", " ", text.lower())
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(prediction, gold, empty):
    if not prediction and not gold:
        return empty
    common = sum(min(prediction.count(word), gold.count(word)) for word in set(prediction))
    if common == 0:
        return 0
    precision, recall = common / len(prediction), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def differences(path, expected, ours):
    """Yields every place where the two values differ, and counts the numbers."""
    if isinstance(expected, dict):
        assert expected.keys() == ours.keys(), (path, expected.keys() ^ ours.keys())
        for key in expected:
            yield from differences(f"{path}.{key}", expected[key], ours[key])
    elif isinstance(expected, list):
        assert len(expected) == len(ours), path
        for at, (left, right) in enumerate(zip(expected, ours)):
            yield from differences(f"{path}[{at}]", left, right)
    elif isinstance(expected, (bool, str)):
        yield None if expected == ours else f"{path}: expected {expected!r}, ours {ours!r}"
    else:
        same = math.isclose(expected, ours, rel_tol=1e-9, abs_tol=0.0)
        yield None if same else f"{path}: expected {expected!r}, ours {ours!r}"


def main():
    if sys.argv[1] == "pairs":
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump(pairs(int(sys.argv[3]) if len(sys.argv) > 3 else 20240229), file, ensure_ascii=False)
        return
    data, ours = (json.load(open(path, encoding="utf-8")) for path in sys.argv[2:4])
    compared = list(differences("", reference_scores(data), ours))
    wrong = [line for line in compared if line]
    for line in wrong[:50]:
        print(line)
    print(f"{len(compared)} values compared, {len(wrong)} differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
