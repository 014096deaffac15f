"""What a program as a stage costs beside the program itself: 1,000,000 rows through a script.

    python3 tests/bench/programs.py [--rows N] [--rounds N] [--binary PATH] [--work-dir DIR] [--force]

The same rows, the same script:

    by itself        `python3 script.py < rows.jsonl > answers.jsonl`: the script's own time
    command          a stage `command` that runs it, lines of JSON in and out
    python, row      a stage `python` whose function does the same, called for each row
    python, batch    the same, called for lists of 1,024 rows

The rows lie in the store before anything is measured, and each sample runs only the stage: `--rerun`. What comes
out is compared with what the script wrote by itself.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import tempfile

import harness

SCRIPT = '''import json, sys
from scores import score
for line in sys.stdin:
    sys.stdout.write(json.dumps(score(json.loads(line))) + "\\n")
'''
FUNCTIONS = '''def score(row):
    words = row["text"].split()
    long = sum(len(word) > 4 for word in words)
    return {"row_id": row["row_id"], "words": len(words), "share": long / len(words), "right": row["n"] % 3 == 0}


def scores(rows):
    return [score(row) for row in rows]
'''
COLUMNS = "{ row_id: string, words: integer, share: number, right: boolean }"
PIPELINE = f'''pipeline: programs
stages:
  rows:
    sql: |
      SELECT 'row-' || n AS row_id, n, n / 7.0 AS x,
             'the question number ' || n || ' asks for what a person may know' AS text
      FROM (SELECT unnest(range(ROWS)) AS n) AS t ORDER BY n
  exported: {{ write: {{ from: rows, path: rows.jsonl }} }}
  command: {{ command: {{ run: [python3, script.py], from: rows, columns: {COLUMNS}, code: [script.py, scores.py] }} }}
  by_row: {{ python: {{ file: scores.py, function: score, from: rows, columns: {COLUMNS} }} }}
  by_batch: {{ python: {{ file: scores.py, function: scores, by: batch, from: rows, columns: {COLUMNS} }} }}
'''
STAGES = {"command": "command", "python, row": "by_row", "python, batch": "by_batch"}


def main() -> None:
    """Measures everything."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--rounds", type=int, default=5, help="samples of every case")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before them")
    args = parser.parse_args()
    binary = harness.find_binary(args.binary)
    contended = harness.refuse_busy(args.force)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="proofmill-programs-", dir=args.work_dir))
    try:
        machine = harness.facts(folder, binary, contended)
        harness.print_facts(machine)
        for name, text in [("script.py", SCRIPT), ("scores.py", FUNCTIONS),
                           ("p.yaml", PIPELINE.replace("ROWS", str(args.rows)))]:
            (folder / name).write_text(text)

        def proofmill(*command: str) -> tuple[dict, str]:
            return harness.measure(["sh", "-c", 'cd "$0" && exec "$@"', folder, binary, *command])

        def stage(cases: harness.Cases, name: str, of: str) -> None:
            measured, _ = proofmill("run", "p.yaml", "--select", of, "--rerun", of)
            cases.add(name, measured)

        def alone(cases: harness.Cases) -> None:
            script = 'cd "$0" && exec python3 script.py < rows.jsonl > answers.jsonl'
            measured, _ = harness.measure(["sh", "-c", script, folder])
            cases.add("by itself", measured)

        proofmill("run", "p.yaml")
        cases = harness.Cases()
        groups = [alone] + [lambda cases, name=name, of=of: stage(cases, name, of) for name, of in STAGES.items()]
        cases.interleave(groups, args.rounds, args.warm_ups)
        # A run with every stage in it, whose tables are the last ones computed.
        proofmill("run", "p.yaml")
        check(proofmill, folder, args.rows)
        own = cases.median("by itself", "wall_s")
        times = [f"{name}: {cases.median(name, 'wall_s') / own:.2f}" for name in STAGES]
        report = f"{harness.case_table(cases)}\n\ntimes the script by itself: {', '.join(times)}"
        print(report)
        harness.write_results(args, "programs", machine, report, cases.rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check(proofmill, folder: pathlib.Path, rows: int) -> None:
    """Ends the benchmark unless all stages hold what the script wrote."""
    answers = [json.loads(line) for line in (folder / "answers.jsonl").open()]
    expected = {"n": len(answers), "w": sum(answer["words"] for answer in answers),
                "r": sum(answer["right"] for answer in answers)}
    for of in STAGES.values():
        query = f'SELECT count(*) AS n, sum(words) AS w, sum(CAST("right" AS INT)) AS r FROM {of}'
        _, said = proofmill("sql", query, "--json")
        found = json.loads(said)[0]
        if found != expected or len(answers) != rows:
            sys.exit(f"{of} holds {found}, and the script wrote {expected}")


if __name__ == "__main__":
    main()
