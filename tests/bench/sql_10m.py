"""A filter, a stored table, a join and an aggregate over 10 million rows: ours, DuckDB and Polars.

    python3 tests/bench/sql_10m.py [--rows N] [--peers PYTHON] [--binary PATH] [--work-dir DIR] [--force]

Two steps with the same reads and writes everywhere; the second reads what the first has written:

    good     SELECT id, user_id, item, label, score * 64 AS points FROM events WHERE score >= 0.125
             -> Parquet, 8,750,000 of 10,000,000 rows
    teams    good JOIN users USING (user_id) GROUP BY team (50,000 of them): count, sums, minimum,
             maximum, a filtered count -> Parquet

Inputs, made once by DuckDB and read from the page cache by everyone: events.parquet (id, user_id of
1,000,000, item of 100,000, score, label of 8), users.parquet (1,000,000 rows: user_id, team, weight).
Scores and weights are multiples of powers of two, so that sums are exact in any order.

    proofmill          a process that runs the two SQL stages into a store; the inputs are stages of
                       that store already, computed before and not timed ("inputs" is what they took).
                       It verifies the SHA-256 of every stored part that it reads, hashes what it
                       writes, flushes it, and records every stage.
    proofmill, steps   the two stages alone, by the times in the run's own record
    proofmill, files   everything from the files into a fresh store, reading (which gives each row an
                       identity by SHA-256) included; no peer does this work
    duckdb, polars     a process that does the two steps on the files, as the tool writes by default
    … zstd fsync       the same with zstd level 1, as ours, and every written file flushed: like for like
    …, steps           the two steps alone, without starting Python and importing

All with 2 threads. The results of all are compared: rows, and exact sums of every column. Peers are
installed into a virtual environment below the work folder unless `--peers` names a Python that has
them.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import harness
from harness import Cases, measure

PEERS = ["duckdb==2.0.0", "polars==2.1.0"]
THREADS = 2

EVENTS = """
COPY (
  SELECT
    i AS id,
    1 + (hash(i) % 1000000)::BIGINT AS user_id,
    1 + (hash(i + 7000000000) % 100000)::BIGINT AS item,
    (hash(i + 14000000000) % 1024)::DOUBLE / 1024 AS score,
    'label-' || (hash(i + 21000000000) % 8) AS label
  FROM range({rows}) AS numbers(i)
) TO '{path}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)
"""
USERS = """
COPY (
  SELECT
    i + 1 AS user_id,
    (hash(i + 28000000000) % 50000)::BIGINT AS team,
    (1 + hash(i + 35000000000) % 8)::DOUBLE / 4 AS weight
  FROM range(1000000) AS numbers(i)
) TO '{path}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)
"""
GOOD = """
SELECT id, user_id, item, label, score * 64 AS points
FROM {events}
WHERE score >= 0.125
"""
TEAMS = """
SELECT
  u.team,
  count(*) AS events,
  sum(g.points) AS points,
  sum(g.points * u.weight) AS weighted,
  min(g.item) AS first_item,
  max(g.id) AS last_id,
  count(*) FILTER (WHERE g.label = 'label-3') AS threes
FROM {good} AS g
JOIN {users} AS u ON u.user_id = g.user_id
GROUP BY u.team
"""
CHECKSUM = """
SELECT
  count(*) AS n, sum(team) AS team, sum(events) AS events, sum(points) AS points,
  sum(weighted) AS weighted, sum(first_item) AS first_item, sum(last_id) AS last_id,
  sum(threes) AS threes, sum((team % 97) * points) AS mixed
FROM {teams}
"""


def indented(text: str, by: int) -> str:
    """A block of text for YAML."""
    return "\n".join(" " * by + line for line in text.strip().splitlines())


def pipeline(events: pathlib.Path, users: pathlib.Path) -> str:
    """Ours."""
    return f"""pipeline: sql_10m
stages:
  events:
    read: {{ path: {events} }}
  users:
    read: {{ path: {users} }}
  good:
    sql: |
{indented(GOOD.format(events="events"), 6)}
  teams:
    sql: |
{indented(TEAMS.format(good="good", users="users"), 6)}
"""


# ----------------------------------------------------------------------------------- peers


def flush(path: str) -> None:
    """Makes a written file durable."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def make_inputs(events: str, users: str, rows: int) -> None:
    """The inputs, by DuckDB."""
    import duckdb

    database = duckdb.connect()
    database.execute(EVENTS.format(rows=rows, path=events))
    database.execute(USERS.format(path=users))


def duckdb_steps(events: str, users: str, good: str, teams: str, like_ours: bool) -> list[float]:
    """Both steps by DuckDB."""
    import duckdb

    options = ", COMPRESSION zstd, COMPRESSION_LEVEL 1" if like_ours else ""
    database = duckdb.connect(config={"threads": THREADS})
    database.execute("SET preserve_insertion_order = true")
    times = []
    steps = [(GOOD.format(events=f"'{events}'"), good),
             (TEAMS.format(good=f"'{good}'", users=f"'{users}'"), teams)]
    for query, path in steps:
        began = time.perf_counter()
        database.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{options})")
        if like_ours:
            flush(path)
        times.append(time.perf_counter() - began)
    return times


def polars_steps(events: str, users: str, good: str, teams: str, like_ours: bool) -> list[float]:
    """Both steps by Polars, on its streaming engine."""
    import polars as pl

    options = {"compression": "zstd", "compression_level": 1} if like_ours else {}
    points = pl.col("points")
    first = (
        pl.scan_parquet(events)
        .filter(pl.col("score") >= 0.125)
        .select("id", "user_id", "item", "label", (pl.col("score") * 64).alias("points"))
    )

    def second() -> pl.LazyFrame:
        joined = pl.scan_parquet(good).join(pl.scan_parquet(users), on="user_id")
        return joined.group_by("team").agg(
            pl.len().alias("events"), points.sum(), (points * pl.col("weight")).sum().alias("weighted"),
            pl.col("item").min().alias("first_item"), pl.col("id").max().alias("last_id"),
            (pl.col("label") == "label-3").sum().alias("threes"),
        )

    times = []
    for plan, path in ((lambda: first, good), (second, teams)):
        began = time.perf_counter()
        plan().sink_parquet(path, engine="streaming", **options)
        if like_ours:
            flush(path)
        times.append(time.perf_counter() - began)
    return times


def child(task: str, values: list[str]) -> None:
    """What runs under the peers' Python."""
    if task == "inputs":
        make_inputs(values[0], values[1], int(values[2]))
        return
    if task == "checksum":
        import duckdb

        result = duckdb.sql(CHECKSUM.format(teams=f"'{values[0]}'"))
        print(json.dumps([float(value) for value in result.fetchall()[0]]))
        return
    steps = {"duckdb": duckdb_steps, "polars": polars_steps}[task]
    events, users, good, teams, like_ours = values
    print(json.dumps(steps(events, users, good, teams, like_ours == "1")))


def peers_python(given: str | None, folder: pathlib.Path) -> str:
    """A Python that has the peers."""
    if given:
        return given
    python = folder / "venv" / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return str(python)


# ------------------------------------------------------------------------------------ ours


def outcomes(text: str) -> dict[str, dict]:
    """The stages of a run, by name."""
    return {stage["stage"]: stage for stage in json.loads(text)["stages"]}


def link_tree(source: pathlib.Path, target: pathlib.Path) -> None:
    """A copy of a store; its objects never change, so hard links do."""
    shutil.copytree(source, target, copy_function=os.link)


class Bench:
    """All that is measured."""

    def __init__(self, args, binary: pathlib.Path, folder: pathlib.Path, inputs: pathlib.Path, python: str):
        self.args, self.binary, self.folder, self.python = args, binary, folder, python
        self.events, self.users = inputs / "events.parquet", inputs / "users.parquet"
        self.pipeline = folder / "pipeline.yaml"
        self.pipeline.write_text(pipeline(self.events, self.users), encoding="utf-8")
        self.base = folder / "base"
        self.sizes: dict[str, int] = {}
        self.checksums: dict[str, list[float]] = {}

    def ours(self, store: pathlib.Path, *more: str) -> tuple[dict, dict]:
        """A run of ours: its sample and its stages."""
        run = [self.binary, "run", self.pipeline, "--store", store, "--json", "-j", THREADS, *more]
        sample, text = measure(run)
        return sample, outcomes(text)

    def prepare(self) -> str:
        """The store that has the inputs; what that took."""
        sample, stages = self.ours(self.base, "--select", "events,users")
        taken = {name: stages[name] for name in ("events", "users")}
        parts = ", ".join(f"{name} {s['wall_ms'] / 1000:.2f} s, {s['bytes'] / 1e6:.0f} MB"
                          for name, s in taken.items())
        return f"inputs into the store: {harness.seconds(sample['wall_s'])} ({parts}), untimed below"

    def check_ours(self, case: str, store: pathlib.Path) -> None:
        """Compares what ours has computed."""
        query = CHECKSUM.format(teams="teams")
        _, text = measure([self.binary, "sql", "--json", "--store", store, query])
        row = json.loads(text)[0]
        self.compare(case, [float(value) for value in row.values()])

    def compare(self, case: str, found: list[float]) -> None:
        """Ends the program if two results differ."""
        self.checksums[case] = found
        first = next(iter(self.checksums.values()))
        if found != first:
            sys.exit(f"{case} has another result: {found} instead of {first}")

    def add(self, cases: Cases, name: str, sample: dict, steps: list[float]) -> None:
        """Keeps a process and its steps."""
        cases.add(name, sample, steps_s=steps)
        cases.add(f"{name}, steps", {"wall_s": sum(steps)})
        for number, step in enumerate(steps, 1):
            cases.add(f"{name}, step {number}", {"wall_s": step})

    def proofmill(self, cases: Cases) -> None:
        """The two SQL stages over inputs in the store."""
        store = self.folder / "store"
        link_tree(self.base, store)
        sample, stages = self.ours(store)
        status = [stages[name]["status"] for name in ("events", "users", "good", "teams")]
        if status != ["cached", "cached", "computed", "computed"]:
            sys.exit(f"proofmill: the stages are {status}")
        self.sizes["proofmill"] = stages["good"]["bytes"]
        self.add(cases, "proofmill", sample, [stages[name]["wall_ms"] / 1000 for name in ("good", "teams")])
        self.check_ours("proofmill", store)
        shutil.rmtree(store)

    def proofmill_files(self, cases: Cases) -> None:
        """Everything from the files."""
        store = self.folder / "store-files"
        sample, stages = self.ours(store)
        cases.add("proofmill, files", sample, stages={name: stage["wall_ms"] for name, stage in stages.items()})
        self.check_ours("proofmill, files", store)
        shutil.rmtree(store)

    def peer(self, tool: str, like_ours: bool):
        """A peer's process."""
        name = f"{tool} zstd fsync" if like_ours else tool

        def measured(cases: Cases) -> None:
            target = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            good, teams = target / "good.parquet", target / "teams.parquet"
            command = [self.python, __file__, "--child", tool, self.events, self.users, good, teams,
                       "1" if like_ours else "0"]
            environment = {"POLARS_MAX_THREADS": str(THREADS)}
            sample, text = measure(command, env=environment)
            self.sizes[name] = good.stat().st_size
            self.add(cases, name, sample, json.loads(text))
            _, text = measure([self.python, __file__, "--child", "checksum", teams])
            self.compare(name, json.loads(text))
            shutil.rmtree(target)

        return measured

    def groups(self) -> list:
        """All cases."""
        peers = [self.peer(tool, like) for tool in ("duckdb", "polars") for like in (False, True)]
        ours = [self.proofmill, self.proofmill_files] if not self.args.no_files else [self.proofmill]
        return [*ours, *peers]

    def summary(self, cases: Cases) -> str:
        """Ratios to the best peer."""
        def best(suffix: str, key: str) -> tuple[float, str]:
            names = [f"{tool}{suffix}" for tool in ("duckdb", "polars")]
            return min((cases.median(name, key), name) for name in names)

        rows = []
        comparisons = [
            ("like for like: process", "proofmill", " zstd fsync", "wall_s"),
            ("like for like: the two steps", "proofmill, steps", " zstd fsync, steps", "wall_s"),
            ("like for like: step 1", "proofmill, step 1", " zstd fsync, step 1", "wall_s"),
            ("like for like: step 2", "proofmill, step 2", " zstd fsync, step 2", "wall_s"),
            ("like for like: process, CPU", "proofmill", " zstd fsync", "cpu_s"),
            ("peers as shipped: process", "proofmill", "", "wall_s"),
            ("peers as shipped: the two steps", "proofmill, steps", ", steps", "wall_s"),
            ("peers as shipped: process, CPU", "proofmill", "", "cpu_s"),
        ]
        for label, ours, suffix, key in comparisons:
            mine, (theirs, name) = cases.median(ours, key), best(suffix, key)
            rows.append([label, harness.seconds(mine), harness.seconds(theirs), name, f"{mine / theirs:.2f}x"])
        table = harness.aligned(["wall unless CPU, median", "ours", "best peer", "which", "ratio"], rows)
        sizes = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in self.sizes.items())
        return f"{table}\n\ntarget: 1.2x of the best peer, like for like\nintermediate table: {sizes}"


def main() -> None:
    """Measures everything."""
    if len(sys.argv) > 3 and sys.argv[1] == "--child":
        child(sys.argv[2], sys.argv[3:])
        return
    parser = harness.arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of events")
    parser.add_argument("--rounds", type=int, default=5, help="samples of every case")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before them")
    parser.add_argument("--no-files", action="store_true", help="leave out `proofmill, files`")
    parser.add_argument("--peers", help="a Python that has " + " and ".join(PEERS))
    args = parser.parse_args()
    binary = harness.find_binary(args.binary)
    contended = harness.refuse_busy(args.force)
    kept = args.work_dir / "proofmill-sql-10m"
    inputs = kept / f"{args.rows}-rows"
    inputs.mkdir(parents=True, exist_ok=True)
    python = peers_python(args.peers, kept)
    made = inputs / "users.parquet"
    if not made.is_file():
        parts = [inputs / "events.parquet", inputs / "users.part"]
        subprocess.run([python, __file__, "--child", "inputs", *parts, str(args.rows)], check=True)
        parts[1].rename(made)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=kept))
    try:
        machine = harness.facts(folder, binary, contended)
        harness.print_facts(machine)
        bench, cases = Bench(args, binary, folder, inputs, python), Cases()
        prepared = bench.prepare()
        print(prepared, "\n")
        cases.interleave(bench.groups(), args.rounds, args.warm_ups)
        versions = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True)
        peers = [line for line in versions.stdout.splitlines() if line.startswith(("duckdb", "polars"))]
        report = f"{harness.case_table(cases)}\n\n{bench.summary(cases)}\n{prepared}\n{', '.join(peers)}"
        print(report)
        harness.write_results(args, "sql_10m", machine, report, cases.rows, peers=peers,
                              checksums=bench.checksums, intermediate_bytes=bench.sizes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
