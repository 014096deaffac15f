"""What many workers would bring, and what gives first: a simulation, not a measurement.

    python3 tests/bench/scale.py [--workers N[,N...]] [--requests N] [--in-flight N] [--seconds-each S] [--at-once N] [--calls-at-once N]

Events are those of `docs/specs/workers.md`, at the size of a segment: the run publishes segments while it has fewer than `--in-flight`
under way, and looks twice a second; each worker holds two segments at most, looks twice a second while it may take one more, claims,
reads, answers, records. A worker that is idle looks at a random moment, so of k idle ones the first finds a new segment after a k+1-th of
the half second on average. The run publishes and reads `--calls-at-once` segments at a time.

Latencies of the store and prices are arguments: those given are what a blog and a price list name for an object store in one region, and
stand in the output. Limits of the store are 3,500 writes and 5,500 reads a second for a prefix, and are compared and not enforced.
"""

from __future__ import annotations

import argparse
import heapq
import random

import harness

SEGMENT = 256
HELD = 2
LOOK = 0.5
BEAT = 10.0
# Calls of the run and of workers for each segment, as `relay::tests` bounds them.
RUN_WRITES, RUN_READS, WORKER_WRITES, WORKER_READS = 1, 1, 2, 2


class World:
    """Segments, workers and the run, in seconds."""

    def __init__(self, args, workers: int) -> None:
        self.args, self.workers, self.rng = args, workers, random.Random(7)
        self.left = -(-args.requests // SEGMENT)
        self.all = self.left
        self.events: list[tuple[float, int, str, int]] = []
        self.order = 0
        # Segments that no worker has found.
        self.open = 0
        self.under_way = 0
        self.run_free = 0.0
        self.free_at = [0.0] * workers
        # Each worker as often as it may take another segment.
        self.idle = list(range(workers)) * HELD
        self.idle_seconds, self.last = 0.0, 0.0

    def at(self, time: float, what: str, worker: int = -1) -> None:
        """Something happens then."""
        self.order += 1
        heapq.heappush(self.events, (time, self.order, what, worker))

    def publish(self, now: float) -> None:
        """The run fills what may be under way."""
        while self.left and self.under_way < self.args.in_flight // SEGMENT:
            self.left -= 1
            self.under_way += 1
            self.run_free = max(self.run_free, now) + self.args.write / self.args.calls_at_once
            self.at(self.run_free, "open")

    def find(self, now: float) -> None:
        """Idle workers find open segments."""
        while self.open and self.idle:
            place = self.rng.randrange(len(self.idle))
            self.idle[place], self.idle[-1] = self.idle[-1], self.idle[place]
            worker = self.idle.pop()
            self.open -= 1
            looked = now + LOOK / (len(self.idle) + 2) + self.args.list
            begun = looked + self.args.write + self.args.read
            # It answers one after the other at its full speed: a second segment hides the latencies of the first.
            done = max(begun, self.free_at[worker]) + SEGMENT * self.args.seconds_each / self.args.at_once
            self.free_at[worker] = done
            self.at(done + self.args.read + self.args.write, "answered", worker)

    def go(self) -> dict[str, float]:
        """Until all is answered."""
        self.publish(0.0)
        now = 0.0
        while self.events:
            now, _, what, worker = heapq.heappop(self.events)
            # A worker with one place left looks as often as one with two.
            self.idle_seconds += (now - self.last) * min(self.workers, len(self.idle))
            self.last = now
            if what == "open":
                self.open += 1
            elif what == "answered":
                self.idle.append(worker)
                # The run sees it at a look, and takes one answer after the other.
                self.run_free = max(self.run_free, now + LOOK / 2) + self.args.read / self.args.calls_at_once
                self.at(self.run_free, "taken")
            else:
                self.under_way -= 1
                self.publish(now)
            self.find(now)
        return self.summary(now)

    def summary(self, seconds: float) -> dict[str, float]:
        """What came of it."""
        beats = (self.workers + 1) * seconds / BEAT
        writes = self.all * (RUN_WRITES + WORKER_WRITES) + beats
        reads = self.all * (RUN_READS + WORKER_READS)
        lists = 2 * seconds + self.idle_seconds / LOOK
        speed = self.args.requests / seconds
        most = self.workers * self.args.at_once / self.args.seconds_each
        money = (writes + lists) * self.args.price_writes / 1000 + reads * self.args.price_reads / 1000
        return {
            "hours": seconds / 3600, "requests/s": speed, "of all workers": speed / most, "writes/s": writes / seconds,
            "reads and lists/s": (reads + lists) / seconds, "calls per 1,000": 1000 * (writes + reads + lists) / self.args.requests, "money": money,
        }


def numbers(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(number) for number in text.split(",")]


def main() -> None:
    """Simulates each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=numbers, default=numbers("1,8,64,256,1000"), help="numbers of workers")
    parser.add_argument("--requests", type=int, default=100_000_000, help="requests of the run")
    parser.add_argument("--in-flight", type=int, default=16384, help="requests under way at a time")
    parser.add_argument("--seconds-each", type=float, default=1.0, help="how long a worker takes for a request")
    parser.add_argument("--at-once", type=int, default=32, help="requests that a worker answers at a time")
    parser.add_argument("--calls-at-once", type=int, default=16, help="calls of the store that the run makes at a time")
    parser.add_argument("--write", type=float, default=0.06, help="seconds of a create")
    parser.add_argument("--read", type=float, default=0.03, help="seconds of a read")
    parser.add_argument("--list", type=float, default=0.06, help="seconds of a listing")
    parser.add_argument("--price-writes", type=float, default=0.005, help="price of 1,000 writes or listings")
    parser.add_argument("--price-reads", type=float, default=0.0004, help="price of 1,000 reads")
    args = parser.parse_args()
    if min(*args.workers, args.requests, args.at_once, args.calls_at_once) < 1 or args.in_flight < SEGMENT:
        parser.error(f"numbers are at least 1, --in-flight at least {SEGMENT}")
    print(", ".join(f"{name} {value}" for name, value in vars(args).items() if name != "workers"), "\n")
    names = ["workers", "hours", "requests/s", "of all workers", "writes/s", "reads and lists/s", "calls per 1,000", "money"]
    rows = []
    for number in args.workers:
        found = World(args, number).go()
        rows.append([f"{number:,}"] + [f"{found[name]:,.2f}" for name in names[1:]])
    print(harness.aligned(names, rows))


if __name__ == "__main__":
    main()
