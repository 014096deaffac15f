"""A million facts indexed and ten thousand queries answered by a pipeline: time and peak memory.

    python3 tests/bench/retrieval_pipeline.py [--binary target/release/proofmill] [--facts 1000000] [--queries 10000]

Facts have about ten words drawn from a Zipf-like vocabulary of 50,000, queries about twelve; both are
made from a fixed seed. Prints the time of each stage and the peak resident memory of the process.
"""

import argparse
import json
import pathlib
import random
import resource
import subprocess
import tempfile
import time

PIPELINE = """\
pipeline: million
stages:
  facts: {{ read: {{ path: {folder}/facts.jsonl }} }}
  queries: {{ read: {{ path: {folder}/queries.jsonl }} }}
  memory: {{ index: {{ from: facts }} }}
  recalled: {{ retrieve: {{ from: queries, query: query, memory: memory, top_k: 10 }} }}
  summary:
    sql: SELECT count(*) AS rows, count(DISTINCT query_id) AS queries, avg(score) AS score FROM recalled
"""


def make(path, key, rows, words, seed):
    rng = random.Random(seed)
    vocabulary = [f"w{i}" for i in range(50_000)]
    weights = [1.0 / (i + 2) for i in range(len(vocabulary))]
    with open(path, "w", encoding="utf-8") as out:
        for start in range(0, rows, 10_000):
            n = min(10_000, rows - start)
            lengths = [max(3, round(rng.gauss(words, 2))) for _ in range(n)]
            drawn = iter(rng.choices(vocabulary, weights, k=sum(lengths)))
            for length in lengths:
                text = " ".join(next(drawn) for _ in range(length))
                out.write(json.dumps({key: text}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/proofmill")
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make(folder / "facts.jsonl", "fact", args.facts, 10, 1)
        make(folder / "queries.jsonl", "query", args.queries, 12, 2)
        (folder / "million.yaml").write_text(PIPELINE.format(folder=folder))
        command = [args.binary, "run", folder / "million.yaml", "--store", folder / "store", "--json"]
        began = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wall = time.monotonic() - began
        if done.returncode:
            raise SystemExit(done.stderr)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{'stage':<12}{'rows':>12}{'MiB':>10}{'seconds':>10}")
        for stage in json.loads(done.stdout)["stages"]:
            size, seconds = stage["bytes"] / 2**20, stage["wall_ms"] / 1000
            print(f"{stage['stage']:<12}{stage['rows']:>12,}{size:>10.1f}{seconds:>10.1f}")
        cpu = usage.ru_utime + usage.ru_stime
        print(f"whole run: {wall:.1f} s wall, {cpu:.1f} s CPU, {usage.ru_maxrss / 1024:.0f} MiB peak")


if __name__ == "__main__":
    main()
