//! The mutation suite: whatever can change a table makes its stage and all below it run again, and
//! nothing else does. A stale hit or a false miss fails here, by the name of what was changed.

use std::collections::BTreeSet;

use crate::support::{Workspace, executed, set};

/// Each stage of `tests/cases/cache/p.yaml` with the stages that it needs.
const EDGES: &[(&str, &[&str])] = &[
    ("questions", &[]),
    ("labels", &[]),
    ("asked", &["questions", "labels"]),
    ("memory", &["questions"]),
    ("found", &["asked", "memory"]),
    ("embedded", &["questions"]),
    ("meanings", &["embedded"]),
    ("near", &["embedded", "meanings"]),
    ("blended", &["found", "near"]),
    ("hits", &["found", "asked"]),
    ("cuts_1.cut", &["hits"]),
    ("cuts_3.cut", &["hits"]),
    ("cuts.cut", &["cuts_1.cut", "cuts_3.cut"]),
    ("score", &["cuts.cut"]),
    ("versus", &["cuts.cut"]),
    ("weighed.sums", &["hits"]),
    ("weighed.best", &["weighed.sums"]),
    ("export", &["score"]),
    ("parts", &["asked"]),
];

/// A change of a file, the stages it concerns, and what `why` must say about the first of them:
/// each component with its old and new value, of which an empty one may be anything.
type Flip<'a> = (&'a str, &'a str, &'a [&'a str], &'a [(&'a str, &'a str, &'a str)]);

/// A finished run of the case.
fn finished() -> Workspace {
    let workspace = Workspace::of_case("cache");
    let all: BTreeSet<String> = EDGES.iter().map(|(stage, _)| (*stage).to_owned()).collect();
    assert_eq!(workspace.run(), all, "the first run computes everything");
    assert_eq!(workspace.run(), set(&[]), "the second run computes nothing");
    workspace
}

/// The stages and all below them.
fn closure(roots: &[&str]) -> BTreeSet<String> {
    let mut all = set(roots);
    for (stage, inputs) in EDGES {
        if inputs.iter().any(|input| all.contains(*input)) {
            all.insert((*stage).to_owned());
        }
    }
    all
}

#[track_caller]
fn check(base: &Workspace, file: &str, args: &[&str], (old, new, roots, why): &Flip<'_>) {
    let workspace = base.copy();
    let what = format!("{file}: `{old}` -> `{new}` {args:?}");
    if !old.is_empty() {
        workspace.edit(file, old, new);
    }
    if let (Some(root), false) = (roots.first(), why.is_empty()) {
        let explained = workspace.json(&[&["why", "p.yaml", root], args].concat());
        let changes = explained["changes"].as_array().unwrap();
        let names: Vec<_> =
            changes.iter().map(|change| change["component"].as_str().unwrap()).collect();
        assert_eq!(names, why.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), "{what}");
        for (change, (name, old, new)) in changes.iter().zip(*why) {
            assert_ne!(change["old"], change["new"], "{what}: {name}");
            assert!(old.is_empty() || change["old"] == *old, "{what}: {change}");
            assert!(new.is_empty() || change["new"] == *new, "{what}: {change}");
        }
    }
    let run = workspace.json(&[&["run", "p.yaml"], args].concat());
    assert_eq!(executed(&run), closure(roots), "{what}");
    let again = workspace.json(&[&["run", "p.yaml"], args].concat());
    assert_eq!(executed(&again), set(&[]), "{what}, the second time");
}

fn flips(file: &str, flips: &[Flip<'_>]) {
    let base = finished();
    flips.iter().for_each(|flip| check(&base, file, &[], flip));
}

#[test]
fn bytes_of_sources() {
    let base = finished();
    let source = [("source[0].sha256", "", "")];
    check(
        &base,
        "questions.jsonl",
        &[],
        &("Iron rusts in wet", "Iron rusts in hot", &["questions"], &source),
    );
    check(&base, "labels.csv", &[], &("a8,y", "a8,z", &["labels"], &source));
    // A byte that changes no value: sources count by their bytes.
    check(&base, "labels.csv", &[], &("a8,y", "\"a8\",y", &["labels"], &source));
}

#[test]
fn settings_of_read() {
    flips(
        "p.yaml",
        &[
            (
                "fact: fact\n        topic",
                "fact: question.long\n        topic",
                &["questions"],
                &[("settings.columns.fact", "fact", "question.long")],
            ),
            (
                "question: question.stem",
                "question: question.long",
                &["questions"],
                &[("settings.columns.question", "question.stem", "question.long")],
            ),
            (
                "type: integer",
                "type: number",
                &["questions"],
                &[("schema", "", ""), ("settings.columns.level.type", "integer", "number")],
            ),
            (
                "code: id",
                "code: id\n        other: other",
                &["questions"],
                &[("schema", "", ""), ("settings.columns.other", "", "")],
            ),
            (
                "on_error: capture",
                "on_error: fail",
                &["questions"],
                &[("settings.on_error", "Capture", "Fail")],
            ),
            (
                "max_error_rate: 0.5",
                "max_error_rate: 0.4",
                &["questions"],
                &[("settings.max_error_rate", "0.5", "0.4")],
            ),
            (
                "{ path: labels.csv }",
                "{ path: labels.csv, encoding: latin1 }",
                &["labels"],
                &[("settings.encoding", "", "latin1")],
            ),
        ],
    );
}

#[test]
fn queries() {
    let sql = &[("settings.sql", "", "")];
    flips(
        "p.yaml",
        &[
            ("l.label <> 'none'", "l.label <> 'None'", &["asked"], sql),
            ("l.label <> 'none'", "l.label <> 'none '", &["asked"], sql),
            ("q.level >= ${params.least}", "q.level > ${params.least}", &["asked"], sql),
            ("ORDER BY q.code", "ORDER BY q.level, q.code", &["asked"], sql),
            ("q.fact, l.label", "q.question AS fact, l.label", &["asked"], sql),
            ("lower(q.topic)", "upper(q.topic)", &["asked"], sql),
            (
                "lower(q.topic)",
                "normalize_text(q.topic, 'plain')",
                &["asked"],
                &[("settings.sql", "", ""), ("function.normalize_text", "", "1")],
            ),
            ("count(*) AS n FROM asked", "count(*) + 1 AS n FROM asked", &["parts"], sql),
            (
                "count(*) AS n FROM asked",
                "count(*) AS m FROM asked",
                &["parts"],
                &[("schema", "", ""), ("settings.sql", "", "")],
            ),
            ("partitions: 2", "partitions: 3", &["parts"], &[("partitions", "2", "3")]),
            ("    partitions: 2\n", "", &["parts"], &[("partitions", "2", "")]),
        ],
    );
}

#[test]
fn settings_of_index_and_retrieve() {
    flips(
        "p.yaml",
        &[
            (
                "by: question_fact",
                "by: question",
                &["memory"],
                &[("settings.by", "question_fact", "question")],
            ),
            (
                "variant: lucene",
                "variant: bm25+",
                &["memory"],
                &[("settings.variant", "lucene", "bm25+")],
            ),
            ("k1: 1.2", "k1: 0.9", &["memory"], &[("settings.k1", "1.2", "0.9")]),
            ("b: 0.75", "b: 0.4", &["memory"], &[("settings.b", "0.75", "0.4")]),
            (
                "analyzer: word",
                "analyzer: word_stem_en",
                &["memory"],
                &[("settings.analyzer", "word", "word_stem_en")],
            ),
            (
                "      fact: fact\n      question",
                "      fact: topic\n      question",
                &["memory"],
                &[("settings.fact", "fact", "topic")],
            ),
            (
                "      question: question\n      variant",
                "      question: topic\n      variant",
                &["memory"],
                &[("settings.question", "question", "topic")],
            ),
            (
                "      from: questions\n",
                "      from: asked\n",
                &["memory"],
                &[("input.from", "", "")],
            ),
            ("top_k: 3", "top_k: 2", &["found"], &[("settings.top_k", "3", "2")]),
            (
                "query: question",
                "query: fact",
                &["found"],
                &[("settings.query", "question", "fact")],
            ),
            (
                "id: row_id",
                "id: code",
                &["found"],
                &[("schema", "", ""), ("settings.id", "row_id", "code")],
            ),
        ],
    );
}

#[test]
fn settings_of_dense_indexes_and_blends() {
    flips(
        "p.yaml",
        &[
            (
                "by: question, question: question",
                "by: fact, question: question",
                &["meanings"],
                &[("settings.by", "question", "fact")],
            ),
            (
                "question: question, fact: fact",
                "question: topic, fact: fact",
                &["meanings"],
                &[("settings.question", "question", "topic")],
            ),
            (
                "fact: fact, vector: vector",
                "fact: topic, vector: vector",
                &["meanings"],
                &[("settings.fact", "fact", "topic")],
            ),
            (
                "fact: fact, vector: vector",
                "fact: fact, vector: other",
                &["meanings"],
                &[("settings.vector", "vector", "other")],
            ),
            // What stands where nothing is written.
            ("fact: fact, vector: vector", "fact: fact", &[], &[]),
            ("level * 0.5", "level * 0.25", &["embedded"], &[("settings.sql", "", "")]),
            ("query: vector", "query: other", &["near"], &[("settings.query", "vector", "other")]),
            (
                "query: vector",
                "query: vector, id: code",
                &["near"],
                &[("schema", "", ""), ("settings.id", "row_id", "code")],
            ),
            ("top_k: 4", "top_k: 3", &["near"], &[("settings.top_k", "4", "3")]),
            (
                "[found, near]",
                "[near, found]",
                &["blended"],
                &[("input.from[0]", "", ""), ("input.from[1]", "", "")],
            ),
            (
                "weights: [1, 2]",
                "weights: [1, 3]",
                &["blended"],
                &[("settings.weights[1]", "2.0", "3.0")],
            ),
            ("k: 60", "k: 50", &["blended"], &[("settings.k", "60.0", "50.0")]),
            ("top_k: 5", "top_k: 1", &["blended"], &[("settings.top_k", "5", "1")]),
        ],
    );
}

#[test]
fn settings_of_measure() {
    flips(
        "p.yaml",
        &[
            (
                "correct: hit",
                "correct: NOT hit",
                &["score"],
                &[("settings.correct", "hit", "not hit")],
            ),
            ("seen: n / 2.0", "seen: n / 3.0", &["score"], &[("settings.metrics.seen", "", "")]),
            (
                "seen: n / 2.0",
                "met: n / 2.0",
                &["score"],
                &[
                    ("order.metrics", "accuracy, seen", "accuracy, met"),
                    ("settings.metrics.seen", "n / 2.0", ""),
                    ("settings.metrics.met", "", "n / 2.0"),
                ],
            ),
            (
                "by: [depth, topic]",
                "by: [topic, depth]",
                &["score"],
                &[
                    ("schema", "", ""),
                    ("settings.by[0]", "depth", "topic"),
                    ("settings.by[1]", "topic", "depth"),
                ],
            ),
            (
                "      cluster: label\n      exclude",
                "      cluster: topic\n      exclude",
                &["score"],
                &[("settings.cluster", "label", "topic")],
            ),
            ("topic = 'music'", "topic = 'physics'", &["score"], &[("settings.exclude", "", "")]),
            (
                "ci: { bootstrap: 200, seed: 7, level: 0.9 }\n\n  versus",
                "ci: { bootstrap: 300, seed: 7, level: 0.9 }\n\n  versus",
                &["score"],
                &[("settings.ci.bootstrap", "200", "300")],
            ),
            (
                "ci: { bootstrap: 200, seed: 7, level: 0.9 }\n\n  versus",
                "ci: { bootstrap: 200, seed: 8, level: 0.9 }\n\n  versus",
                &["score"],
                &[("settings.ci.seed", "7", "8")],
            ),
            (
                "ci: { bootstrap: 200, seed: 7, level: 0.9 }\n\n  versus",
                "ci: { bootstrap: 200, seed: 7, level: 0.8 }\n\n  versus",
                &["score"],
                &[("settings.ci.level", "0.9", "0.8")],
            ),
        ],
    );
}

#[test]
fn settings_of_compare() {
    flips(
        "p.yaml",
        &[
            (
                "key: query_id",
                "key: [query_id, topic]",
                &["versus"],
                &[
                    ("settings.key", "query_id", ""),
                    ("settings.key[0]", "", "query_id"),
                    ("settings.key[1]", "", "topic"),
                ],
            ),
            ("against: \"1\"", "against: \"3\"", &["versus"], &[("settings.against", "1", "3")]),
            (
                "systems: depth\n      against: \"1\"\n      key: query_id",
                "systems: label\n      key: [depth, query_id]",
                &["versus"],
                &[],
            ),
            (
                "        hit: hit\n",
                "        hit: NOT hit\n",
                &["versus"],
                &[("settings.metrics.hit", "hit", "not hit")],
            ),
            (
                "      cluster: label\n      ci",
                "      ci",
                &["versus"],
                &[("settings.cluster", "label", "")],
            ),
            (
                "      cluster: label\n      ci",
                "      cluster: label\n      look: 2\n      ci",
                &["versus"],
                &[("schema", "", ""), ("settings.look", "", "2")],
            ),
            (
                "      cluster: label\n      ci",
                "      cluster: label\n      reruns: topic\n      ci",
                &["versus"],
                &[("schema", "", ""), ("settings.reruns", "", "topic")],
            ),
            (
                "seed: 7, level: 0.9 }\n\n  weighed",
                "seed: 8, level: 0.9 }\n\n  weighed",
                &["versus"],
                &[("settings.ci.seed", "7", "8")],
            ),
        ],
    );
}

#[test]
fn parameters_templates_matrices_and_exports() {
    let base = finished();
    let sql = &[("settings.sql", "", "")];
    check(&base, "p.yaml", &["--param", "least=2"], &("", "", &["asked"], sql));
    check(&base, "p.yaml", &["--param", "weight=3"], &("", "", &["weighed.sums"], sql));
    check(&base, "p.yaml", &[], &("least: 1", "least: 2", &["asked"], sql));
    check(&base, "p.yaml", &[], &("\"${params.weight}\"", "5", &["weighed.sums"], sql));
    check(&base, "weigh.yaml", &[], &("max(total)", "min(total)", &["weighed.best"], sql));
    let path = &[("settings.path", "out/score.jsonl", "out/s.jsonl")];
    check(&base, "p.yaml", &[], &("out/score.jsonl", "out/s.jsonl", &["export"], path));
    let format = &[("settings.format", "jsonl", "csv")];
    check(&base, "p.yaml", &[], &("format: jsonl", "format: csv", &["export"], format));

    // Another value makes another instance; the one that stays is not computed again.
    base.edit("p.yaml", "depth: [1, 3]", "depth: [1, 2]");
    assert_eq!(base.run(), set(&["cuts_2.cut", "cuts.cut", "score", "versus", "export"]));
}

#[test]
fn a_file_that_was_exported_counts() {
    let base = finished();
    let exported = base.read("out/score.jsonl");
    base.write("out/score.jsonl", "edited by hand\n");
    assert!(base.reason("export").contains("differs from what was written"));
    assert_eq!(base.run(), set(&["export"]));
    assert_eq!(base.read("out/score.jsonl"), exported);
    std::fs::remove_file(base.path("out/score.jsonl")).unwrap();
    assert_eq!(base.run(), set(&["export"]));
    assert_eq!(base.run(), set(&[]));
}
