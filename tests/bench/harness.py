"""What the benchmark scripts share: timing of processes, facts about the machine, tables, results.

Nothing to run here; see `overhead.py` and `sql_10m.py`. Python 3.11, standard library only.

The rules (protocol of the project's benchmarks): refuse to start on a busy machine unless forced,
warm-ups that do not count, an interleaved order of cases, medians with the interquartile range, CPU
seconds of the whole process tree, raw rows kept.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
LOAD_MAX = 0.3
FSYNC_PROBES = 200


# ------------------------------------------------------------------------------- arguments


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that all scripts have."""
    parser = argparse.ArgumentParser(
        description=description.strip().splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--binary", type=pathlib.Path, help="the proofmill binary to measure; "
                        "default: release/proofmill below $CARGO_TARGET_DIR or target")
    parser.add_argument("--work-dir", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()),
                        help="where stores and inputs are put; its file system is what is measured")
    parser.add_argument("--force", action="store_true",
                        help=f"measure even if the 1-minute load is over {LOAD_MAX}; marked as contended")
    parser.add_argument("--results", type=pathlib.Path,
                        help="folder for results; default: tests/bench/results, and nothing is "
                        "written when the machine is busy")
    parser.add_argument("--machine", help="short name of the machine, such as epyc-2core")
    return parser


def find_binary(given: pathlib.Path | None) -> pathlib.Path:
    """The binary under test."""
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    binary = (given or folder / "release" / "proofmill").resolve()
    if not binary.is_file():
        sys.exit(f"there is no {binary}: build it with `cargo build --release`, or give --binary")
    return binary


def refuse_busy(force: bool) -> bool:
    """Ends the program on a busy machine; true if it goes on all the same."""
    load = os.getloadavg()[0]
    if load <= LOAD_MAX:
        return False
    if not force:
        sys.exit(f"the 1-minute load is {load:.2f} > {LOAD_MAX}: wait, or give --force")
    print(f"*** CONTENDED: the 1-minute load is {load:.2f}. These numbers prove nothing. ***",
          file=sys.stderr)
    return True


# ------------------------------------------------------------------------------- processes


def busy_seconds() -> float:
    """CPU seconds that all processes of the machine have used, the hypervisor's theft included."""
    with open("/proc/stat", encoding="ascii") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(command: list, env: dict | None = None, check=True) -> tuple[dict, str]:
    """Runs a command; its wall and CPU seconds, peak memory, and what it printed.

    CPU covers the process and all descendants it waited for. Memory is that of the largest process;
    it cannot show less than this Python has. `foreign_s` is CPU that anything else used meanwhile.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        busy, began = busy_seconds(), time.perf_counter()
        pid = os.posix_spawnp(
            str(command[0]), [str(part) for part in command],
            {**os.environ, **(env or {})},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, err.fileno(), 2),
            ],
        )
        _, status, usage = os.wait4(pid, 0)
        wall = time.perf_counter() - began
        busy = busy_seconds() - busy
        out.seek(0)
        err.seek(0)
        text, errors = out.read().decode(), err.read().decode()
    code = os.waitstatus_to_exitcode(status)
    if check and code != 0:
        sys.exit(f"exit status {code}: {' '.join(map(str, command))}\n{text[-2000:]}\n{errors[-4000:]}")
    cpu = usage.ru_utime + usage.ru_stime
    sample = {
        "wall_s": wall, "user_s": usage.ru_utime, "sys_s": usage.ru_stime, "cpu_s": cpu,
        "rss_mb": usage.ru_maxrss / 1024, "exit": code, "foreign_s": max(0.0, busy - cpu),
        "load_1min": os.getloadavg()[0],
    }
    return sample, text


class Cases:
    """Samples of named cases, in the order in which the cases first came."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.counting = True
        self.round = 0

    def add(self, case: str, sample: dict, **more) -> None:
        """Keeps a sample, unless the machine is still warming up."""
        if self.counting:
            self.rows.append({"case": case, "round": self.round, **sample, **more})

    def interleave(self, groups: list, rounds: int, warm_ups: int, seed: int = 0) -> None:
        """Calls every group once a round, in another order each time."""
        order = random.Random(seed)
        for number in range(-warm_ups, rounds):
            self.counting, self.round = number >= 0, number
            shuffled = list(groups)
            order.shuffle(shuffled)
            for group in shuffled:
                group(self)
            print(f"round {number + 1} of {rounds}" if number >= 0 else "warm-up", file=sys.stderr)
        self.counting = True

    def names(self) -> list[str]:
        """All cases."""
        return list(dict.fromkeys(row["case"] for row in self.rows))

    def values(self, case: str, key: str) -> list[float]:
        """All values of one case."""
        return [row[key] for row in self.rows if row["case"] == case and row.get(key) is not None]

    def median(self, case: str, key: str) -> float:
        """The median of one case; not a number when it was not measured."""
        values = self.values(case, key)
        return statistics.median(values) if values else float("nan")


# ---------------------------------------------------------------------------------- tables


def spread(values: list[float]) -> float:
    """The interquartile range."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def seconds(value: float) -> str:
    """Seconds for people, in milliseconds where that reads better."""
    if value != value:
        return "-"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def aligned(head: list[str], rows: list[list[str]]) -> str:
    """A table for people; the first column is left-aligned, all others right."""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = []
    for number, row in enumerate(table):
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines)


def case_table(cases: Cases, names: list[str] | None = None) -> str:
    """Medians and interquartile ranges of all cases."""
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = []
    for name in names or cases.names():
        wall, cpu = cases.values(name, "wall_s"), cases.values(name, "cpu_s")
        memory, foreign = cases.values(name, "rss_mb"), cases.values(name, "foreign_s")
        if not wall:
            continue
        peak = max(memory) if memory else float("nan")
        share = statistics.median(f / w for f, w in zip(foreign, wall)) if foreign else float("nan")
        rows.append([
            name, str(len(wall)), seconds(statistics.median(wall)), seconds(spread(wall)),
            seconds(cases.median(name, "cpu_s")), seconds(spread(cpu)) if cpu else "-",
            "-" if peak != peak else f"<= {floor:.0f} MB" if peak <= floor + 0.5 else f"{peak:.0f} MB",
            "-" if share != share else f"{share:.2f}",
        ])
    head = ["case", "n", "wall", "IQR", "CPU", "IQR", "peak RSS", "other load"]
    return aligned(head, rows)


# --------------------------------------------------------------------------------- machine


def file_system(folder: pathlib.Path) -> str:
    """Kind of the file system that holds a folder."""
    folder, best = folder.resolve(), ("", "?")
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            _, at, kind, options = line.split()[:4]
            inside = str(folder) == at or str(folder).startswith(at.rstrip("/") + "/")
            if inside and len(at) >= len(best[0]):
                best = (at, f"{kind} ({options})")
    return best[1]


def fsync_quantiles(folder: pathlib.Path) -> dict:
    """Milliseconds to create a file of 4 KiB and make it durable."""
    times = []
    with tempfile.TemporaryDirectory(dir=folder) as probe:
        for i in range(FSYNC_PROBES):
            began = time.perf_counter()
            handle = os.open(f"{probe}/{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(handle, b"x" * 4096)
            os.fsync(handle)
            os.close(handle)
            times.append((time.perf_counter() - began) * 1000)
    cuts = statistics.quantiles(times, n=10)
    return {"p50_ms": round(statistics.median(times), 3), "p90_ms": round(cuts[8], 3)}


def git(*command: str) -> str:
    """What git says about the repository."""
    done = subprocess.run(["git", "-C", REPOSITORY, *command], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def facts(work_dir: pathlib.Path, binary: pathlib.Path, contended: bool) -> dict:
    """All that must be known to judge the numbers."""
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        found = re.search(r"^model name\s*:\s*(.+)$", info.read(), re.M)
        cpu = found.group(1).strip() if found else cpu
    with open("/proc/meminfo", encoding="ascii") as info:
        memory = int(info.readline().split()[1]) / (1 << 20)
    with binary.open("rb") as program:
        # In pieces: what this process holds is the least that it can show as another's peak.
        digest = hashlib.file_digest(program, "sha256").hexdigest()
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "file_system": file_system(work_dir),
        "python": platform.python_version(),
        "commit": git("rev-parse", "HEAD") or "unknown",
        "changed_files": len(git("status", "--porcelain").splitlines()),
        "binary_version": version.stdout.strip(),
        "binary_sha256": digest,
        "load": [round(load, 2) for load in os.getloadavg()],
        "contended": contended,
        "fsync": fsync_quantiles(work_dir),
    }


def print_facts(machine: dict) -> None:
    """Facts that matter most, in two lines."""
    print(f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, "
          f"{machine['file_system'].split()[0]}, load {machine['load'][0]}")
    print(f"fsync p50 {machine['fsync']['p50_ms']} ms, p90 {machine['fsync']['p90_ms']} ms; commit "
          f"{machine['commit'][:10]}{' and changes' if machine['changed_files'] else ''}; "
          f"{machine['binary_version']}\n")


def short_name(machine: dict) -> str:
    """A name for the machine, such as `epyc-2core`."""
    words = re.findall(r"[A-Za-z]+", re.sub(r"\(.*?\)|CPU|Processor|Core", " ", machine["cpu"]))
    return f"{words[-1].lower() if words else 'cpu'}-{machine['cores']}core"


# --------------------------------------------------------------------------------- results


def write_results(args: argparse.Namespace, name: str, machine: dict, report: str, rows: list, **more) -> None:
    """Raw rows as JSON, and a README that shows all results of the folder."""
    if args.results is None and machine["contended"]:
        print("\nnothing written: the machine was busy (--results DIR writes all the same)", file=sys.stderr)
        return
    machine = {**machine, "load_at_end": [round(load, 2) for load in os.getloadavg()]}
    where = args.results or pathlib.Path(__file__).resolve().parent / "results"
    folder = where / f"{machine['date'][:10]}-{args.machine or short_name(machine)}"
    folder.mkdir(parents=True, exist_ok=True)
    options = {k: v for k, v in vars(args).items() if isinstance(v, (int, float, bool)) and k != "force"}
    results = {"benchmark": name, "machine": machine, "options": options, **more,
               "report": report.splitlines(), "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    parts = [f"# {folder.name}\n"]
    for file in sorted(folder.glob("*.json")):
        results = json.loads(file.read_text(encoding="utf-8"))
        parts.append(section(results, file.name))
    (folder / "README.md").write_text("\n".join(parts), encoding="utf-8")
    print(f"\nwritten to {folder}", file=sys.stderr)


def section(results: dict, file: str) -> str:
    """One benchmark in the README."""
    machine = results["machine"]
    busy = "**Contended: the machine was busy. These numbers prove nothing.**\n\n" if machine["contended"] else ""
    lines = [
        f"| date | {machine['date']} |",
        "| --- | --- |",
        f"| machine | {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB |",
        f"| kernel | Linux {machine['kernel']} |",
        f"| file system | {machine['file_system']} |",
        f"| create + fsync | p50 {machine['fsync']['p50_ms']} ms, p90 {machine['fsync']['p90_ms']} ms |",
        f"| load (1, 5, 15 min) | {machine['load']} before, {machine['load_at_end']} after |",
        f"| commit | {machine['commit']}, {machine['changed_files']} changed files |",
        f"| binary | {machine['binary_version']}, sha256 {machine['binary_sha256'][:16]}… |",
        f"| raw rows | [{file}]({file}) |",
    ]
    report = "\n".join(results["report"])
    return f"## {results['benchmark']}\n\n{busy}" + "\n".join(lines) + f"\n\n```text\n{report}\n```\n"
