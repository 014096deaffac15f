"""Runs a pipeline twice at once on a bucket behind a proxy that makes faults, kills one of the two, and compares the tables with a local run's.

The bucket is moto's, on this machine (`requirements.txt`). Each round begins with an empty bucket. The two runs have `--limit` N
and N + 1; a run that faults end is started again. A fault comes before the server has the request (an error, a closed connection) or
after it (its answer is lost, cut short, or comes from a request that was sent twice).
"""

import argparse
import http.client
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kills

try:
    import boto3
    import requests
    from moto.server import ThreadedMotoServer
except ImportError as missing:
    sys.exit(f"{missing}: pip install -r {Path(__file__).parent}/requirements.txt")

BEFORE = ["503", "500", "closed"]
AFTER = ["lost", "cut", "twice"]
BUCKET = "evals"
# Starts of one run: with the program's own retries, faults end one rarely.
STARTS_MAX = 20


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def ask(self, body):
        port = self.server.behind
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        return answer, answer.read()

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def handle_any(self):
        body = self.body()
        fault = self.server.fault()
        if fault in ("503", "500"):
            self.send_response(int(fault))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fault == "closed":
            self.close_connection = True
            return
        answer, said = self.ask(body)
        if fault == "twice" and self.command in ("PUT", "GET"):
            answer, said = self.ask(body)
        if fault == "lost":
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(said))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "cut" and said:
            self.wfile.write(said[: len(said) // 2])
            self.close_connection = True
            return
        self.wfile.write(said)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behind, share, seed):
        super().__init__(("127.0.0.1", 0), Proxy)
        self.behind, self.share, self.rng = behind, share, random.Random(seed)
        self.made, self.lock = Counter(), threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def fault(self):
        with self.lock:
            self.made["requests"] += 1
            if self.rng.random() >= self.share:
                return None
            fault = self.rng.choice(BEFORE + AFTER)
            self.made[fault] += 1
            return fault

    def handle_error(self, request, client_address):
        pass  # a client that was killed


class Runs:
    def __init__(self, options, url):
        self.options = options
        self.env = os.environ | {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }

    def start(self, store, more):
        limited = argparse.Namespace(**vars(self.options) | {"limit": self.options.limit + more})
        command = kills.command(limited, store)
        return subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, store, more):
        """Starts the run until it succeeds; how often faults ended it."""
        for ended in range(STARTS_MAX):
            program = self.start(store, more)
            shown, said = program.communicate()
            if program.returncode == 0:
                return ended
        sys.exit(f"exit {program.returncode} {STARTS_MAX} times: {(shown + said).decode()[-2000:]}")


def fetched(client, folder):
    """The tables in the bucket, whose objects are copied to `folder`."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for listed in page.get("Contents", []):
            path = Path(folder) / listed["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(BUCKET, listed["Key"], str(path))
    return kills.tables(Path(folder) / "store")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline")
    parser.add_argument("--bin", default=os.environ.get("PROOFMILL", "target/debug/proofmill"))
    parser.add_argument("--limit", type=int, default=20, help="rows of each source")
    parser.add_argument("--param", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=10, help="buckets that begin empty")
    parser.add_argument("--share", type=float, default=0.1, help="of the requests that get a fault")
    parser.add_argument("--seed", type=int, default=1)
    options = kills.parsed(parser)
    rng = random.Random(options.seed)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    direct = {"aws_access_key_id": "id", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", **direct)
    proxy = Server(port, options.share, options.seed)
    runs = Runs(options, f"http://127.0.0.1:{proxy.server_port}")
    ended = killed = other = 0
    with tempfile.TemporaryDirectory() as folder:
        right = []
        began = time.monotonic()
        for more in (0, 1):
            runs.end(f"{folder}/alone-{more}", more)
            right.append(kills.tables(f"{folder}/alone-{more}"))
        takes = time.monotonic() - began
        for number in range(options.rounds):
            client.create_bucket(Bucket=BUCKET)
            store = f"s3://{BUCKET}/store"
            both = [runs.start(store, more) for more in (0, 1)]
            try:
                both[number % 2].wait(rng.uniform(0, takes))
            except subprocess.TimeoutExpired:
                both[number % 2].kill()
                killed += 1
            [program.communicate() for program in both]
            for more in (0, 1):
                ended += runs.end(store, more)
                found = fetched(client, f"{folder}/{number}-{more}")
                differ = sorted(it for it in right[more].keys() | found.keys() if right[more].get(it) != found.get(it))
                if differ:
                    other += 1
                    print(f"round {number}: {len(differ)} of {len(found)} tables differ: {', '.join(differ[:5])}", flush=True)
            requests.post(f"http://{host}:{port}/moto-api/reset", timeout=60)
    moto.stop()
    asked = proxy.made.pop("requests")
    print(", ".join(f"{count} {fault}" for fault, count in sorted(proxy.made.items())), f"of {asked} requests")
    print(f"{killed} kills and {ended} ends by faults in {options.rounds} rounds of {len(right[0])} tables: {other} runs with other tables")
    sys.exit(1 if other else 0)


if __name__ == "__main__":
    main()
