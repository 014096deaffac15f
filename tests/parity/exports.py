"""Exports of the audit log, held against the official tools of their formats.

    python3 tests/parity/exports.py in-toto FILE... [--key VERIFIER | --bare]
    python3 tests/parity/exports.py slsa FILE... [--key VERIFIER | --bare]
    python3 tests/parity/exports.py openlineage FILE... [--unfinished]
    python3 tests/parity/exports.py self-test

`in-toto` and `slsa` take DSSE envelopes, or with `--bare` the statements themselves. securesystemslib reads
an envelope, and verifies its signature if `--key` gives the key, in the form of C2SP's signed notes. The
protobufs of in-toto-attestation then read the statement and its predicate and must write the same JSON back,
so that no field is unknown, misspelt or rounded. What that package does not check, but its specification or
the validators of its Go edition do, is checked here.

`openlineage` takes run events, one a line. openlineage-python does not ship the JSON Schemas of OpenLineage,
but it has the classes that are generated from them: each event is read into these classes, with
all fields by name and type and all facets by their standard names, and must be written as the same JSON.
A run begins with START, has one end unless `--unfinished` is given, and its parents are runs of the file.

Prints a line for each file. Exit code 1, and why on stderr, if one is not valid. Wants `cryptography`,
`in-toto-attestation`, `openlineage-python` and `securesystemslib` (`tests/parity/requirements.txt`).
"""

import argparse
import base64
import binascii
import collections
import copy
import enum
import hashlib
import json
import re
import sys
import tempfile
import types
import typing
import uuid
from pathlib import Path

try:
    import attr
    from cryptography.hazmat.primitives import serialization
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
    from securesystemslib.exceptions import Error as SignatureError
    from securesystemslib.signer import SSlibKey
except ImportError as why:
    sys.exit(f"{why}: install the packages of tests/parity/requirements.txt")

PAYLOAD_TYPE = "application/vnd.in-toto+json"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PROVENANCE = "https://slsa.dev/provenance/v1"
# Hex digits of a digest.
DIGESTS = {"sha1": [40], "sha224": [56], "sha256": [64], "sha384": [96], "sha512": [128],
           "gitCommit": [40, 64], "gitTree": [40, 64], "gitBlob": [40, 64], "gitTag": [40, 64]}
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
RESULTS = ["PASSED", "WARNED", "FAILED"]
ENDS = ["COMPLETE", "FAIL", "ABORT"]
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


# ---------------------------------------------------------------- JSON


def parsed(data):
    """What strict JSON says: UTF-8, every name once, and no NaN."""
    def names(pairs):
        for name, count in collections.Counter(name for name, _ in pairs).items():
            need(count == 1, f"the name `{name}` stands twice")
        return dict(pairs)

    def constant(text):
        raise Refused(f"`{text}` is not JSON")
    try:
        return json.loads(data.decode(), object_pairs_hook=names, parse_constant=constant)
    except UnicodeDecodeError:
        raise Refused("it is not UTF-8") from None
    except ValueError as why:
        raise Refused(f"it is not JSON: {why}") from None


def shown(value):
    """A value as JSON, short enough for a line."""
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def exactly(value, fields, where):
    need(isinstance(value, dict), f"{where} is not an object")
    need(value.keys() == set(fields), f"{where} has the fields {sorted(value)}, expected {sorted(fields)}")


def filled(value):
    """A value without what the formats take for unset: null, and empty texts, lists and objects."""
    if isinstance(value, list):
        return [filled(item) for item in value]
    if isinstance(value, dict):
        inner = {name: filled(item) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item is not None and item not in ("", [], {})}
    return value


def difference(one, other, where):
    """Where two values first differ; `None` if nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            if name not in one or name not in other:
                return f"{where}.{name}"
            if found := difference(one[name], other[name], f"{where}.{name}"):
                return found
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other))
        return next(filter(None, (difference(*pair, f"{where}[{i}]") for i, pair in pairs)), None)
    return None if one == other and isinstance(one, bool) == isinstance(other, bool) else where


# ---------------------------------------------------------------- in-toto and SLSA


def verifier(text):
    """The key `name+id+base64`, as in C2SP's signed notes."""
    try:
        name, identity, encoded = text.strip().split("+", 2)
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise Refused(f"`{text}` is not a key: expected name+id+base64") from None
    need(len(key) == 33 and key[0] == 1, "the key is not one of Ed25519")
    right = hashlib.sha256(f"{name}\n".encode() + key).hexdigest()[:8]
    need(identity == right, f"the id of the key is {identity}, expected {right}")
    return SSlibKey(f"{name}+{identity}", "ed25519", "ed25519", {"public": key[1:].hex()})


def opened(data, key):
    """The payload of an envelope, and what is known of its signatures."""
    value = parsed(data)
    exactly(value, ["payload", "payloadType", "signatures"], "the envelope")
    need(value["payloadType"] == PAYLOAD_TYPE, f"payloadType is {shown(value['payloadType'])}")
    need(isinstance(value["payload"], str), "payload is not a text")
    need(isinstance(value["signatures"], list) and value["signatures"], "signatures is not a list of any")
    for i, signature in enumerate(value["signatures"]):
        exactly(signature, ["keyid", "sig"], f"signatures[{i}]")
        need(all(isinstance(it, str) for it in signature.values()), f"signatures[{i}] has what is not a text")
        named_key = re.fullmatch(r"[^\s+]+\+[0-9a-f]{8}", signature["keyid"])
        need(named_key, f"the keyid of signatures[{i}] is {shown(signature['keyid'])}, expected name+id")
    try:
        envelope = Envelope.from_dict(copy.deepcopy(value))
    except binascii.Error as why:
        raise Refused(f"it is not base64: {why}") from None
    except ValueError as why:
        raise Refused(str(why)) from None
    need(envelope.to_dict() == value, "its base64 is not the standard one with padding")
    for it in envelope.signatures.values():
        need(len(it.signature) == 128, f"the signature of {it.keyid} is not 64 bytes long")
    if key is None:
        return envelope.payload, f"signature of {', '.join(envelope.signatures)} not verified"
    need(key.keyid in envelope.signatures, f"it has no signature of {key.keyid}")
    try:
        envelope.verify([key], 1)
    except SignatureError as why:
        raise Refused(f"the signature of {key.keyid} does not verify: {why}") from None
    return envelope.payload, f"signed by {key.keyid}"


def message(kind, value, where):
    """The protobuf that JSON says, which must say the same JSON."""
    read = kind()
    try:
        json_format.Parse(json.dumps(value), read, ignore_unknown_fields=False)
    except json_format.ParseError as why:
        raise Refused(f"{where}: {why}") from None
    at = difference(filled(value), filled(json_format.MessageToDict(read)), where)
    need(at is None, f"the protobuf does not keep what {at} says")
    return read


def descriptors(found, where):
    """Resources as protobufs, by the package and by the specification."""
    for i, it in enumerate(found):
        at = f"{where}[{i}]"
        try:
            ResourceDescriptor.copy_from_pb(it).validate()
        except ValueError as why:
            raise Refused(f"{at}: {why}") from None
        need(it.uri or it.digest or it.content, f"{at} has neither uri nor digest nor content")
        for uri in filter(None, (it.uri, it.download_location)):
            need(URI.fullmatch(uri), f"{at}: `{uri}` is not a URI")
        for algorithm, digest in it.digest.items():
            fits = re.fullmatch("[0-9a-f]+", digest) and len(digest) in DIGESTS.get(algorithm, [len(digest)])
            need(fits, f"{at}: `{digest}` is not a {algorithm} in lowercase hex")


def test_result(predicate):
    read = message(TestResult, predicate, "predicate")
    need(read.result in RESULTS, f"result is `{read.result}`, expected one of {RESULTS}")
    need(read.configuration, "predicate has no configuration")
    descriptors(read.configuration, "configuration")
    need(not read.url or URI.fullmatch(read.url), f"url: `{read.url}` is not a URI")
    lists = [read.passed_tests, read.warned_tests, read.failed_tests]
    tests = [name for names in lists for name in names]
    need(len(set(tests)) == len(tests), "a test is listed twice")
    need(read.result != "PASSED" or not read.failed_tests, "result is PASSED with failedTests")
    counts = [f"{len(names)} {how}" for names, how in zip(lists, ("passed", "warned", "failed"))]
    return f"in-toto test result {read.result} ({', '.join(counts)})"


def provenance(predicate):
    predicate = copy.deepcopy(predicate)
    metadata = predicate.get("runDetails")
    metadata = metadata.get("metadata") if isinstance(metadata, dict) else None
    times = []
    for name in ("startedOn", "finishedOn"):
        if isinstance(metadata, dict) and name in metadata:
            text, time = metadata[name], Timestamp()
            need(isinstance(text, str) and TIME.fullmatch(text) and text.endswith("Z"),
                 f"{name} is {shown(text)}, expected RFC 3339 in UTC")
            try:
                time.FromJsonString(text)
            except ValueError as why:
                raise Refused(f"{name}: {why}") from None
            # A fraction may have any number of digits; a protobuf writes as few as it can.
            metadata[name] = time.ToJsonString()
            times.append(time.ToNanoseconds())
    read = message(Provenance, predicate, "predicate")
    need(times == sorted(times), "finishedOn is before startedOn")
    for field in ("build_definition", "run_details"):
        need(read.HasField(field), f"predicate has no {json_name(read, field)}")
    build, run = read.build_definition, read.run_details
    need(URI.fullmatch(build.build_type), f"buildType: `{build.build_type}` is not a URI")
    need(build.HasField("external_parameters"), "buildDefinition has no externalParameters")
    need(run.HasField("builder"), "runDetails has no builder")
    need(URI.fullmatch(run.builder.id), f"builder.id: `{run.builder.id}` is not a URI")
    descriptors(build.resolved_dependencies, "resolvedDependencies")
    descriptors(run.builder.builder_dependencies, "builderDependencies")
    descriptors(run.byproducts, "byproducts")
    return f"SLSA provenance v1 by {run.builder.id} ({len(build.resolved_dependencies)} dependencies)"


def json_name(read, field):
    return read.DESCRIPTOR.fields_by_name[field].json_name


def statement(data, predicate_type, key, bare):
    """One line about an envelope or a bare statement that is valid."""
    data, signed = (data, "unsigned") if bare else opened(data, key)
    value = parsed(data)
    read = message(statement_pb2.Statement, value, "statement")
    need(read.predicate_type == predicate_type,
         f"predicateType is `{read.predicate_type}`, expected {predicate_type}")
    try:
        Statement.copy_from_pb(read).validate()
    except ValueError as why:
        raise Refused(str(why)) from None
    descriptors(read.subject, "subject")
    names = [it.name for it in read.subject if it.name]
    need(len(set(names)) == len(names), "two subjects have one name")
    what = {TEST_RESULT: test_result, PROVENANCE: provenance}[predicate_type](value["predicate"])
    names = [it.name or it.uri or next(iter(it.digest.values())) for it in read.subject]
    more = ["..."] if len(names) > 3 else []
    return f"{what}, {signed}, {len(names)} subjects: {', '.join([*names[:3], *more])}"


# ---------------------------------------------------------------- OpenLineage


def standard_facets():
    """The classes of facets, by what they are facets of and by their names in an event."""
    kinds = [facet_v2.RunFacet, facet_v2.JobFacet, facet_v2.DatasetFacet, facet_v2.InputDatasetFacet,
             facet_v2.OutputDatasetFacet]
    found = {kind: {} for kind in kinds}
    for module in (it for it in vars(facet_v2).values() if isinstance(it, types.ModuleType)):
        for cls in (it for it in vars(module).values() if isinstance(it, type) and attr.has(it)):
            kind = next((it for it in kinds if issubclass(cls, it) and cls is not it), None)
            if kind is not None:
                name = re.sub(r"(Run|Job|(Input|Output)?Dataset)Facet$", "", cls.__name__)
                found[kind][NAMES.get(cls.__name__, name[0].lower() + name[1:])] = cls
    return found


FACETS = standard_facets()


def built(hint, value, where):
    """A value of JSON as the type that a class of OpenLineage declares for it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return value
    if origin in (typing.Union, types.UnionType):
        choices, reasons = [it for it in arguments if it is not types.NoneType], []
        for choice in choices:
            try:
                return built(choice, value, where)
            except Refused as why:
                reasons.append(str(why))
        raise Refused("; and ".join(reasons))
    if origin is typing.Literal:
        need(value in arguments, f"{where} is {shown(value)}, expected one of {list(arguments)}")
        return value
    if origin is list:
        need(isinstance(value, list), f"{where} is not a list")
        return [built(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict:
        need(isinstance(value, dict), f"{where} is not an object")
        classes = FACETS.get(arguments[1])
        for name in value if classes else ():
            need(name in classes, f"{where} has the unknown facet `{name}`")
        of = {name: classes[name] if classes else arguments[1] for name in value}
        return {name: built(of[name], item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        values = [it.value for it in hint]
        need(value in values, f"{where} is {shown(value)}, expected one of {values}")
        return hint(value)
    if attr.has(hint):
        return record(hint, value, where)
    fits = type(value) in (int, float) if hint is float else type(value) is hint
    need(fits, f"{where} is {shown(value)}, expected {hint.__name__}")
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
        need(URI.fullmatch(found[name]), f"{where}.{name} is {shown(found[name])}, expected a URI")
    try:
        made = cls(**{fields[name].alias: item for name, item in found.items() if fields[name].init})
    except (TypeError, ValueError) as why:
        raise Refused(f"{where}: {why}") from None
    if "runId" in found:
        # `UUID` reads more spellings than the one of RFC 9562.
        canonical = str(uuid.UUID(found["runId"]))
        need(found["runId"] == canonical, f"{where}.runId is {found['runId']}, expected {canonical}")
    return made


def event(line, where):
    """A run event as an instance of its class."""
    value = parsed(line)
    made = record(event_v2.RunEvent, value, where)
    need(made.eventType is not None, f"{where} has no eventType")
    need(TIME.fullmatch(made.eventTime),
         f"{where}.eventTime is {made.eventTime}, expected RFC 3339 with its offset")
    at = difference(filled(value), filled(Serde.to_dict(made)), where)
    need(at is None, f"the client of OpenLineage does not keep what {at} says")
    return made


def named(job):
    return f"{job.namespace}/{job.name}"


def openlineage(data, unfinished):
    """One line about a file of run events that is valid."""
    need(data.endswith(b"\n"), "its last line has no end")
    lines = data[:-1].split(b"\n")
    need(all(line.strip() for line in lines), "it has an empty line")
    runs, facets, datasets = {}, set(), set()
    for n, line in enumerate(lines, 1):
        try:
            made = event(line, "event")
        except Refused as why:
            raise Refused(f"line {n}: {why}") from None
        runs.setdefault(made.run.runId, []).append(made)
        for it in [made.run, made.job, *made.inputs, *made.outputs]:
            facets.update(*(getattr(it, name, {}) for name in ("facets", "inputFacets", "outputFacets")))
        datasets.update((it.namespace, it.name) for it in [*made.inputs, *made.outputs])
    for run, events in runs.items():
        course(run, events, unfinished)
        for made in events:
            if parent := made.run.facets.get("parent"):
                related(run, parent, "parent", runs)
                if parent.root:
                    related(run, parent.root, "root", runs)
    ends = collections.Counter(made.eventType.value for events in runs.values() for made in events)
    ends = ", ".join(f"{ends[end]} {end}" for end in ENDS if ends[end]) or "none ended"
    version = event_v2.RunEvent._get_schema().split("/")[4]
    return (f"OpenLineage {version}, {len(lines)} events of {len(runs)} runs ({ends}), "
            f"{len(datasets)} datasets, facets: {', '.join(sorted(facets)) or 'none'}")


def course(run, events, unfinished):
    """Whether the events of one run are in an order that a run can have."""
    states = [made.eventType.value for made in events]
    need(states[0] == "START", f"run {run}: its first event is {states[0]}, expected START")
    need(states.count("START") == 1, f"run {run}: it has two START")
    ends = [i for i, state in enumerate(states) if state in ENDS]
    need(len(ends) <= 1, f"run {run}: it has two ends")
    need(ends or unfinished, f"run {run}: it has no end")
    after = [state for state in states[ends[0] + 1:] if state != "OTHER"] if ends else []
    need(not after, f"run {run}: {after} after its end")
    times = [isoparse(made.eventTime) for made in events]
    need(times == sorted(times), f"run {run}: its events go back in time")
    jobs = {named(made.job) for made in events}
    need(len(jobs) == 1, f"run {run}: it is of several jobs: {sorted(jobs)}")


def related(run, other, kind, runs):
    """Whether the run that a parent facet names is one of the file."""
    events = runs.get(other.run.runId)
    need(events, f"run {run}: its {kind} {other.run.runId} has no events in the file")
    need(other.run.runId != run, f"run {run}: it is its own {kind}")
    own = named(events[0].job)
    need(named(other.job) == own, f"run {run}: the job of its {kind} is {named(other.job)}, expected {own}")
    began = [isoparse(it[0].eventTime) for it in (events, runs[run])]
    need(began[0] <= began[1], f"run {run}: it began before its {kind}")


# ---------------------------------------------------------------- damaged documents

RUNS = [str(uuid.UUID(int=n + (4 << 76) + (2 << 62))) for n in (1, 2, 3)]
PRODUCER = "https://example.com/proofmill/0.1"


def example_statement(predicate_type, predicate):
    subject = {"name": "scores", "digest": {"sha256": "ab" * 32}}
    return {"_type": "https://in-toto.io/Statement/v1", "subject": [subject],
            "predicateType": predicate_type, "predicate": predicate}


def example_test_result():
    configuration = {"name": "p.yaml", "digest": {"sha256": "cd" * 32}, "mediaType": "application/yaml",
                     "annotations": {"stages": 2}}
    tests = {"passedTests": ["a"], "warnedTests": ["b"], "failedTests": []}
    return example_statement(
        TEST_RESULT, {"result": "WARNED", "configuration": [configuration], "url": "urn:run:1", **tests})


def example_provenance():
    build = {"buildType": "https://example.com/run/v1", "externalParameters": {"seed": 7, "rerun": []},
             "internalParameters": {"threads": 2},
             "resolvedDependencies": [{"uri": "file:r.csv", "digest": {"sha256": "ef" * 32}}]}
    metadata = {"invocationId": "r1", "startedOn": "2026-11-28T12:00:00.10Z",
                "finishedOn": "2026-11-28T12:00:09.000Z"}
    run = {"builder": {"id": PRODUCER, "version": {"proofmill": "0.1.0"}}, "metadata": metadata,
           "byproducts": [{"name": "log", "digest": {"sha256": "12" * 32}}]}
    return example_statement(PROVENANCE, {"buildDefinition": build, "runDetails": run})


def example_facet(kind, key, **fields):
    return {key: {"_producer": PRODUCER, "_schemaURL": FACETS[kind][key]._get_schema(), **fields}}


def example_events():
    """A run of a pipeline, and in it a stage that ends well and one that fails."""
    def one(run, state, second, job, **more):
        facets = {} if run == RUNS[0] else example_facet(
            facet_v2.RunFacet, "parent", run={"runId": RUNS[0]}, job={"namespace": "n", "name": "p"},
            root={"run": {"runId": RUNS[0]}, "job": {"namespace": "n", "name": "p"}})
        return {"eventType": state, "eventTime": f"2026-11-28T12:00:{second:02}.5Z", "producer": PRODUCER,
                "schemaURL": event_v2.RunEvent._get_schema(), "run": {"runId": run, "facets": facets},
                "job": {"namespace": "n", "name": job, "facets": {}}, "inputs": [], "outputs": [], **more}
    first, last = one(RUNS[0], "START", 0, "p"), one(RUNS[0], "FAIL", 9, "p")
    first["run"]["facets"] = example_facet(facet_v2.RunFacet, "processing_engine", version="0.1", name="q")
    first["job"]["facets"] = example_facet(facet_v2.JobFacet, "sourceCodeLocation", type="git", url=PRODUCER)
    last["run"]["facets"] = example_facet(
        facet_v2.RunFacet, "errorMessage", message="b failed", programmingLanguage="RUST")
    source = {"namespace": "file", "name": "r.csv"}
    step = {"type": "DIRECT", "subtype": "IDENTITY", "masking": False}
    column = {"inputFields": [{**source, "field": "x", "transformations": [step]}]}
    fields = [{"name": "x", "type": "int64", "fields": []}]
    facets = {**example_facet(facet_v2.DatasetFacet, "schema", fields=fields),
              **example_facet(facet_v2.DatasetFacet, "columnLineage", fields={"x": column})}
    statistics = example_facet(facet_v2.OutputDatasetFacet, "outputStatistics", rowCount=3, size=0)
    output = {"namespace": "file", "name": "a", "facets": facets, "outputFacets": statistics}
    return [first, one(RUNS[1], "START", 1, "p.a", inputs=[source]), one(RUNS[2], "START", 1, "p.b"),
            one(RUNS[1], "COMPLETE", 3, "p.a", inputs=[source], outputs=[output]),
            one(RUNS[2], "FAIL", 4, "p.b"), last]


def written(value):
    return json.dumps(value).encode()


def sealed(payload, key, name):
    """An envelope, its signature made without the library that verifies it."""
    kind = PAYLOAD_TYPE.encode()
    signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    signatures = [{"keyid": name, "sig": base64.b64encode(signature).decode()}]
    payload = base64.b64encode(payload).decode()
    return {"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": signatures}


def put(*path):
    """A change of a document: the last of `path` where the others lead to. `None` removes what is there."""
    *way, name, value = path

    def change(document):
        for step in way:
            document = document[step]
        if value is None:
            del document[name]
        else:
            document[name] = value
    return change


def swap(events):
    events[1], events[3] = events[3], events[1]


SUBJECT, CONFIGURATION = ["subject", 0], ["predicate", "configuration", 0]
BUILD, DETAILS = ["predicate", "buildDefinition"], ["predicate", "runDetails"]
SCHEMA, LINEAGE = [3, "outputs", 0, "facets", "schema"], [3, "outputs", 0, "facets", "columnLineage"]
STATISTICS = [3, "outputs", 0, "outputFacets", "outputStatistics"]
# What is damaged, how, and a part of why it must be refused.
STATEMENTS = {"in-toto": [
    (put("extra", 1), 'no field named "extra"'),
    (put("_type", "https://in-toto.io/Statement/v0.1"), "Wrong statement type"),
    (put("predicateType", PROVENANCE), "predicateType is"),
    (put("subject", []), "At least one subject required"),
    (put(*SUBJECT, "digest", None), "At least one digest required"),
    (put(*SUBJECT, "digest", "sha256", "ab"), "is not a sha256"),
    (put(*SUBJECT, "digest", "sha256", "AB" * 32), "is not a sha256"),
    (put(*SUBJECT, "digests", {}), 'no field named "digests"'),
    (lambda it: it["subject"].append(it["subject"][0]), "two subjects have one name"),
    (put("predicate", None), "Predicate object required"),
    (put("predicate", []), "statement: Failed to parse predicate"),
    (put("predicate", "result", "PASS"), "result is `PASS`"),
    (put("predicate", "result", None), "result is ``"),
    (put("predicate", "result", 1), "Failed to parse result"),
    (put("predicate", "failedTests", ["b"]), "a test is listed twice"),
    (lambda it: it["predicate"].update(result="PASSED", failedTests=["c"]), "PASSED with failedTests"),
    (put("predicate", "failed_tests", ["c"]), "does not keep"),
    (put("predicate", "tests", ["c"]), 'no field named "tests"'),
    (put("predicate", "url", "not a uri"), "is not a URI"),
    (put("predicate", "configuration", []), "no configuration"),
    (put(*CONFIGURATION, "digest", None), "neither uri nor digest nor content"),
    (put("predicate", "configuration", [{}]), "At least one of name, URI, or digest"),
    (put(*CONFIGURATION, "annotations", "stages", 2**53 + 1), "annotations.stages"),
    (put(*CONFIGURATION, "media_type", "a/b"), "configuration"),
], "slsa": [
    (put("predicateType", TEST_RESULT), "predicateType is"),
    (put(*DETAILS, None), "no runDetails"),
    (put(*BUILD, None), "no buildDefinition"),
    (put(*DETAILS, "builder", None), "runDetails has no builder"),
    (put(*DETAILS, "builder", "id", "proofmill"), "builder.id"),
    (put(*DETAILS, "builder", "version", "0.1"), "version"),
    (put(*BUILD, "buildType", None), "buildType"),
    (put(*BUILD, "externalParameters", None), "no externalParameters"),
    (put(*BUILD, "systemParameters", {}), 'no field named "systemParameters"'),
    (put(*BUILD, "externalParameters", "seed", 2**63 - 1), "externalParameters.seed"),
    (put(*BUILD, "resolvedDependencies", 0, "digest", "sha256", "12"), "resolvedDependencies[0]"),
    (put(*BUILD, "resolvedDependencies", 0, "uri", "r.csv"), "`r.csv` is not a URI"),
    (put(*DETAILS, "byproducts", [{}]), "byproducts[0]"),
    (put(*DETAILS, "builder", "builderDependencies", [{}]), "builderDependencies[0]"),
    (put(*DETAILS, "metadata", "startedOn", "2026-11-28T13:00:00+01:00"), "RFC 3339 in UTC"),
    (put(*DETAILS, "metadata", "startedOn", "2026-02-30T12:00:00Z"), "startedOn"),
    (put(*DETAILS, "metadata", "finishedOn", "2026-11-28T11:00:00Z"), "finishedOn is before startedOn"),
    (put(*DETAILS, "metadata", "buildStartedOn", "x"), 'no field named "buildStartedOn"'),
]}
ENVELOPES = [
    (put("payloadType", "application/json"), "payloadType is"),
    (put("payloadType", None), "the envelope has the fields"),
    (put("extra", 1), "the envelope has the fields"),
    (put("payload", 1), "payload is not a text"),
    (put("payload", "e30*"), "not base64"),
    (put("payload", "e30"), "not base64"),
    (put("payload", "Pz8_"), "not the standard one"),
    (put("payload", "e30="), "does not verify"),
    (put("signatures", []), "signatures is not a list of any"),
    (put("signatures", 0, "sig", base64.b64encode(bytes(64)).decode()), "does not verify"),
    (put("signatures", 0, "sig", "AAAA"), "not 64 bytes long"),
    (put("signatures", 0, "sig", None), "signatures[0] has the fields"),
    (put("signatures", 0, "sig", 1), "has what is not a text"),
    (put("signatures", 0, "keyid", None), "signatures[0] has the fields"),
    (put("signatures", 0, "keyid", "other"), "expected name+id"),
    (put("signatures", 0, "keyid", "other+00000000"), "it has no signature of"),
    (lambda it: it["signatures"].append(it["signatures"][0]), "Multiple signatures"),
]
EVENTS = [
    (put(0, "eventTime", None), "line 1: event has no eventTime"),
    (put(0, "eventTime", "2026-11-28"), "date-time has to contain time"),
    (put(0, "eventTime", "2026-11-28T12:00:00"), "expected RFC 3339"),
    (put(0, "eventTime", "2026-11-28T12:00:59Z"), "go back in time"),
    (put(0, "eventType", "STARTED"), 'eventType is "STARTED"'),
    (put(0, "eventType", None), "no eventType"),
    (put(0, "producer", None), "no producer"),
    (put(0, "producer", "proofmill"), "expected a URI"),
    (put(0, "schemaURL", "https://openlineage.io/spec/2-0-2/OpenLineage.json"), "schemaURL is"),
    (put(0, "schemaURL", None), "no schemaURL"),
    (put(0, "extra", 1), "unknown field `extra`"),
    (put(0, "inputs", {}), "event.inputs is not a list"),
    (put(0, "run", []), "event.run is not an object"),
    (put(0, "run", "facets", []), "event.run.facets is not an object"),
    (put(0, []), "event is not an object"),
    (put(0, "run", "runId", "20261128-120000-abc"), "badly formed hexadecimal UUID"),
    (put(0, "run", "runId", RUNS[0].replace("-", "")), "runId is"),
    (put(0, "job", "name", None), "event.job has no name"),
    (put(0, "job", "namespace", 1), "namespace is 1"),
    (put(5, "job", "name", "q"), "of several jobs"),
    (put(0, "run", "facets", "proofmill_audit", {}), "unknown facet `proofmill_audit`"),
    (put(0, "job", "facets", "parent", {}), "unknown facet `parent`"),
    (put(0, "run", "facets", "processing_engine", "version", None), "processing_engine has no version"),
    (put(0, "job", "facets", "sourceCodeLocation", "url", "src/main.rs"), "expected a URI"),
    (put(5, "run", "facets", "errorMessage", "programmingLanguage", None), "no programmingLanguage"),
    (lambda it: it[0]["job"]["facets"].update(example_facet(
        facet_v2.JobFacet, "lineage", entries=[{"type": "TABLE", "namespace": "n", "name": "a"}])),
     "expected one of ['DATASET']"),
    (put(1, "run", "facets", "parent", "_producer", None), "no _producer"),
    (put(1, "run", "facets", "parent", "job", "name", "q"), "the job of its parent"),
    (put(1, "run", "facets", "parent", "run", "runId", str(uuid.UUID(int=9))), "has no events in the file"),
    (put(1, "run", "facets", "parent", "run", "runId", RUNS[1]), "it is its own parent"),
    (put(1, "eventTime", "2026-11-28T11:59:59Z"), "it began before its parent"),
    (put(1, "run", "facets", "parent", "root", "run", "runId", str(uuid.UUID(int=9))), "its root"),
    (put(*SCHEMA, "_schemaURL", "https://openlineage.io/spec/facets/1-2-0/SchemaDatasetFacet.json"),
     "SchemaDatasetFacet.json, expected"),
    (put(*SCHEMA, "_schemaURL", None), "schema has no _schemaURL"),
    (put(*SCHEMA, "fields", 0, "name", None), "fields[0] has no name"),
    (put(*SCHEMA, "fields", 0, "nullable", True), "unknown field `nullable`"),
    (put(*LINEAGE, "fields", "x", "inputFields", 0, "field", None), "inputFields[0] has no field"),
    (put(*LINEAGE, "fields", "x", "inputFields", 0, "transformations", 0, "masking", "no"), "expected bool"),
    (put(*STATISTICS, "rowCount", "3"), 'rowCount is "3"'),
    (put(*STATISTICS, "rowCount", True), "rowCount is true"),
    (put(*STATISTICS, "rowCount", 3.0), "rowCount is 3.0"),
    (swap, "its first event is COMPLETE"),
    (lambda it: it.pop(), "it has no end"),
    (lambda it: it.append(it[-1]), "two ends"),
    (lambda it: it.insert(1, it[0]), "two START"),
    (lambda it: it.append({**it[5], "eventType": "RUNNING"}), "after its end"),
]
BYTES = [
    ("openlineage", lambda it: it[:-1], "last line has no end"),
    ("openlineage", lambda it: it + b"\n", "empty line"),
    ("openlineage", lambda it: b"\n", "empty line"),
    ("openlineage", lambda it: it.replace(b"}\n", b'} {}\n', 1), "line 1: it is not JSON"),
    ("openlineage", lambda it: it.replace(b'"rowCount": 3', b'"rowCount": NaN'), "`NaN` is not JSON"),
    ("in-toto", lambda it: b"[" + it + b"]", "the envelope is not an object"),
    ("in-toto", lambda it: it[:-1], "it is not JSON"),
    ("in-toto", lambda it: it[:-1] + b', "payload": ""}', "the name `payload` stands twice"),
    ("in-toto", lambda it: it[:9] + b"\xff" + it[10:], "it is not UTF-8"),
    ("slsa", lambda it: b"[" * 100_000, "RecursionError"),
    ("slsa", lambda it: b"", "it is not JSON"),
]


def self_test():
    """Valid documents must pass, and damaged ones must be refused for their damage."""
    secret, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = secret.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    name = "self-test+" + hashlib.sha256(b"self-test\n\x01" + public).hexdigest()[:8]
    key = f"{name}+{base64.b64encode(b'%c%s' % (1, public)).decode()}"
    makers = {"in-toto": example_test_result, "slsa": example_provenance}

    def lines(events):
        return b"".join(written(it) + b"\n" for it in events)

    def changed(value, change):
        value = copy.deepcopy(value)
        change(value)
        return value
    envelopes = {kind: sealed(written(make()), secret, name) for kind, make in makers.items()}
    valid = {**{kind: written(it) for kind, it in envelopes.items()}, "openlineage": lines(example_events())}
    cases = [(kind, {"key": key} if kind in makers else {}, data, None) for kind, data in valid.items()]
    cases += [(kind, {}, valid[kind], None) for kind in makers]
    cases += [(kind, {"bare": True}, written(make()), None) for kind, make in makers.items()]
    cases += [("openlineage", {"unfinished": True}, lines(example_events()[:-1]), None)]
    for wrong_key, why in ((f"x{key}", "the id of the key is"), (name, "expected name+id+base64"),
                           (f"{name}+AAAA", "not one of Ed25519")):
        cases += [(kind, {"key": wrong_key}, valid[kind], why) for kind in makers]
    cases += [(kind, {"key": key}, written(sealed(written(make()), other, name)), "does not verify")
              for kind, make in makers.items()]
    cases += [(kind, {"bare": True}, valid[kind], "no field named") for kind in makers]
    for kind, changes in STATEMENTS.items():
        for change, why in changes:
            data = written(changed(makers[kind](), change))
            cases += [(kind, {"key": key}, written(sealed(data, secret, name)), why),
                      (kind, {"bare": True}, data, why)]
    cases += [(kind, {"key": key}, written(changed(it, change)), why)
              for kind, it in envelopes.items() for change, why in ENVELOPES]
    cases += [("openlineage", {}, lines(changed(example_events(), change)), why) for change, why in EVENTS]
    cases += [(kind, {}, change(valid[kind]), why) for kind, change, why in BYTES]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for n, (kind, options, data, why) in enumerate(cases):
            path = Path(folder, f"{n}.json")
            path.write_bytes(data)
            holds, said = checked(kind, path, **options)
            if holds != (why is None) or (why or "") not in said or "\n" in said:
                wrong.append(f"{kind} {options}: {said}, expected {why or 'that it passes'}\n{data[:400]!r}")
    for text in wrong:
        print(text)
    passed = sum(why is None for *_, why in cases)
    print(f"{passed} valid documents, {len(cases) - passed} damaged ones: {len(wrong)} wrong")
    return not wrong


# ---------------------------------------------------------------- the program


def checked(kind, path, key=None, bare=False, unfinished=False):
    """Whether a file is valid, and one line that says what it is or why it is not."""
    try:
        data = Path(path).read_bytes()
        if kind == "openlineage":
            return True, openlineage(data, unfinished)
        predicate_type = {"in-toto": TEST_RESULT, "slsa": PROVENANCE}[kind]
        return True, statement(data, predicate_type, key and verifier(key), bare)
    except Refused as why:
        return False, " ".join(str(why).split())
    except Exception as why:  # The tools may fail in any way on what is damaged.
        return False, " ".join(f"{type(why).__name__}: {why}".split())


def main():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind in ("in-toto", "slsa", "openlineage"):
        of = kinds.add_parser(kind)
        of.add_argument("files", nargs="+", metavar="FILE")
        if kind == "openlineage":
            of.add_argument("--unfinished", action="store_true", help="runs may have no end yet")
        else:
            either = of.add_mutually_exclusive_group()
            either.add_argument("--key", metavar="VERIFIER", help="verify the signature by this key")
            either.add_argument("--bare", action="store_true", help="statements without envelopes")
    kinds.add_parser("self-test")
    options = vars(parser.parse_args())
    kind, files = options.pop("kind"), options.pop("files", [])
    if kind == "self-test":
        sys.exit(0 if self_test() else 1)
    valid = True
    for path in files:
        holds, said = checked(kind, path, **options)
        print(f"{path}: {said}", file=sys.stdout if holds else sys.stderr)
        valid &= holds
    sys.exit(0 if valid else 1)


if __name__ == "__main__":
    main()
