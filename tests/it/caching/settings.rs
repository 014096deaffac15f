//! Every setting counts: each leaf of the settings of each kind, as the JSON Schema has them, is flipped, and
//! the fingerprint of its stage is another one, or the leaf is on a list with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::support::Workspace;

/// The leaves that do not count, each with its reason: all below `kind.setting`, or below a key that all
/// kinds have, `kind/key`; `*` is any kind.
const DO_NOT_COUNT: &[(&str, &str)] = &[
    ("*/description", "it is for people"),
    ("*/checks", "they are no part of a table, and are evaluated for a stored one as well"),
    ("*/timeout", "it only bounds the run"),
    ("command.memory_mib", "it only bounds the run"),
    ("python.memory_mib", "it only bounds the run"),
];
/// The leaves that cannot be flipped alone, each with its reason.
const NEVER_ALONE: &[(&str, &str)] = &[
    ("retrieve.index", "the other kind of index asks for a column of another type, which counts"),
    ("generate.response_format.type", "the other type has no schema"),
    ("generate.response_format.json_schema.schema", "another way to say `file`"),
    ("hypothesize.options.samples", "refused: a hypothesis is one text"),
    ("hypothesize.options.num_return_sequences", "refused: a hypothesis is one text"),
    ("hypothesize.candidates.options.num_beams", "refused: candidates are samples"),
    ("hypothesize.candidates.options.num_return_sequences", "refused: candidates are samples"),
    ("hypothesize.candidates.options.length_penalty", "refused: candidates are samples"),
    ("hypothesize.candidates.options.early_stopping", "refused: candidates are samples"),
];
/// What a text of the base pipeline is flipped to, wherever it stands. Both name things that are there.
const INSTEAD: &[(&str, &str)] = &[
    // Stages.
    ("questions", "questions2"),
    ("questions3", "questions4"),
    ("found", "found2"),
    ("found3", "found4"),
    ("words", "words2"),
    ("blocked", "blocked2"),
    ("confirmed", "confirmed2"),
    ("hypotheses", "hypotheses2"),
    ("proofs", "proofs2"),
    ("beliefs", "beliefs2"),
    ("verified", "verified2"),
    // Models and memories.
    ("reader", "writer"),
    ("writer", "reader"),
    ("encoder", "encoder2"),
    ("chatty", "chatty2"),
    ("science", "history"),
    // Columns.
    ("row_id", "other_id"),
    ("question", "question2"),
    ("choices", "choices2"),
    ("texts", "texts2"),
    ("gold", "gold2"),
    ("fact", "fact2"),
    ("vector", "vector2"),
    ("n", "n2"),
    ("hit", "hit2"),
    ("text", "other"),
    ("seen", "met"),
    // SQL.
    ("SELECT row_id FROM questions", "SELECT other_id FROM questions"),
    ("question || answer", "answer || question"),
    ("answer", "label"),
    ("label = 'A'", "label = 'B'"),
    ("'Iron ' || label", "'Tin ' || label"),
    ("n > 5", "n > 6"),
    // Texts.
    ("A", "B"),
    ("a", "c"),
    ("b", "d"),
    ("p", "q"),
    ("x", "y"),
    ("Title", "Heading"),
    ("Words.", "Others."),
    ("Read.", "Other words."),
    ("Words", "Others"),
    ("picture", "drawing"),
    ("bars", "columns"),
    ("spread", "spreads"),
    ("rows", "others"),
    (",", ";"),
    ("utf-8", "latin1"),
    ("latin1", "windows-1251"),
    ("90s", "80s"),
    ("PATH", "HOME"),
    ("cat", "head"),
    ("python3", "sh"),
    ("data", "reader"),
    // Files.
    ("data/a.csv", "data/b.csv"),
    ("data/a.py", "data/b.py"),
    ("data/c.csv", "data/d.csv"),
    ("data/a.json", "data/b.json"),
    ("data/a.schema.json", "data/b.schema.json"),
    ("data/a.jinja", "data/b.jinja"),
    ("{{ question }}", "{{ question2 }}"),
    ("data/a.txt.gz", "data/b.txt.gz"),
    ("yesterday", "today"),
    ("early", "late"),
    ("made/sized", "made/other"),
    ("made/further", "made/another"),
    ("made/meant", "made/meant2"),
    ("made/ranked", "made/ranked2"),
    ("made/alone", "made/alone2"),
    ("made/behind", "made/behind2"),
    ("made/rewarded", "made/rewarded2"),
    ("out/questions.csv", "out/others.csv"),
    ("out/page", "out/other"),
];
/// What one leaf of one stage becomes instead, as JSON; `null` where it cannot be flipped beside the others
/// of the stage, and is in another one.
const ESPECIALLY: &[(&str, &str, &str)] = &[
    ("read_listed", "read.format", "null"),
    ("read_lines", "read.format", "\"csv\""),
    ("read_packed", "read.format", "null"),
    ("read_packed", "read.compression", "\"none\""),
    // One of several rows goes with no `id`.
    ("index_words", "index.by", "\"question\""),
    // The default has no delta.
    ("index_lifted", "index.variant", "\"bm25l\""),
    ("generate_json", "generate.model", "null"),
    ("generate_json", "generate.response_format.type", "null"),
    ("generate_regex", "generate.response_format.type", "null"),
    ("index_vectors", "index.kind", "null"),
    ("retrieve_on_the_way", "retrieve.index", "null"),
    ("fit_further", "fit.checkpoint", "\"reader2\""),
    // Of the others, one needs a decoder, and one has no temperature.
    ("fit_meant", "fit.objective", "\"contrastive\""),
    ("fit_ranked", "fit.objective", "null"),
    // One width of all heads; `fit_sized` flips them.
    ("fit_alone", "fit.sizes.d_model", "null"),
    ("fit_alone", "fit.sizes.d_kv", "null"),
    ("fit_alone", "fit.sizes.heads", "null"),
    ("fit_behind", "fit.objective", "null"),
    ("fit_rewarded", "fit.objective", "null"),
    ("fit_rewarded", "fit.checkpoint", "\"reader2\""),
];

/// A scalar of a stage, and what it is flipped to.
#[derive(Clone, Debug)]
struct Flip {
    /// The leaf of the schema: `[]` is any item of a list, `{}` any value of a map, `{key}` any of its keys.
    leaf: String,
    /// Its JSON pointer in the stage; of a key of a map, of the value under it.
    at: String,
    to: To,
}

#[derive(Clone, Debug)]
enum To {
    Value(Json),
    Key(String),
    /// The test has no other value for what stands there.
    Unknown(String),
}

/// The JSON Schema of pipeline files.
struct Schema(Json);

impl Schema {
    fn read() -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/pipeline.schema.json");
        Self(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
    }

    fn stage(&self) -> &Map<String, Json> {
        self.0["$defs"]["Stage"]["properties"].as_object().unwrap()
    }

    /// The keys of the kinds.
    fn kinds(&self) -> BTreeSet<&str> {
        let kinds = self.0["$defs"]["Stage"]["oneOf"].as_array().unwrap().iter();
        kinds.map(|kind| kind["required"][0].as_str().unwrap()).collect()
    }

    /// What a value may be, without `null` and without a parameter in its place.
    fn ways<'s>(&'s self, node: &'s Json) -> Vec<&'s Json> {
        if let Some(target) = node["$ref"].as_str() {
            return self.ways(self.0.pointer(target.trim_start_matches('#')).unwrap());
        }
        if let Some(ways) = node["anyOf"].as_array() {
            return ways.iter().flat_map(|way| self.ways(way)).collect();
        }
        let is_parameter = node["pattern"].as_str().is_some_and(|p| p.starts_with("^\\$\\{"));
        let is_null = node["type"] == "null";
        if is_parameter || is_null { Vec::new() } else { vec![node] }
    }

    /// All leaves below `path`.
    fn leaves(&self, node: &Json, path: &str, out: &mut BTreeSet<String>) {
        for way in self.ways(node) {
            if let Some(properties) = way["properties"].as_object() {
                for (key, value) in properties {
                    self.leaves(value, &format!("{path}.{key}"), out);
                }
            } else if way["additionalProperties"].is_object() {
                out.insert(format!("{path}{{key}}"));
                self.leaves(&way["additionalProperties"], &format!("{path}{{}}"), out);
            } else if way["items"].is_object() {
                self.leaves(&way["items"], &format!("{path}[]"), out);
            } else {
                out.insert(path.to_owned());
            }
        }
    }

    /// The flips of all scalars of `value`, which stands at `at` in the stage.
    fn flips(&self, node: &Json, value: &Json, path: &str, at: &str, stage: &str) -> Vec<Flip> {
        let ways = self.ways(node);
        let below = |key: &str, value: &Json, node: &Json, path: String| {
            self.flips(node, value, &path, &format!("{at}/{key}"), stage)
        };
        match value {
            Json::Object(object) => {
                let way = ways.iter().find(|way| way["type"] == "object" || is_map(way)).unwrap();
                if let Some(properties) = way["properties"].as_object() {
                    let each = object.iter();
                    return each
                        .flat_map(|(key, value)| {
                            below(key, value, &properties[key], format!("{path}.{key}"))
                        })
                        .collect();
                }
                let each = object.iter();
                each.flat_map(|(key, value)| {
                    let to = instead(key).map_or_else(|| To::Unknown(key.clone()), To::Key);
                    let key_flip =
                        Flip { leaf: format!("{path}{{key}}"), at: format!("{at}/{key}"), to };
                    let node = &way["additionalProperties"];
                    let values = below(key, value, node, format!("{path}{{}}"));
                    std::iter::once(key_flip).chain(values).collect::<Vec<_>>()
                })
                .collect()
            }
            Json::Array(items) => {
                let way = ways.iter().find(|way| way["items"].is_object()).unwrap();
                let each = items.iter().enumerate();
                each.flat_map(|(i, item)| {
                    below(&i.to_string(), item, &way["items"], format!("{path}[]"))
                })
                .collect()
            }
            scalar => {
                let especially = ESPECIALLY.iter().find(|(s, l, _)| (*s, *l) == (stage, path));
                let to = match especially {
                    Some((.., "null")) => return Vec::new(),
                    Some((.., json)) => Some(serde_json::from_str(json).unwrap()),
                    None => ways.iter().find_map(|way| other(way, scalar)),
                };
                let to = to.map_or_else(|| To::Unknown(scalar.to_string()), To::Value);
                vec![Flip { leaf: path.to_owned(), at: at.to_owned(), to }]
            }
        }
    }
}

fn is_map(way: &Json) -> bool {
    way["additionalProperties"].is_object()
}

fn instead(text: &str) -> Option<String> {
    INSTEAD.iter().find(|(from, _)| *from == text).map(|(_, to)| (*to).to_owned())
}

/// Another value of the same type, by the schema of the leaf.
fn other(way: &Json, value: &Json) -> Option<Json> {
    if let Some(consts) = way["oneOf"].as_array() {
        let consts: Vec<&Json> = consts.iter().map(|one| &one["const"]).collect();
        let place = consts.iter().position(|one| *one == value)?;
        return Some(consts[(place + 1) % consts.len()].clone());
    }
    let most = way["maximum"].as_f64();
    match value {
        Json::Bool(value) => Some(json!(!value)),
        Json::Number(number) if number.is_f64() => {
            let (value, least) = (number.as_f64()?, way["minimum"].as_f64().unwrap_or(0.0));
            let half = value / 2.0;
            Some(json!(if half >= least { half } else { (value + most?) / 2.0 }))
        }
        Json::Number(number) => {
            let value = number.as_u64()?;
            let is_most = most.is_some_and(|most| value as f64 >= most);
            Some(json!(if is_most { value - 1 } else { value + 1 }))
        }
        Json::String(text) => instead(text).map(Json::String),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// The stage after a flip.
fn flipped(stage: &Json, flip: &Flip) -> Json {
    let mut stage = stage.clone();
    match &flip.to {
        To::Unknown(_) => {}
        To::Value(value) => *stage.pointer_mut(&flip.at).unwrap() = value.clone(),
        To::Key(name) => {
            let (map, old) = flip.at.rsplit_once('/').unwrap();
            let map = stage.pointer_mut(map).unwrap().as_object_mut().unwrap();
            let renamed = |key: String| if key == old { name.clone() } else { key };
            *map = std::mem::take(map).into_iter().map(|(key, it)| (renamed(key), it)).collect();
        }
    }
    stage
}

/// Whether `entry`, a line of a list, is `leaf` or stands above it.
fn covers(entry: &str, leaf: &str) -> bool {
    let leaf = match entry.strip_prefix('*') {
        Some(rest) => &leaf[leaf.find(rest).unwrap_or(0)..],
        None => leaf,
    };
    let below = leaf.strip_prefix(entry.trim_start_matches('*'));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
}

fn listed<'l>(list: &'l [(&str, &str)], leaf: &str) -> Option<&'l str> {
    list.iter().find(|(entry, _)| covers(entry, leaf)).map(|(entry, _)| *entry)
}

/// A workspace whose pipeline is `stages`, and the fingerprint of each.
fn fingerprints(
    workspace: &Workspace,
    base: &Json,
    targets: &Map<String, Json>,
) -> BTreeMap<String, String> {
    let mut pipeline = base.clone();
    pipeline.as_object_mut().unwrap().remove("targets");
    let stages = pipeline["stages"].as_object_mut().unwrap();
    stages.extend(targets.clone());
    // JSON is YAML; a stage on a line of its own, so that a mistake shows which one it is.
    let text = serde_json::to_string(&pipeline).unwrap().replace("},\"", "},\n\"");
    workspace.write("p.yaml", text);
    let plan = workspace.json(&["plan", "p.yaml"]);
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    let stages = plan.as_array().unwrap().iter();
    stages.map(|stage| (text(&stage["stage"]), text(&stage["fingerprint"]))).collect()
}

fn workspace() -> Workspace {
    let workspace = Workspace::of_case("settings");
    for (family, name) in [
        ("t5", "reader"),
        ("flan-t5", "reader2"),
        ("gpt2", "writer"),
        ("bert-sentence", "encoder"),
        ("bert", "encoder2"),
    ] {
        workspace.add_model(family, name);
    }
    // The second of the two is another model, as its template is.
    for (name, template) in [("chatty", "{{ messages }}"), ("chatty2", "{{ messages[0] }}")] {
        workspace.add_model("gpt2", name);
        let settings = json!({ "chat_template": template });
        workspace.write(&format!("{name}/tokenizer_config.json"), settings.to_string());
    }
    for (memory, fact) in
        [("science", "Iron rusts."), ("science", "Tin shines."), ("history", "Rome fell.")]
    {
        workspace.proofmill(&["teach", "add", memory, fact, "--author", "tester"]).expect(0);
    }
    for (i, run) in ["yesterday", "today"].into_iter().enumerate() {
        let table = |n: usize| format!("{{ sql: SELECT {n} AS n }}");
        let stages = format!("  early: {}\n  late: {}\n", table(i), table(i + 2));
        workspace.write("past.yaml", format!("pipeline: {run}\nstages:\n{stages}"));
        workspace.proofmill(&["run", "past.yaml"]).expect(0);
    }
    workspace
}

#[test]
fn every_setting_counts_or_is_on_a_list() {
    let schema = Schema::read();
    let kinds = schema.kinds();
    let workspace = workspace();
    let base: Json = serde_json::from_str(&workspace.read("p.json")).unwrap();
    let targets = base["targets"].as_object().unwrap();

    let mut all = BTreeSet::new();
    for (key, node) in schema.stage() {
        let path = if kinds.contains(key.as_str()) { key.clone() } else { format!("*/{key}") };
        schema.leaves(node, &path, &mut all);
    }
    let flips_of = |(name, stage): (&String, &Json)| {
        let settings = stage.as_object().unwrap();
        let kind = settings.keys().find(|key| kinds.contains(key.as_str())).unwrap();
        let each = settings.iter();
        let flips = each.flat_map(|(key, value)| {
            let path = if key == kind { key.clone() } else { format!("{kind}/{key}") };
            schema.flips(&schema.stage()[key], value, &path, &format!("/{key}"), name)
        });
        (name.clone(), flips.collect::<Vec<_>>())
    };
    let flips: Vec<(String, Vec<Flip>)> = targets.iter().map(flips_of).collect();

    // One flip of every stage at a time: no target needs another.
    let before = fingerprints(&workspace, &base, targets);
    let (mut errors, mut found) = (Vec::new(), BTreeSet::new());
    for round in 0..flips.iter().map(|(_, flips)| flips.len()).max().unwrap() {
        let mut changed = targets.clone();
        for (name, flips) in &flips {
            if let Some(flip) = flips.get(round) {
                changed[name] = flipped(&targets[name], flip);
            }
        }
        let after = fingerprints(&workspace, &base, &changed);
        for (name, flips) in &flips {
            let counts = before[name] != after[name];
            let Some(flip) = flips.get(round) else {
                assert!(!counts, "`{name}` depends on another target");
                continue;
            };
            let Flip { leaf, to, .. } = flip;
            found.insert(leaf.clone());
            if let To::Unknown(value) = to {
                errors
                    .push(format!("{name}: `{leaf}`: say in INSTEAD what {value} may be instead"));
                continue;
            }
            match (counts, listed(DO_NOT_COUNT, leaf)) {
                (false, None) => errors.push(format!(
                    "{name}: `{leaf}` -> {to:?} leaves the fingerprint as it was: a stale table"
                )),
                (true, Some(entry)) => {
                    errors
                        .push(format!("{name}: `{leaf}` counts: take `{entry}` off DO_NOT_COUNT"));
                }
                (true, None) | (false, Some(_)) => {}
            }
        }
    }
    lists_are_true(&all, &found, &mut errors);
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

/// Every leaf was flipped or is on a list, and every line of a list is there for some leaf.
fn lists_are_true(all: &BTreeSet<String>, found: &BTreeSet<String>, errors: &mut Vec<String>) {
    let is_found = |leaf: &str| match leaf.strip_prefix('*') {
        Some(common) => found.iter().any(|found| found.ends_with(common)),
        None => found.contains(leaf),
    };
    for leaf in all {
        let excused = listed(DO_NOT_COUNT, leaf).or(listed(NEVER_ALONE, leaf));
        if excused.is_none() && !is_found(leaf) {
            errors.push(format!(
                "`{leaf}` stands in no target of tests/cases/settings/p.json: add it, so that it is flipped"
            ));
        }
    }
    for (entry, _) in DO_NOT_COUNT {
        let somewhere = all.iter().chain(found).any(|leaf| covers(entry, leaf));
        if !somewhere {
            errors.push(format!("DO_NOT_COUNT has `{entry}`, which is no setting"));
        }
    }
    for (entry, _) in NEVER_ALONE {
        if !all.contains(*entry) || is_found(entry) {
            errors.push(format!("NEVER_ALONE has `{entry}`, which is no setting, or was flipped"));
        }
    }
}
