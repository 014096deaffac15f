#!/usr/bin/env python3
"""Verifies a proofmill store in a local folder: a second implementation of docs/specs/audit-log.md.

    python3 verify.py --bundle FOLDER [--key VERIFIER_KEY]... [--tsa-authority PEM]
    python3 verify.py STORE [--level 1|2] [--run RUN] [--anchor FILE]... [--key VERIFIER_KEY]... [--json]

Level 1 verifies the audit log, checkpoints, anchors, runs, records, the ledger's log and memories.
Level 2 (default) also verifies the SHA-256 of every object that a record names.
Exit code: 0 nothing found, 1 something found, 2 wrong arguments or not a store.
Only the standard library of Python 3.9 or newer is needed; for timestamps also openssl. Nothing is ever written.
"""
import argparse, base64, collections, datetime, hashlib, json, math, os, re, stat, struct, subprocess, sys

RECORD_BYTES_MAX, NOTE_BYTES_MAX, CBOR_DEPTH_MAX, INT_DIGITS_MAX = 256 << 20, 1 << 20, 100, 1000
U64_MAX = 2**64 - 1

class Fault(Exception):
    """What is wrong with one object."""
    def __init__(self, fault, detail):
        super().__init__(detail)
        self.fault, self.detail = fault, detail

def sha256(data):
    return hashlib.sha256(data).hexdigest()

# ---- Merkle trees, RFC 6962 section 2.1

def leaf_hash(data):
    return hashlib.sha256(b"\x00" + data).digest()

def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()

class Tree:
    """A growing tree: only the roots of its perfect subtrees are kept, largest first."""
    def __init__(self, size=0, peaks=()):
        self.size, self.peaks = size, list(peaks)

    def push(self, leaf):
        rest = self.size
        while rest & 1:
            leaf, rest = node_hash(self.peaks.pop(), leaf), rest >> 1
        self.peaks.append(leaf)
        self.size += 1

    def root(self):
        root = self.peaks[-1] if self.peaks else hashlib.sha256(b"").digest()
        for left in reversed(self.peaks[:-1]):
            root = node_hash(left, root)
        return root

class Index:
    """Where a log has entries about each pipeline, as its entries must say."""
    def __init__(self):
        self.since, self.names = None, {}

    def add(self, record):
        """Whether an entry names those before it rightly, or none at all."""
        said, (event,) = record.get("extensions", {}).get("earlier"), record["event"].values()
        if said is None:
            self.since, self.names = None, {}
            return True
        if self.since is None:
            self.since = record["seq"]
        name = event.get("pipeline", "")
        name = name["name"] if isinstance(name, dict) else name
        bits = int(sha256(name.encode()), 16)
        others = {}
        for other, seqs in self.names.values():
            if other != bits:
                alike = str(256 - (other ^ bits).bit_length())
                others[alike] = max(seqs[0], others.get(alike, 0))
        same = self.names.setdefault(name, (bits, []))[1]
        expected = {"others": others, "same": same[:16], "since": self.since}
        same.insert(0, record["seq"])
        return json.dumps(said, sort_keys=True) == json.dumps(expected, sort_keys=True)

def root_by_inclusion(size, index, leaf, path):
    """The root of the tree of `size` leaves whose leaf `index` has this audit path; None if none fits."""
    if not 0 <= index < size:
        return None
    steps, last = list(path), size - 1
    while last:
        if index & 1 or index < last:  # A last node without a right sibling moves up unchanged.
            if not steps:
                return None
            other = steps.pop(0)
            leaf = node_hash(other, leaf) if index & 1 else node_hash(leaf, other)
        index, last = index >> 1, last >> 1
    return None if steps else leaf

# ---- Ed25519, RFC 8032 section 5.1: verification only

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P

def point_add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)

def point_mul(scalar, point):
    result = (0, 1, 1, 0)
    while scalar:
        result = point_add(result, point) if scalar & 1 else result
        point, scalar = point_add(point, point), scalar >> 1
    return result

def point_decode(data):
    """The point, or None: not canonical, not on the curve, or of small order."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    multiple = point_mul(8, (x, y, 1, x * y % P))
    is_small = multiple[0] == 0 and multiple[1] == multiple[2]
    return None if is_small else (x, y, 1, x * y % P)

def point_encode(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")

BASE_POINT = point_decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))

def ed25519_verify(public_key, message, signature):
    """Strict verification: canonical S, no points of small order, no cofactor."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key, s = point_decode(public_key), int.from_bytes(signature[32:], "little")
    if key is None or point_decode(signature[:32]) is None or s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % ORDER
    minus_key = (P - key[0], key[1], key[2], P - key[3])
    return point_encode(point_add(point_mul(s, BASE_POINT), point_mul(k, minus_key))) == signature[:32]

# ---- Signed notes and checkpoints (C2SP signed-note, tlog-checkpoint). What is malformed is a ValueError.

VerifierKey = collections.namedtuple("VerifierKey", "name id public")
Checkpoint = collections.namedtuple("Checkpoint", "origin size root text signatures")

def strict_base64(text):
    data = base64.b64decode(text.encode("ascii"), validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("not canonical base64")
    return data

def parse_key(text):
    """`name+id+base64(01 || public key)`."""
    name, key_id, encoded = text.split("+", 2)
    data = strict_base64(encoded)
    expected = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4]
    if not name or re.search(r"\s", name) or len(data) != 33 or data[0] != 1 or key_id != expected.hex():
        raise ValueError("not an Ed25519 verifier key")
    return VerifierKey(name, expected, data[1:])

def parse_note(data):
    """Text and signatures (name, key id, signature) of a note; a text alone has no signatures."""
    text = data.decode("utf-8")
    if not text.endswith("\n") or any(c < " " and c != "\n" for c in text):
        raise ValueError("not a note: a control character, or no line end")
    text, is_signed, lines = text.rpartition("\n\n")
    if not is_signed:
        return lines, []
    signatures = []
    for line in lines[:-1].split("\n"):
        match = re.fullmatch("\u2014 ([^\\s+]+) ([A-Za-z0-9+/=]+)", line)
        signature = strict_base64(match[2]) if match else b""
        if len(signature) < 5:
            raise ValueError("a line of a signature is malformed")
        signatures.append((match[1], signature[:4], signature[4:]))
    return text + "\n", signatures

def parse_checkpoint(data):
    text, signatures = parse_note(data)
    lines = text.split("\n")[:-1]
    if len(lines) < 3 or not all(lines) or not re.fullmatch("0|[1-9][0-9]{0,19}", lines[1]):
        raise ValueError("not a checkpoint: expected origin, number of entries, root")
    root = strict_base64(lines[2])
    if len(root) != 32 or int(lines[1]) > U64_MAX:
        raise ValueError("not a checkpoint: the root or the number of entries has another length")
    return Checkpoint(lines[0], int(lines[1]), root, text, signatures)

def signature_fault(text, signatures, keys):
    """None if a key signed the text and no signature by one of the keys is invalid; else the reason."""
    by_keys = [(key, s) for name, key_id, s in signatures for key in keys if (name, key_id) == key[:2]]
    for key, signature in by_keys:
        if not ed25519_verify(key.public, text.encode(), signature):
            return f"the signature by {key.name} is not valid"
    return None if by_keys else "no signature by the given key"

# ---- Canonical rows: CBOR with the core deterministic encoding (RFC 8949 section 4.2.1)

Float = collections.namedtuple("Float", "value bits width")

def decode_row(data):
    """The values of the canonical bytes of a row; ValueError if they are not canonical."""
    value, end = cbor_value(data, 0, 0)
    if not isinstance(value, list) or end != len(data):
        raise ValueError("a row is one array and nothing else")
    return value

def cbor_bytes(data, at, count):
    if count > len(data) - at:
        raise ValueError("the row ends early")
    return data[at:at + count], at + count

def cbor_value(data, at, depth):
    """The value at `at`, and where it ends."""
    head, at = cbor_bytes(data, at, 1)
    major, number = head[0] >> 5, head[0] & 31
    width = 1 << (number - 24) if 24 <= number <= 27 else 0
    if depth > CBOR_DEPTH_MAX or number > 27:
        raise ValueError("too deep, or of indefinite length")
    if width:
        raw, at = cbor_bytes(data, at, width)
        number = int.from_bytes(raw, "big")
        if major != 7 and number < {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}[width]:
            raise ValueError("a number is longer than necessary")
    if major in (0, 1):
        return (-1 - number if major else number), at
    if major in (2, 3):
        raw, at = cbor_bytes(data, at, number)
        return (raw if major == 2 else raw.decode("utf-8")), at
    if major == 4:
        values = []
        for _ in range(number):  # Ends with the data, however large the number is.
            value, at = cbor_value(data, at, depth + 1)
            values.append(value)
        return values, at
    if major == 6 and number in (2, 3):
        raw, at = cbor_value(data, at, depth + 1)
        if not isinstance(raw, bytes) or len(raw) < 9 or raw[0] == 0:
            raise ValueError("a large integer is not in its shortest form")
        size = int.from_bytes(raw, "big")
        return (size if number == 2 else -1 - size), at
    if major == 7 and width >= 2:
        return Float(struct.unpack({2: ">e", 4: ">f", 8: ">d"}[width], raw)[0], number, width), at
    if major == 7 and not width and number in (20, 21, 22):
        return (False, True, None)[number - 20], at
    raise ValueError("a value that no row has")

def show(value):
    """A decoded value as text."""
    if isinstance(value, list):
        return "[" + ", ".join(map(show, value)) + "]"
    if isinstance(value, Float):
        is_nan = math.isnan(value.value)
        return f"NaN(0x{value.bits:0{2 * value.width}x})" if is_nan else repr(value.value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**1000 else hex(value)
    return "0x" + value.hex() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)

# ---- Shapes of records

def check(value, shape, at="record"):
    """Raises ValueError unless a value has a shape: a pattern, a type, a predicate, [items] or {fields}.

    A field `name?` may be absent or null, `name~` only absent; `*` is any field, `|` means exactly one.
    """
    if isinstance(shape, re.Pattern):
        fits = isinstance(value, str) and shape.fullmatch(value)
    elif isinstance(shape, (list, dict, type)):
        fits = isinstance(value, shape if isinstance(shape, type) else type(shape))
    else:
        fits = shape(value)
    if not fits:
        raise ValueError(f"`{at}` is not what it should be")
    if isinstance(shape, list):
        for item in value:
            check(item, shape[0], at + "[]")
    if not isinstance(shape, dict):
        return
    fields = {name.rstrip("?~"): (name, inner) for name, inner in shape.items()}
    lacking = [n for n, (full, _) in fields.items() if n == full and n not in ("*", "|") and n not in value]
    if "|" in shape and len(value) != 1:
        raise ValueError(f"`{at}` has {len(value)} fields, expected one")
    if "|" not in shape and lacking:
        raise ValueError(f"`{at}` lacks `{lacking[0]}`")
    for name, item in value.items():
        full, inner = fields.get(name, ("", shape.get("*"))) if name not in ("*", "|") else ("", None)
        if inner is None:
            raise ValueError(f"`{at}` has an unknown field `{name}`")
        if item is not None or not full.endswith("?"):
            check(item, inner, f"{at}.{name}")

def is_key(text):
    parts = text.split("/") if isinstance(text, str) else [""]
    return all(re.fullmatch(r"[a-z0-9._-]+", part) and part not in (".", "..") for part in parts)

def is_run(text):
    """Whether a name of a folder is the id of a run: it begins with a moment."""
    try:
        return bool(re.fullmatch("[0-9]{8}-[0-9]{9}-[0-9a-z]{6}", text)
                    and datetime.datetime.strptime(text[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return False

def number(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= U64_MAX

def any_value(_):
    return True

WORD = "[a-z][a-z0-9_]{0,63}"
HEX, RUN, NAME = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-z-]{25}"), re.compile(WORD)
STAGE = re.compile(rf"{WORD}(\.{WORD})?")
FILE = re.compile(r"(?!\.\.?(/|$))([A-Za-z0-9._-]{1,128}/)?(?!\.\.?$)[A-Za-z0-9._-]{1,128}")
TIME = re.compile(r"[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
HOW = re.compile("succeeded|failed|stopped|killed|not_begun")
OUTCOME = re.compile("succeeded|failed|interrupted")
ENDINGS = {"succeeded": "succeeded", "failed": "failed", "interrupted": "stopped"}
PIPELINE = {"name": NAME, "path": str, "yaml_sha256": HEX}
PLACE = {"seq": number, "sha256": HEX}
PART_OF_RUN = re.compile("file|params|inputs|models|memory")
TRIGGER = {"kind": str, "name~": NAME, "planned~": TIME, "of~": RUN, "from~": RUN, "part~": PART_OF_RUN}
VERDICT = re.compile("pass|fail|cannot_tell|not_comparable|not_finished")
SOURCE = {"role": str, "sha256": HEX, "bytes": number, "stored": bool}
SOURCES = {"*": SOURCE}
OBJECT = {"key": is_key, "sha256": HEX, "bytes": number}
PART = {**OBJECT, "rows": number}
STAGE_OUTCOME = {
    "stage": STAGE, "kind": str, "fingerprint?": HEX, "status": str, "cached_from?": RUN, "rows": number,
    "bytes": number, "error_rows": number, "wall_ms": number, "artifact?": {"key": is_key, "sha256": HEX}}
FAILURE = {"stage": str, "message": str, "outcome?": STAGE_OUTCOME, "query?": str}
RUN_EVENT = {
    "|": any_value, "stages": [STAGE_OUTCOME], "finished": {"outcome": OUTCOME, "*": any_value},
    "failed": {"failures": [FAILURE], "*": any_value},
    "started": {"pipeline": PIPELINE, "params": dict, "code": dict, "sources~": SOURCES, "stages": number,
                "*": any_value}}
CHAINED = {"v": number, "seq": number, "prev?": HEX, "nonce": str, "t_utc": TIME}
RUN_ENTRY = {**CHAINED, "run": RUN, "epoch": number, "writer": str, "extensions~": dict,
             "body": lambda v: v == "fence" or check(v, {"event": RUN_EVENT}, "body") is None}
ADOPTED_RUN = {"run": RUN, "pipeline?": NAME, "how?": HOW, "manifest?": HEX}
AUDIT_ENTRY = {
    **CHAINED, "tree": [HEX], "open": [{"run": RUN, "pipeline": NAME}], "writer": str, "extensions~": dict,
    "event": {
        "|": any_value, "adopted": {"runs": [ADOPTED_RUN]}, "key": {"verifier": str},
        "run_began": {"run": RUN, "pipeline": PIPELINE, "trigger": TRIGGER},
        "run_ended": {"run": RUN, "pipeline": NAME, "how": HOW, "manifest?": HEX, "log?": PLACE,
                      "heads~": {"*": PLACE}, "late~": bool},
        "judged": {"gate": NAME, "pipeline": NAME, "candidate": RUN, "baseline?": RUN, "word": VERDICT,
                   "verdict": SOURCE, "channels": {"*": RUN}},
        "pinned": {"pipeline": NAME, "run": RUN, "owner": str, "reason": str, "channels": {"*": RUN}},
        "forgot": {"id": str, "author": str, "reason": str, "answers": number},
        "rows_root": {"artifact": HEX, "rows": number, "root": HEX}}}
MANIFEST = {
    "v": number, "run": RUN, "pipeline": PIPELINE, "params": dict, "trigger": dict, "code": dict,
    "templates~": {"*": HEX}, "sources~": SOURCES, "machine~": dict, "started_at": TIME, "finished_at": TIME,
    "sessions~": list, "outcome": OUTCOME, "stages": [STAGE_OUTCOME], "metrics": list, "models~": dict,
    "local_models~": dict, "log": PLACE, "extensions~": dict}
ARTIFACT = {
    "v": number, "fingerprint": HEX, "stage": STAGE, "kind": str, "created_by": RUN, "created_at": TIME,
    "schema": [{"name": str, "type": str, "nullable": bool}], "schema_ipc": str, "rows": number,
    "bytes": number, "parts": [PART], "errors": [PART], "files": [{"name": FILE, **OBJECT}],
    "components": {"*": str}, "inputs?": {"*": HEX}, "transient_errors~": number, "checks": list,
    "wall_ms": number, "usage?": dict, "notes": [str], "rows_root?": HEX, "extensions~": dict}
SEGMENT = {**PART, "tail_at": number, "tail_sha256": HEX, "past~": number}
FORGET = {"id": str, "what": {"|": any_value, "models": [str], "requests": [HEX]}, "author": str,
          "reason": str, "answers": number}
MERGE = {"from": [is_key], "into": SEGMENT}
LEDGER_ENTRY = {**CHAINED, "writer": str,
                "body": {"|": any_value, "append": SEGMENT, "merge": MERGE, "forget": FORGET}}
LEDGER_CHECKPOINT = {"v": number, "seq": number, "head": HEX, "live": [SEGMENT],
                     "forgotten~": [{"t_utc": TIME, "forget": FORGET}]}
LESSONS = "add affirm negate block confirm exclude force undo".split()
SCHEDULE_ENTRY = {**CHAINED, "before": dict, "writer": str, "event": dict}
MEMORY_ENTRY = {**CHAINED, "memory": NAME, "author": str, "reason?": str, "proof?": str, "run?": str,
                "question?": str, "action": {"|": any_value, **dict.fromkeys(LESSONS, dict)}}
FORMAT = {"v": number, "store": str, "created_at": TIME, "created_by": str}

def parse_json(text):
    def unique(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a field occurs twice")
        return dict(pairs)

    def finite(digits):
        if not math.isfinite(float(digits)):
            raise ValueError(f"{digits} is not a number")
        return float(digits)

    def short(digits):
        return int(digits) if len(digits) <= INT_DIGITS_MAX else finite(digits)

    value = json.loads(
        text, object_pairs_hook=unique, parse_constant=finite, parse_float=finite, parse_int=short)
    if re.search(r"\\u[dD][89a-fA-F]", text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # Refuses half a surrogate pair.
    return value

def unseal(data, shape, newest):
    """The record in stored bytes, without its seal."""
    body, seal = data[:-78], data[-78:]
    if len(data) <= 78 or not (seal.startswith(b',"sha256":"') and seal.endswith(b'"}\n')):
        raise Fault("damaged", "it does not end with its checksum")
    if seal[11:75] != sha256(body).encode():
        raise Fault("damaged", "its content does not match its checksum")
    version = re.match(rb'\{"v":([0-9]{1,10})', body)
    version = int(version[1]) if version else 0
    if not 0 < version < 2**32:
        raise Fault("damaged", "its first field is not a known version")
    if version > newest:
        raise Fault("newer", f"version {version}; this program reads up to {newest}")
    try:
        value = parse_json((body + b"}").decode("utf-8"))
        check(value, shape)
    except (ValueError, RecursionError, MemoryError) as error:
        raise Fault("damaged", f"it does not parse: {error}") from None
    return value

# ---- The store: a folder

class Store:
    """Reads objects by key. Symbolic links below the root are not followed."""
    def __init__(self, root):
        self.root = root

    def path(self, key):
        """Where an object lies, and its mode."""
        path, mode = self.root, 0
        for part in key.split("/"):
            path = os.path.join(path, part)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                raise Fault("missing", "a symbolic link lies there, which is not read")
        return path, mode

    def pieces(self, key):
        """The bytes of an object, piece by piece."""
        try:
            path, mode = self.path(key)
            if not stat.S_ISREG(mode):
                raise Fault("missing", "it is not a regular file")
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    yield piece
        except (FileNotFoundError, NotADirectoryError):
            raise Fault("missing", "it is not in the store") from None
        except OSError as error:
            raise Fault("damaged", f"it cannot be read: {error.strerror}") from None

    def read(self, key, limit=RECORD_BYTES_MAX):
        data = bytearray()
        for piece in self.pieces(key):
            data += piece
            if len(data) > limit:
                raise Fault("damaged", f"it is larger than {limit} bytes")
        return bytes(data)

    def digest(self, key):
        digest, size = hashlib.sha256(), 0
        for piece in self.pieces(key):
            digest.update(piece)
            size += len(piece)
        return digest.hexdigest(), size

    def list(self, folder, folders=False):
        """Sorted names of what lies in a folder; of its folders only, if so asked."""
        try:
            with os.scandir(self.path(folder)[0]) as found:
                return sorted(e.name for e in found if not folders or e.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Fault("damaged", f"it cannot be listed: {error.strerror}") from None

Entry = collections.namedtuple("Entry", "seq key data record known wrong")
# What the log of a run amounts to. `digests` are those of its entries, by number.
RunLog = collections.namedtuple("RunLog", "is_whole digests head started outcome stages sources")

class Verifier:
    def __init__(self, root, level=2, run=None, anchors=(), keys=()):
        self.store, self.level, self.only, self.keys = Store(root), level, run, keys
        self.anchors = dict(anchors)
        self.store_id, self.log_end, self.root = None, 0, None
        self.findings, self.rests = {}, collections.defaultdict(set)
        self.logged = collections.defaultdict(list)  # What the audit log says of each run, in order.
        self.rows_roots, self.heads, self.channels = collections.defaultdict(list), {}, {}
        self.named, self.named_records = collections.defaultdict(set), set()  # Records, by run and key.
        self.records, self.digests, self.counts = {}, {}, collections.Counter()

    def report(self, fault, key, detail, run=None):
        self.rests[key] |= {run} if run else set()
        self.findings[fault, key, detail] = None

    def guard(self, key, action, *arguments, run=None):
        """Does a part of the work. Whatever goes wrong there is a finding, and the work goes on."""
        try:
            return action(*arguments)
        except Fault as fault:
            self.report(fault.fault, key, fault.detail, run)
        except Exception as error:  # A hostile store must not stop the verification.
            self.report("damaged", key, f"it cannot be verified: {type(error).__name__}: {error}", run)
        return None

    def record(self, key, shape, newest=1, run=None):
        return self.guard(key, lambda: unseal(self.store.read(key), shape, newest), run=run)

    def verify(self):
        found = self.record("format.json", FORMAT)
        self.store_id = found["store"] if found else None
        if any(fault == "newer" for fault, _, _ in self.findings):
            return  # Its layout is not known.
        self.guard("audit/log", self.audit_log)
        runs = {name for name in self.guard("runs", self.store.list, "runs", True) or () if is_run(name)}
        runs |= set(self.logged)
        if self.only is not None and self.only not in runs:
            raise ValueError(f"the store has no run {self.only}")
        for run in sorted(runs) if self.only is None else [self.only]:
            self.counts["runs"] += 1
            self.guard(f"runs/{run}", self.run, run)
        if self.only is None:
            self.guard("artifacts", self.all_artifacts)
            self.guard("ledger/log", self.ledger)
            for name in self.guard("memories", self.store.list, "memories", True) or ():
                if NAME.fullmatch(name):
                    self.guard(f"memories/{name}", self.memory, name)
            for name in self.guard("schedules", self.store.list, "schedules", True) or ():
                if NAME.fullmatch(name):
                    self.guard(f"schedules/{name}", lambda: list(self.entries(f"schedules/{name}", SCHEDULE_ENTRY, 1)))
            for (log, seq), (digest, runs) in self.heads.items():
                self.guard(log, self.head, log, seq, digest, runs)
        for (_, sha), found in self.records.items():
            for key, event in self.rows_roots[sha] if found else ():
                if (event["rows"], event["root"]) != (found["rows"], found.get("rows_root") or event["root"]):
                    self.report("contradicts", key, f"the record {sha} of the table says otherwise")

    def head(self, log, seq, digest, runs):
        """The entry of the ledger, a memory or a schedule that was the last one when a run ended."""
        folder = "ledger/log" if log == "ledger" else log
        key, is_covered = f"{folder}/{seq:020}.json", any(
            number >= seq for number in self.numbers(folder, ".checkpoint.json"))
        if seq not in self.numbers(folder):
            if not is_covered:
                self.report("cut off", key, "the audit log names it, and it is not there", *runs[:1])
        elif sha256(self.store.read(key)) != digest:
            self.report("contradicts", key, "it is not the entry that the audit log names", *runs[:1])

    # -- logs

    def numbers(self, folder, suffix=".json"):
        names = (re.fullmatch("([0-9]{20})" + re.escape(suffix), name) for name in self.store.list(folder))
        return [int(match[1]) for match in names if match and int(match[1]) <= U64_MAX]

    def entries(self, folder, shape, newest, first=0, head=None, run=None):
        """The entries of a log from `first`, each with its record, or None if that is not readable.

        `known` tells whether the entry before was readable. The caller adds to `wrong` what else is wrong.
        """
        expected, known = first, True
        for seq in (seq for seq in self.numbers(folder) if seq >= first):
            key = f"{folder}/{seq:020}.json"
            if seq > expected:
                detail = f"{seq - expected} missing in a row; later entries exist"
                self.report("missing", f"{folder}/{expected:020}.json", detail, run)
                known = False
            expected, found, wrong = seq + 1, None, []
            data = self.guard(key, self.store.read, key, run=run)
            if data is None:
                known = False
                continue
            found = self.guard(key, unseal, data, shape, newest, run=run)
            if found and found["seq"] != seq:
                wrong.append(f"it says that it is entry {found['seq']}")
            if found and known and found.get("prev") != head:
                wrong.append("`prev` is not the digest of the entry before it")
            yield Entry(seq, key, data, found, known, wrong)
            if wrong:
                self.report("chain broken", key, "; ".join(wrong), run)
            head, known = sha256(data), found is not None

    def audit_log(self):
        notes = self.notes()
        tree, said, is_open, roots, index = Tree(), Tree(), {}, {0: Tree().root()}, Index()
        wanted = {note.size for _, note in notes}
        for entry in self.entries("audit/log", AUDIT_ENTRY, 1):
            self.log_end = entry.seq + 1
            self.counts["audit entries"] += 1
            if entry.seq == tree.size:  # Roots are known up to the first gap.
                tree.push(leaf_hash(entry.data))
                if tree.size in wanted:
                    roots[tree.size] = tree.root()
            index = index if entry.known else None  # Nothing is known of it behind a gap.
            if not entry.record:
                continue
            if index and not index.add(entry.record):
                entry.wrong.append("`earlier` is not where entries about pipelines are before it")
            peaks = [bytes.fromhex(peak) for peak in entry.record["tree"]]
            has_peaks = len(peaks) == bin(entry.seq).count("1")
            if not has_peaks or entry.known and peaks != said.peaks:
                entry.wrong.append("`tree` is not that of the entries before it")
            now_open = [(item["run"], item["pipeline"]) for item in entry.record["open"]]
            if entry.known and now_open != list(is_open.items()):
                entry.wrong.append("`open` is not what the entries before it leave open")
            # What it says counts from here on, so that one wrong entry is one finding.
            said, is_open = Tree(entry.seq, peaks) if has_peaks else said, dict(now_open)
            said.push(leaf_hash(entry.data))
            self.audit_event(entry, is_open)
        self.root = base64.b64encode(tree.root()).decode() if tree.size == self.log_end else None
        for key, note in notes:
            if note.size not in roots:
                detail = f"it covers {note.size} entries; the log has the first {tree.size}"
                self.report("cut off", key, detail)
            elif note.root != roots[note.size]:
                self.report("rewritten", key, f"a fork: the first {note.size} entries have another root")

    def audit_event(self, entry, is_open):
        """Notes what an entry says, and which runs are open after it."""
        kind, event = next(iter(entry.record["event"].items()))
        if kind == "judged":
            verdict, run = event["verdict"], event["candidate"]
            self.object(f"sources/{verdict['sha256'][:2]}/{verdict['sha256']}", verdict["sha256"], verdict["bytes"], run)
            if run not in self.logged:
                self.report("not logged", entry.key, f"it judges run {run}, of which no entry says that it began")
            self.verdict(entry.key, event)
        if kind in ("judged", "pinned"):
            self.moves(entry.key, kind, event)
        if kind == "rows_root":
            self.rows_roots[event["artifact"]].append((entry.key, event))
        for item in event["runs"] if kind == "adopted" else [event] if kind.startswith("run_") else ():
            self.logged[item["run"]].append((kind, item))
            pipeline = item["pipeline"]["name"] if kind == "run_began" else item.get("pipeline")
            if kind == "run_ended":
                is_open.pop(item["run"], None)
                for log, last in item.get("heads", {}).items():
                    if log == "ledger" or re.fullmatch(f"(memories|schedules)/{WORD}", log):
                        self.heads.setdefault((log, last["seq"]), (last["sha256"], []))[1].append(item["run"])
            elif item.get("how") is None and pipeline:
                is_open.setdefault(item["run"], pipeline)

    def verdict(self, key, event):
        """Compares a verdict with what the log says of it; one that is lost or another is found as an object."""
        sha = event["verdict"]["sha256"]
        try:
            data = self.store.read(f"sources/{sha[:2]}/{sha}", NOTE_BYTES_MAX)
            said = json.loads(data)
            found = (said["judgement"]["word"], said["evidence"]["candidate"]["run"])
        except (Fault, OSError):
            return
        except (ValueError, TypeError, KeyError, RecursionError):
            found = None
        if sha256(data) == sha and found != (event["word"], event["candidate"]):
            self.report("contradicts", key, "it names a verdict that says something else")

    def moves(self, key, kind, event):
        """Channels move by a pass, the baseline by a pin, and each to the run of its entry only."""
        before, now = self.channels.get(event["pipeline"], {}), event["channels"]
        run = event["run"] if kind == "pinned" else event["candidate"] if event["word"] == "pass" else None
        for name in sorted({*before, *now}):
            may = run is not None and now.get(name) == run and (name == "baseline") == (kind == "pinned")
            if before.get(name) != now.get(name) and not may:
                self.report("contradicts", key, f"it moves channel `{name}`, which its event does not move")
        self.channels[event["pipeline"]] = now

    def notes(self):
        """Checkpoints of the store and anchors that are to be compared with the log."""
        found, origin, folder = [], f"proofmill/{self.store_id}", "audit/checkpoints"
        keys = {f"{folder}/{size:020}.txt": size for size in self.numbers(folder, ".txt")}
        for key, size in [*keys.items(), *((name, None) for name in self.anchors)]:
            if size is None:
                data = self.anchors[key]
            else:
                data = self.guard(key, self.store.read, key, NOTE_BYTES_MAX)
            try:
                note = parse_checkpoint(data) if data is not None else None
            except ValueError as error:
                self.report("damaged", key, f"it does not parse: {error}")
                continue
            wrong = signature_fault(note.text, note.signatures, self.keys) if note and self.keys else None
            if wrong:
                self.report("bad signature", key, wrong)
            if note and size not in (None, note.size):
                self.report("contradicts", key, f"it is a checkpoint of {note.size} entries")
            if note and self.store_id is not None and note.origin != origin:
                self.report("other log", key, f"it is of {note.origin}, not of {origin}")
            elif note:
                found.append((key, note))
        return found

    # -- runs

    def run(self, run):
        log, key = self.run_log(run), f"runs/{run}/manifest.json"
        manifest = data = None
        if os.path.lexists(os.path.join(self.store.root, key)):
            data = self.guard(key, self.store.read, key, run=run)
        if data is not None:
            manifest = self.guard(key, unseal, data, MANIFEST, 5, run=run)
        if manifest and manifest["run"] != run:
            self.report("damaged", key, f"it is the manifest of run {manifest['run']}", run)
            manifest = None
        stages, sources = list(log.stages), dict(log.sources)
        if manifest:
            stages += tables_of(manifest["stages"])
            sources.update(stored_sources(manifest))
            self.manifest_against_log(run, key, manifest, log)
        self.against_audit(run, key, sha256(data) if data is not None else None, manifest, log)
        found = {}
        for stage in stages:
            place = (stage["artifact"]["key"], stage["artifact"]["sha256"])
            table = found[place] = self.artifact(*place, run)
            self.named[run, place[0]].add(place[1])
            self.named_records.add(place[1])
            said = (stage.get("fingerprint"), stage["rows"])
            if table and (table["fingerprint"], table["rows"]) != said:
                detail = f"stage {stage['stage']} has other rows or another fingerprint than {place[0]}"
                self.report("contradicts", key if manifest else f"runs/{run}/log", detail, run)
        if log.is_whole and all(found.values()):  # A run names all tables that its tables were made of.
            tables = {table_digest(table) for table in found.values()}
            for (place, _), table in found.items():
                for name in (n for n, sha in (table.get("inputs") or {}).items() if sha not in tables):
                    self.report("contradicts", place, f"`{name}` is no table that run {run} names", run)
        for sha, size in sources.items():
            self.object(f"sources/{sha[:2]}/{sha}", sha, size, run)

    def run_log(self, run):
        digests, started, outcome, stages, sources = {}, None, None, [], {}
        findings, epoch, owner = len(self.findings), 0, None
        for entry in self.entries(f"runs/{run}/log", RUN_ENTRY, 2, run=run):
            digests[entry.seq] = sha256(entry.data)
            if not entry.record:
                continue
            found, body = entry.record, entry.record["body"]
            by, is_fence = (found["epoch"], found["writer"]), body == "fence"
            if found["run"] != run:
                entry.wrong.append(f"it says that it is of run {found['run']}")
            if entry.seq == 0:
                fits = not is_fence and found["epoch"] == 1
            else:
                fits = not entry.known or (found["epoch"] == epoch + 1 if is_fence else by == (epoch, owner))
            if not fits:
                entry.wrong.append(f"its writer {by[1]} of epoch {by[0]} does not own the run")
            epoch, owner = by
            kind, event = (None, None) if is_fence else next(iter(body["event"].items()))
            if kind == "started":
                started, outcome = event["pipeline"], None
                sources.update(stored_sources(event))
            elif kind == "finished":
                outcome = event["outcome"]
            elif kind == "stages":
                stages += tables_of(event)
            elif kind == "failed":
                stages += tables_of(failure.get("outcome") or {} for failure in event["failures"])
        head = max(digests.items(), default=None)
        return RunLog(len(self.findings) == findings, digests, head, started, outcome, stages, sources)

    def manifest_against_log(self, run, key, manifest, log):
        head = (manifest["log"]["seq"], manifest["log"]["sha256"])
        if log.head is None:
            self.report("missing", f"runs/{run}/log/{0:020}.json", "the run has a manifest and no log", run)
            return
        if head != log.head:
            detail = f"the log ends with entry {log.head[0]}, and in the manifest with entry {head[0]}"
            same = head[0] == log.head[0]
            self.report("contradicts", key, "the last entry of the log is another" if same else detail, run)
        if log.is_whole and identity(log.started) != identity(manifest["pipeline"]):
            self.report("contradicts", key, "the log names another pipeline", run)
        if log.is_whole and log.outcome != manifest["outcome"]:
            self.report("contradicts", key, f"it says {manifest['outcome']}, the log {log.outcome}", run)
        known = [(stage["stage"], stage["artifact"]) for stage in log.stages]
        for stage in tables_of(manifest["stages"]) if log.is_whole else ():
            if (stage["stage"], stage["artifact"]) not in known:
                self.report("contradicts", key, f"the log has no such table of stage {stage['stage']}", run)

    def against_audit(self, run, key, sha, manifest, log):
        log_key = f"runs/{run}/log"
        if run not in self.logged:
            self.report("not logged", f"runs/{run}", "no entry of the audit log names this run", run)
            return
        for place in (item.get("log") for _, item in self.logged[run]):
            if place and log.digests.get(place["seq"]) not in (None, place["sha256"]):
                self.report("contradicts", log_key, f"entry {place['seq']} is not that of the audit log", run)
        began = [item["pipeline"] for kind, item in self.logged[run] if kind == "run_began"]
        if manifest and began and identity(began[-1]) != identity(manifest["pipeline"]):
            self.report("contradicts", key, "the audit log names another pipeline", run)
        kind, end = self.logged[run][-1]
        how, expected = end.get("how"), end.get("manifest")
        if kind == "run_began" or how is None and expected is None:
            return  # It may go on, or nothing is known.
        if expected and not sha:
            self.report("missing", key, "the audit log names a manifest", run)
        elif expected != sha:
            self.report("contradicts", key, f"in the audit log it is {expected or 'not published'}", run)
        if manifest and how not in (None, ENDINGS[manifest["outcome"]]):
            self.report("contradicts", key, f"it says {manifest['outcome']}, the audit log {how}", run)
        if manifest and end.get("pipeline") not in (None, manifest["pipeline"]["name"]):
            self.report("contradicts", key, f"in the audit log its pipeline is {end['pipeline']}", run)
        place = end.get("log")
        if not log.head and (place or kind == "adopted" and how not in (None, "not_begun")):
            self.report("missing", f"{log_key}/{0:020}.json", "the audit log names a log of this run", run)
        elif kind == "run_ended" and log.head and (place or {}).get("seq") != log.head[0]:
            ends = f"with entry {place['seq']}" if place else "without an entry"
            detail = f"it ends with entry {log.head[0]}, in the audit log {ends}"
            self.report("contradicts", log_key, detail, run)

    # -- records of tables, and their objects

    def artifact(self, key, sha, run=None):
        """The record with this digest, at its key or, if it was replaced there, under its digest."""
        self.rests[key] |= {run} if run else set()
        if (key, sha) not in self.records:
            self.records[key, sha] = self.guard(key, self.read_artifact, key, sha)
        found = self.records[key, sha]
        for item in found["parts"] + found["errors"] + found["files"] if found else ():
            self.object(item["key"], item["sha256"], item["bytes"], run)
        return found

    def read_artifact(self, key, sha):
        match = re.fullmatch("artifacts/(..)/((..)[0-9a-f]{62})[.]json", key)
        if not match or match[1] != match[3]:
            raise Fault("damaged", "no record of a table lies under this key")
        faults = []
        for place in (key, f"{key[:-5]}.{sha}.json"):
            try:
                data = self.store.read(place)
                found = unseal(data, ARTIFACT, 4)
                if sha256(data) != sha:
                    raise Fault("changed", f"it is not the record {sha}, and there is no copy of that one")
                if found["fingerprint"] != match[2]:
                    raise Fault("damaged", f"it is the record of {found['fingerprint']}")
                self.counts["records"] += 1
                return found
            except Fault as fault:
                faults.append(fault)
        raise faults[faults[0].fault == "missing"]

    def all_artifacts(self):
        """The records that no run names, too."""
        for folder in self.store.list("artifacts", folders=True):
            for name in self.store.list(f"artifacts/{folder}"):
                match = re.fullmatch("([0-9a-f]{64})([.][0-9a-f]{64})?[.]json", name)
                if match and folder == name[:2]:
                    self.guard(f"artifacts/{folder}/{name}", self.any_artifact, folder, match)

    def any_artifact(self, folder, match):
        data = self.store.read(f"artifacts/{folder}/{match[0]}")
        found, sha = unseal(data, ARTIFACT, 4), sha256(data)
        if found["fingerprint"] != match[1]:
            raise Fault("damaged", f"it is the record of {found['fingerprint']}")
        if match[2] not in (None, "." + sha):
            raise Fault("changed", "it is not the record with the digest in its name")
        key, run = f"artifacts/{folder}/{match[1]}.json", found["created_by"]
        self.artifact(key, sha)
        self.planted(key, sha, run, is_current=match[2] is None)

    def planted(self, key, sha, run, is_current):
        """A record that no run names, and that later runs would take for their own."""
        if sha in self.named_records or any(place == key for _, place, _ in self.findings):
            return
        if self.log_end and run not in self.logged:
            self.report("not logged", key, f"it was made by run {run}, which no entry of the audit log names")
        ended = self.logged[run][-1][1].get("how") if run in self.logged else None
        if is_current and ended == "succeeded" and self.named.get((run, key)):
            self.report("contradicts", key, f"run {run}, which made it, names another record")

    def object(self, key, sha, size, run=None):
        """An object that a record names; its bytes are read at level 2 only, and once."""
        self.rests[key] |= {run} if run else set()
        if self.level < 2:
            return
        if key not in self.digests:
            self.digests[key] = self.guard(key, self.store.digest, key)
            self.counts["objects"] += 1
        if self.digests[key] not in (None, (sha, size)):
            found, length = self.digests[key]
            self.report("changed", key, f"{length} bytes of {found}, recorded {size} bytes of {sha}")

    # -- the ledger and memories

    def ledger(self):
        folder, first, head, live, forgotten = "ledger/log", 0, None, [], 0
        for seq in self.numbers(folder, ".checkpoint.json"):  # The newest counts.
            key, first = f"{folder}/{seq:020}.checkpoint.json", seq + 1
            state = self.record(key, LEDGER_CHECKPOINT)
            if state and state["seq"] != seq:
                self.report("damaged", key, f"it is the checkpoint of entry {state['seq']}")
                state = None
            if state:
                live, forgotten, head = list(state["live"]), len(state.get("forgotten", ())), state["head"]
        if first and not state:
            return  # Without the state, nothing can be said of the entries after it.
        for seq in (seq for seq in self.numbers(folder) if seq < first):
            self.record(f"{folder}/{seq:020}.json", LEDGER_ENTRY)  # It is covered: only its seal is verified.
        for entry in self.entries(folder, LEDGER_ENTRY, 1, first, head):
            kind, body = next(iter(entry.record["body"].items())) if entry.record else (None, None)
            if kind == "append":
                live.append(body)
            elif kind == "forget":
                forgotten += 1
            elif kind == "merge":
                keys, merged = [segment["key"] for segment in live], body["from"]
                at = keys.index(merged[0]) if merged and merged[0] in keys else len(keys)
                if not merged or keys[at:at + len(merged)] != merged:
                    entry.wrong.append("it merges segments that are not neighbours")
                else:
                    live[at:at + len(merged)] = [body["into"]]
                if body["into"].get("past", 0) > forgotten:
                    entry.wrong.append("it leaves out answers that were not forgotten")
        for segment in live:
            self.object(segment["key"], segment["sha256"], segment["bytes"])

    def memory(self, name):
        for entry in self.entries(f"memories/{name}", MEMORY_ENTRY, 1, first=1):
            if entry.record and entry.record["memory"] != name:
                entry.wrong.append(f"it says that it is of memory {entry.record['memory']}")

def identity(pipeline):
    """What a pipeline is; its path is for people."""
    return pipeline and (pipeline["name"], pipeline["yaml_sha256"])

def tables_of(stages):
    return [stage for stage in stages if stage.get("artifact")]

def stored_sources(holder):
    return {s["sha256"]: s["bytes"] for s in holder.get("sources", {}).values() if s["stored"]}

def table_digest(artifact):
    """What `inputs` of other records say of this table."""
    lines = [artifact["schema_ipc"]]
    lines += [f"part {part['sha256']} {part['rows']}" for part in artifact["parts"]]
    lines += [f"file {file['sha256']} {file['name']}" for file in artifact["files"]]
    return sha256(("\n".join(lines) + "\n").encode())

# ---- Bundles: a number, from the manifest up to the checkpoint and down to its rows

RECORD = {"key": is_key, "sha256": HEX}
MEASURED = {"input?": str, "stage": STAGE, "record": RECORD, "rows": number, "root": HEX, "file": FILE}
ITEM_IDS = ("query_id", "question_id", "row_id", "id")  # Columns that say whose row it is.
BY_WHEN = "by when it ran"
SIGNED = ("the run is in the log", "who vouches for the log")
OF_ITEM = {"stage": STAGE, "record": RECORD, "rows": number, "of_item": number, "root": HEX, "file": FILE}
ITEM = {"id": str, "tables": [OF_ITEM]}
BUNDLE = {
    "v": number, "run": RUN, "stage": STAGE, "metrics": list, "settings": {"*": str}, "manifest": RECORD,
    "record": RECORD, "measured": [MEASURED], "upstream": [{"stage": STAGE, "record": RECORD}],
    "size": number, "properties": [{"property": str, "status": str, "why": str}], "item?": ITEM,
    "entries": [{"seq": number, "key": is_key, "path": [HEX]}]}

class Bundle:
    """A folder that `audit prove` wrote."""
    def __init__(self, folder, keys):
        self.folder, self.keys, self.findings, self.proved = folder, keys, [], []
        self.tables, self.roots, self.trace, self.time_attested = {}, {}, [], False
        self.no_time = "the bundle has no timestamp"

    def path(self, name):
        path = os.path.join(self.folder, name)
        if os.path.islink(path) or not os.path.isfile(path):
            raise Fault("missing", "it is not in the bundle")
        return path

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read(RECORD_BYTES_MAX)

    def lines(self, name):
        """The lines of a file, which may be large."""
        with open(self.path(name), "rb") as file:
            while line := file.readline(RECORD_BYTES_MAX):
                yield line

    def wrong(self, fault, name, detail):
        self.findings.append((fault, name, detail))

    def record(self, named, shape, newest):
        """A record that another one names by its digest."""
        data = self.read("records/" + named["key"])
        if sha256(data) != named["sha256"]:
            raise Fault("changed", f"its SHA-256 is not {named['sha256']}")
        return unseal(data, shape, newest)

    def step(self, name, what, work):
        """Does one step; whatever it finds is a finding."""
        try:
            self.proved.append(f"{what}: {work()}")
        except Fault as fault:
            self.wrong(fault.fault, name, str(fault))
        except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
            self.wrong("damaged", name, f"it cannot be read: {error}")

    def verify(self, authority):
        """Verifies it; the properties that hold."""
        bundle = None
        try:
            bundle = parse_json(self.read("bundle.json").decode("utf-8"))
            if isinstance(bundle, dict) and number(bundle.get("v")) and bundle["v"] > 1:
                raise Fault("newer", f"it has version {bundle['v']}")
            check(bundle, BUNDLE, "bundle")
        except Fault as fault:
            self.wrong(fault.fault, "bundle.json", str(fault))
            return []
        except (ValueError, RecursionError) as error:
            self.wrong("damaged", "bundle.json", f"it cannot be read: {error}")
            return []
        self.step("checkpoint.txt", "the log", lambda: self.log(bundle))
        self.step(bundle["manifest"]["key"], "the number", lambda: self.number(bundle))
        self.step(bundle["record"]["key"], "its table", lambda: self.table(bundle))
        self.step("bundle.json", "upstream", lambda: self.upstream(bundle))
        for measured in bundle["measured"]:
            self.step(measured["file"], "its rows", lambda measured=measured: self.rows(bundle, measured))
        if not bundle["measured"]:
            self.wrong("missing", "bundle.json", "it names no table that was measured")
        if bundle.get("item"):
            self.step("bundle.json", "the item", lambda: self.item(bundle))
        if os.path.lexists(os.path.join(self.folder, "checkpoint.tsr")):
            self.no_time = "its timestamp was not checked: give its authority with --tsa-authority"
            if authority:
                self.step("checkpoint.tsr", "the time", lambda: self.time(authority))
        return self.properties(bundle)

    def log(self, bundle):
        data = self.read("checkpoint.txt")
        checkpoint = parse_checkpoint(data)
        fault = self.keys and signature_fault(checkpoint.text, checkpoint.signatures, self.keys)
        if fault:
            raise Fault("bad signature", fault)
        if checkpoint.size != bundle["size"]:
            raise Fault("contradicts", f"it names {checkpoint.size} entries, the bundle {bundle['size']}")
        ends = []
        for proved in bundle["entries"]:
            data = self.read("records/" + proved["key"])
            path = [bytes.fromhex(step) for step in proved["path"]]
            root = root_by_inclusion(checkpoint.size, proved["seq"], leaf_hash(data), path)
            if root != checkpoint.root:
                raise Fault("rewritten", f"entry {proved['seq']} is not in the log that the checkpoint names")
            event = unseal(data, AUDIT_ENTRY, 1)["event"]
            if "rows_root" in event:
                self.roots[event["rows_root"]["artifact"]] = event["rows_root"]["root"]
            if "run_ended" in event and event["run_ended"]["run"] == bundle["run"]:
                ends.append(event["run_ended"].get("manifest"))
            for run in event.get("adopted", {}).get("runs", ()):
                ends += [run.get("manifest")] if run["run"] == bundle["run"] else []
        if bundle["manifest"]["sha256"] not in ends:
            raise Fault("contradicts", "no entry of the log names this manifest")
        by = "signed by a given key" if self.keys else "signatures not checked"
        return f"{len(bundle['entries'])} entries about the run are among its {checkpoint.size}, {by}"

    def number(self, bundle):
        manifest = self.record(bundle["manifest"], MANIFEST, 5)
        if manifest["run"] != bundle["run"]:
            raise Fault("contradicts", "it is the manifest of another run")
        for metric in bundle["metrics"]:
            if metric not in manifest["metrics"] or metric.get("stage") != bundle["stage"]:
                raise Fault("contradicts", f"it does not have {json.dumps(metric)}")
        tables = tables_of(manifest["stages"])
        named = [table["artifact"] for table in tables if table["stage"] == bundle["stage"]]
        if bundle["record"] not in named:
            raise Fault("contradicts", "it names another record of the stage")
        self.tables = {table["artifact"]["sha256"]: table["stage"] for table in tables}
        if not bundle["metrics"]:
            if all(it["input"] is not None for it in bundle["measured"]):
                raise Fault("missing", "it has neither a metric nor the rows of the stage")
            return f"the rows of `{bundle['stage']}`"
        return json.dumps(bundle["metrics"], ensure_ascii=False)

    def table(self, bundle):
        record = self.record(bundle["record"], ARTIFACT, 4)
        for name, value in bundle["settings"].items():
            if record["components"].get(name) != value:
                raise Fault("contradicts", f"it does not have the setting `{name}`")
        for measured in bundle["measured"]:
            of = self.record(measured["record"], ARTIFACT, 4)
            if self.tables.get(measured["record"]["sha256"]) != measured["stage"]:
                raise Fault("contradicts", f"the run has another table `{measured['stage']}`")
            if measured["input"] is None:
                if measured["record"] != bundle["record"]:
                    raise Fault("contradicts", f"`{measured['stage']}` is not the stage itself")
                continue
            if record["components"].get(measured["input"]) != of["fingerprint"] or (
                    record.get("inputs") or {}).get(measured["input"]) != table_digest(of):
                raise Fault("contradicts", f"it was not made of this table `{measured['stage']}`")
        return f"made of {', '.join(it['stage'] for it in bundle['measured'] if it['input'])}, as recorded"

    def upstream(self, bundle):
        """Each table is one of the run, and was made of those that its record names."""
        named = [(it["stage"], it["record"]) for it in bundle["measured"] + bundle["upstream"]]
        records = {}
        for stage, reference in named:
            record = self.record(reference, ARTIFACT, 4)
            if self.tables.get(reference["sha256"]) != stage:
                raise Fault("contradicts", f"the run has another table `{stage}`")
            records[record["fingerprint"]] = record
        for record in records.values():
            for name, fingerprint in record["components"].items():
                of = records.get(fingerprint) if name.startswith("input.") else None
                if of and (record.get("inputs") or {}).get(name) != table_digest(of):
                    detail = f"`{record['stage']}` was not made of this table `{of['stage']}`"
                    raise Fault("contradicts", detail)
        return f"{len(bundle['upstream'])} records, each made of the tables that it names"

    def rows(self, bundle, measured):
        record = self.record(measured["record"], ARTIFACT, 4)
        known = record.get("rows_root") or self.roots.get(measured["record"]["sha256"])
        if known not in (None, measured["root"]) or record["rows"] != measured["rows"]:
            raise Fault("contradicts", "the record of the table has another root, or other rows")
        rows, shown = 0, 0
        for number, values in self.proved_rows(measured):
            if number != rows:
                raise Fault("wrong table", f"row {rows} is missing")
            rows, shown = rows + 1, shown + (values is not None)
        if rows != measured["rows"]:
            raise Fault("wrong table", f"{rows} rows, the record says {measured['rows']}")
        alone = "" if known else ", whose root only the bundle names"
        return f"{rows} of `{measured['stage']}`, {shown} of them with their values{alone}"

    def proved_rows(self, table):
        """The rows in the file of a table, each with a path to its root: number, and values if they are there."""
        root, last = bytes.fromhex(table["root"]), -1
        for line in self.lines(table["file"]):
            row = parse_json(line.decode("utf-8"))
            number, leaf, values = row["row"], bytes.fromhex(row["leaf"]), None
            path = [bytes.fromhex(step) for step in row["path"]]
            is_next = type(number) is int and last < number
            if not is_next or root_by_inclusion(table["rows"], number, leaf, path) != root:
                raise Fault("wrong table", f"row {number} is not a row of the table, or comes again")
            if "cbor" in row:
                data = bytes.fromhex(row["cbor"])
                if leaf_hash(data) != leaf:
                    raise Fault("wrong table", f"row {number} has another hash")
                values = decode_row(data)
            last = number
            yield number, values

    def item(self, bundle):
        """Rows of an item: of tables that the number was made of."""
        item, shown, found = bundle["item"], [], 0
        named = {it["record"]["sha256"]: it["stage"] for it in bundle["measured"] + bundle["upstream"]}
        for table in item["tables"]:
            if named.get(table["record"]["sha256"]) != table["stage"]:
                raise Fault("contradicts", f"the number was not made of this table `{table['stage']}`")
            record = self.record(table["record"], ARTIFACT, 4)
            known = record.get("rows_root") or self.roots.get(table["record"]["sha256"])
            if known not in (None, table["root"]) or record["rows"] != table["rows"]:
                raise Fault("contradicts", f"the record of `{table['stage']}` has another root, or other rows")
            names, rows = [column["name"] for column in record["schema"]], 0
            for _, values in self.proved_rows(table):
                rows += 1
                if values is None:
                    continue
                row = dict(zip(names, values))
                own = [str(row[name]) for name in ITEM_IDS if name in row]
                if own and item["id"] not in own:
                    raise Fault("wrong table", f"`{table['stage']}` has a row of another item")
                shown.append(f"  {table['stage']}: " + "; ".join(f"{n} = {show(v)}" for n, v in row.items()))
            if rows != table["of_item"]:
                raise Fault("wrong table", f"{rows} rows of `{table['stage']}`, not {table['of_item']}")
            found += rows
        self.trace = shown
        return f"{found} rows in {len(item['tables'])} tables about {item['id']}"

    def time(self, authority):
        """What a timestamp authority attests, which `openssl` verifies."""
        checkpoint, response = self.path("checkpoint.txt"), self.path("checkpoint.tsr")
        command = ["openssl", "ts", "-verify", "-data", checkpoint, "-in", response, "-CAfile", authority]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if done.returncode:
                raise Fault("bad signature", "openssl: " + done.stderr.strip().split("\n")[0])
            shown = subprocess.run(["openssl", "ts", "-reply", "-in", response, "-text"], capture_output=True,
                                   text=True, timeout=60).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise Fault("missing", f"the timestamp cannot be verified without the program openssl: {error}")
        times = [line.partition(":")[2].strip() for line in shown.splitlines() if line.startswith("Time stamp:")]
        self.time_attested = True
        return f"the authority attests that the checkpoint existed by {', '.join(times)}"

    def properties(self, bundle):
        """What is proved, as far as this verification goes."""
        if self.findings:
            return []
        rows = []
        for it in bundle["properties"]:
            status, why = it["status"], it["why"]
            if it["property"] == BY_WHEN and status == "attested" and not self.time_attested:
                status, why = "asserted", self.no_time
            elif status == "attested" and not self.keys and it["property"] in SIGNED:
                status, why = "asserted", "no key was given, so that the signature was not checked"
            rows.append((it["property"], status.replace("_", " "), why))
        return rows

def verify_bundle(folder, keys, authority):
    bundle = Bundle(folder, keys)
    properties = bundle.verify(authority)
    for line in bundle.proved + bundle.trace:
        print(printable(line))
    for name, status, why in properties:
        print(printable(f"{status:12} {name}: {why}"))
    for fault, name, detail in bundle.findings:
        print(printable(f"{fault}: {name}") + "\n  " + printable(detail))
    return 1 if bundle.findings else 0

# ---- The command

def printable(text):
    """One line without control characters, whatever a store says."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
    return "".join(escaped)

def print_findings(verifier, as_json):
    findings = [{"fault": fault, "object": key, "detail": detail, "runs": sorted(verifier.rests[key])}
                for fault, key, detail in verifier.findings]
    if as_json:
        print(json.dumps({"store": verifier.store_id, "level": verifier.level, "entries": verifier.log_end,
                          "root": verifier.root, "counts": verifier.counts, "findings": findings}))
        return
    for finding in findings:
        print(printable(f"{finding['fault']}: {finding['object']}") + "\n  " + printable(finding["detail"]))
        if finding["runs"]:
            print("  runs that rest on it: " + ", ".join(finding["runs"]))
    counts = ", ".join(f"{count} {name}" for name, count in verifier.counts.items())
    print(f"level {verifier.level}: verified {counts or 'nothing'}; findings: {len(findings)}")
    print(f"audit log: {verifier.log_end} entries, root {verifier.root or 'unknown'}")

def main(arguments=None):
    parser = argparse.ArgumentParser(description="Verifies a proofmill store. Nothing is changed.")
    parser.add_argument("store", nargs="?", metavar="STORE", help="the folder of the store")
    parser.add_argument("--level", type=int, choices=(1, 2), default=2)
    parser.add_argument("--run", help="only this run, and what it rests on")
    parser.add_argument("--anchor", action="append", default=[], help="a checkpoint kept elsewhere")
    parser.add_argument("--key", action="append", default=[], help="verifier key: name+id+base64")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bundle", metavar="FOLDER", help="verify a bundle instead of a store")
    parser.add_argument("--tsa-authority", metavar="FILE",
                        help="with --bundle: certificates (PEM) of the timestamp authority; needs openssl")
    options = parser.parse_args(arguments)
    try:
        keys = [parse_key(text) for text in options.key]
        if options.bundle is not None:
            return verify_bundle(options.bundle, keys, options.tsa_authority)
        known = ("format.json", "audit", "runs", "artifacts", "ledger", "memories", "sources")
        if not options.store or not any(os.path.lexists(os.path.join(options.store, n)) for n in known):
            raise ValueError(f"{options.store or 'nothing'} is not the folder of a store")
        anchors = {}
        for path in options.anchor:
            with open(path, "rb") as file:
                anchors[path] = file.read(NOTE_BYTES_MAX)
        verifier = Verifier(options.store, options.level, options.run, anchors, keys)
        verifier.verify()
    except (ValueError, OSError) as error:
        print("verify: " + printable(error), file=sys.stderr)
        return 2
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    print_findings(verifier, options.json)
    return 1 if verifier.findings else 0

if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(2)
