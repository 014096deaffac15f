"""Kills runs of a pipeline at random moments, goes on, and compares every table with those of an undisturbed run.

Each round begins with an empty store: the run is killed (SIGKILL) `--each` times, each time at a moment drawn evenly from the time that an
undisturbed run takes, and started again; then it may end. Tables are compared by the digests of their files, error rows and
trained models too, and the store is verified: whatever was killed, its evidence is whole. With `--at-once 2`, a second run of the same begins beside the one that is killed, and ends.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def parsed(parser):
    """The arguments, with the whole path of a program that is there."""
    options = parser.parse_args()
    options.bin = shutil.which(str(Path(options.bin).resolve()))
    if options.bin is None:
        parser.error("--bin names no program: build one, or set PROOFMILL")
    return options


def command(options, store):
    limit = ["--limit", str(options.limit)] if options.limit else []
    params = [word for param in options.param for word in ("--param", param)]
    return [options.bin, "run", options.pipeline, "--store", str(store), "--json", *limit, *params]


def tables(store):
    """The digests of each table of the newest run that succeeded, by stage."""
    manifests = [json.loads(path.read_text()) for path in Path(store).glob("runs/*/manifest.json")]
    newest = max(manifests, key=lambda manifest: manifest["run"])
    found = {}
    for outcome in newest["stages"]:
        record = json.loads((Path(store) / outcome["artifact"]["key"]).read_text())
        parts = [part["sha256"] for part in record["parts"] + record["errors"]]
        found[outcome["stage"]] = parts + [file["sha256"] for file in record["files"] or []]
    return found


def results(options, store):
    """The tables, and the files of the folder."""
    found = tables(store)
    for path in sorted(Path(options.folder).rglob("*")) if options.folder else []:
        if path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def findings(options, store):
    """What is wrong with the evidence of a store."""
    verify = [options.bin, "audit", "verify", "--all", "--level", "3", "--store", str(store), "--json"]
    done = subprocess.run(verify, capture_output=True, text=True)
    return json.loads(done.stdout)["findings"] if done.stdout else [done.stderr]


def run(options, store, kill_after=None):
    """Runs once; whether it was killed."""
    programs = [
        subprocess.Popen(
            command(options, store), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        for _ in range(options.at_once)
    ]
    said = []
    try:
        said.append(programs[0].communicate(timeout=kill_after))
    except subprocess.TimeoutExpired:
        os.killpg(programs[0].pid, signal.SIGKILL)
    killed = not said
    said += [program.communicate() for program in programs[len(said) :]]
    for program, texts in list(zip(programs, said))[int(killed) :]:
        if program.returncode != 0:
            sys.exit(f"exit {program.returncode}: {b''.join(texts).decode()[-2000:]}")
    return killed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline")
    parser.add_argument("--bin", default=os.environ.get("PROOFMILL", "target/debug/proofmill"))
    parser.add_argument("--limit", type=int, help="rows of each source")
    parser.add_argument("--param", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=25, help="stores that begin empty")
    parser.add_argument("--each", type=int, default=4, help="kills of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1, help="runs that begin together")
    parser.add_argument("--folder", help="that the pipeline writes, such as a fitted model's: compared, and removed before each round")
    options = parsed(parser)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        run(options, Path(folder) / "whole")
        takes = time.monotonic() - began
        right = results(options, Path(folder) / "whole")
        kills = other = 0
        for number in range(options.rounds):
            store = Path(folder) / f"killed-{number}"
            if options.folder:
                shutil.rmtree(options.folder)
            wrong = []
            for _ in range(options.each):
                kills += run(options, store, rng.uniform(0, takes))
                wrong += findings(options, store)
            run(options, store)
            wrong += findings(options, store)
            found = results(options, store)
            differ = sorted(stage for stage in right.keys() | found.keys() if right.get(stage) != found.get(stage))
            if wrong:
                print(f"round {number}: {len(wrong)} faults: {wrong[0]}", flush=True)
            other += bool(differ or wrong)
            if differ:
                print(f"round {number}: {len(differ)} of {len(right)} tables differ: {', '.join(differ[:5])}", flush=True)
            shutil.rmtree(store)
    print(f"{kills} kills in {options.rounds} rounds of {len(right)} tables: {other} rounds with other tables or faults")
    sys.exit(1 if other else 0)


if __name__ == "__main__":
    main()
