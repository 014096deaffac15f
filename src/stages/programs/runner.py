"""Calls a function with the rows of a table: the runner of the stage kind `python` (docs/specs/command.md).

Rows come on standard input and go out on standard output, as lines of JSON or as Arrow IPC streams. What the
function prints goes to standard error. Standard library only, but for `by: arrow`.
"""

import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # No module of the working folder stands in for one of Python's own.

import importlib.util
import io
import json
import os
import time
import traceback

FLUSH_SECONDS = 0.2
FLUSH_ROWS = 512
# How the line of a row that failed begins.
ERROR = '{"$error":'
# The exit code of a run that called the function for all rows: no other end has it by chance.
ALL_DONE = 43

# A compiled module is told from a changed one by its second and its size alone: none is read, none is written.
sys.dont_write_bytecode = True
sys.pycache_prefix = os.devnull

orders = json.loads(sys.argv[1])
path = os.path.realpath(orders["file"])
name, arguments = orders["function"], orders["arguments"]

# The streams are ours alone: what is printed, read or started by the function gets others.
source = os.fdopen(os.dup(0), "rb", 1 << 18)
lines_in = io.TextIOWrapper(source, encoding="utf-8", newline="\n")
sink = os.fdopen(os.dup(1), "wb", 1 << 18)
nothing = os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
os.dup2(2, 1)
sys.stdout.reconfigure(line_buffering=True)


class Refused(SystemExit):
    """An end that has been explained."""


def refuse(message):
    """Ends with a message that says all there is to say."""
    sys.stdout.flush()
    print(f"proofmill: {message}", file=sys.stderr, flush=True)
    raise Refused(1)


def shown(file):
    """A path as people write it."""
    near = os.path.relpath(file)
    return file if near.startswith("..") else near


def load():
    """The function."""
    module = os.path.splitext(os.path.basename(path))[0]
    if module in sys.modules or module in getattr(sys, "stdlib_module_names", ()):
        module = f"own_{module}"
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(module, path)
    if spec is None:
        refuse(f"`{orders['file']}` is not a Python file: its name must end in `.py`")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    function = getattr(loaded, name, None)
    if not callable(function):
        refuse(f"`{orders['file']}` has no function `{name}`")
    return function


def check_imports():
    """Ends if a module was imported that lies beside the function and is not declared."""
    if orders["declared"] is None:
        return
    declared = [os.path.realpath(file) for file in orders["declared"]]
    roots = {os.path.dirname(path), os.getcwd()}
    installed = {os.path.realpath(folder) for folder in (sys.prefix, sys.base_prefix)}

    def within(file, folder):
        return file == folder or file.startswith(folder.rstrip("/") + "/")

    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        file = os.path.realpath(file)
        is_library = "site-packages" in file or "dist-packages" in file
        is_library = is_library or any(within(file, folder) for folder in installed)
        is_ours = any(within(file, folder) for folder in roots) and not is_library
        if is_ours and not any(within(file, folder) for folder in declared):
            refuse(f"`{shown(file)}` is imported and not declared: name it in `code`")


def describe(error):
    """Where the function raised, and what."""
    library = ("site-packages", "dist-packages", "/lib/python", "<")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in library)]
    place = f"{shown(own[-1].filename)}:{own[-1].lineno}" if own else orders["file"]
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return f"{place}: {text}"


def plain(value):
    """Numbers and arrays of NumPy and its like, as JSON knows them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is no value of a column")


encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=plain).encode


def encoded(row):
    if not isinstance(row, dict):
        raise TypeError(f"`{name}` gave a {type(row).__name__} where a dict was expected")
    return encode(row)


def failed(line, row, error):
    """The error row of an input row."""
    answer = {"$error": describe(error)}
    if isinstance(row, dict) and "row_id" in row:
        answer["row_id"] = row["row_id"]
    # The line is JSON already.
    return encode(answer)[:-1] + ',"$input":' + line.strip() + "}"


def answers_of_row(function, line):
    row = json.loads(line)
    try:
        answer = function(row, **arguments)
        if type(answer) is dict:
            return [encode(answer)]
        if answer is None:
            return []
        if isinstance(answer, (str, bytes)):
            return [encoded(answer)]
        return [encoded(one) for one in ([answer] if isinstance(answer, dict) else answer)]
    except Exception as error:
        return [failed(line, json.loads(line), error)]


def answers_of_batch(function, lines):
    try:
        answers = function([json.loads(line) for line in lines], **arguments)
        if answers is None or isinstance(answers, (dict, str, bytes)):
            raise TypeError(f"`{name}` gave a {type(answers).__name__} where a list of dicts was expected")
        return [encoded(answer) for answer in answers]
    except Exception as error:
        return [failed(line, json.loads(line), error) for line in lines]


def run_lines(function):
    lines, answers, flushed, has_failed = [], [], time.monotonic(), False

    def flush():
        nonlocal answers, flushed
        if answers:
            sink.write(("\n".join(answers) + "\n").encode())
            sink.flush()
        answers, flushed = [], time.monotonic()

    by_row = orders["by"] == "row"
    for line in lines_in:
        if by_row:
            answers += answers_of_row(function, line)
        else:
            lines.append(line)
            if len(lines) == orders["batch_rows"]:
                answers += answers_of_batch(function, lines)
                lines = []
        # One error may be enough to end it all, however long the next row takes.
        is_first_error = not has_failed and bool(answers) and answers[-1].startswith(ERROR)
        has_failed = has_failed or is_first_error
        if is_first_error or len(answers) >= FLUSH_ROWS or time.monotonic() - flushed > FLUSH_SECONDS:
            flush()
    if lines:
        answers += answers_of_batch(function, lines)
    flush()


def run_arrow(function):
    try:
        import pyarrow
    except ImportError:
        refuse(f"`by: arrow` needs pyarrow in {sys.executable}: install it, or use `by: batch`")
    writer = None
    with pyarrow.ipc.open_stream(source) as batches:
        for batch in batches:
            answer = function(batch, **arguments)
            if not isinstance(answer, (pyarrow.RecordBatch, pyarrow.Table)):
                raise TypeError(f"`{name}` gave a {type(answer).__name__} where a RecordBatch was expected")
            writer = writer or pyarrow.ipc.new_stream(sink, answer.schema)
            writer.write(answer)
    if writer:
        writer.close()


try:
    function = load()
    check_imports()
    (run_arrow if orders["by"] == "arrow" else run_lines)(function)
    check_imports()
except Refused:
    raise
except SystemExit:
    refuse(f"`{orders['file']}` ended Python with `sys.exit`, and rows are missing")
sink.flush()
raise SystemExit(ALL_DONE)
