"""Exports of the audit log, held against the official tools of their formats.

    python3 tests/parity/exports.py in-toto|slsa FILE... [--key VERIFIER | --bare]
    python3 tests/parity/exports.py openlineage FILE... [--unfinished]
    python3 tests/parity/exports.py self-test

`in-toto` and `slsa` take DSSE envelopes, or with `--bare` the statements themselves. securesystemslib reads
an envelope, and verifies its signature if `--key` gives the key, in the form of C2SP's signed notes. The
protobufs of in-toto-attestation must write the JSON that they read, so that no field is unknown, misspelt or
rounded. What only the specification or the validators of the Go edition ask for is checked here.

`openlineage` takes run events, one a line. The classes that openlineage-python generates from the schemas of
OpenLineage must write the JSON that they read. A run begins with START, has one end unless `--unfinished` is
given, and its parents are runs of the file.

Prints a line for each file; exit code 1, and why on stderr, if one is not valid. Wants `cryptography`,
`in-toto-attestation`, `openlineage-python` and `securesystemslib` (`tests/parity/requirements.txt`).
"""

import argparse
import base64
import contextlib
import copy
import enum
import hashlib
import json
import re
import sys
import types
import typing
import uuid
from pathlib import Path

import attr
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dateutil.parser import isoparse
from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from openlineage.client import event_v2, facet_v2
from openlineage.client.serde import Serde
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PROVENANCE = "https://slsa.dev/provenance/v1"
# Hex digits of a digest.
DIGESTS = {"sha1": [40], "sha224": [56], "sha256": [64], "sha384": [96], "sha512": [128],
           "gitCommit": [40, 64], "gitTree": [40, 64], "gitBlob": [40, 64], "gitTag": [40, 64]}
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
# What OpenLineage requires, but the classes fill in.
FILLED_IN = ["producer", "schemaURL", "_producer", "_schemaURL"]
# Facets whose name in an event is not that of their class.
NAMES = {"ProcessingEngineRunFacet": "processing_engine", "DatasourceDatasetFacet": "dataSource",
         "DatasetVersionDatasetFacet": "version", "SQLJobFacet": "sql",
         "InputSubsetInputDatasetFacet": "subset", "OutputSubsetOutputDatasetFacet": "subset"}


class Refused(Exception):
    """Why a file is not valid."""


def need(holds, why):
    if not holds:
        raise Refused(why)


@contextlib.contextmanager
def within(where):
    """Says where something failed; the tools may fail in any way on what is damaged."""
    try:
        yield
    except Exception as why:
        raise Refused(f"{where}: {why}") from None


def parsed(data):
    """What strict JSON says: UTF-8, every name once, and no NaN."""
    def names(pairs):
        need(len(dict(pairs)) == len(pairs), f"a name stands twice in {[name for name, _ in pairs]}")
        return dict(pairs)

    def constant(text):
        raise Refused(f"it has `{text}`")
    with within("it is not JSON"):
        return json.loads(data.decode(), object_pairs_hook=names, parse_constant=constant)


def filled(value):
    """A value without what the formats take for unset: null, and empty texts, lists and objects."""
    if isinstance(value, list):
        return [filled(item) for item in value]
    if isinstance(value, dict):
        inner = {name: filled(item) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item is not None and item not in ("", [], {})}
    return value


def same(one, other, where):
    """Refuses a value that differs from what a tool wrote after it had read it; both are `filled`."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            same(one.get(name), other.get(name), f"{where}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other)):
            same(*pair, f"{where}[{i}]")
    else:
        holds = one == other and isinstance(one, bool) == isinstance(other, bool)
        need(holds, f"the tool does not keep what {where} says")


def verifier(text):
    """The key `name+id+base64`, as in C2SP's signed notes."""
    with within(f"`{text}` is not a key: expected name+id+base64"):
        name, identity, encoded = text.strip().split("+", 2)
        key = base64.b64decode(encoded, validate=True)
    need(len(key) == 33 and key[0] == 1, "the key is not one of Ed25519")
    right = hashlib.sha256(f"{name}\n".encode() + key).hexdigest()[:8]
    need(identity == right, f"the id of the key is {identity}, expected {right}")
    return SSlibKey(f"{name}+{identity}", "ed25519", "ed25519", {"public": key[1:].hex()})


def opened(data, key):
    """The payload of an envelope, and what is known of its signatures."""
    value = parsed(data)
    with within("the envelope is not one of DSSE"):
        envelope = Envelope.from_dict(copy.deepcopy(value))
    need(envelope.to_dict() == value, "it has more fields, or base64 that is not the standard one")
    need(envelope.payload_type == PAYLOAD_TYPE, f"payloadType is {envelope.payload_type!r:.80}")
    need(envelope.signatures, "it has no signatures")
    for it in envelope.signatures.values():
        need(not it.unrecognized_fields, f"a signature has more fields: {[*it.unrecognized_fields]}")
        need(re.fullmatch(r"[^\s+]+\+[0-9a-f]{8}", it.keyid), f"keyid is `{it.keyid}`, expected name+id")
        need(len(it.signature) == 128, f"the signature of {it.keyid} is not 64 bytes long")
    if key is None:
        return envelope.payload, f"signature of {', '.join(envelope.signatures)} not verified"
    need(key.keyid in envelope.signatures, f"it has no signature of {key.keyid}")
    with within(f"the signature of {key.keyid} does not verify"):
        envelope.verify([key], 1)
    return envelope.payload, f"signed by {key.keyid}"


def message(kind, value, where):
    """The protobuf that JSON says, which must say the same JSON."""
    with within(where):
        read = json_format.Parse(json.dumps(value), kind(), ignore_unknown_fields=False)
    same(filled(value), filled(json_format.MessageToDict(read)), where)
    return read


def descriptors(found, where):
    """Refuses resources that the package or the specification does not allow."""
    for i, it in enumerate(found):
        at = f"{where}[{i}]"
        with within(at):
            ResourceDescriptor.copy_from_pb(it).validate()
        need(it.uri or it.digest or it.content, f"{at} has neither uri nor digest nor content")
        for uri in filter(None, (it.uri, it.download_location)):
            need(URI.fullmatch(uri), f"{at}: `{uri}` is not a URI")
        for algorithm, digest in it.digest.items():
            fits = re.fullmatch("[0-9a-f]+", digest) and len(digest) in DIGESTS.get(algorithm, [len(digest)])
            need(fits, f"{at}: `{digest}` is not a {algorithm} in lowercase hex")


def test_result(predicate):
    read = message(TestResult, predicate, "predicate")
    need(read.result in ("PASSED", "WARNED", "FAILED"), f"result is `{read.result}`")
    need(read.configuration, "predicate has no configuration")
    descriptors(read.configuration, "configuration")
    need(not read.url or URI.fullmatch(read.url), f"url: `{read.url}` is not a URI")
    tests = [*read.passed_tests, *read.warned_tests, *read.failed_tests]
    need(len(set(tests)) == len(tests), "a test is listed twice")
    need(read.result != "PASSED" or not read.failed_tests, "result is PASSED with failedTests")
    return f"in-toto test result {read.result} of {len(tests)} tests"


def provenance(predicate):
    predicate = copy.deepcopy(predicate)
    metadata = (predicate.get("runDetails") or {}).get("metadata") or {}
    times = []
    for name in [it for it in ("startedOn", "finishedOn") if it in metadata]:
        text, time = metadata[name], Timestamp()
        need(isinstance(text, str) and TIME.fullmatch(text) and text.endswith("Z"),
             f"{name} is {text!r:.80}, expected RFC 3339 in UTC")
        with within(name):
            time.FromJsonString(text)
        # A fraction may have any number of digits; a protobuf writes as few as it can.
        metadata[name] = time.ToJsonString()
        times.append(time.ToNanoseconds())
    need(times == sorted(times), "finishedOn is before startedOn")
    read = message(Provenance, predicate, "predicate")
    need(read.HasField("build_definition"), "predicate has no buildDefinition")
    need(read.HasField("run_details"), "predicate has no runDetails")
    build, run = read.build_definition, read.run_details
    need(URI.fullmatch(build.build_type), f"buildType: `{build.build_type}` is not a URI")
    need(build.HasField("external_parameters"), "buildDefinition has no externalParameters")
    need(run.HasField("builder"), "runDetails has no builder")
    need(URI.fullmatch(run.builder.id), f"builder.id: `{run.builder.id}` is not a URI")
    descriptors(build.resolved_dependencies, "resolvedDependencies")
    descriptors(run.builder.builder_dependencies, "builderDependencies")
    descriptors(run.byproducts, "byproducts")
    return f"SLSA provenance v1 by {run.builder.id} ({len(build.resolved_dependencies)} dependencies)"


def statement(kind, data, key, bare):
    """One line about an envelope or a bare statement that is valid."""
    data, signed = (data, "unsigned") if bare else opened(data, key)
    value = parsed(data)
    read = message(statement_pb2.Statement, value, "statement")
    expected, predicate = {"in-toto": (TEST_RESULT, test_result), "slsa": (PROVENANCE, provenance)}[kind]
    need(read.predicate_type == expected, f"predicateType is `{read.predicate_type}`, expected {expected}")
    Statement.copy_from_pb(read).validate()
    descriptors(read.subject, "subject")
    names = [it.name for it in read.subject if it.name]
    need(len(set(names)) == len(names), "two subjects have one name")
    return f"{predicate(value['predicate'])}, {signed}, {len(read.subject)} subjects"


# The classes of facets, by what they are facets of and by their names in an event.
FACETS = {kind: {} for kind in (facet_v2.RunFacet, facet_v2.JobFacet, facet_v2.DatasetFacet,
                                facet_v2.InputDatasetFacet, facet_v2.OutputDatasetFacet)}
for module in (it for it in vars(facet_v2).values() if isinstance(it, types.ModuleType)):
    for cls in (it for it in vars(module).values() if isinstance(it, type) and attr.has(it)):
        for kind in (it for it in FACETS if issubclass(cls, it) and cls is not it):
            name = re.sub(r"(Run|Job|(Input|Output)?Dataset)Facet$", "", cls.__name__)
            FACETS[kind][NAMES.get(cls.__name__, name[0].lower() + name[1:])] = cls


def built(hint, value, where):
    """A value of JSON as the type that a class of OpenLineage declares for it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return value
    if origin in (typing.Union, types.UnionType):
        reasons = []
        for choice in (it for it in arguments if it is not types.NoneType):
            try:
                return built(choice, value, where)
            except Refused as why:
                reasons.append(str(why))
        raise Refused("; and ".join(reasons))
    if origin is typing.Literal or isinstance(hint, type) and issubclass(hint, enum.Enum):
        values = list(arguments) or [it.value for it in hint]
        need(value in values, f"{where} is {value!r:.80}, expected one of {values}")
        return value if arguments else hint(value)
    if origin is list:
        need(isinstance(value, list), f"{where} is not a list")
        return [built(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict:
        need(isinstance(value, dict), f"{where} is not an object")
        classes = FACETS.get(arguments[1]) or dict.fromkeys(value, arguments[1])
        for name in value:
            need(name in classes, f"{where} has the unknown facet `{name}`")
        return {name: built(classes[name], item, f"{where}.{name}") for name, item in value.items()}
    if attr.has(hint):
        return record(hint, value, where)
    fits = type(value) in (int, float) if hint is float else type(value) is hint
    need(fits, f"{where} is {value!r:.80}, expected {hint.__name__}")
    return value


def record(cls, value, where):
    """An object of JSON as an instance of a class of OpenLineage, with all that this class checks."""
    need(isinstance(value, dict), f"{where} is not an object")
    fields = {it.name: it for it in attr.fields(cls)}
    for name in value:
        need(name in fields, f"{where} has the unknown field `{name}`")
    for name, field in fields.items():
        required = field.default is attr.NOTHING or name in FILLED_IN
        need(not required or name in value, f"{where} has no {name}")
    hints = typing.get_type_hints(cls)
    found = {name: built(hints[name], item, f"{where}.{name}") for name, item in value.items()}
    for name in found.keys() & {"schemaURL", "_schemaURL"}:
        schema = cls._get_schema()
        need(found[name] == schema, f"{where}.{name} is {found[name]}, expected {schema}")
    for name in found.keys() & {"producer", "_producer", "url", "uri"}:
        need(URI.fullmatch(found[name]), f"{where}.{name} is {found[name]!r:.80}, expected a URI")
    with within(where):
        made = cls(**{fields[name].alias: item for name, item in found.items() if fields[name].init})
    # `UUID` reads more spellings than the one of RFC 9562.
    if "runId" in found and (canonical := str(uuid.UUID(found["runId"]))) != found["runId"]:
        raise Refused(f"{where}.runId is {found['runId']}, expected {canonical}")
    return made


def openlineage(data, unfinished):
    """One line about a file of run events that is valid."""
    need(data.endswith(b"\n"), "its last line has no end")
    lines = data[:-1].split(b"\n")
    runs = {}
    for n, line in enumerate(lines, 1):
        with within(f"line {n}"):
            value = parsed(line)
            made = record(event_v2.RunEvent, value, "event")
            need(made.eventType is not None, "event has no eventType")
            need(TIME.fullmatch(made.eventTime), f"eventTime is {made.eventTime}, expected RFC 3339")
            same(filled(value), filled(Serde.to_dict(made)), "event")
        runs.setdefault(made.run.runId, []).append(made)
    for run, events in runs.items():
        course(run, events, unfinished)
        for parent in filter(None, (made.run.facets.get("parent") for made in events)):
            related(run, parent, "parent", runs)
            if parent.root:
                related(run, parent.root, "root", runs)
    return f"OpenLineage, {len(lines)} events of {len(runs)} runs"


def course(run, events, unfinished):
    """Refuses events of one run that are not in an order that a run can have."""
    states = [made.eventType.value for made in events]
    need(states[0] == "START", f"run {run}: its first event is {states[0]}, expected START")
    need(states.count("START") == 1, f"run {run}: it has two START")
    ends = [i for i, state in enumerate(states) if state in ("COMPLETE", "FAIL", "ABORT")]
    need(len(ends) <= 1, f"run {run}: it has two ends")
    need(ends or unfinished, f"run {run}: it has no end")
    after = [state for state in states[ends[0] + 1:] if state != "OTHER"] if ends else []
    need(not after, f"run {run}: {after} after its end")
    times = [isoparse(made.eventTime) for made in events]
    need(times == sorted(times), f"run {run}: its events go back in time")
    jobs = {(made.job.namespace, made.job.name) for made in events}
    need(len(jobs) == 1, f"run {run}: it is of several jobs: {sorted(jobs)}")


def related(run, other, kind, runs):
    """Refuses a parent facet that names a run that is not one of the file, or has begun later."""
    events = runs.get(other.run.runId)
    need(events, f"run {run}: its {kind} {other.run.runId} has no events in the file")
    need(other.run.runId != run, f"run {run}: it is its own {kind}")
    own, said = ((job.namespace, job.name) for job in (events[0].job, other.job))
    need(said == own, f"run {run}: the job of its {kind} is {said}, expected {own}")
    began = [isoparse(it[0].eventTime) for it in (events, runs[run])]
    need(began[0] <= began[1], f"run {run}: it began before its {kind}")


RUNS = [str(uuid.UUID(int=n + (4 << 76) + (2 << 62))) for n in (1, 2, 3)]
PRODUCER = "https://example.com/proofmill/0.1"


def example_statements():
    result = {"result": "WARNED", "url": "urn:run:1", "passedTests": ["a"], "warnedTests": ["b"],
              "configuration": [{"name": "p.yaml", "mediaType": "application/yaml",
                                 "digest": {"sha256": "cd" * 32}, "annotations": {"stages": 2}}]}
    build = {"buildType": "urn:build", "externalParameters": {"seed": 7, "rerun": []},
             "resolvedDependencies": [{"uri": "file:r.csv", "digest": {"sha256": "ef" * 32}}]}
    run = {"builder": {"id": PRODUCER, "version": {"proofmill": "0.1.0"}},
           "metadata": {"startedOn": "2026-11-28T12:00:00.10Z", "finishedOn": "2026-11-28T12:00:09.000Z"},
           "byproducts": [{"name": "log", "digest": {"sha256": "12" * 32}}]}
    made = {"buildDefinition": build, "runDetails": run}
    subject = {"name": "scores", "digest": {"sha256": "ab" * 32}}
    both = {"_type": "https://in-toto.io/Statement/v1", "subject": [subject]}
    return {"in-toto": {**both, "predicateType": TEST_RESULT, "predicate": result},
            "slsa": {**both, "predicateType": PROVENANCE, "predicate": made}}


def example_facet(kind, key, **fields):
    return {key: {"_producer": PRODUCER, "_schemaURL": FACETS[kind][key]._get_schema(), **fields}}


def example_events():
    """A run of a pipeline, and in it a stage that ends well and one that fails."""
    root = {"run": {"runId": RUNS[0]}, "job": {"namespace": "n", "name": "p"}}
    parent = example_facet(facet_v2.RunFacet, "parent", **root, root=root)

    def one(run, state, second, job, **more):
        return {"eventType": state, "eventTime": f"2026-11-28T12:00:{second:02}.5Z", "producer": PRODUCER,
                "schemaURL": event_v2.RunEvent._get_schema(),
                "run": {"runId": RUNS[run], "facets": parent if run else {}},
                "job": {"namespace": "n", "name": job, "facets": {}}, "inputs": [], "outputs": [], **more}
    first = one(0, "START", 0, "p")
    first["run"]["facets"] = example_facet(facet_v2.RunFacet, "processing_engine", version="0.1", name="q")
    first["job"]["facets"] = example_facet(facet_v2.JobFacet, "sourceCodeLocation", type="git", url=PRODUCER)
    source = {"namespace": "file", "name": "r.csv"}
    step = {"type": "DIRECT", "subtype": "IDENTITY", "masking": False}
    column = {"inputFields": [{**source, "field": "x", "transformations": [step]}]}
    fields = [{"name": "x", "type": "int64", "fields": []}]
    output = {"namespace": "file", "name": "a", "facets": {
        **example_facet(facet_v2.DatasetFacet, "schema", fields=fields),
        **example_facet(facet_v2.DatasetFacet, "columnLineage", fields={"x": column})},
        "outputFacets": example_facet(facet_v2.OutputDatasetFacet, "outputStatistics", rowCount=3, size=0)}
    return [first, one(1, "START", 1, "p.a", inputs=[source]), one(2, "START", 1, "p.b"),
            one(1, "COMPLETE", 3, "p.a", inputs=[source], outputs=[output]), one(2, "FAIL", 4, "p.b"),
            one(0, "FAIL", 9, "p")]


def written(value):
    return json.dumps(value).encode()


def sealed(payload, key, name):
    """An envelope, its signature made without the library that verifies it."""
    kind = PAYLOAD_TYPE.encode()
    signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    signatures = [{"keyid": name, "sig": base64.b64encode(signature).decode()}]
    payload = base64.b64encode(payload).decode()
    return {"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": signatures}


def damaged(document, path, value):
    """A copy with another value at a path, or with what a function makes of it; `None` removes it."""
    whole = {"": json.loads(written(document))}
    *way, name = (int(step) if step.isdigit() else step for step in path.split("/"))
    at = whole
    for step in way:
        at = at[step]
    at[name] = value(at[name]) if callable(value) else value
    if value is None:
        del at[name]
    return whole[""]


CONFIGURATION, BUILD, RUN = "/predicate/configuration", "/predicate/buildDefinition", "/predicate/runDetails"
PARENT, OUTPUT, ABSENT = "/1/run/facets/parent", "/3/outputs/0", str(uuid.UUID(int=9))
# Where a document is damaged, what then stands there, and a part of why it must be refused.
STATEMENTS = {"in-toto": [
    ("/_type", "urn:x", "Wrong statement type"), ("/subject/0/digest", None, "least one digest required"),
    ("/subject", [], "At least one subject required"), ("/subject", lambda it: it * 2, "have one name"),
    ("/subject/0/digest/sha256", "ab", "not a sha256"), ("/subject/0/digest/sha256", "AB" * 32, "not a"),
    ("/predicate", None, "Predicate object required"), ("/predicateType", PROVENANCE, "predicateType is"),
    ("/predicate/result", "PASS", "result is `PASS`"), ("/predicate/result", 1, "Failed to parse result"),
    ("/predicate/failed_tests", ["c"], "does not keep"), ("/predicate/failedTests", ["b"], "listed twice"),
    ("/predicate", lambda it: {**it, "result": "PASSED", "failedTests": ["c"]}, "PASSED with failedTests"),
    ("/predicate/url", "not a uri", "is not a URI"), (CONFIGURATION, [], "no configuration"),
    (f"{CONFIGURATION}/0/annotations/stages", 2**53 + 1, "annotations.stages"),
    (f"{CONFIGURATION}/0/digest", None, "neither uri nor"), (CONFIGURATION, [{}], "At least one of name"),
], "slsa": [
    (RUN, None, "no runDetails"), (f"{RUN}/builder", None, "runDetails has no builder"),
    (f"{RUN}/builder/id", "proofmill", "builder.id"), (f"{RUN}/byproducts", [{}], "byproducts[0]"),
    (f"{RUN}/builder/builderDependencies", [{}], "Dependencies[0]"), (BUILD, None, "no buildDefinition"),
    (f"{BUILD}/externalParameters", None, "no externalPa"), (f"{BUILD}/buildType", None, "buildType"),
    (f"{BUILD}/resolvedDependencies/0/uri", "r.csv", "resolvedDependencies[0]: `r.csv` is not a URI"),
    (f"{RUN}/metadata/startedOn", "2026-11-28T13:00:00+01:00", "RFC 3339 in UTC"),
    (f"{RUN}/metadata/startedOn", "2026-02-30T12:00:00Z", "startedOn"),
    (f"{RUN}/metadata/finishedOn", "2026-11-28T11:00:00Z", "finishedOn is before startedOn"),
]}
ENVELOPES = [
    ("/payloadType", "text/plain", "payloadType is"), ("/payload", "e30*", "not one of DSSE"),
    ("/payload", "Pz8_", "not the standard one"), ("/extra", 1, "more fields"),
    ("/payload", "e30=", "does not verify"), ("/signatures", [], "it has no signatures"),
    ("/signatures", lambda it: it * 2, "Multiple signatures"), ("/signatures/0/sig", None, "not one of DSSE"),
    ("/signatures/0/sig", "AAAA", "not 64 bytes long"), ("/signatures/0/extra", 1, "more fields: ['extra']"),
    ("/signatures/0/sig", base64.b64encode(bytes(64)).decode(), "does not verify"),
    ("/signatures/0/keyid", "other", "name+id"), ("/signatures/0/keyid", "x+00000000", "no signature of"),
]
EVENTS = [
    ("/0/eventTime", None, "line 1: event has no eventTime"), ("/0/producer", None, "no producer"),
    ("/0/eventTime", "2026-11-28", "has to contain time"), ("/0/producer", "proofmill", "expected a URI"),
    ("/0/eventTime", "2026-11-28T12:00:00", "RFC 3339"), ("/0/eventType", "STARTED", "is 'STARTED'"),
    ("/0/eventTime", "2026-11-28T12:00:59Z", "go back in time"), ("/0/eventType", None, "no eventType"),
    ("/1/eventTime", "2026-11-28T11:59:59Z", "before its parent"), ("/5/job/name", "q", "several jobs"),
    ("/0/inputs", {}, "event.inputs is not a list"), ("/0/run", [], "event.run is not an object"),
    ("/0/run/facets", [], "facets is not an object"), ("/0/job/facets/parent", {}, "unknown facet `parent`"),
    ("/0/run/runId", "2026", "badly formed"), ("/0/run/runId", RUNS[0].replace("-", ""), "runId is"),
    ("/0/job/facets/sourceCodeLocation/url", "src/main.rs", "expected a URI"),
    ("/0/job/facets", lambda it: it | example_facet(
        facet_v2.JobFacet, "lineage", entries=[{"type": "TABLE", "namespace": "n", "name": "a"}]),
     "expected one of ['DATASET']"),
    (f"{PARENT}/_producer", None, "no _producer"), (f"{PARENT}/job/name", "q", "the job of its parent"),
    (f"{PARENT}/run/runId", ABSENT, "no events in"), (f"{PARENT}/run/runId", RUNS[1], "its own parent"),
    (PARENT + "/root" + "/run/runId", ABSENT, "its root"), ("", lambda it: [it[0], *it], "two START"),
    (f"{OUTPUT}/facets/schema/_schemaURL", None, "schema has no _schemaURL"),
    (f"{OUTPUT}/facets/schema/_schemaURL", PRODUCER, f"_schemaURL is {PRODUCER}, expected"),
    (f"{OUTPUT}/facets/schema/fields/0/nullable", True, "unknown field `nullable`"),
    (f"{OUTPUT}/outputFacets/outputStatistics/rowCount", True, "rowCount is True"),
    ("", lambda it: it[:-1], "it has no end"), ("", lambda it: [*it, it[-1]], "two ends"),
    ("", lambda it: [*it, {**it[5], "eventType": "RUNNING"}], "after its end"),
    ("", lambda it: [it[0], it[3], it[2], it[1], *it[4:]], "its first event is COMPLETE"),
]


def self_test():
    """Valid documents must pass, and damaged ones must be refused for their damage."""
    secret, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = b"\x01" + secret.public_key().public_bytes_raw()
    name = "self-test+" + hashlib.sha256(b"self-test\n" + public).hexdigest()[:8]
    key = f"{name}+{base64.b64encode(public).decode()}"
    results = []

    def case(kind, data, why, **options):
        holds, said = checked(kind, lambda: data, **options)
        right = holds == (why is None) and (why or "") in said and "\n" not in said
        results.append((why is None, right))
        if not right:
            print(f"{kind} {options}: {said}, expected {why or 'that it passes'}\n{data[:400]!r}")

    def lines(events):
        return b"".join(written(it) + b"\n" for it in events)
    events = example_events()
    case("openlineage", lines(events), None)
    case("openlineage", lines(events[:-1]), None, unfinished=True)
    for path, value, why in EVENTS:
        case("openlineage", lines(damaged(events, path, value)), why)
    case("openlineage", lines(events)[:-1], "last line has no end")
    case("openlineage", lines(events) + b"\n", "line 7: it is not JSON")
    case("openlineage", lines(events).replace(b'"rowCount": 3', b'"rowCount": NaN'), "it has `NaN`")
    for kind, document in example_statements().items():
        envelope = sealed(written(document), secret, name)
        data = written(envelope)
        case(kind, data, None)
        for path, value, why in [("/predicate", lambda it: it, None), *STATEMENTS[kind]]:
            bare = written(damaged(document, path, value))
            case(kind, bare, why, bare=True)
            case(kind, written(sealed(bare, secret, name)), why, key=key)
        for path, value, why in ENVELOPES:
            case(kind, written(damaged(envelope, path, value)), why, key=key)
        case(kind, data, "no field named", bare=True)
        case(kind, written(sealed(written(document), other, name)), "does not verify", key=key)
        case(kind, data, "the id of the key is", key=f"x{key}")
        case(kind, data, "expected name+id+base64", key=name)
        case(kind, data, "not one of Ed25519", key=f"{name}+AAAA")
        case(kind, data[:-1] + b', "payload": ""}', "a name stands twice")
        case(kind, data[:9] + b"\xff" + data[10:], "'utf-8' codec")
        case(kind, b"[" * 100_000, "recursion")
    valid, wrong = sum(is_valid for is_valid, _ in results), sum(not right for _, right in results)
    print(f"{valid} valid documents, {len(results) - valid} damaged ones: {wrong} wrong")
    return not wrong


def checked(kind, read, key=None, bare=False, unfinished=False):
    """Whether a file is valid, and one line that says what it is or why it is not."""
    try:
        if kind == "openlineage":
            return True, openlineage(read(), unfinished)
        return True, statement(kind, read(), key and verifier(key), bare)
    except Exception as why:  # The tools may fail in any way on what is damaged.
        what = "" if isinstance(why, Refused) else f"{type(why).__name__}: "
        return False, " ".join(f"{what}{why}".split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("self-test")
    for kind in ("in-toto", "slsa", "openlineage"):
        of = kinds.add_parser(kind)
        of.add_argument("files", nargs="+", metavar="FILE")
        either = of.add_mutually_exclusive_group()
        if kind == "openlineage":
            either.add_argument("--unfinished", action="store_true", help="runs may have no end yet")
        else:
            either.add_argument("--key", metavar="VERIFIER", help="verify the signature by this key")
            either.add_argument("--bare", action="store_true", help="statements without envelopes")
    options = vars(parser.parse_args())
    kind, files = options.pop("kind"), options.pop("files", [])
    valid = kind != "self-test" or self_test()
    for path in files:
        holds, said = checked(kind, Path(path).read_bytes, **options)
        print(f"{path}: {said}", file=sys.stdout if holds else sys.stderr)
        valid &= holds
    sys.exit(0 if valid else 1)


if __name__ == "__main__":
    main()
