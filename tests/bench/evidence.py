"""What verifying a store costs: `audit verify --all` beside `sha256sum` over the same files.

    python3 tests/bench/evidence.py [--objects N] [--mib N] [--binary PATH] [--work-dir DIR] [--force]

Two stores, made by the binary under test, and read once before anything is measured:

    many     many small objects: a pipeline of 1,000 SQL stages of one row, run with one value of its
             parameter after another, so that every stage is computed each time, until the store has
             100,000 files
    large    few large objects: 1 GiB of SHA-512 hashes, which do not compress, in 4 tables of one
             part each. Tables of more than 1,000,000 rows have no root: level 3 decodes and counts
             their rows, and hashes none

For each of them:

    level 2      `proofmill audit verify --all --level 2`: records, logs, and the SHA-256 of every object
    sha256sum    the peer: `find STORE -type f -print0 | xargs -0 -P2 -n 64 sha256sum`, with `-n 1` for
                 large files, of which one process would get all. It hashes every file, the records
                 included, and compares nothing
    level 1      once: records and logs alone
    level 3      once: also the rows of every table, decoded
    verify.py    once: the second verifier, `proofmill audit verifier`, which is one thread of Python

Memory is that of the largest process of the tree; proofmill and verify.py are one process each. The peer
has two processes and ours takes all cores, so compare them on two (`taskset -c 0,1`). A `sha256sum` that
was built without OpenSSL does not use the SHA instructions of a processor; ours and verify.py do.

What verifies nothing is fast, so both verifiers must first find one byte that was flipped in one object,
and report that object and no other. After that, each measured pass must exit with 0, without a finding, and
say that it saw all runs and tables, at level 3 all rows too; and the peer must have seen every file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import sys
import tempfile

import harness
from harness import Cases, measure

# What a row of `large` takes in the store, about: 64 bytes of hash, and its number.
ROW_BYTES = 67
RATIO_AIM = 0.7
MEMORY_AIM_MIB = 256
PEER = 'find "$0" -type f -print0 | xargs -0 -P2 -n "$1" sha256sum'


# ------------------------------------------------------------------------------- pipelines


def many_stages(stages: int) -> str:
    """Stages of one row each; no two of them are alike, and none is in two runs."""
    lines = ["pipeline: many", "params: { run: 0 }", "stages:"]
    for i in range(stages):
        lines += [f"  s{i}:", f"    sql: SELECT ${{params.run}} * {stages} + {i} AS x"]
    return "\n".join(lines) + "\n"


def large_tables(tables: int, rows: int) -> str:
    """Tables of `rows` rows each that do not compress, all of them different."""
    lines = ["pipeline: large", "stages:"]
    for i in range(tables):
        first, last = i * rows + 1, (i + 1) * rows
        numbers = f"generate_series({first}, {last})"
        query = f"SELECT value AS id, sha512(CAST(value AS VARCHAR)) AS hash FROM {numbers}"
        lines += [f"  t{i}:", f"    sql: {query}"]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------------------- stores


@dataclasses.dataclass
class Made:
    """A store, and what must be found in it."""

    name: str
    path: pathlib.Path
    # Files that each process of the peer gets.
    at_once: int
    runs: int = 0
    tables: int = 0
    rows: int = 0
    files: int = 0
    file_bytes: int = 0
    # What level 2 says that it hashed.
    objects: int = 0
    object_bytes: int = 0


def expect(what: str, wanted, found) -> None:
    """Ends the program when something is not as it must be."""
    if wanted != found:
        sys.exit(f"{what}: expected {wanted}, found {found}")


def count_files(store: pathlib.Path) -> int:
    """How many files a store has. It keeps no list: that would show as the memory of what is measured."""
    return sum(len(files) for _, _, files in os.walk(store))


def count_bytes(store: pathlib.Path) -> int:
    """The size of all files of a store."""
    return sum(os.lstat(os.path.join(folder, file)).st_size
               for folder, _, files in os.walk(store) for file in files)


def run(binary: pathlib.Path, pipeline: pathlib.Path, made: Made, *more: str) -> None:
    """Runs a pipeline into a store; each of its stages must be computed."""
    _, text = measure([binary, "run", pipeline, "--store", made.path, "--json", *more])
    stages = json.loads(text)["stages"]
    computed = sum(stage["status"] == "computed" for stage in stages)
    expect(f"{made.name}, stages computed", len(stages), computed)
    made.runs += 1
    made.tables += len(stages)
    made.rows += sum(stage["rows"] for stage in stages)
    made.files = count_files(made.path)


def make_many(binary: pathlib.Path, folder: pathlib.Path, stages: int, objects: int) -> Made:
    """The store with many small objects."""
    pipeline, made = folder / "many.yaml", Made("many", folder / "many", 64)
    pipeline.write_text(many_stages(stages), encoding="utf-8")
    while made.files < objects:
        run(binary, pipeline, made, "--param", f"run={made.runs}")
    expect("many, rows", made.tables, made.rows)
    made.file_bytes = count_bytes(made.path)
    return made


def make_large(binary: pathlib.Path, folder: pathlib.Path, tables: int, mib: int) -> Made:
    """The store with few large objects."""
    pipeline, made = folder / "large.yaml", Made("large", folder / "large", 1)
    rows = (mib << 20) // tables // ROW_BYTES
    pipeline.write_text(large_tables(tables, rows), encoding="utf-8")
    run(binary, pipeline, made)
    expect("large, rows", tables * rows, made.rows)
    made.file_bytes = count_bytes(made.path)
    return made


# ------------------------------------------------------------------------------- verifiers


def verified(command: list) -> tuple[dict, dict]:
    """Runs a verifier, which ends with 0, or with 1 if it found something."""
    sample, text = measure(command, check=False)
    if sample["exit"] not in (0, 1):
        sys.exit(f"exit status {sample['exit']}: {' '.join(map(str, command))}\n{text[-2000:]}")
    return sample, json.loads(text)


class Bench:
    """The stores, and all that reads them."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, stores: list[Made]) -> None:
        self.binary, self.stores = binary, stores
        self.second = folder / "verify.py"
        _, text = measure([binary, "audit", "verifier"])
        self.second.write_text(text, encoding="utf-8")

    def ours(self, made: Made, level: int) -> tuple[dict, dict]:
        """A pass of ours: its sample, and what it says."""
        verify = [self.binary, "audit", "verify", "--all", "--level", level, "--store", made.path, "--json"]
        return verified(verify)

    def other(self, made: Made) -> tuple[dict, dict]:
        """A pass of the second verifier."""
        return verified([sys.executable, self.second, made.path, "--json"])

    def level(self, made: Made, level: int):
        """A case of ours."""
        name = f"{made.name}, level {level}"

        def measured(cases: Cases) -> None:
            sample, said = self.ours(made, level)
            expect(f"{name}, exit status and findings", (0, []), (sample["exit"], said["findings"]))
            seen = said["examined"]
            expect(f"{name}, runs and tables", (made.runs, made.tables), (seen["runs"], seen["records"]))
            expect(f"{name}, rows", made.rows if level > 2 else 0, seen["rows"])
            if level == 2:
                made.objects, made.object_bytes = seen["objects"], seen["bytes"]
            if level > 1 and seen["objects"] < made.tables:
                sys.exit(f"{name}: {seen['objects']} objects of {made.tables} tables were hashed")
            cases.add(name, sample, examined=seen)

        return measured

    def second_verifier(self, made: Made):
        """The case of the second verifier."""
        name = f"{made.name}, verify.py"

        def measured(cases: Cases) -> None:
            sample, said = self.other(made)
            expect(f"{name}, exit status and findings", (0, []), (sample["exit"], said["findings"]))
            counts = said["counts"]
            expect(f"{name}, runs and tables", (made.runs, made.tables), (counts["runs"], counts["records"]))
            cases.add(name, sample, examined=counts)

        return measured

    def peer(self, made: Made):
        """The case of `sha256sum`."""
        def measured(cases: Cases) -> None:
            sample, _ = measure(["sh", "-c", f"{PEER} > /dev/null", made.path, made.at_once])
            cases.add(f"{made.name}, sha256sum", sample)

        return measured

    def read_all(self, made: Made) -> None:
        """Reads a store once, so that its files are in the page cache, and counts what the peer hashes."""
        _, text = measure(["sh", "-c", f"{PEER} | wc -l", made.path, made.at_once])
        expect(f"{made.name}, files that sha256sum hashes", made.files, int(text))

    def find_flipped(self, made: Made) -> str:
        """Flips a byte, which both verifiers must find, and flips it back."""
        path = an_object(made.path)
        key = path.relative_to(made.path).as_posix()
        flip(path)
        try:
            for name, (sample, said) in [("level 2", self.ours(made, 2)), ("verify.py", self.other(made))]:
                found = [(finding["fault"], finding["object"]) for finding in said["findings"]]
                what = f"{made.name}, {name}, exit status and findings after a flipped byte"
                expect(what, (1, [("changed", key)]), (sample["exit"], found))
        finally:
            flip(path)
        return f"{made.name}: both verifiers found one flipped byte in one of {made.files:,} files"


def an_object(store: pathlib.Path) -> pathlib.Path:
    """One part of a table, in the middle of a run in the middle."""
    runs = sorted(path for path in (store / "runs").iterdir() if (path / "data").is_dir())
    parts = sorted((runs[len(runs) // 2] / "data").glob("*.parquet"))
    return parts[len(parts) // 2]


def flip(path: pathlib.Path) -> None:
    """Flips all bits of the byte in the middle of a file; a second time, back again."""
    with path.open("r+b") as file:
        middle = path.stat().st_size // 2
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 0xFF]))


# ---------------------------------------------------------------------------------- report


def summary(cases: Cases, stores: list[Made]) -> str:
    """What follows from the medians, beside the aims, and the sizes of the stores."""
    def mib(size: float) -> str:
        return f"{size / (1 << 20):,.1f}"

    sizes = [[made.name, f"{made.runs:,}", f"{made.tables:,}", f"{made.files:,}", mib(made.file_bytes),
              f"{made.objects:,}", mib(made.object_bytes)] for made in stores]
    head = ["store", "runs", "tables", "files", "MiB", "objects hashed", "MiB"]
    rows = []
    for made in stores:
        for case in ("level 1", "level 2", "level 3", "verify.py"):
            name, peer = f"{made.name}, {case}", f"{made.name}, sha256sum"
            wall, cpu = (cases.median(peer, key) / cases.median(name, key) for key in ("wall_s", "cpu_s"))
            memory = max(cases.values(name, "rss_mb"))
            is_aim = case == "level 2"
            aim = f">= {RATIO_AIM}, < {MEMORY_AIM_MIB} MiB" if is_aim else ""
            rows.append([name, f"{wall:.2f}", f"{cpu:.2f}", f"{memory:.0f} MiB", aim])
    ratios = harness.aligned(["speed (sha256sum = 1)", "wall", "CPU", "peak RSS", "aim"], rows)
    return f"{ratios}\n\n{harness.aligned(head, sizes)}"


def main() -> None:
    """Measures everything."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--objects", type=int, default=100_000, help="files of the store with small objects")
    parser.add_argument("--stages", type=int, default=1000, help="stages of each run in that store")
    parser.add_argument("--mib", type=int, default=1024, help="size of the store with large objects")
    parser.add_argument("--tables", type=int, default=4, help="tables of that store, of one part each")
    parser.add_argument("--rounds", type=int, default=5, help="samples of level 2 and of its peer")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before them")
    args = parser.parse_args()
    if min(args.objects, args.stages, args.mib, args.tables, args.rounds) < 1:
        parser.error("sizes and --rounds are at least 1")
    binary = harness.find_binary(args.binary)
    contended = harness.refuse_busy(args.force)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="proofmill-evidence-", dir=args.work_dir))
    try:
        machine = harness.facts(folder, binary, contended)
        harness.print_facts(machine)
        stores = [make_many(binary, folder, args.stages, args.objects),
                  make_large(binary, folder, args.tables, args.mib)]
        bench, cases = Bench(binary, folder, stores), Cases()
        found = [bench.find_flipped(made) for made in stores]
        for made in stores:
            bench.read_all(made)
        groups = [case for made in stores for case in (bench.level(made, 2), bench.peer(made))]
        cases.interleave(groups, args.rounds, args.warm_ups)
        once = [case for made in stores
                for case in (bench.level(made, 1), bench.level(made, 3), bench.second_verifier(made))]
        cases.interleave(once, 1, 0)
        names = [f"{made.name}, {case}" for made in stores
                 for case in ("level 2", "sha256sum", "level 1", "level 3", "verify.py")]
        report = "\n\n".join([harness.case_table(cases, names), summary(cases, stores), "\n".join(found)])
        print(report)
        sizes = [{**dataclasses.asdict(made), "path": made.path.name} for made in stores]
        harness.write_results(args, "evidence", machine, report, cases.rows, stores=sizes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
