"""What running a stage costs beside its computation: start-up, checks, cold and warm runs, edits.

    python3 tests/bench/overhead.py [--quick] [--binary PATH] [--work-dir DIR] [--force]

All stages are trivial (`SELECT x + 1 AS x FROM …`, one row), so what is measured is the engine:
planning, fingerprints, the durable table and record of every stage, the run's log.

    start-up       `proofmill --version`
    check 1000     `proofmill check` of the file of D1
    one stage      a run of one stage into a fresh store
    D1             1,000 stages, 100 chains of 10: cold (fresh store), then warm (same store)
    W2, W3, W4     D1 again after an edit: one last stage, one first stage, and only the looks of the
                   file; what is computed must be 1, 10 and 0 stages
    D2             1,000 stages in one chain, cold and warm
    D3             1 -> 1,000 -> 1, cold and warm: the last stage unites 1,000 tables by SQL
    D3 matrix      the same with a matrix, whose union the program makes: 1,003 stages
    D4             10,000 stages, 1,000 chains of 10, cold and warm

Floors, never rivals, because none of them keeps a record or knows what has changed:

    make           GNU make -j2, a shell for each stage, one file each, nothing durable
    loop, fsync    a Python loop that writes as many files of the same sizes into the same folders as
                   a cold D1 run, each so: write, fsync, link, unlink, fsync the folder
    loop, syncfs   the same in groups of 50 files: write all, syncfs, link all, unlink all, syncfs

A loop's times are those of the loop alone. Tables are verified: the ends of chains are read back with
`proofmill sql`. Flushes are counted in a run of their own under strace, if there is one. `--quick`
does 2 rounds, and D4 once.

Nothing is deleted before the end: ext4 steps over inodes that were deleted in the last minutes, which
makes every new file dear. For the same reason, let 5 minutes pass after a run or a build.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import harness
from harness import Cases, measure

LENGTH = 10
GROUP = 50
# Tables that one `UNION ALL` takes; the others are united inside of it.
UNITED = 100


# ------------------------------------------------------------------------------- pipelines


def chains(count: int, length: int, edits: dict | None = None) -> str:
    """Independent chains; chain `c` starts with `c` and adds 1 in every stage."""
    lines = ["pipeline: overhead", "stages:"]
    for c in range(count):
        for s in range(length):
            query = f"SELECT {c} AS x" if s == 0 else f"SELECT x + 1 AS x FROM c{c}_s{s - 1}"
            query = (edits or {}).get((c, s), query)
            lines += [f"  c{c}_s{s}:", f"    sql: {query}"]
    return "\n".join(lines) + "\n"


def other_looks(count: int, length: int) -> str:
    """The same chains in other words: order, comments, whitespace, case of keywords, descriptions."""
    lines = ["# A comment that changes nothing.", "stages:"]
    for c in reversed(range(count)):
        for s in reversed(range(length)):
            query = f"select {c}  as x" if s == 0 else f"select x+1 as x -- next\n      from   c{c}_s{s - 1}"
            lines += [f"  c{c}_s{s}:   # stage", f"    description: Stage {s}.", "",
                      "    sql: |", f"      {query}"]
    return "\n".join([*lines, "pipeline: overhead", ""])


def fan(width: int) -> str:
    """One stage, `width` stages that read it, one that unites them by SQL."""
    lines = ["pipeline: overhead", "stages:", "  root:", "    sql: SELECT 1 AS x"]
    for i in range(width):
        lines += [f"  f{i}:", f"    sql: SELECT x + {i} AS x FROM root"]
    each = [f"SELECT x FROM f{i}" for i in range(width)]
    united = [f"SELECT x FROM ({' UNION ALL '.join(each[at:at + UNITED])})" for at in range(0, width, UNITED)]
    return "\n".join([*lines, "  last:", f"    sql: SELECT sum(x) AS x FROM ({' UNION ALL '.join(united)})", ""])


def fan_matrix(width: int) -> str:
    """The same as a matrix."""
    values = ", ".join(map(str, range(width)))
    return "\n".join([
        "pipeline: overhead", "stages:", "  root:", "    sql: SELECT 1 AS x", "  fan:", "    matrix:",
        f"      i: [{values}]", "    stages:", "      out:",
        "        sql: SELECT x + ${matrix.i} AS x FROM root",
        "  last:", "    sql: SELECT sum(x) AS x FROM fan.out", "",
    ])


def makefile(count: int, length: int) -> str:
    """The chains of D1 for GNU make."""
    lines = ["all: " + " ".join(f"c{c}_s{length - 1}" for c in range(count))]
    for c in range(count):
        lines += [f"c{c}_s0:", f"\t@echo {c} > $@"]
        for s in range(1, length):
            lines += [f"c{c}_s{s}: c{c}_s{s - 1}", "\t@read x < $<; echo $$((x + 1)) > $@"]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------ ours


class Ours:
    """The binary under test with its pipelines and stores."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path) -> None:
        self.binary, self.folder = binary, folder
        self.stores = 0

    def file(self, name: str, text: str) -> pathlib.Path:
        """A pipeline file."""
        path = self.folder / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def fresh_store(self) -> pathlib.Path:
        """A folder that does not exist yet."""
        self.stores += 1
        return self.folder / f"store-{self.stores}"

    def run(self, pipeline: pathlib.Path, store: pathlib.Path) -> tuple[dict, int]:
        """A run, and how many stages it computed."""
        sample, text = measure([self.binary, "run", pipeline, "--store", store, "--json"])
        stages = json.loads(text)["stages"]
        return sample, sum(stage["status"] == "computed" for stage in stages)

    def values(self, stages: list[str], store: pathlib.Path) -> list[int]:
        """The value of each of these stages in the latest run."""
        query = " UNION ALL ".join(f"SELECT {i} AS i, x FROM {stage}" for i, stage in enumerate(stages))
        _, text = measure([self.binary, "sql", "--json", "--store", store, f"{query} ORDER BY i"])
        return [row["x"] for row in json.loads(text)]


def expect(what: str, wanted, found) -> None:
    """Ends the program when something is not as it must be."""
    if wanted != found:
        sys.exit(f"{what}: expected {wanted}, found {found}")


def files_of(store: pathlib.Path) -> list[tuple[str, int]]:
    """All files of a store with their sizes."""
    return [(str(path.relative_to(store)), path.stat().st_size)
            for path in sorted(store.rglob("*")) if path.is_file()]


def groups(ours: Ours, floor: dict, stages: int) -> list:
    """What every round does, each with its cases in a fixed order."""
    count = stages // LENGTH
    middle = count // 2
    d1, d2 = ours.file("d1", chains(count, LENGTH)), ours.file("d2", chains(1, stages))
    one = ours.file("one", chains(1, 1))
    leaf = {(middle, LENGTH - 1): f"SELECT x + 2 AS x FROM c{middle}_s{LENGTH - 2}"}
    last = ours.file("w2", chains(count, LENGTH, leaf))
    first = ours.file("w3", chains(count, LENGTH, {(middle, 0): f"SELECT {1000 + middle} AS x"}))
    looks = ours.file("w4", other_looks(count, LENGTH))
    wide, matrix = ours.file("d3", fan(stages)), ours.file("d3-matrix", fan_matrix(stages))
    ends = [f"c{c}_s{LENGTH - 1}" for c in (0, middle, count - 1)]

    def start_up(cases: Cases) -> None:
        for _ in range(3):
            cases.add("start-up", measure([ours.binary, "--version"])[0])

    def check(cases: Cases) -> None:
        cases.add("check 1000", measure([ours.binary, "check", d1])[0])

    def one_stage(cases: Cases) -> None:
        store = ours.fresh_store()
        sample, computed = ours.run(one, store)
        expect("one stage", 1, computed)
        cases.add("one stage", sample, computed=computed)

    def d1_and_edits(cases: Cases) -> None:
        store = ours.fresh_store()
        ends_at = [c + LENGTH - 1 for c in (0, middle, count - 1)]
        steps = [
            ("D1 cold", d1, stages, 0),
            ("D1 warm", d1, 0, 0),
            ("W4 looks", looks, 0, 0),
            ("W2 leaf", last, 1, 1),
            ("W3 root", first, LENGTH, 1000),
        ]
        for name, pipeline, computed, more in steps:
            sample, found = ours.run(pipeline, store)
            expect(f"{name}, computed", computed, found)
            expect(f"{name}, values", [ends_at[0], ends_at[1] + more, ends_at[2]], ours.values(ends, store))
            if name == "D1 cold":
                floor["files"] = files_of(store)
                sample["files"] = len(floor["files"])
                sample["bytes"] = sum(size for _, size in floor["files"])
            cases.add(name, sample, computed=found)

    def twice(name: str, pipeline: pathlib.Path, in_all: int, end: str, value: int):
        def both(cases: Cases) -> None:
            store = ours.fresh_store()
            for temperature, computed in (("cold", in_all), ("warm", 0)):
                sample, found = ours.run(pipeline, store)
                expect(f"{name} {temperature}, computed", computed, found)
                expect(f"{name} {temperature}, value", [value], ours.values([end], store))
                cases.add(f"{name} {temperature}", sample, computed=found)
        return both

    total = sum(1 + i for i in range(stages))
    return [
        start_up, check, one_stage, d1_and_edits,
        twice("D2", d2, stages, f"c0_s{stages - 1}", stages - 1),
        twice("D3", wide, stages + 2, "last", total),
        twice("D3 matrix", matrix, stages + 3, "last", total),
    ]


def large(ours: Ours, count: int):
    """D4."""
    pipeline = ours.file("d4", chains(count, LENGTH))
    chosen = (0, count // 2, count - 1)
    ends = [f"c{c}_s{LENGTH - 1}" for c in chosen]

    def both(cases: Cases) -> None:
        store = ours.fresh_store()
        for name, computed in (("D4 cold", count * LENGTH), ("D4 warm", 0)):
            sample, found = ours.run(pipeline, store)
            expect(f"{name}, computed", computed, found)
            expect(f"{name}, values", [c + LENGTH - 1 for c in chosen], ours.values(ends, store))
            cases.add(name, sample, computed=found)

    return both


def flushes(ours: Ours, pipeline: pathlib.Path) -> dict | None:
    """How often a cold and a warm run of a pipeline flush and link, under strace."""
    if shutil.which("strace") is None:
        return None
    calls = "fsync,fdatasync,syncfs,link,linkat,rename,renameat2"
    store, counted = ours.fresh_store(), {}
    for temperature in ("cold", "warm"):
        summary = ours.folder / "strace.txt"
        trace = ["strace", "-f", "--seccomp-bpf", "-c", "-o", summary, "-e", f"trace={calls}"]
        run = [ours.binary, "run", pipeline, "--store", store, "--json"]
        measure([*trace, *run])
        lines = [line.split() for line in summary.read_text(encoding="utf-8").splitlines()]
        counted[temperature] = {line[-1]: int(line[3]) for line in lines
                                if len(line) >= 5 and line[-1] in calls.split(",")}
        files = files_of(store)
        counted[temperature]["files in the store"] = len(files)
        logs = [name for name, _ in files if re.search(r"/log/", name)]
        counted[temperature]["log entries in the store"] = len(logs)
    return counted


# ---------------------------------------------------------------------------------- floors


def write_loop(folder: str, grouped: bool) -> None:
    """The loop itself: reads names and sizes from standard input, prints its times."""
    files = json.load(sys.stdin)
    body = b"x" * max(size for _, size in files)
    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs(folder)
    root = os.open(folder, os.O_RDONLY)
    made: set[str] = set()

    def make_folders(path: str) -> list[str]:
        new = []
        while path not in made and len(path) >= len(folder):
            made.add(path)
            new.append(path)
            path = os.path.dirname(path)
        for path in reversed(new):
            os.makedirs(path, exist_ok=True)
        return new

    def write(path: str, size: int, durable: bool) -> str:
        staging = f"{path}#0"
        handle = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(handle, body[:size])
        if durable:
            os.fsync(handle)
        os.close(handle)
        return staging

    def name(staging: str, path: str) -> None:
        os.link(staging, path)
        os.unlink(staging)

    def sync_folder(path: str) -> None:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)

    def sync_all() -> None:
        if libc.syncfs(root) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")

    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    if grouped:
        for at in range(0, len(files), GROUP):
            staged = []
            for relative, size in files[at:at + GROUP]:
                path = os.path.join(folder, relative)
                make_folders(os.path.dirname(path))
                staged.append((write(path, size, durable=False), path))
            sync_all()
            for staging, path in staged:
                name(staging, path)
            sync_all()
    else:
        for relative, size in files:
            path = os.path.join(folder, relative)
            new = make_folders(os.path.dirname(path))
            name(write(path, size, durable=True), path)
            sync_folder(os.path.dirname(path))
            for parent in new:
                sync_folder(os.path.dirname(parent))
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    print(json.dumps({"wall_s": wall, "user_s": user, "sys_s": system, "cpu_s": user + system}))


def floors(folder: pathlib.Path, floor: dict, count: int) -> list:
    """The floors, as groups of cases."""
    numbers = iter(range(1_000_000))

    def loop(name: str, grouped: bool):
        def measured(cases: Cases) -> None:
            if "files" not in floor:
                return
            target = folder / f"loop-{next(numbers)}"
            command = [sys.executable, __file__, "--loop", target, "1" if grouped else "0"]
            done = subprocess.run(command, input=json.dumps(floor["files"]), capture_output=True,
                                  text=True, check=True)
            cases.add(name, json.loads(done.stdout))
        return measured

    def make(cases: Cases) -> None:
        target = folder / f"make-{next(numbers)}"
        target.mkdir()
        (target / "Makefile").write_text(makefile(count, LENGTH), encoding="utf-8")
        cases.add("make -j2 cold", measure(["make", "-s", "-j2", "-C", target])[0])
        expect("make", str(count - 1 + LENGTH - 1), (target / f"c{count - 1}_s{LENGTH - 1}").read_text().strip())
        cases.add("make -j2 warm", measure(["make", "-s", "-j2", "-C", target])[0])

    found = [loop("loop, fsync", False), loop("loop, syncfs", True)]
    return [*found, make] if shutil.which("make") else found


# ---------------------------------------------------------------------------------- report


def summary(cases: Cases, counted: dict | None, stages: int) -> str:
    """What follows from the medians, beside the targets."""
    def cpu(name: str) -> float:
        return cases.median(name, "cpu_s")

    def wall(name: str) -> float:
        return cases.median(name, "wall_s")

    base = cpu("one stage")
    small, big = (cpu("D1 cold") - base) / stages * 1e6, (cpu("D4 cold") - base) / stages * 1e5
    warm, big_warm = (cpu("D1 warm") - base) / stages * 1e6, (cpu("D4 warm") - base) / stages * 1e5

    def micro(value: float) -> str:
        return "-" if value != value else f"{value:.0f} µs"

    def ratio(a: float, b: float) -> str:
        return "-" if a != a or b != b or b == 0 else f"{a / b:.2f}x"

    rows = [
        ["start-up, wall", harness.seconds(wall("start-up")), "< 20 ms"],
        ["check of 1,000 stages, wall", harness.seconds(wall("check 1000")), "< 50 ms"],
        ["one stage, wall", harness.seconds(wall("one stage")), "< 60 ms"],
        ["D1 cold, CPU", harness.seconds(cpu("D1 cold")), "<= 1.0 s"],
        ["D1 cold, CPU to loop with syncfs", ratio(cpu("D1 cold"), cpu("loop, syncfs")), ""],
        ["D1 cold, wall to loop with syncfs", ratio(wall("D1 cold"), wall("loop, syncfs")), "<= 1.5x"],
        ["D1 cold, wall to loop with fsync", ratio(wall("D1 cold"), wall("loop, fsync")), "<= 1.5x"],
        ["D1 warm, wall", harness.seconds(wall("D1 warm")), "< 150 ms"],
        ["CPU per stage, cold, 1,000 stages", micro(small), ""],
        ["CPU per stage, cold, 10,000 stages", micro(big), "the same"],
        ["CPU per stage, warm, 1,000 stages", micro(warm), ""],
        ["CPU per stage, warm, 10,000 stages", micro(big_warm), "the same"],
    ]
    for name in ("W4 looks", "W2 leaf", "W3 root"):
        computed = sorted(set(map(int, cases.values(name, "computed"))))
        wanted = {"W4 looks": "0", "W2 leaf": "1", "W3 root": str(LENGTH)}[name]
        rows.append([f"{name}, stages computed", ", ".join(map(str, computed)), wanted])
    for temperature, calls in (counted or {}).items():
        rows += [[f"D1 {temperature}, {name}", str(count), ""] for name, count in calls.items()]
    return harness.aligned(["", "median", "target"], rows)


def main() -> None:
    """Measures everything."""
    if len(sys.argv) == 4 and sys.argv[1] == "--loop":
        write_loop(sys.argv[2], sys.argv[3] == "1")
        return
    parser = harness.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="samples of every case")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before them")
    parser.add_argument("--large-rounds", type=int, default=3, help="samples of D4; 0 leaves it out")
    parser.add_argument("--quick", action="store_true", help="2 rounds, no warm-up, D4 once")
    parser.add_argument("--stages", type=int, default=1000,
                        help=f"of D1 to D3, a multiple of {LENGTH} and no fewer than {3 * LENGTH}; ten times as many in D4. "
                        "The cases keep their names")
    args = parser.parse_args()
    if args.stages % LENGTH or args.stages < 3 * LENGTH:
        parser.error(f"--stages {args.stages} is no multiple of {LENGTH}, or too few")
    if args.quick:
        args.rounds, args.warm_ups, args.large_rounds = 2, 1, 1
    binary = harness.find_binary(args.binary)
    contended = harness.refuse_busy(args.force)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="proofmill-overhead-", dir=args.work_dir))
    try:
        machine = harness.facts(folder, binary, contended)
        harness.print_facts(machine)
        ours, floor, cases = Ours(binary, folder), {}, Cases()
        count = args.stages // LENGTH
        cases.interleave([*groups(ours, floor, args.stages), *floors(folder, floor, count)], args.rounds, args.warm_ups)
        if args.large_rounds:
            cases.interleave([large(ours, args.stages)], args.large_rounds, 0)
        counted = flushes(ours, folder / "d1.yaml")
        report = harness.case_table(cases) + "\n\n" + summary(cases, counted, args.stages)
        print(report)
        harness.write_results(args, "overhead", machine, report, cases.rows, flushes=counted)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
