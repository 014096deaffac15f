#!/usr/bin/env python3
"""Numbers of verdicts against an oracle that is written from the definitions: exact sums over all outcomes, the likelihood
maximised by search, quantiles by integration. One case of four has values that are no rates, with or without clusters.
Needs Python alone.

    python3 tests/parity/gates.py --bin target/release/proofmill --cases 40
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

PIPELINE = """
pipeline: p
stages:
  answers: { read: { path: a.csv } }
  judged: { measure: { from: answers, correct: correct } }
  rated: { measure: { from: answers, metrics: { score: score } } }
"""
# The program refines the largest probability between the points of a grid; the oracle has a finer grid only.
CLOSE = 3e-4


def sign_p(worse, better):
    discordant = worse + better
    return sum(math.comb(discordant, k) for k in range(worse, discordant + 1)) / 2**discordant


def likeliest(worse, better, n, drop):
    """The rate of better questions that is likeliest if the rate of worse ones is larger by `drop`."""

    def log_likelihood(rate):
        parts = ((worse, rate + drop), (better, rate), (n - worse - better, 1 - drop - 2 * rate))
        return sum(count * math.log(max(p, 1e-300)) for count, p in parts if count)

    low, high = 0.0, (1 - drop) / 2
    for _ in range(200):
        a, b = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (a, high) if log_likelihood(a) < log_likelihood(b) else (low, b)
    return (low + high) / 2


def score(worse, better, n, drop):
    rate = likeliest(worse, better, n, drop)
    return (worse - better - n * drop) / math.sqrt(n * (2 * rate + drop * (1 - drop)))


def excluded_p(worse, better, n, drop):
    reached = score(worse, better, n, drop) + 1e-7
    outcomes = [(b, c) for b in range(n + 1) for c in range(n + 1 - b) if score(b, c, n, drop) <= reached]
    largest = 0.0
    for step in range(401):
        discordant = drop + (1 - drop) * (step / 400) ** 2
        p, q = (discordant + drop) / 2, (discordant - drop) / 2
        total = 0.0
        for b, c in outcomes:
            weight = math.comb(n, b) * math.comb(n - b, c)
            total += weight * p**b * q**c * max(0.0, 1 - p - q) ** (n - b - c)
        largest = max(largest, total)
    return largest


def expected(worse, better, n, drop):
    """The word, by the definitions of the specification."""
    if worse == better == 0:
        p, excluded = 1.0, (1 - drop) ** n
    else:
        p, excluded = sign_p(worse, better), excluded_p(worse, better, n, drop)
    matters = (worse - better) / n >= drop - 1e-12
    word = "fail" if matters and p <= 0.05 else "pass" if excluded <= 0.05 else "cannot_tell"
    return word, p, excluded


def t_quantile(level, df):
    """Of Student's distribution: its density integrated by Simpson's rule, and bisection."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def below(t, steps=2000):
        width = t / steps
        values = [scale * (1 + (i * width) ** 2 / df) ** (-(df + 1) / 2) for i in range(steps + 1)]
        return 0.5 + width / 3 * (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2]))

    low, high = 0.0, 1000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < level else (low, middle)
    return (low + high) / 2


def bound_of_mean(lost, groups):
    """The mean loss with its standard error over groups, and the largest loss that is not excluded at .95."""
    n, mean = len(lost), sum(lost) / len(lost)
    sums = {}
    for group, value in zip(groups, lost):
        sums[group] = sums.get(group, 0.0) + value - mean
    g = len(sums)
    # Of groups of one this is the sample variance of the mean.
    se = math.sqrt(sum(value * value for value in sums.values()) * g / (g - 1)) / n
    return mean, se, mean + t_quantile(0.95, g - 1) * se


def values_case(draw, program, case):
    """Scores of two runs: mean, standard error, bound and word."""
    n, effect, size = draw.randint(45, 90), draw.choice([0.05, 0.1, 0.3]), draw.choice([1, 1, 3])
    before = [round(draw.random(), 3) for _ in range(n)]
    after = [round(score + draw.gauss(draw.choice([0.0, -0.2]), 0.2), 3) for score in before]
    groups = [i // size for i in range(n)]
    cluster = ", cluster: doc" if size > 1 else ""
    metric = f"{{ metric: rated.score, min_effect: {effect}, unit: [id]{cluster} }}"
    rows = [[("true", score, group) for score, group in zip(scores, groups)] for scores in (before, after)]
    with tempfile.TemporaryDirectory() as folder:
        found = verdict(program, pathlib.Path(folder), rows, metric)
    counts = found["evidence"]["metrics"][0]["found"]["paired"]["answered"]
    judged = found["judgement"]["metrics"][0]
    lost = [a - b for a, b in zip(before, after)]
    mean, se, bound = bound_of_mean(lost, groups)
    sums = {}
    for group, value in zip(groups, lost):
        sums[group] = sums.get(group, 0.0) + value
    worse, better = (sum(f(value) for value in sums.values()) for f in (lambda v: v > 1e-9, lambda v: v < -1e-9))
    p = sign_p(worse, better)
    word = "fail" if mean >= effect and p <= 0.05 else "pass" if bound < effect else "cannot_tell"
    pairs = ((counts["drop"], mean), (counts["se"], se), (judged["bound"], bound), (judged["p"], p))
    off = max(abs(a - b) for a, b in pairs)
    if worse + better < 10 or off > 1e-6 or found["judgement"]["word"] != word:
        sys.exit(f"case {case}: {n} values in groups of {size}, effect {effect}: {counts} {judged}, "
                 f"expected {word} {mean} {se} {bound} {p}")
    return word, off


def write(path, rows):
    lines = [f"q{i},{correct},{score},d{group}" for i, (correct, score, group) in enumerate(rows)]
    path.write_text("id,correct,score,doc\n" + "\n".join(lines) + "\n")


def verdict(program, folder, runs, metric):
    """Of two runs with such rows: whether the answer is right, its score, its document."""

    def run(*args, codes=(0,)):
        done = subprocess.run([program, *args, "--json"], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            sys.exit(f"{args}: {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    (folder / "p.yaml").write_text(PIPELINE)
    (folder / "gate.yaml").write_text(f"kind: gate\nname: g\nmetrics: [{metric}]\n")
    for rows in runs:
        write(folder / "a.csv", rows)
        run("run", "p.yaml")
    return run("gate", "--file", "gate.yaml", codes=(0, 1, 6))


def rates_case(draw, program, case):
    """Right answers of two runs: counts, p values and word."""
    n, drop = draw.randint(8, 44), draw.choice([0.05, 0.08, 0.1, 0.15, 0.2])
    worse = draw.randint(0, min(n - 1, 9))
    better = draw.randint(0, min(n - 1 - worse, 5)) if worse else draw.randint(1, 3)
    equal = [i % 3 > 0 for i in range(n - worse - better)]
    before, after = [True] * worse + [False] * better + equal, [False] * worse + [True] * better + equal
    runs = [[(str(answer).lower(), 0.0, 0) for answer in answers] for answers in (before, after)]
    metric = f"{{ metric: judged.accuracy, min_effect: {drop}, unit: [id] }}"
    with tempfile.TemporaryDirectory() as folder:
        found = verdict(program, pathlib.Path(folder), runs, metric)
    counts = found["evidence"]["metrics"][0]["found"]["paired"]["answered"]
    judged = found["judgement"]["metrics"][0]
    word, p, excluded = expected(worse, better, n, drop)
    said = (counts["questions"], counts["worse"], counts["better"], found["judgement"]["word"])
    off = max(abs(judged["p"] - p), abs(judged["p_excluded"] - excluded))
    # Where a p value is that close to the level, the oracle's grid decides nothing.
    is_near = min(abs(p - 0.05), abs(excluded - 0.05)) < CLOSE
    if said[:3] != (n, worse, better) or off > CLOSE or (said[3] != word and not is_near):
        sys.exit(f"case {case}: {n} questions, {worse} worse, {better} better, drop {drop}: "
                 f"{said} {judged}, expected {word} {p} {excluded}")
    return word, off


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the program")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program, draw = str(pathlib.Path(options.bin).resolve()), random.Random(options.seed)
    program, draw = str(pathlib.Path(options.bin).resolve()), random.Random(options.seed)
    words, worst = {}, {rates_case: 0.0, values_case: 0.0}
    for case in range(options.cases):
        kind = values_case if case % 4 == 3 else rates_case
        word, off = kind(draw, program, f"{case} of seed {options.seed}")
        worst[kind] = max(worst[kind], off)
        words[word] = words.get(word, 0) + 1
    print(f"{options.cases} verdicts, {words}: the largest difference of a p value of rates is {worst[rates_case]:.1e}, "
          f"of a number of other values {worst[values_case]:.1e}")


if __name__ == "__main__":
    main()
