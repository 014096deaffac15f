"""Writes tests/cases/neighbours: labelled sentences, some of them twice, and what their neighbours are.

usage: neighbours.py

BM25 and inner products by definition, votes by counting, all from rows of arrays: no text is ever looked up.
"""

import collections
import json
import math
import pathlib

import numpy as np

TOP_K = (1, 4, 15)
K1, B = 1.2, 0.75


def bm25(train, query):
    """Lucene's BM25 of every training sentence, added up by falling weight, as docs/specs/index.md says."""
    texts = [text.split() for text in train]
    average = sum(map(len, texts)) / len(texts)
    weights = []
    for term, count in collections.Counter(query.split()).items():
        n = sum(term in text for text in texts)
        if n:
            weights.append((count * math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)), term))
    scores = np.zeros(len(texts))
    for weight, term in sorted(weights, key=lambda it: (-it[0], it[1])):
        for row, text in enumerate(texts):
            f = text.count(term)
            scores[row] += weight * (f / (f + K1 * (1 - B + B * len(text) / average)))
    return scores


def nearest(scores, positive):
    """Rows by falling score, the earlier one first; without those at 0 where `positive`."""
    order = np.argsort(-scores, kind="stable")
    return [int(row) for row in order if scores[row] > 0 or not positive]


def vote(labels, weights):
    """The heaviest label; of equal ones the smaller number."""
    sums = collections.defaultdict(list)
    for label, weight in zip(labels, weights):
        sums[label].append(weight)
    # Added up one by one: `sum` of some versions corrects itself on the way.
    total = lambda weights: float(np.cumsum(sorted(weights))[-1])
    return max(sums, key=lambda label: (total(sums[label]), -label)) if sums else None


def main():
    rng = np.random.default_rng(20261123)
    words = [f"w{i}" for i in range(40)]
    draw = lambda: " ".join(rng.choice(words, size=rng.integers(2, 7)))
    texts = [draw() for _ in range(60)]
    texts += [texts[i] for i in rng.choice(60, size=20, replace=False)]
    texts += [texts[0].upper(), texts[0]]
    vectors = {text.lower(): rng.integers(-8, 9, size=6) for text in texts}
    row = lambda i, text, name: {
        "id": f"{name}-{i}", "text": text, "label": int(rng.choice([2, 5, 15])),
        "vector": [float(x) for x in vectors.setdefault(text.lower(), rng.integers(-8, 9, size=6))],
    }
    train = [row(i, text, "train") for i, text in enumerate(texts)]
    # The last one shares no word with any training sentence.
    test = [row(i, text, "test") for i, text in enumerate([draw() for _ in range(30)] + ["nothing"])]
    labels = [it["label"] for it in train]
    matrix = np.array([it["vector"] for it in train])
    expected = []
    for kind in ("bm25", "dense"):
        for k in TOP_K:
            for query in test:
                if kind == "bm25":
                    scores = bm25([it["text"].lower() for it in train], query["text"])
                else:
                    scores = matrix @ np.array(query["vector"])
                rows = nearest(scores, kind == "bm25")[:k]
                found = [labels[row] for row in rows]
                expected.append({
                    "kind": kind, "k": k, "query": query["id"],
                    "neighbours": [train[row]["id"] for row in rows], "labels": found,
                    "scores": [float(scores[row]) for row in rows],
                    "mode": vote(found, [1] * k), "vote": vote(found, [scores[row] for row in rows]),
                })
    folder = pathlib.Path(__file__).resolve().parents[1] / "cases/neighbours"
    for name, rows in (("train", train), ("test", test), ("expected", expected)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
