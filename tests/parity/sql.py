"""Random queries over small tables, answered by proofmill and by DuckDB: values, and the order where a query orders.

    python3 tests/parity/sql.py --bin target/debug/proofmill --queries 2000 --seed 1

Each query runs as a stage, in one partition and in three, over tables of the store. A query that differs is made smaller until
nothing can be left out, and shown with its tables as one statement. Exit code 1 if any differs or fails. Wants `duckdb` and `pyarrow`
(`tests/parity/requirements.txt`).

Queries are drawn from choices, small numbers in a list: the same list gives the same query, and a list with a part left out or with
smaller numbers gives a simpler one (0 is always the simplest choice). That is how a query is made smaller.
"""

import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet

COLUMNS = [("id", "BIGINT"), ("g", "BIGINT"), ("x", "BIGINT"), ("s", "VARCHAR"), ("b", "BOOLEAN"), ("d", "DOUBLE")]
NAMES = ["t", "u", "w"]
TYPES = {"BIGINT": pa.int64(), "VARCHAR": pa.string(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64()}


class Choices:
    """A list of small numbers that is read once; behind its end come zeros, or random ones that are kept."""

    def __init__(self, numbers, rng=None):
        self.numbers, self.rng, self.at = list(numbers), rng, 0

    def below(self, n):
        if self.at == len(self.numbers):
            self.numbers.append(self.rng.randrange(1 << 16) if self.rng else 0)
        self.at += 1
        return self.numbers[self.at - 1] % n

    def one(self, options):
        return options[self.below(len(options))]

    def rarely(self, n=4):
        """True once in n."""
        return self.below(n) == n - 1


def tables(choices):
    """Rows of the three tables: few values, NULLs, duplicates, sometimes no row."""
    def value(kind):
        if choices.rarely(5):
            return None
        return {"BIGINT": lambda: choices.below(4), "VARCHAR": lambda: choices.one(["p", "q", "rr"]),
                "BOOLEAN": lambda: choices.below(2) == 1,
                "DOUBLE": lambda: choices.one([0.5, 0.0, -0.0, 1e16, 2.0, -0.4])}[kind]()

    made = {}
    for name in NAMES:
        rows = choices.one([3, 2, 5, 8, 0, 1])
        made[name] = [[i if column == "id" else value(kind) for column, kind in COLUMNS] for i in range(rows)]
    return made


class Query:
    """One query; `kinds` says the type of each column in reach, by how it is written."""

    def __init__(self, choices):
        self.c, self.names, self.ctes = choices, 0, []

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    # Expressions

    def column(self, scope, kind):
        found = [written for written, its in scope if its == kind]
        return self.c.one(found) if found else {"BIGINT": "1", "VARCHAR": "'p'", "BOOLEAN": "true", "DOUBLE": "CAST(0.5 AS DOUBLE)"}[kind]

    def value(self, scope, kind, depth=1):
        c = self.c
        if depth == 0 or not c.rarely(3):
            return self.column(scope, kind)
        a, b = (self.value(scope, kind, depth - 1) for _ in range(2))
        if kind == "BOOLEAN":
            return f"({self.condition(scope, depth - 1)})"
        if c.rarely(8):
            return self.subvalue(scope, kind)
        if kind == "VARCHAR":
            return c.one([f"upper({a})", f"coalesce({a}, 'q')", f"CASE WHEN {self.condition(scope, 0)} THEN {a} ELSE {b} END",
                          f"nullif({a}, {b})", "'q'", f"({a} || {b})", f"CAST({self.column(scope, 'BIGINT')} AS VARCHAR)",
                          f"CASE {a} WHEN 'p' THEN {b} WHEN {b} THEN 'z' END"])
        return c.one([f"({a} + {b})", f"(3 - {a})", f"({a} * 2)", f"coalesce({a}, 7)", f"(-{a})", "2", f"nullif({a}, 1)",
                      f"CASE WHEN {self.condition(scope, 0)} THEN {a} ELSE {b} END", "CAST(NULL AS BIGINT)",
                      f"TRY_CAST({self.column(scope, 'VARCHAR')} AS BIGINT)", f"greatest({a}, {b})", f"abs({a})",
                      f"CAST({self.column(scope, 'BOOLEAN')} AS BIGINT)"])

    def subvalue(self, scope, kind):
        """A subquery that gives one value, of all rows or of those that belong to the row."""
        c = self.c
        alias, table = self.name("e"), c.one(NAMES)
        inner = [(f"{alias}.{name}", its) for name, its in COLUMNS]
        where = [self.condition(inner, 0)] if c.rarely(2) else []
        if c.rarely(2):
            where.append(f"{self.column(inner, 'BIGINT')} = {self.column(scope, 'BIGINT')}")
        where = f" WHERE {' AND '.join(where)}" if where else ""
        column = self.column(inner, kind)
        folds = ["max", "min"] + (["sum", "count"] if kind == "BIGINT" else [])
        return f"(SELECT {c.one(folds)}({column}) FROM {table} AS {alias}{where})"

    def condition(self, scope, depth=2, outer=None):
        """A condition; `outer` says that subqueries may stand in it, and which columns they see."""
        c = self.c
        kind = c.one(["BIGINT", "VARCHAR"])
        if depth > 0 and c.rarely(2):
            a, b = self.condition(scope, depth - 1, outer), self.condition(scope, depth - 1, outer)
            return c.one([f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})", f"({a} IS NOT TRUE)", f"({a} IS NULL)",
                          f"({a} = {b})", f"(CASE WHEN {a} THEN {b} ELSE NOT {b} END)", f"({a} IS FALSE)"])
        if outer and c.rarely(3):
            return self.subcondition(scope, kind)
        a, b = self.value(scope, kind), self.value(scope, kind)
        if c.rarely(6):
            # Zeros of either sign, decimals among floating-point numbers, patterns.
            x, y, word = self.column(scope, "DOUBLE"), self.column(scope, "DOUBLE"), self.column(scope, "VARCHAR")
            return c.one([f"round({x}) = 0", f"round({x}) IN (0.0, 1.0, 2.0, 3.0)", f"CASE round({x}) WHEN 0 THEN {y} = 2 ELSE {y} < 1 END",
                          f"nullif(round({x}), 0) IS NULL", f"{x} >= CAST({a if kind == 'BIGINT' else 1} AS DECIMAL(18, 2))",
                          f"coalesce({x}, CAST(1.25 AS DECIMAL(3, 2))) > {y}", f"{x} NOT IN (0.0, 2.0)", f"{word} SIMILAR TO '(p|r+)'",
                          f"{word} NOT LIKE 'r!r' ESCAPE '!'"])
        literals = {"BIGINT": ["0, 1", "2, 3", "1", "1, NULL"], "VARCHAR": ["'p'", "'q', 'rr'", "'p', NULL"]}[kind]
        return c.one([f"{a} = {b}", f"{a} < {b}", f"{a} <> {b}", f"{a} IN ({c.one(literals)})",
                      f"{a} NOT IN ({c.one(literals)})", f"{a} IS NULL", f"{a} IS NOT NULL", f"{a} IS DISTINCT FROM {b}",
                      f"{a} IS NOT DISTINCT FROM {b}", self.column(scope, "BOOLEAN"), f"{a} BETWEEN {b} AND {a}",
                      f"({a} = {b} OR {a} = {c.one(literals[:1]).split(',')[0]})", f"{a} >= {b}", f"{a} IN ({b}, {literals[0]})",
                      f"{a} NOT BETWEEN {b} AND {a}", f"{self.column(scope, 'VARCHAR')} LIKE '{c.one(['%q%', 'r_'])}'"])

    def subcondition(self, scope, kind):
        c = self.c
        alias, table = self.name("e"), c.one(NAMES)
        inner = [(f"{alias}.{name}", its) for name, its in COLUMNS]
        where = []
        if c.rarely(2):
            where.append(f"{self.column(inner, kind)} {c.one(['=', '=', '<'])} {self.column(scope, kind)}")
        if c.rarely(2):
            where.append(self.condition(inner, 0))
        where = f" WHERE {' AND '.join(where)}" if where else ""
        column, left = self.column(inner, kind), self.value(scope, kind)
        no = c.one(["", "", "NOT "])
        source = f"FROM {table} AS {alias}{where}"
        return c.one([
            f"{no}EXISTS (SELECT 1 {source})",
            f"{left} {no}IN (SELECT {column} {source})",
            f"{left} {c.one(['<', '>=', '=', '<>'])} {c.one(['ANY', 'ALL'])} (SELECT {column} {source})",
            f"{left} = (SELECT max({column}) {source})",
            f"(SELECT count(*) {source}) {c.one(['>', '=', '<'])} {c.below(3)}",
            f"{c.below(3)} {no}IN (SELECT {self.column(inner, 'BIGINT')} {source})",
        ])

    # Tables

    def table(self, depth):
        c = self.c
        alias = self.name("a")
        if depth > 0 and c.rarely(3):
            inner, columns = self.query(depth - 1)
            if columns and c.rarely(3):
                # Read here, and perhaps once more.
                self.ctes.append((self.name("c"), inner, columns))
            elif columns:
                return f"({inner}) AS {alias}", [(f"{alias}.{name}", kind) for name, kind in columns]
        if self.ctes and c.rarely(2):
            name, _, columns = c.one(self.ctes)
            return f"{name} AS {alias}", [(f"{alias}.{column}", kind) for column, kind in columns]
        if c.rarely(8):
            return self.other_table(alias)
        return f"{c.one(NAMES)} AS {alias}", [(f"{alias}.{name}", kind) for name, kind in COLUMNS]

    def other_table(self, alias):
        """A table that is written out, or one with a column left out or replaced."""
        c, name = self.c, self.c.one(NAMES)
        columns = [(f"{alias}.{column}", kind) for column, kind in COLUMNS]
        return c.one([
            (f"(SELECT * EXCLUDE (b) FROM {name}) AS {alias}", [(column, kind) for column, kind in columns if kind != "BOOLEAN"]),
            (f"(SELECT * REPLACE (x + 1 AS x) FROM {name}) AS {alias}", columns),
            (f"(VALUES (1, 'p'), (NULL, 'q'), (2, NULL), (1, 'p')) AS {alias}(x, s)",
             [(f"{alias}.x", "BIGINT"), (f"{alias}.s", "VARCHAR")]),
            (f"(SELECT * FROM {name} AS p {c.one(['JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN'])} "
             f"(SELECT x, s AS o FROM {c.one(NAMES)}) AS q USING (x)) AS {alias}", columns + [(f"{alias}.o", "VARCHAR")]),
        ])

    def using(self):
        """A join by columns of one name, which stand for both sides."""
        c = self.c
        left, right = self.name("a"), self.name("a")
        keys = c.one([["x"], ["g"], ["s"], ["g", "s"]])
        join = c.one(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        text = f"{c.one(NAMES)} AS {left} {join} {c.one(NAMES)} AS {right} USING ({', '.join(keys)})"
        scope = [(name if name in keys else f"{side}.{name}", kind)
                 for side in (left, right) for name, kind in COLUMNS if side == left or name not in keys]
        return text, scope

    def source(self, depth):
        c = self.c
        if c.rarely(8):
            return self.using()
        text, scope = self.table(depth)
        for _ in range(c.one([0, 1, 1, 2])):
            if c.rarely(12):
                # Of each row, what belongs to it.
                alias, inner = self.name("l"), self.name("e")
                of = [(f"{inner}.{name}", its) for name, its in COLUMNS]
                folded = c.one(["count(*)", f"max({inner}.x)", f"sum({inner}.x)"])
                where = f"{self.column(of, 'BIGINT')} = {self.column(scope, 'BIGINT')}"
                lateral = f"(SELECT {folded} AS x FROM {c.one(NAMES)} AS {inner} WHERE {where}) AS {alias}"
                text, scope = f"{text} CROSS JOIN LATERAL {lateral}", scope + [(f"{alias}.x", "BIGINT")]
                continue
            right, added = self.table(depth)
            join = c.one(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
            if join == "CROSS JOIN":
                text, scope = f"{text} {join} {right}", scope + added
                continue
            kind = c.one(["BIGINT", "VARCHAR"])
            on = f"{self.column(scope, kind)} = {self.column(added, kind)}"
            both = scope + added
            if c.rarely(4):
                on += f" AND {self.condition(both, 0)}"
            text, scope = f"{text} {join} {right} ON {on}", both
        return text, scope

    # Queries

    def query(self, depth, last=False):
        c = self.c
        if depth > 0 and c.rarely(6):
            text, columns = self.sets(depth)
            return text + self.ordered(columns, last), columns
        source, scope = self.source(depth)
        where = f" WHERE {self.condition(scope, 2, outer=True)}" if c.rarely(2) else ""
        shape = c.one(["rows", "groups", "window", "distinct", "total", "rollup", "first"])
        kinds = [c.one(["BIGINT", "VARCHAR", "BIGINT"]) for _ in range(1 + c.below(3))]
        items = [(self.value(scope, kind), kind) for kind in kinds]
        names = [self.output(text, i) for i, (text, _) in enumerate(items)]
        names = [name if names.index(name) == i and name not in "nrf" else f"c{i}" for i, name in enumerate(names)]
        columns = list(zip(names, kinds))
        tail = ""
        number = self.column(scope, "BIGINT")
        word = self.column(scope, "VARCHAR")
        folded = c.one(["count(*)", f"sum({number})", f"max({number})", f"count(DISTINCT {number})", f"min({number})",
                        f"count({number}) FILTER (WHERE {self.condition(scope, 0)})", f"sum(DISTINCT {number})",
                        f"sum({number}) FILTER (WHERE {self.condition(scope, 1)})", f"length(string_agg({word}, ',' ORDER BY {word}))",
                        f"CAST(round(avg({number}) * 840) AS BIGINT)", f"CAST(bool_or({self.column(scope, 'BOOLEAN')}) AS BIGINT)",
                        f"count(DISTINCT {word}) + count(DISTINCT {number})", f"max({number}) - min({number})",
                        f"count(DISTINCT round({self.column(scope, 'DOUBLE')})) + count(DISTINCT {number})",
                        f"CAST(max({self.column(scope, 'DOUBLE')}) AS BIGINT)"])
        if shape in ("groups", "rollup"):
            groups = ", ".join(str(i + 1) for i in range(len(items)))
            if shape == "rollup":
                # A column that stands there twice is refused, and a number may be a place.
                items = list({self.column(scope, kind): kind for kind in kinds}.items())
                items = [(text, kind) for text, kind in items if "." in text] or [(scope[0][0], scope[0][1])]
                columns = [(f"c{i}", kind) for i, (_, kind) in enumerate(items)]
                listed = ", ".join(text for text, _ in items)
                if c.rarely(4) and not any(text.endswith(".k9") for text, _ in scope):
                    # A key that is a value; DuckDB takes `k9` and `a.k9` for two keys where it is a column too.
                    items, columns = [("7", "BIGINT")] + items, [("k9", "BIGINT")] + columns
                    listed = f"k9, {listed}"
                groups = c.one([f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ())",
                                f"GROUPING SETS (({listed.split(', ')[0]}), ({listed}))"])
            tail = f" GROUP BY {groups}"
            if c.rarely(3):
                tail += f" HAVING {folded} {c.one(['>', '<', '='])} {c.below(3)}"
            items, columns = items + [(folded, "BIGINT")], columns + [("n", "BIGINT")]
        elif shape == "total":
            items, columns = [(folded, "BIGINT")], [("n", "BIGINT")]
            if c.rarely(3):
                # A constant beside it, of which conditions above can be false for all rows.
                items.insert(0, (c.one(["1", "CAST(NULL AS BIGINT)", "2"]), "BIGINT"))
                columns.insert(0, ("k", "BIGINT"))
            if c.rarely(3):
                tail = f" HAVING {c.one([folded, f'(SELECT {folded} FROM {source})'])} {c.one(['>', '<'])} {c.below(3)}"
        elif shape == "window":
            part = c.one(["", f"PARTITION BY {self.value(scope, 'VARCHAR')} ", f"PARTITION BY round({self.column(scope, 'DOUBLE')}) "])
            order = f"ORDER BY {self.value(scope, 'BIGINT')} {c.one(['', 'DESC '])}NULLS {c.one(['FIRST', 'LAST'])}"
            over = f"OVER ({part}{order})"
            if c.rarely(3):
                over = f"OVER (v {order})"
                tail = f" WINDOW v AS ({part.strip()})"
            call = c.one(["rank()", "dense_rank()", "count(*)", f"sum({number})", f"max({number})", f"min({number})"])
            if c.rarely(5):
                # Rows that are equal in all columns are one another's, whichever comes first.
                every = ", ".join(text for text, _ in scope)
                over = f"OVER ({part}ORDER BY {every})"
                if c.rarely(2):
                    over = over[:-1] + c.one([" ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", " ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)"])
                    real = self.column(scope, "DOUBLE")
                call = c.one(["row_number()", f"lag({number})", f"lead({number})", f"first_value({number})", f"last_value({number})"])
                if "ROWS" in over:
                    # Two rows: more would be added up in another order.
                    call = c.one([f"sum({number})", f"count(DISTINCT {number})", f"bit_xor({number})", f"min({real})", f"max({number})",
                                  f"sum({real})", f"avg({real})", f"count({real})"])
            elif c.rarely(5):
                frame = c.one(["RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                               "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                               "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                               "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING"])
                over, call = f"OVER ({part}{order} {frame})", c.one([f"sum({number})", "count(*)", f"max({number})"])
            if c.rarely(4) and "WINDOW" not in tail:
                tail = f" QUALIFY {call} {over} {c.one(['>', '<=', '='])} {c.below(4)}"
            items, columns = items + [(f"{call} {over}", "BIGINT")], columns + [("r", "BIGINT")]
        elif shape == "rows" and c.rarely(4):
            items, columns = items + [(self.condition(scope, 1, outer=True), "BOOLEAN")], columns + [("f", "BOOLEAN")]
        listed = ", ".join(f"{text} AS {name}" for (text, _), (name, _) in zip(items, columns))
        distinct = "DISTINCT " if shape == "distinct" else ""
        if shape == "first":
            # The first row of each group, by all that is shown.
            every = ", ".join(f"{text} NULLS LAST" for text, _ in items)
            distinct, tail = f"DISTINCT ON ({items[0][0]}) ", f" ORDER BY {every}"
            text = f"SELECT {distinct}{listed} FROM {source}{where}{tail}"
            alias = self.name("a")
            text = f"SELECT {', '.join(f'{alias}.{name}' for name, _ in columns)} FROM ({text}) AS {alias}"
            return text + self.ordered(columns, last), columns
        text = f"SELECT {distinct}{listed} FROM {source}{where}{tail}"
        if not last and len(columns) > 1 and c.rarely(6):
            # The first of them by columns that are not given.
            alias = self.name("a")
            keys = ", ".join(f"{alias}.{name} {c.one(['', 'DESC '])}NULLS LAST" for name, _ in reversed(columns))
            cut = c.one(["LIMIT 2", "OFFSET 1", "LIMIT 2 OFFSET 1"])
            return f"SELECT {alias}.{columns[0][0]} FROM ({text}) AS {alias} ORDER BY {keys} {cut}", columns[:1]
        return text + self.ordered(columns, last), columns

    def ordered(self, columns, last):
        """An order by all columns, and mostly a limit where the query is not the last one."""
        c = self.c
        if not last and not c.rarely(5):
            return ""
        keys = [f"{i + 1} {c.one(['', 'DESC '])}NULLS {c.one(['LAST', 'FIRST'])}" for i in range(len(columns))]
        cuts = [f" LIMIT {1 + c.below(3)}", f" LIMIT {1 + c.below(3)} OFFSET 1", " OFFSET 1"]
        limit = c.one(cuts) if not last or c.rarely(3) else ""
        return f" ORDER BY {', '.join(keys)}{limit}"

    def output(self, text, i):
        """Columns keep their name where they can, so that names repeat on both sides of joins and above expressions."""
        found = re.search(r"\.(\w+)", text)
        return found.group(1) if found and self.c.below(3) else f"c{i}"

    def sets(self, depth):
        c = self.c
        left, columns = self.query(depth - 1)
        right, others = self.query(depth - 1)
        if [kind for _, kind in columns] != [kind for _, kind in others]:
            alias = self.name("a")
            kind = columns[0][1]
            first = f"SELECT {columns[0][0]} FROM ({left}) AS {alias}"
            second = f"SELECT {self.name('z')}.{dict(VARCHAR='s', BOOLEAN='b').get(kind, 'x')} FROM u AS z{self.names}"
            left, right, columns = first, second, columns[:1]
        operation = c.one(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
        alias = self.name("a")
        names = ", ".join(f"{alias}.{name}" for name, _ in columns)
        return f"SELECT {names} FROM (({left}) {operation} ({right})) AS {alias}", columns


def draw(choices):
    """Tables and a query; the query orders its rows by all of its columns."""
    made = tables(choices)
    query = Query(choices)
    text, columns = query.query(2, last=True)
    # A table may read those before it alone.
    ctes = ", ".join(f"{name} AS ({inner})" for name, inner, _ in query.ctes)
    return made, f"WITH {ctes} {text}" if ctes else text, columns


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def alone(made, text):
    """The query with its tables written in front, those that it reads."""
    ctes = []
    for name, rows in made.items():
        if not re.search(rf"\b{name}\b", text):
            continue
        listed = ", ".join(f"CAST({column} AS {kind}) AS {column}" for column, kind in COLUMNS)
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows) or f"({', '.join(['NULL'] * len(COLUMNS))})"
        none = "" if rows else " WHERE false"
        ctes.append(f"{name} AS (SELECT {listed} FROM (VALUES {values}) AS z({', '.join(c for c, _ in COLUMNS)}){none})")
    if not ctes:
        return text
    return f"WITH {', '.join(ctes)}" + (f", {text[5:]}" if text.startswith("WITH ") else f" {text}")


def normal(rows):
    def one(value):
        if isinstance(value, float) and math.isfinite(value):
            return int(value) if value == int(value) else round(value, 9)
        return int(value) if isinstance(value, bool) or type(value).__name__ == "Decimal" else value

    return [tuple(one(value) for value in row) for row in rows]


class Duck:
    """DuckDB over some tables."""

    def __init__(self, made):
        self.connection = duckdb.connect()
        for name, rows in made.items():
            self.connection.register(name, arrow(rows))

    def rows(self, text):
        """The rows of a query; None where it is refused or fails."""
        try:
            return normal(self.connection.sql(text).fetchall())
        except duckdb.Error:
            return None


def arrow(rows):
    columns = list(zip(*rows)) or [[] for _ in COLUMNS]
    return pa.table({name: pa.array(list(values), TYPES[kind]) for (name, kind), values in zip(COLUMNS, columns)})


# The exit code of a pipeline with mistakes.
MISTAKES = 3


class Program:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, Path(folder)

    def run(self, *arguments, folder=None):
        command = [self.binary, *arguments]
        return subprocess.run(command, cwd=folder or self.folder, capture_output=True, text=True)

    def pipeline(self, here, stages):
        (here / "p.yaml").write_text(json.dumps({"pipeline": "p", "stages": stages}))
        return self.run("--store", "st", "run", "p.yaml", "--json", folder=here)

    def rows(self, text):
        """The rows of one query that stands alone, or the first line of what was said instead."""
        done = self.run("--store", "memory://", "sql", "--json", text)
        if done.returncode:
            return f"exit {done.returncode}: {(done.stderr.strip().splitlines() or [''])[0]}"
        return normal(tuple(row.values()) for row in json.loads(done.stdout))

    def batch(self, made, queries, partitions, refused):
        """The rows of many queries over the same tables, each as a stage; what is refused is added to `refused`, with why."""
        here = self.folder / f"batch{partitions}"
        here.mkdir(exist_ok=True)
        for name, rows in made.items():
            parquet.write_table(arrow(rows), here / f"{name}.parquet", row_group_size=3)
        listed = ", ".join(name for name, _ in COLUMNS)
        stages = {f"raw_{name}": {"read": {"path": f"{name}.parquet"}} for name in made}
        stages |= {name: {"sql": f"SELECT {listed} FROM raw_{name}"} for name in made}
        # Tables of the same run may still be in memory; those of one before are read from their files.
        self.pipeline(here, stages)
        stages |= {f"q{i}": {"sql": text, "partitions": partitions} for i, text in queries.items()}
        while True:
            stages = {name: stage for name, stage in stages.items() if name not in refused}
            ended = self.pipeline(here, stages)
            if ended.returncode != MISTAKES:
                break
            found = [it for it in json.loads(ended.stdout) if it.get("severity", "error") == "error"]
            bad = {stage: it["message"] for it in found for stage in [stage_of(it)] if stage in stages}
            if not bad:
                break
            refused |= bad
        got = {}
        shown = json.loads(ended.stdout) if ended.returncode != MISTAKES and ended.stdout else {}
        outcomes = {it["stage"]: it for it in shown.get("stages", []) if it["artifact"]}
        for i in queries:
            stage = f"q{i}"
            if stage in refused:
                got[i] = f"refused: {refused[stage]}"
            elif stage in outcomes:
                record = json.loads((here / "st" / outcomes[stage]["artifact"]["key"]).read_text())
                parts = [parquet.read_table(here / "st" / part["key"]) for part in record["parts"]]
                rows = [tuple(row.values()) for part in parts for row in part.to_pylist()]
                got[i] = normal(rows)
            else:
                got[i] = f"failed: {why(ended, stage)}"
        return got


def why(ended, stage):
    """How a run ended in which `stage` has no table: its exit code, and where it panicked or what it said of the stage."""
    lines = ended.stderr.strip().splitlines() or [""]
    panics = [" ".join(lines[i:i + 2]) for i, line in enumerate(lines) if "panicked at" in line]
    told = [line for line in lines if line.startswith(f"failed {stage}:")]
    return f"exit {ended.returncode}: {(panics + told + lines[-1:])[0]}"


def stage_of(diagnostic):
    found = re.search(r"stages\.(\w+)", json.dumps(diagnostic))
    return found.group(1) if found else ""


def smaller(program, numbers):
    """A list of choices whose query still differs when it stands alone, as short and as small as it gets."""
    def differs(numbers):
        made, text, _ = draw(Choices(numbers))
        want = Duck(made).rows(text)
        got = program.rows(alone(made, text))
        return want is not None and got != want and not (isinstance(got, str) and got.startswith("exit 2"))

    if not differs(numbers):
        return None
    size = len(numbers) // 2
    while size:
        at = 0
        while at < len(numbers):
            shorter = numbers[:at] + numbers[at + size:]
            zeroed = numbers[:at] + [0] * len(numbers[at:at + size]) + numbers[at + size:]
            if differs(shorter):
                numbers = shorter
            else:
                if zeroed != numbers and differs(zeroed):
                    numbers = zeroed
                at += size
        size //= 2
    return numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=os.environ.get("PROOFMILL", "target/debug/proofmill"))
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=100, help="queries over the same tables in one run")
    parser.add_argument("--refused", action="store_true", help="show refused queries")
    options = parser.parse_args()
    binary = str(Path(options.bin).resolve())
    rng = random.Random(options.seed)
    counts, shown = Counter(), 0
    while counts["compared"] + counts["refused"] + counts["no answer of DuckDB"] < options.queries:
        with tempfile.TemporaryDirectory() as folder:
            program = Program(binary, folder)
            head = Choices([], rng)
            made = tables(head)
            duck = Duck(made)
            drawn, queries, wants = {}, {}, {}
            for i in range(options.batch):
                choices = Choices(head.numbers, rng)
                _, text, _ = draw(choices)
                want = duck.rows(text)
                if want is None:
                    counts["no answer of DuckDB"] += 1
                    continue
                drawn[i], queries[i], wants[i] = choices.numbers, text, want
            refused = {}
            for partitions in (1, 3):
                for i, got in program.batch(made, queries, partitions, refused).items():
                    if isinstance(got, str) and got.startswith("refused"):
                        counts["refused"] += partitions == 1
                        why = re.sub(r"`[^`]*`", "`…`", got)
                        counts[why[:100]] += partitions == 1
                        if options.refused and partitions == 1:
                            print(f"{got}\n  {queries[i]}")
                        continue
                    counts["compared"] += partitions == 1
                    if got == wants[i]:
                        continue
                    counts["different"] += 1
                    numbers = smaller(program, drawn[i]) if shown < 20 else None
                    shown += 1
                    print(f"DIFFERENT (seed {options.seed}, {partitions} partitions)")
                    if numbers is None:
                        print(f"  {alone(made, queries[i])}\n  got  {str(got)[:300]}\n  want {str(wants[i])[:300]}")
                    else:
                        less, text, _ = draw(Choices(numbers))
                        print(f"  {alone(less, text)}\n  got  {program.rows(alone(less, text))}\n  want {Duck(less).rows(text)}")
                    sys.stdout.flush()
    for what, count in sorted(counts.items()):
        print(f"{count:8} {what}")
    sys.exit(1 if counts["different"] else 0)


if __name__ == "__main__":
    main()
