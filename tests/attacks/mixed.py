"""Runs, verified runs, lessons and forgotten answers at once on one store: no command fails, and the tables come out as if alone.

Pipelines run in turns with `--limit` N and N + 1, one of them with `--verify` and all of its stages again, while a memory is taught and the
answers of all models are forgotten. At the end the first pipeline runs once more, and its tables are compared with those of an empty store.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import kills


class Mixed:
    def __init__(self, options, store):
        self.options, self.store = options, store
        self.counts, self.failures, self.lock = Counter(), [], threading.Lock()
        self.end = time.monotonic() + options.seconds

    def do(self, *words):
        done = subprocess.run(
            [self.options.bin, *words, "--store", self.store, "--json"], capture_output=True, text=True
        )
        with self.lock:
            self.counts[" ".join(words[:2]) if words[0] in ("ledger", "teach") else words[0]] += 1
            if done.returncode != 0:
                self.failures.append(f"exit {done.returncode}: {' '.join(words)}: {done.stderr[-300:]}")
        return done.stdout

    def run(self, pipeline, more, *words):
        return self.do("run", pipeline, "--limit", str(self.options.limit + more), *words)

    def forget(self, _):
        for model in json.loads(self.do("ledger", "list"))["models"]:
            self.do("ledger", "forget", "--model", model["model"])
        time.sleep(1)

    def teach(self, turn):
        self.do("teach", "add", "lessons", f"lesson {turn} was heard")
        self.do("teach", "list", "lessons")

    def loop(self, work):
        turn = 0
        while time.monotonic() < self.end:
            work(turn)
            turn += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipelines", nargs="+")
    parser.add_argument("--bin", default=os.environ.get("PROOFMILL", "target/debug/proofmill"))
    parser.add_argument("--limit", type=int, default=20, help="rows of each source")
    parser.add_argument("--rerun", help="stages that the verified runs compute again, as `--rerun` takes them")
    parser.add_argument("--seconds", type=float, default=120)
    options = kills.parsed(parser)
    first = options.pipelines[0]
    again = ["--rerun", options.rerun] if options.rerun else []
    with tempfile.TemporaryDirectory() as folder:
        mixed, alone = Mixed(options, f"{folder}/mixed"), Mixed(options, f"{folder}/alone")
        mixed.run(first, 0)
        if mixed.failures:
            sys.exit(mixed.failures[0])
        works = [mixed.forget, mixed.teach, lambda turn: mixed.run(first, 0, "--verify", *again)]
        works += [lambda turn, pipeline=pipeline: mixed.run(pipeline, turn % 2) for pipeline in options.pipelines]
        threads = [threading.Thread(target=mixed.loop, args=(work,)) for work in works]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        mixed.run(first, 0)
        alone.run(first, 0)
        found, right = kills.tables(mixed.store), kills.tables(alone.store)
        taught = json.loads(mixed.do("teach", "list", "lessons"))
    differ = sorted(stage for stage in right.keys() | found.keys() if right.get(stage) != found.get(stage))
    lost = mixed.counts["teach add"] - len(taught)
    print(*mixed.failures[:5], sep="\n")
    print(", ".join(f"{count} {what}" for what, count in sorted(mixed.counts.items())))
    print(f"{len(mixed.failures)} commands failed, {len(differ)} of {len(right)} tables differ, {lost} lessons are lost")
    sys.exit(1 if mixed.failures or differ or lost else 0)


if __name__ == "__main__":
    main()
