"""Writes udfs/tests/labels_goldens.json: random labels and confidences, and what scikit-learn says of them.

usage: labels.py

Fleiss' kappa and the expected calibration error, which it has not, are computed here by their definitions.
"""

import json
import pathlib

import numpy as np
import scipy.stats
import sklearn
from sklearn import calibration, metrics


def labels(rng, classes, n):
    gold = rng.choice(classes, size=n)
    predicted = np.where(rng.random(n) < 0.6, gold, rng.choice(classes, size=n))
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        gold, predicted, zero_division=0
    )
    average = lambda of: [
        float(x) for x in metrics.precision_recall_fscore_support(
            gold, predicted, average=of, zero_division=0
        )[:3]
    ]
    return {
        "gold": gold.tolist(),
        "predicted": predicted.tolist(),
        "classes": np.unique(np.concatenate([gold, predicted])).tolist(),
        "precision": precision.tolist(),
        "recall": recall.tolist(),
        "f1": f1.tolist(),
        "support": support.tolist(),
        "average": {of: average(of) for of in ("macro", "micro", "weighted")},
        "confusion": metrics.confusion_matrix(gold, predicted).ravel().tolist(),
        "kappa": {
            of: float(metrics.cohen_kappa_score(predicted, gold, weights=None if of == "none" else of))
            for of in ("none", "linear", "quadratic")
        },
        "mode": scipy.stats.mode(gold).mode.item(),
    }


def confidences(rng, bins, n):
    confidence = np.round(rng.random(n), 2)
    right = rng.random(n) < confidence**2
    accuracy, mean = calibration.calibration_curve(right, confidence, n_bins=bins)
    edges = np.arange(1, bins + 1) / bins
    place = np.searchsorted(edges, confidence)
    shares = np.array([np.mean(place == i) for i in range(bins) if np.any(place == i)])
    return {
        "confidence": confidence.tolist(),
        "right": right.tolist(),
        "bins": bins,
        "accuracy": accuracy.tolist(),
        "mean": mean.tolist(),
        "ece": float(np.sum(shares * np.abs(accuracy - mean))),
        "brier": float(metrics.brier_score_loss(right, confidence)),
    }


def ratings(rng, items, raters, classes):
    table = rng.multinomial(raters, rng.dirichlet(np.ones(classes)), size=items)
    agreed = ((table**2).sum(axis=1) - raters) / (raters * (raters - 1))
    chance = ((table.sum(axis=0) / table.sum()) ** 2).sum()
    return {"table": table.tolist(), "kappa": float((agreed.mean() - chance) / (1 - chance))}


def main():
    rng = np.random.default_rng(20261123)
    numbers, three = [1, 2, 5, 15, 100], [0, 1, 2]
    cases = {
        "computed_with": {
            "scikit-learn": sklearn.__version__, "scipy": scipy.__version__, "numpy": np.__version__,
        },
        "labels": [labels(rng, c, n) for c, n in ((numbers, 200), (three, 17), ([0, 1], 60), (numbers, 8))],
        "calibration": [confidences(rng, bins, n) for bins, n in ((10, 300), (5, 40), (15, 200), (1, 9))],
        "ratings": [ratings(rng, *shape) for shape in ((30, 5, 4), (12, 2, 2), (7, 9, 3))],
    }
    root = pathlib.Path(__file__).resolve().parents[2]
    path = root / "udfs/tests/labels_goldens.json"
    path.write_text(json.dumps(cases) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
