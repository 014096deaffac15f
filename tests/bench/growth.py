"""What commands cost in a store that has grown: 1,000 nights of 50 stages and 5,000 other runs beside the first week.

    python3 tests/bench/growth.py [--store folder|s3|both] [--nights N] [--others N] [--stages N] [--json FILE]
                                  [--binary PATH] [--work-dir DIR] [--force]

The store has a pipeline of `--stages` stages, of which a schedule with a gate has made a run every night, and `--others`
runs of ten other pipelines of one stage each, which come evenly between the nights after the first week. Each night has
other answers to the same questions, so every stage is computed, and the verdict must be a pass. At 7, 100, 300 and
`--nights` nights this is measured, in this order, `--rounds` times:

    plan                 of the coming night: every stage would run, and why
    runs                 the list of runs as it comes, 20 of them
    runs --limit 7       as many as there are in the first week
    trends               of the accuracy, as it comes: 30 runs
    trends --limit 7     as many as there are in the first week
    night                `schedule trigger` and `schedule tick` together: the run and its verdict

A measured night is a night like the others, so a store has some more of them at the end. The aim: none of these costs
more than 1.3 times what it costs in the first week.

    folder    the store is a folder in `--work-dir`; calls are system calls on files and folders, counted under strace, if
              there is one, in a round of its own
    s3        the store is a bucket of moto on this machine (`tests/attacks/requirements.txt`). It is a copy of the folder, new
              for each of the four looks, as moto would need hours for all the nights. Calls are requests to the bucket.
              For each page of a list moto passes over all keys of the bucket, as no real bucket does, so requests
              say more than seconds. `server` is the time inside moto, which is Python: the sum over requests, most of
              which wait for each other

Requests are counted in every sample. CPU is that of proofmill alone.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import logging
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import harness
from harness import Cases, measure

AIM = 1.3
QUESTIONS = 200
LOOKS = (100, 300)
# Other pipelines, and how many of their runs are made at the same time.
PIPELINES = 10
AT_ONCE = 2
CASES = ("plan", "runs", "runs --limit 7", "trends", "trends --limit 7", "night")
FILE_CALLS = "%file,getdents64"


# ------------------------------------------------------------------------------- pipelines


def nightly(stages: int) -> str:
    """One source, chains of seven stages over it, and a metric."""
    lines = ["pipeline: nightly", "stages:", "  answers: { read: { path: answers.csv } }"]
    before = "answers"
    for i in range(stages - 2):
        source = before if i % 7 else "answers"
        lines += [f"  s{i}:", f"    sql: SELECT id, night, correct, {i} AS stage FROM {source}"]
        before = f"s{i}"
    return "\n".join([*lines, f"  judged: {{ measure: {{ from: {before}, correct: correct }} }}", ""])


def answers(night: int) -> str:
    """Answers of a night: one question is wrong, each night another."""
    rows = [f"q{i:04},{night},{str(i != night % QUESTIONS).lower()}" for i in range(QUESTIONS)]
    return "\n".join(["id,night,correct", *rows, ""])


def other(number: int) -> str:
    """One of the other pipelines."""
    return f"pipeline: other{number}\nparams: {{ n: 0 }}\nstages:\n  x: {{ sql: 'SELECT ${{params.n}} AS x' }}\n"


GATE = """kind: gate
name: answers
channel: good
metrics: [{ metric: judged.accuracy, min_effect: 0.05, unit: [id] }]
"""
SCHEDULE = """kind: schedule
name: nights
pipeline: nightly.yaml
cron: "@yearly"
gate: gate.yaml
"""


# ---------------------------------------------------------------------------------- stores


def expect(what: str, wanted, found) -> None:
    """Ends the program when something is not as it must be."""
    if wanted != found:
        sys.exit(f"{what}: expected {wanted}, found {found}")


class Project:
    """The folder with the pipelines, and the commands over it."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, stages: int) -> None:
        self.binary, self.folder, self.stages = binary, folder, stages
        files = {"nightly.yaml": nightly(stages), "gate.yaml": GATE, "schedule.yaml": SCHEDULE}
        files |= {f"other{i}.yaml": other(i) for i in range(PIPELINES)}
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.nights = self.others = 0
        self.store = folder / "store"

    def answer(self, night: int) -> None:
        """Writes the answers of a night."""
        (self.folder / "answers.csv").write_text(answers(night), encoding="utf-8")

    def command(self, store, *args) -> list:
        """A command over a store."""
        return [self.binary, *args, "--store", store, "--json"]

    def begin(self) -> None:
        """The first night, which the others are compared with."""
        self.answer(0)
        run = self.command(self.store, "run", "nightly.yaml")
        pin = self.command(self.store, "channel", "pin", "nightly", "--owner", "bench", "--reason", "first")
        apply = self.command(self.store, "schedule", "apply", "schedule.yaml")
        for command in (run, pin, apply):
            measure(command)
        self.nights = 1

    def night(self, store, env: dict | None = None, before: tuple = ()) -> tuple[dict, dict]:
        """A night: what its two commands cost, each after `before`."""
        trigger, _ = measure([*before, *self.command(store, "schedule", "trigger", "nights")], env)
        tick, text = measure([*before, *self.command(store, "schedule", "tick")], env)
        ran = json.loads(text)[0][1]["ran"]
        expect("a night", ("succeeded", "pass"), (ran["how"], ran["verdict"]))
        return trigger, tick

    def grow(self, nights: int, others: float) -> None:
        """Makes nights until there are `nights`, and after each its share of the other runs, `others` a night."""
        run = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
        first, have = self.nights, self.others
        with run:
            while self.nights < nights:
                self.answer(self.nights)
                self.night(self.store)
                self.nights += 1
                due = have + round(others * (self.nights - first)) - self.others
                list(run.map(self.other, range(self.others, self.others + due)))
                self.others += due
                if self.nights % 50 == 0:
                    print(f"{self.nights} nights, {self.others} other runs", file=sys.stderr)

    def other(self, number: int) -> None:
        """A run of another pipeline."""
        run = self.command(self.store, "run", f"other{number % PIPELINES}.yaml", "--param", f"n={number}")
        subprocess.run(run, check=True, capture_output=True)


class Bucket:
    """moto, which counts what is asked of it."""

    NAME = "evals"

    def __init__(self) -> None:
        from moto.moto_server import werkzeug_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.app, self.lock = werkzeug_app.DomainDispatcherApplication(werkzeug_app.create_backend_app), threading.Lock()
        self.counted: Counter = Counter()
        # Older ones have no handler of their own.
        handler = getattr(werkzeug_app, "MotoRequestHandler", None)
        server = make_server("127.0.0.1", 0, self.answer, True, request_handler=handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"s3://{self.NAME}/store"
        self.env = {
            "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        }

    def answer(self, environ: dict, start) -> list[bytes]:
        """Answers a request."""
        is_list = environ["REQUEST_METHOD"] == "GET" and "list-type=" in environ.get("QUERY_STRING", "")
        began = time.perf_counter()
        parts = list(self.app(environ, start))
        took = time.perf_counter() - began
        with self.lock:
            self.counted["LIST" if is_list else environ["REQUEST_METHOD"]] += 1
            self.counted["bytes"] += sum(map(len, parts))
            self.counted["server_s"] += took
        return parts

    def take(self) -> dict:
        """What was counted since the last look."""
        with self.lock:
            counted, self.counted = dict(self.counted), Counter()
        server, size = counted.pop("server_s", 0.0), counted.pop("bytes", 0)
        return {"calls": sum(counted.values()), "server_s": server, "answer_bytes": size, "requests": counted}

    def fill(self, store: pathlib.Path) -> None:
        """Makes the bucket a copy of a folder, without a request for each object."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        backend.reset()
        backend.create_bucket(self.NAME, "us-east-1")
        for path in store.rglob("*"):
            if path.is_file():
                key = f"store/{path.relative_to(store).as_posix()}"
                backend.put_object(self.NAME, key, path.read_bytes())


# ------------------------------------------------------------------------------- measuring


def both(samples: tuple[dict, ...]) -> dict:
    """Two commands as one sample."""
    added = {key: sum(sample[key] for sample in samples) for key in ("wall_s", "user_s", "sys_s", "cpu_s", "foreign_s")}
    return {**added, "load_1min": samples[-1]["load_1min"]}


def looked_at(project: Project, store, night: int, env: dict | None = None, before: tuple = ()):
    """Each case once, with what it costs; each answer must be right."""
    project.answer(night)
    runs, trends = night + project.others, ("trends", "nightly", "judged.accuracy")
    reading = {
        "plan": (("plan", "nightly.yaml"), project.stages),
        "runs": (("runs",), min(20, runs)),
        "runs --limit 7": (("runs", "--limit", "7"), min(7, runs)),
        "trends": (trends, min(30, night)),
        "trends --limit 7": ((*trends, "--limit", "7"), min(7, night)),
    }
    for case, (args, wanted) in reading.items():
        sample, text = measure([*before, *project.command(store, *args)], env)
        found = json.loads(text)
        if case == "plan":
            found = [stage for stage in found if stage["action"] == "run"]
        expect(f"{case} after {night} nights", wanted, len(found))
        yield case, sample
    yield "night", both(project.night(store, env, before))


def in_folder(project: Project, cases: Cases, rounds: int, warm_ups: int) -> None:
    """One look at the folder."""
    at = {"place": "folder", "nights": project.nights, "others": project.others}
    for number in range(-warm_ups, rounds):
        for case, sample in looked_at(project, project.store, project.nights):
            add(cases, case, number, sample, at)
        project.nights += 1
    if shutil.which("strace") is None:
        return
    summary = project.folder / "strace.txt"
    trace = ("strace", "-f", "--seccomp-bpf", "-q", "-A", "-o", summary, "-e", f"trace={FILE_CALLS}", "-e", "signal=none")
    summary.unlink(missing_ok=True)
    for case, _ in looked_at(project, project.store, project.nights, before=trace):
        with summary.open(encoding="utf-8") as lines:
            calls = Counter(line.split()[1].split("(")[0] for line in lines if "(" in line and " resumed>" not in line)
        summary.unlink()
        cases.add(name(case, at), {"calls": sum(calls.values()), "system_calls": dict(calls)}, **at)
    project.nights += 1


def in_bucket(project: Project, cases: Cases, bucket: Bucket, rounds: int, warm_ups: int) -> None:
    """One look at a copy in the bucket."""
    at = {"place": "s3", "nights": project.nights, "others": project.others}
    bucket.fill(project.store)
    night = project.nights
    for number in range(-warm_ups, rounds):
        bucket.take()
        for case, sample in looked_at(project, bucket.url, night, bucket.env):
            add(cases, case, number, {**sample, **bucket.take()}, at)
        night += 1


def name(case: str, at: dict) -> str:
    """The name of a case in the raw rows."""
    return f"{at['place']}, {case}, {at['nights']} nights"


def add(cases: Cases, case: str, number: int, sample: dict, at: dict) -> None:
    """Keeps a sample, unless it is of a warm-up."""
    cases.counting, cases.round = number >= 0, number
    cases.add(name(case, at), sample, **at)
    cases.counting = True


# ---------------------------------------------------------------------------------- report


def ratio(now: float, first: float) -> str:
    """How many times the first."""
    return "-" if first != first or now != now or first == 0 else f"{now / first:.2f}"


def table(cases: Cases, place: str) -> str:
    """All cases of a place at all looks, each beside its first."""
    looks = list(dict.fromkeys((row["nights"], row["others"]) for row in cases.rows if row["place"] == place))
    rows = []
    for case in CASES:
        first = name(case, {"place": place, "nights": looks[0][0]})
        for nights, others in looks:
            key = name(case, {"place": place, "nights": nights})
            wall = cases.values(key, "wall_s")
            cells = [case if nights == looks[0][0] else "", f"{nights:,}", f"{others:,}", str(len(wall)),
                     harness.seconds(statistics.median(wall)), harness.seconds(harness.spread(wall))]
            times = [ratio(cases.median(key, of), cases.median(first, of)) for of in ("wall_s", "cpu_s", "calls")]
            calls = cases.median(key, "calls")
            counted = "-" if calls != calls else f"{calls:,.0f}"
            cells += [times[0], harness.seconds(cases.median(key, "cpu_s")), times[1], counted, times[2]]
            if place == "s3":
                cells.append(harness.seconds(cases.median(key, "server_s")))
            rows.append(cells)
    head = [place, "nights", "others", "n", "wall", "IQR", "times", "CPU", "times", "calls", "times"]
    return harness.aligned([*head, "server"] if place == "s3" else head, rows)


def verdicts(cases: Cases, place: str) -> str:
    """The last look beside the first."""
    nights = list(dict.fromkeys(row["nights"] for row in cases.rows if row["place"] == place))
    rows = []
    for case in CASES:
        first, last = (name(case, {"place": place, "nights": of}) for of in (nights[0], nights[-1]))
        times = [cases.median(last, of) / cases.median(first, of) for of in ("wall_s", "cpu_s", "calls")]
        words = ["-" if value != value else f"{value:.2f}{'' if value <= AIM else ' *'}" for value in times]
        rows.append([case, *words])
    head = [f"{place}: {nights[-1]:,} nights to {nights[0]}", "wall", "CPU", "calls"]
    return f"{harness.aligned(head, rows)}\n* over the aim of {AIM} times"


def main() -> None:
    """Measures everything."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--store", choices=["folder", "s3", "both"], default="folder", help="where the store is")
    parser.add_argument("--nights", type=int, default=1000, help="nights at the last look")
    parser.add_argument("--others", type=int, default=5000, help="other runs at the last look")
    parser.add_argument("--stages", type=int, default=50, help="stages of a night, at least 3")
    parser.add_argument("--week", type=int, default=7, help="nights at the first look")
    parser.add_argument("--rounds", type=int, default=7, help="samples of every case at every look")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before them")
    parser.add_argument("--json", type=pathlib.Path, help="file for the report and all samples")
    args = parser.parse_args()
    if args.stages < 3 or args.rounds < 1 or not 0 < args.week < args.nights:
        parser.error("--stages is at least 3, --rounds at least 1, and --nights more than --week")
    args.results, args.json = (path and path.resolve() for path in (args.results, args.json))
    binary = harness.find_binary(args.binary)
    contended = harness.refuse_busy(args.force)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="proofmill-growth-", dir=args.work_dir))
    try:
        machine = harness.facts(folder, binary, contended)
        harness.print_facts(machine)
        # Paths of a pipeline and a schedule are relative to the folder of the command.
        os.chdir(folder)
        measured(args, folder, binary, machine)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measured(args: argparse.Namespace, folder: pathlib.Path, binary: pathlib.Path, machine: dict) -> None:
    """Grows a store, looks at it, and reports."""
    places = ["folder", "s3"] if args.store == "both" else [args.store]
    bucket = Bucket() if "s3" in places else None
    project, cases = Project(binary, folder, args.stages), Cases()
    project.begin()
    project.grow(args.week, 0)
    for look in [args.week, *(it for it in LOOKS if args.week < it < args.nights), args.nights]:
        if look > project.nights:
            share = (args.others - project.others) / (args.nights - project.nights)
            project.grow(look, share)
        print(f"looking at {project.nights} nights, {project.others} other runs", file=sys.stderr)
        if bucket:
            in_bucket(project, cases, bucket, args.rounds, args.warm_ups)
        if "folder" in places:
            in_folder(project, cases, args.rounds, args.warm_ups)
    parts = [part for place in places for part in (table(cases, place), verdicts(cases, place))]
    report = "\n\n".join(parts)
    print(report)
    harness.write_results(args, "growth", machine, report, cases.rows, places=places)
    if args.json:
        results = {"machine": machine, "report": report.splitlines(), "rows": cases.rows}
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
