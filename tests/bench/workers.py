"""What workers bring: one run of which other processes answer the requests, beside the same run alone.

    python3 tests/bench/workers.py [--requests N] [--delay-ms N] [--workers N] [--binary PATH] [--work-dir DIR] [--force]

An endpoint on this machine answers each request after `--delay-ms`, and counts them. It is Python: with 64 requests at a time on two
cores it takes longer than 50 ms by itself, so that more is said. The run has
no key for it, so that its workers alone can ask:

    1 worker       one process of `work`, with `concurrency: 8`
    N workers      `--workers` of them, 8 if nothing is said: the aim is .9 of N times one
    alone          the run itself, with the key and without workers: what the way through the store costs
    replay         the run after `N workers`, of the recorded answers
    replay alone   the run after `alone`: the aim of `replay` is .8 of it

Each run is in a store of its own, which is new; every request must have been answered once, and the tables must be the same.
"""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import harness
from harness import Cases, measure

KEY = {"WORKERS_KEY": "k"}
CONCURRENCY = 8


class Endpoint(http.server.ThreadingHTTPServer):
    """Answers each request after the same time, and counts."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, delay: float) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.delay, self.count, self.lock = delay, 0, threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    """One exchange."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.delay)
        with self.server.lock:
            self.server.count += 1
        choice = {"index": 0, "text": body["prompt"].upper(), "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 1}
        text = json.dumps({"choices": [choice], "usage": usage, "model": "m"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def pipeline(url: str, requests: int) -> str:
    """A stage that asks for each of its rows."""
    rows = f"SELECT 'q' || value AS id FROM generate_series(1, {requests}) AS t(value)"
    return f"""pipeline: asking
models: {{ reader: {{ url: '{url}', model: m, concurrency: {CONCURRENCY}, api_key_env: WORKERS_KEY }} }}
stages:
  questions: {{ sql: "{rows}" }}
  said: {{ generate: {{ from: questions, model: reader, id: id, prompt: "'is ' || id", options: {{ max_tokens: 4 }} }} }}
"""


class Bench:
    """The endpoint, and runs that ask it."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, args) -> None:
        self.binary, self.folder, self.requests = binary, folder, args.requests
        self.endpoint = Endpoint(args.delay_ms / 1000)
        self.url = f"http://127.0.0.1:{self.endpoint.server_address[1]}/v1"
        self.file = folder / "asking.yaml"
        self.file.write_text(pipeline(self.url, args.requests), encoding="utf-8")
        self.rows: set[str] = set()

    def run(self, store: pathlib.Path, more: list[str], env: dict | None = None) -> dict:
        """A run: its sample."""
        sample, _ = measure([self.binary, "run", self.file, "--store", store, *more], env)
        return sample

    def check(self, what: str, store: pathlib.Path, asked: int) -> None:
        """That each request was asked once, and that the rows are those of all runs."""
        found, self.endpoint.count = self.endpoint.count, 0
        query = "SELECT string_agg(row_id || '=' || text, ',' ORDER BY row_id) AS all_rows FROM said"
        _, text = measure([self.binary, "sql", query, "--store", store, "--json"])
        self.rows.add(text)
        if found != asked or len(self.rows) != 1:
            sys.exit(f"{what}: {found} requests instead of {asked}, {len(self.rows)} different tables")

    def shared(self, workers: int):
        """A run that workers answer, and the replay of it."""
        name = f"{workers} worker{'s' if workers > 1 else ''}"

        def measured(cases: Cases) -> None:
            store = self.folder / "store"
            shutil.rmtree(store, ignore_errors=True)
            command = [str(self.binary), "work", "--store", str(store), "--url", self.url]
            env = {**os.environ, **KEY}
            started = [subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) for _ in range(workers)]
            try:
                while len(list(store.glob("work/workers/*"))) < workers:
                    time.sleep(0.05)
                cases.add(name, self.run(store, ["--workers"]))
            finally:
                for process in started:
                    process.terminate()
                for process in started:
                    process.wait()
            self.check(name, store, self.requests)
            if workers > 1:
                cases.add("replay", self.run(store, ["--rerun", "said"]))
                self.check("replay", store, 0)

        return measured

    def alone(self, cases: Cases) -> None:
        """The run without workers."""
        store = self.folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        cases.add("alone", self.run(store, [], KEY))
        self.check("alone", store, self.requests)
        cases.add("replay alone", self.run(store, ["--rerun", "said"]))
        self.check("replay alone", store, 0)


def summary(cases: Cases, workers: int) -> str:
    """The ratios, beside the aims."""
    def ratio(one: str, other: str) -> float:
        return cases.median(one, "wall_s") / cases.median(other, "wall_s")

    many = f"{workers} workers"
    rows = [
        [f"speed of {many}, times one worker", f"{ratio('1 worker', many):.2f}", f">= {0.9 * workers:.1f}"],
        ["speed of one worker, times alone", f"{ratio('alone', '1 worker'):.2f}", ""],
        ["speed of a replay, times that of a run alone", f"{ratio('replay alone', 'replay'):.2f}", ">= 0.8"],
    ]
    return harness.aligned(["", "found", "aim"], rows)


def main() -> None:
    """Measures everything."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--requests", type=int, default=8192, help="requests of a run")
    parser.add_argument("--delay-ms", type=float, default=200, help="how long the endpoint takes for each")
    parser.add_argument("--workers", type=int, default=8, help="workers at a time")
    parser.add_argument("--rounds", type=int, default=3, help="samples of each case")
    parser.add_argument("--warm-ups", type=int, default=0, help="rounds before them")
    args = parser.parse_args()
    if args.workers < 2 or args.requests < 1:
        parser.error("--workers is at least 2, --requests at least 1")
    binary = harness.find_binary(args.binary)
    contended = harness.refuse_busy(args.force)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="proofmill-workers-", dir=args.work_dir))
    try:
        machine = harness.facts(folder, binary, contended)
        harness.print_facts(machine)
        bench, cases = Bench(binary, folder, args), Cases()
        groups = [bench.alone, bench.shared(1), bench.shared(args.workers)]
        cases.interleave(groups, args.rounds, args.warm_ups)
        report = "\n\n".join([harness.case_table(cases), summary(cases, args.workers)])
        print(report)
        harness.write_results(args, "workers", machine, report, cases.rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
