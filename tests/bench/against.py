"""Another build of the program against this one, in turns: SQL over 10,000,000 rows, 1,000 trivial stages, and a pipeline if one is named.

    python3 tests/bench/against.py OLD [--binary NEW] [--rows N] [--stages N] [--pipeline FILE] [--param NAME=VALUE] [--rounds N] [--peers PYTHON] [--force]

Each round measures both builds, in another order each time; what counts is the median of the ratios of rounds. Each build has a store of
its own. PYTHON has duckdb, which draws the rows. The cases are those of `sql_10m.py` (the two SQL stages over inputs that are stored) and of
`overhead.py` (D1 cold and warm, and `check` of it), and a run of FILE, which both builds must read, in a new
store. With valgrind, the instructions of `check` are counted too.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import harness
import overhead
import sql_10m
from harness import Cases, measure


class Build:
    """One of the two, with its stores."""

    def __init__(self, args, name: str, binary: pathlib.Path, folder: pathlib.Path, inputs: pathlib.Path) -> None:
        self.name, self.binary, self.folder = name, binary, folder / name
        self.folder.mkdir()
        self.sql = sql_10m.Bench(args, binary, self.folder, inputs, args.peers)
        self.stages = folder / "stages.yaml"
        self.pipeline, self.params = args.pipeline, [f"--param={param}" for param in args.param]

    def prepare(self) -> None:
        """The store with the inputs."""
        self.sql.prepare()

    def round(self, cases: Cases) -> None:
        """All cases once."""
        own = Cases()
        self.sql.proofmill(own)
        cases.add(f"sql, {self.name}", {"wall_s": own.median("proofmill, steps", "wall_s"), "cpu_s": own.median("proofmill", "cpu_s")})
        store = self.folder / "stages"
        run = [self.binary, "run", self.stages, "--store", store, "--json"]
        for case, command in (("cold", run), ("warm", run), ("check", [self.binary, "check", self.stages])):
            cases.add(f"{case}, {self.name}", measure(command)[0])
        shutil.rmtree(store)
        if self.pipeline:
            run = [self.binary, "run", self.pipeline, "--store", store, "--json", *self.params]
            cases.add(f"pipeline, {self.name}", measure(run)[0])
            shutil.rmtree(store)

    def instructions(self) -> int | None:
        """Of `check`."""
        if shutil.which("valgrind") is None:
            return None
        counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", self.binary, "check", self.stages]
        done = subprocess.run(counted, capture_output=True, text=True, check=True)
        return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def report(cases: Cases, builds: list[Build]) -> str:
    """Medians of both, and of the ratios of rounds."""
    rows = []
    for case in ("sql", "cold", "warm", "check", *(["pipeline"] if builds[0].pipeline else [])):
        for key in ("wall_s", "cpu_s"):
            old, new = (cases.values(f"{case}, {build.name}", key) for build in builds)
            ratios = sorted(b / a for a, b in zip(old, new))
            rows.append([f"{case}, {key[:-2]}", harness.seconds(statistics.median(old)), harness.seconds(statistics.median(new)),
                         f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}"])
    counted = [build.instructions() for build in builds]
    if None not in counted:
        rows.append(["check, instructions", *(f"{count / 1e6:.0f} M" for count in counted), f"{counted[1] / counted[0]:.2f}", ""])
    return harness.aligned(["median", "old", "new", "new/old", "of rounds"], rows)


def main() -> None:
    """Measures both."""
    parser = harness.arguments(__doc__)
    parser.add_argument("old", type=pathlib.Path, help="the build to compare with")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of events")
    parser.add_argument("--stages", type=int, default=1000, help="trivial stages")
    parser.add_argument("--pipeline", type=pathlib.Path, help="a pipeline that both builds read")
    parser.add_argument("--param", action="append", default=[], help="a parameter of it")
    parser.add_argument("--rounds", type=int, default=12, help="samples of every case")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before them")
    parser.add_argument("--peers", default=sys.executable, help="a Python that has duckdb")
    args = parser.parse_args()
    args.no_files = True
    old, new = harness.find_binary(args.old), harness.find_binary(args.binary)
    contended = harness.refuse_busy(args.force)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="proofmill-against-", dir=args.work_dir))
    try:
        machine = harness.facts(folder, new, contended)
        harness.print_facts(machine)
        inputs = folder / "inputs"
        inputs.mkdir()
        made = [inputs / "events.parquet", inputs / "users.parquet"]
        subprocess.run([args.peers, sql_10m.__file__, "--child", "inputs", *made, str(args.rows)], check=True)
        stages = overhead.chains(args.stages // overhead.LENGTH, overhead.LENGTH)
        (folder / "stages.yaml").write_text(stages, encoding="utf-8")
        builds = [Build(args, "old", old, folder, inputs), Build(args, "new", new, folder, inputs)]
        cases = Cases()
        for build in builds:
            build.prepare()
        cases.interleave([build.round for build in builds], args.rounds, args.warm_ups)
        text = report(cases, builds)
        print(text)
        harness.write_results(args, "against", machine, text, cases.rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
