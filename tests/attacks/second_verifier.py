#!/usr/bin/env python3
"""Tests of the second verifier, src/audit/verify.py: published vectors, and a small store that is damaged in many ways."""
import base64
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/audit"))
import verify as v

RUN, OTHER = "20261121-021500123-k3f9qa", "20261122-021500123-k3f9qa"
T, STORE_ID = "2026-11-21T02:15:00.4Z", "20a5dc10-3aea-458c-9a5b-dabd7ae6936c"
FP, FP2 = "00" * 32, "11" * 32


def sha(data):
    return hashlib.sha256(data).hexdigest()


def seal(value):
    body = json.dumps(value, separators=(",", ":")).encode()[:-1]
    return body + b',"sha256":"' + sha(body).encode() + b'"}\n'


def vectors():
    leaves = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    roots = {0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
             1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
             2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
             3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
             8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"}
    hashes = [v.leaf_hash(bytes.fromhex(leaf)) for leaf in leaves]

    def root(items):
        tree = v.Tree()
        for item in items:
            tree.push(item)
        return tree.root()

    def path(items, index):  # RFC 6962, section 2.1.1, word for word.
        if len(items) == 1:
            return []
        k = 1 << (len(items) - 1).bit_length() - 1
        if index < k:
            return path(items[:k], index) + [root(items[k:])]
        return path(items[k:], index - k) + [root(items[:k])]

    for size, expected in roots.items():
        assert root(hashes[:size]).hex() == expected, size
    for size in range(1, 9):
        for index in range(size):
            steps = path(hashes[:size], index)
            assert v.root_by_inclusion(size, index, hashes[index], steps) == root(hashes[:size])
            assert v.root_by_inclusion(size, index, hashes[index], steps + [hashes[0]]) is None
    assert v.root_by_inclusion(3, 3, hashes[0], []) is None

    rfc8032 = [  # Section 7.1, tests 1 to 3: public key, message, signature.
        ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
         "d25bf5f0595bbe24655141438e7a100b"),
        ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
         "387b2eaeb4302aeeb00d291612bb0c00"),
        ("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
         "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
         "4a7c15e9716ed28dc027beceea1ec40a")]
    for public, message, signature in rfc8032:
        public, message, signature = map(bytes.fromhex, (public, message, signature))
        assert v.ed25519_verify(public, message, signature)
        assert not v.ed25519_verify(public, message + b"x", signature)
        large = int.from_bytes(signature[32:], "little") + v.ORDER  # The same S, not reduced.
        assert not v.ed25519_verify(public, message, signature[:32] + large.to_bytes(32, "little"))
    neutral = (1).to_bytes(32, "little")
    assert not v.ed25519_verify(neutral, b"any", neutral + bytes(32))

    key = v.parse_key("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    note = ("If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
            "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE"
            "6RyyBwJnAM=\n")
    text, signatures = v.parse_note(note.encode())
    assert v.signature_fault(text, signatures, [key]) is None
    assert v.signature_fault(text.replace("answer", "Answer"), signatures, [key])
    assert v.signature_fault(text, [], [key])
    for wrong in ("x", "a+b", "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"):
        try:
            v.parse_key(wrong)
            raise AssertionError(wrong)
        except ValueError:
            pass

    rows = {"8100": "[0]", "811903e8": "[1000]", "813863": "[-100]", "811bffffffffffffffff": "[18446744073709551615]",
            "81c249010000000000000000": "[18446744073709551616]", "81c349010000000000000000":
            "[-18446744073709551617]", "81fb3ff199999999999a": "[1.1]", "81f97e00": "[NaN(0x7e00)]",
            "81fa47c35000": "[100000.0]", "8162c3bc": '["\u00fc"]', "8443010203f4f5f6": "[0x010203, false, true, null]",
            "818201f6": "[[1, null]]", "81613e": '[">"]'}
    for data, text in rows.items():
        assert v.show(v.decode_row(bytes.fromhex(data))) == text, data
    for data in ("", "00", "81", "8118", "811817", "81190017", "8161ff", "819f00ff", "81a0", "81f7", "81f820", "810000",
                 "81c24101", "9bffffffffffffffff", "81" * 5000, "81d81800", "815bffffffffffffffff", "81fc"):
        try:
            v.decode_row(bytes.fromhex(data))
            raise AssertionError(data)
        except ValueError:
            pass


def sign(name, seed, text):
    """A signature line, and the verifier key, of the secret key in `seed` (RFC 8032, section 5.1.6)."""
    h = hashlib.sha512(seed).digest()
    a = int.from_bytes(h[:32], "little") & ~7 & (1 << 254) - 1 | 1 << 254
    public = v.point_encode(v.point_mul(a, v.BASE_POINT))
    r = int.from_bytes(hashlib.sha512(h[32:] + text.encode()).digest(), "little") % v.ORDER
    point = v.point_encode(v.point_mul(r, v.BASE_POINT))
    k = int.from_bytes(hashlib.sha512(point + public + text.encode()).digest(), "little")
    signature = point + ((r + k * a) % v.ORDER).to_bytes(32, "little")
    data = b"\x01" + public
    key_id = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4]
    line = f"\u2014 {name} {base64.b64encode(key_id + signature).decode()}\n"
    return text + "\n" + line, f"{name}+{key_id.hex()}+{base64.b64encode(data).decode()}"


class Maker:
    """Writes a small store: two runs, a cached table, a replaced record, an audit log, a ledger and a memory."""

    def __init__(self, root):
        self.root, self.tree, self.log, self.is_open, self.prev = root, v.Tree(), [], [], None
        self.put("format.json", seal({"v": 1, "store": STORE_ID, "created_at": T, "created_by": "test"}))
        self.pipeline = {"name": "nightly", "path": "nightly.yaml", "yaml_sha256": sha(b"yaml")}
        self.put(f"sources/{sha(b'yaml')[:2]}/{sha(b'yaml')}", b"yaml")
        part = self.object(f"runs/{RUN}/data/rows.abc.0.parquet", b"PAR1rows", rows=3)
        first = self.artifact(FP, [part], {})
        table = sha(f"0c\npart {part['sha256']} 3\n".encode())
        second = self.artifact(FP2, [self.object(f"runs/{RUN}/data/sum.abc.0.parquet", b"PAR1sum", rows=3)],
                               {"input.rows": table})
        self.put(f"artifacts/11/{FP2}.{second[1]}.json", second[2])
        newer = self.artifact(FP2, [self.object(f"runs/{OTHER}/data/sum.abd.0.parquet", b"PAR1sum2", rows=3)],
                              {"input.rows": table})  # Replaces the second record.
        self.put(f"artifacts/11/{FP2}.{newer[1]}.json", newer[2])
        for run, last in ((RUN, second), (OTHER, newer)):
            self.run(run, [("rows", FP, first), ("sum", FP2, last)])
        self.chain("memories/science", 1, [{"memory": "science", "author": "ada", "action": {"add": {"fact": "a"}}}] * 2)
        segment = {**self.object("ledger/segments/abc.parquet", b"PAR1answers", rows=2), "tail_at": 4,
                   "tail_sha256": FP}
        other = {**segment, "key": "ledger/segments/abd.parquet"}
        merged = {**self.object("ledger/segments/abe.parquet", b"PAR1merged", rows=2), "tail_at": 4, "tail_sha256": FP}
        self.put(other["key"], b"PAR1answers")
        self.chain("ledger/log", 0, [{"writer": "w", "body": body} for body in (
            {"append": segment}, {"append": other}, {"merge": {"from": [segment["key"], other["key"]], "into": merged}},
            {"append": {**segment, "key": "ledger/segments/abf.parquet"}})])
        self.put("ledger/segments/abf.parquet", b"PAR1answers")
        os.remove(os.path.join(root, segment["key"]))  # A merged segment may be removed.

    def put(self, key, data):
        path = os.path.join(self.root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def object(self, key, data, **more):
        self.put(key, data)
        return {"key": key, "sha256": sha(data), "bytes": len(data), **more}

    def artifact(self, fingerprint, parts, inputs):
        data = seal({"v": 4, "fingerprint": fingerprint, "stage": "rows", "kind": "sql", "created_by": RUN,
                     "created_at": T, "schema": [{"name": "a", "type": "Int64", "nullable": False}],
                     "schema_ipc": "0c", "rows": 3, "bytes": 8, "parts": parts, "errors": [], "files": [],
                     "components": {}, "inputs": inputs, "transient_errors": 0, "checks": [], "wall_ms": 1,
                     "usage": None, "notes": []})
        key = f"artifacts/{fingerprint[:2]}/{fingerprint}.json"
        self.put(key, data)
        return key, sha(data), data

    def chain(self, folder, first, bodies):
        head = None
        for seq, body in enumerate(bodies, first):
            data = seal({"v": 1, "seq": seq, "prev": head, "nonce": f"n{seq}", "t_utc": T, **body})
            self.put(f"{folder}/{seq:020}.json", data)
            head = sha(data)
        return {"seq": first + len(bodies) - 1, "sha256": head}

    def audit(self, event):
        data = seal({"v": 1, "seq": self.tree.size, "prev": self.prev, "tree": [p.hex() for p in self.tree.peaks],
                     "open": self.is_open, "writer": "w", "nonce": "n", "t_utc": T, "event": event})
        self.put(f"audit/log/{self.tree.size:020}.json", data)
        self.tree.push(v.leaf_hash(data))
        self.prev = sha(data)

    def run(self, run, stages):
        self.audit({"run_began": {"run": run, "pipeline": self.pipeline, "trigger": {"kind": "command"}}})
        self.is_open = [{"run": run, "pipeline": "nightly"}]
        outcomes = [{"stage": name, "kind": "sql", "fingerprint": fp, "status": "computed", "cached_from": None,
                     "rows": 3, "bytes": 8, "error_rows": 0, "wall_ms": 1, "artifact": {"key": a[0], "sha256": a[1]}}
                    for name, fp, a in stages]
        texts = {"nightly.yaml": {"role": "pipeline", "sha256": sha(b"yaml"), "bytes": 4, "stored": True},
                 "rules.py": {"role": "code", "sha256": sha(b"code"), "bytes": 4, "stored": False}}
        events = [{"event": {"started": {"pipeline": self.pipeline, "params": {}, "code": {}, "sources": texts,
                                         "stages": 2}}},
                  {"event": {"stages": outcomes}}, "fence", {"event": {"finished": {"outcome": "succeeded"}}}]
        head = self.chain(f"runs/{run}/log", 0, [
            {"run": run, "epoch": 1 + (i > 1), "writer": "ab"[i > 1], "body": body} for i, body in enumerate(events)])
        manifest = seal({"v": 5, "run": run, "pipeline": self.pipeline, "params": {}, "trigger": {"kind": "command"},
                         "code": {}, "sources": texts, "started_at": T, "finished_at": T, "outcome": "succeeded",
                         "stages": outcomes, "metrics": [{"name": "accuracy", "value": "0.5"}], "log": head})
        self.put(f"runs/{run}/manifest.json", manifest)
        self.audit({"run_ended": {"run": run, "pipeline": "nightly", "how": "succeeded", "manifest": sha(manifest),
                                  "log": head}})
        self.is_open = []


def verify(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = v.main([str(a) for a in arguments] + ["--json"])
        except SystemExit as stop:
            code = stop.code
    text = out.getvalue()
    found = json.loads(text)["findings"] if text else []
    return code, {(f["fault"], f["object"]) for f in found}, found


def store_cases(base):
    root = os.path.join(base, "store")
    maker = Maker(root)
    code, found, _ = verify(root)
    assert (code, found) == (0, set()), found
    assert verify(root, "--run", RUN)[0] == 0 and verify(root, "--level", 1)[0] == 0
    for wrong in ((root, "--run", "20250101-000000000-aaaaaa"), (root, "--level", 3), (base,), (), (root, "--key", "x"),
                  (root, "--anchor", "/nowhere")):
        assert verify(*wrong)[0] == 2, wrong

    def edit(key, change):
        """Changes a record and seals it again, as a forger would."""
        def action(at):
            path = os.path.join(at, key)
            with open(path, "rb") as file:
                value = json.loads(file.read())
            del value["sha256"]
            change(value)
            with open(path, "wb") as file:
                file.write(seal(value))
        return action

    def write(key, data):
        return lambda at: open(os.path.join(at, key), "wb").write(data)

    def remove(key):
        def action(at):
            path = os.path.join(at, key)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        return action

    def extra_run(at):
        shutil.copytree(os.path.join(at, "runs", RUN), os.path.join(at, "runs/20261123-021500123-k3f9qa"))

    def entry(folder, n):
        return f"{folder}/{n:020}.json"

    def both(*actions):
        return lambda at: [action(at) for action in actions]

    def link(key):
        return both(remove(key), lambda at: os.symlink(os.path.join(root, key), os.path.join(at, key)))

    audit, log, manifest = "audit/log", f"runs/{RUN}/log", f"runs/{RUN}/manifest.json"
    part = f"runs/{RUN}/data/sum.abc.0.parquet"
    deep = b'{"v":1,"x":' + b"[" * 300000 + b"]" * 300000
    deep += b',"sha256":"' + sha(deep).encode() + b'"}\n'
    odd = [b'{"v":1,"seq":NaN', b'{"v":1,"seq":' + b"9" * 9000, b'{"v":1,"seq":1e999', b'{"v":1,"s":"\xff"',
           b'{"v":1,"s":"\\ud800"', b'{"v":1,"v":1', b'{"v":99999999999', b'{"v":true', b'{"v":1,"seq":[]']
    odd = [o + b',"sha256":"' + sha(o).encode() + b'"}\n' for o in odd] + [deep, b"", b"x" * 78, b"\0" * 500]
    event = lambda **more: lambda e: e["event"]["run_ended"].update(more)
    cases = [
        (remove(entry(audit, 1)), {("missing", entry(audit, 1))}),
        (remove(entry(audit, 3)), set()),  # Only an anchor shows it.
        (remove(audit), {("not logged", f"runs/{RUN}"), ("not logged", f"runs/{OTHER}")}),
        (write(entry(audit, 1), b"{}"), {("damaged", entry(audit, 1))}),
        (edit(entry(audit, 1), lambda e: e.update(v=2)), {("newer", entry(audit, 1))}),
        (edit(entry(audit, 1), lambda e: e.update(nonce="other")), {("chain broken", entry(audit, 2))}),
        (edit(entry(audit, 3), lambda e: e.update(tree=[FP])), {("chain broken", entry(audit, 3))}),
        (edit(entry(audit, 3), lambda e: e.update(tree=e["tree"][::-1])), {("chain broken", entry(audit, 3))}),
        (edit(entry(audit, 3), lambda e: e.update(open=[])), {("chain broken", entry(audit, 3))}),
        (edit(entry(audit, 3), event(how="failed")), {("contradicts", f"runs/{OTHER}/manifest.json")}),
        (edit(entry(audit, 3), event(log=None)), {("contradicts", f"runs/{OTHER}/log")}),
        (edit(entry(audit, 3), event(manifest=None)), {("contradicts", f"runs/{OTHER}/manifest.json")}),
        (extra_run, None),
        (remove(f"runs/{OTHER}"), None),
        (remove(manifest), {("missing", manifest)}),
        (edit(manifest, lambda m: m.update(metrics=[])), {("contradicts", manifest)}),
        (write(manifest, b"x"), {("damaged", manifest), ("contradicts", manifest)}),
        (edit(manifest, lambda m: m.update(v=6)), {("newer", manifest), ("contradicts", manifest)}),
        (remove(entry(log, 3)), {("contradicts", manifest), ("contradicts", log)}),
        (remove(entry(log, 1)), {("missing", entry(log, 1))}),
        (remove(log), {("missing", entry(log, 0))}),
        (edit(entry(log, 1), lambda e: e.update(nonce="x")), {("chain broken", entry(log, 2))}),
        (edit(entry(log, 3), lambda e: e.update(epoch=1)),
         {("chain broken", entry(log, 3)), ("contradicts", manifest), ("contradicts", log)}),
        (remove(f"artifacts/00/{FP}.json"), {("missing", f"artifacts/00/{FP}.json")}),
        (edit(f"artifacts/00/{FP}.json", lambda a: a.update(rows=4)), {("changed", f"artifacts/00/{FP}.json")}),
        (write(f"artifacts/00/{FP}.json", b"x"), {("damaged", f"artifacts/00/{FP}.json")}),
        (write(part, b"PAR1sun"), {("changed", part)}),
        (write(part, b""), {("changed", part)}),
        (remove(part), {("missing", part)}),
        (link(part), {("missing", part)}),
        (both(remove(part), lambda at: os.mkfifo(os.path.join(at, part))), {("missing", part)}),
        (write(f"sources/{sha(b'yaml')[:2]}/{sha(b'yaml')}", b"yamL"),
         {("changed", f"sources/{sha(b'yaml')[:2]}/{sha(b'yaml')}")}),
        (remove("ledger/segments/abe.parquet"), {("missing", "ledger/segments/abe.parquet")}),
        (remove("ledger/segments/abd.parquet"), set()),
        (remove(entry("ledger/log", 1)), None),
        (edit(entry("ledger/log", 2), lambda e: e["body"]["merge"]["from"].reverse()), None),
        (edit(entry("memories/science", 1), lambda e: e.update(author="x")), {("chain broken", entry("memories/science", 2))}),
        (remove(entry("memories/science", 1)), {("missing", entry("memories/science", 1))}),
        (write("format.json", b"x"), {("damaged", "format.json")}),
        (remove("format.json"), {("missing", "format.json")}),
        (edit("format.json", lambda f: f.update(v=2)), {("newer", "format.json")}),
    ] + [(write(key, data), None) for data in odd for key in (
        entry(audit, 1), entry(log, 1), manifest, f"artifacts/00/{FP}.json", entry("ledger/log", 1),
        entry("memories/science", 2), "format.json", f"audit/checkpoints/{4:020}.txt")]
    os.makedirs(os.path.join(root, "audit/checkpoints"))
    for number, (action, expected) in enumerate(cases):
        at = os.path.join(base, "case")
        shutil.copytree(root, at)
        action(at)
        code, found, details = verify(at)
        assert expected is None or found == expected, (number, found, details)
        assert code == (1 if found else 0) and (found or expected == set()), (number, code, found)
        assert not any("cannot be verified" in f["detail"] for f in details), details
        shutil.rmtree(at)
    print(f"{len(cases)} damaged stores")

    text = f"proofmill/{STORE_ID}\n4\n{base64.b64encode(maker.tree.root()).decode()}\n"
    note, key = sign("proofmill/test", b"s" * 32, text)
    other_key = sign("other", b"t" * 32, text)[1]
    anchor = os.path.join(base, "head.txt")

    def anchored(data, *arguments, at=root):
        with open(anchor, "w", encoding="utf-8") as file:
            file.write(data)
        return {fault for fault, _ in verify(at, "--anchor", anchor, *arguments)[1]}

    assert anchored(text) == set() and anchored(note, "--key", key) == set()
    assert anchored(note, "--key", other_key, "--key", key) == set()
    assert anchored(text, "--key", key) == anchored(note, "--key", other_key) == {"bad signature"}
    assert anchored(note.replace("\n4\n", "\n3\n"), "--key", key) == {"bad signature", "rewritten"}
    assert anchored(text.replace("\n4\n", "\n5\n")) == {"cut off"}
    assert anchored(text.replace(STORE_ID, "other")) == {"other log"}
    assert anchored("x") == anchored("") == anchored(text.replace("\n4\n", "\n04\n")) == {"damaged"}
    maker.put(f"audit/checkpoints/{4:020}.txt", note.encode())
    maker.put(f"audit/checkpoints/{3:020}.txt", note.encode())
    assert verify(root, "--key", key)[1] == {("contradicts", f"audit/checkpoints/{3:020}.txt")}
    os.remove(os.path.join(root, f"audit/checkpoints/{3:020}.txt"))
    os.remove(os.path.join(root, entry(audit, 3)))
    assert anchored(note, "--key", key) == {"cut off"}

    # What rests on an object: both runs on the first table, one run on the other.
    write(f"runs/{RUN}/data/rows.abc.0.parquet", b"x")(root)
    details = [f for f in verify(root)[2] if f["fault"] == "changed"]
    assert [f["runs"] for f in details] == [[RUN, OTHER]], details


def fuzz_cases(base):
    """Flipped, lost and strange bytes: always a finding, never an exception."""
    root, rng = os.path.join(base, "fuzzed"), random.Random(7)
    maker = Maker(root)
    os.remove(os.path.join(root, "ledger/segments/abd.parquet"))  # Merged: no record names it any more.
    files = sorted(os.path.join(at, name) for at, _, names in os.walk(root) for name in names)
    strange = [None, True, -1, 2**64, 1.5, "", "x", [], [[]], {}, {"a": {}}, ["\x1b[31m\n"], "../../etc/passwd"]

    def places(value):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            if isinstance(value[key], (dict, list)):
                yield from places(value[key])

    for number in range(1500):
        path = rng.choice(files)
        with open(path, "rb") as file:
            old = new = file.read()
        if number % 3 == 0:
            at = rng.randrange(len(new))
            new = new[:at] + bytes([new[at] ^ 1 << rng.randrange(8)]) + new[at + 1:]
        elif number % 3 == 1:
            new = new[:rng.randrange(len(new))]
        elif path.endswith(".json"):
            value = json.loads(old)
            del value["sha256"]
            holder, key = rng.choice([place for place in places(value) if place != (value, "v")])
            holder[key] = rng.choice(strange)
            new = seal(value)
        maker.put(os.path.relpath(path, root), new)
        code, found, details = verify(root)
        assert (code == 1) == bool(found) and not any("cannot be verified" in f["detail"] for f in details), details
        assert found or new == old or number % 3 == 2, (path, old, new)
        maker.put(os.path.relpath(path, root), old)
    assert verify(root)[0] == 0


if __name__ == "__main__":
    vectors()
    print("published vectors: all right")
    with tempfile.TemporaryDirectory() as folder:
        store_cases(folder)
        fuzz_cases(folder)
    print("stores: all right")
