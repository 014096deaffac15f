#!/usr/bin/env python3
"""Numbers of verdicts against an oracle that is written from the definitions: exact sums over all outcomes, the likelihood
maximised by search. Needs Python alone.

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


def write(path, answers):
    lines = [f"q{i},{str(answer).lower()}" for i, answer in enumerate(answers)]
    path.write_text("id,correct\n" + "\n".join(lines) + "\n")


def verdict(program, folder, n, worse, better, drop):
    """Of two runs whose answers differ in so many questions."""

    def run(*args, codes=(0,)):
        done = subprocess.run([program, *args, "--json"], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            sys.exit(f"{args}: {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    same = n - worse - better
    before = [True] * worse + [False] * better + [i % 3 > 0 for i in range(same)]
    after = [False] * worse + [True] * better + before[worse + better:]
    (folder / "p.yaml").write_text(PIPELINE)
    (folder / "gate.yaml").write_text(
        f"kind: gate\nname: g\nmetrics: [{{ metric: judged.accuracy, min_effect: {drop}, unit: [id] }}]\n"
    )
    for answers in (before, after):
        write(folder / "a.csv", answers)
        run("run", "p.yaml")
    return run("gate", "--file", "gate.yaml", codes=(0, 1, 6))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the program")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program, draw = str(pathlib.Path(options.bin).resolve()), random.Random(options.seed)
    words, worst = {}, 0.0
    for case in range(options.cases):
        n, drop = draw.randint(8, 44), draw.choice([0.05, 0.08, 0.1, 0.15, 0.2])
        worse = draw.randint(0, min(n - 1, 9))
        better = draw.randint(0, min(n - 1 - worse, 5)) if worse else draw.randint(1, 3)
        with tempfile.TemporaryDirectory() as folder:
            found = verdict(program, pathlib.Path(folder), n, worse, better, drop)
        counts = found["evidence"]["metrics"][0]["found"]["paired"]["answered"]
        judged = found["judgement"]["metrics"][0]
        word, p, excluded = expected(worse, better, n, drop)
        said = (counts["questions"], counts["worse"], counts["better"], found["judgement"]["word"])
        off = max(abs(judged["p"] - p), abs(judged["p_excluded"] - excluded))
        worst = max(worst, off)
        # Where a p value is that close to the level, the oracle's grid decides nothing.
        is_near = min(abs(p - 0.05), abs(excluded - 0.05)) < CLOSE
        if said[:3] != (n, worse, better) or off > CLOSE or (said[3] != word and not is_near):
            sys.exit(f"case {case} of seed {options.seed}: {n} questions, {worse} worse, {better} better, drop {drop}: "
                     f"{said} {judged}, expected {word} {p} {excluded}")
        words[word] = words.get(word, 0) + 1
    print(f"{options.cases} verdicts, {words}: the largest difference of a p value is {worst:.1e}")


if __name__ == "__main__":
    main()
