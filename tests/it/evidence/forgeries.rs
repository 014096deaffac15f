//! A hundred forgeries by somebody who knows the format and may write everywhere, but has not the key: every value of every
//! record changed, first with its own seal, then with all digests, seals and chains that follow from it.

use std::collections::BTreeSet;
use std::fs;

use proofmill_base::digest::Digest;
use proofmill_catalog::audit::entry::AuditEntry;
use proofmill_store::{LogFolder, unseal};
use serde_json::Value as Json;

use crate::evidence::attacks::{Evidence, is_evidence, rewrite};
use crate::evidence::second::{program, second};
use crate::support::Workspace;

/// Forgeries that the second verifier sees, one of so many.
const SECOND_EVERY: usize = 4;

/// A record, with the seal that follows from its content.
pub fn sealed(value: &Json) -> Vec<u8> {
    let mut value = value.clone();
    value.as_object_mut().unwrap().remove("sha256");
    let body = value.to_string();
    let body = body.strip_suffix('}').unwrap();
    format!("{body},\"sha256\":\"{}\"}}\n", Digest::of(body.as_bytes())).into_bytes()
}

/// The places of all values of a record that are not its seal.
fn places(value: &Json, at: &str, out: &mut Vec<String>) {
    match value {
        Json::Object(fields) => fields.iter().for_each(|(name, inner)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            places(inner, &format!("{at}/{name}"), out);
        }),
        Json::Array(items) => {
            (0..)
                .zip(items)
                .for_each(|(n, inner): (usize, _)| places(inner, &format!("{at}/{n}"), out));
        }
        _ if at != "/sha256" => out.push(at.to_owned()),
        _ => {}
    }
}

/// Another value of the same kind.
fn other(value: &Json) -> Json {
    match value {
        Json::Null => Json::from(1),
        Json::Bool(flag) => Json::from(!flag),
        Json::Number(number) => match number.as_u64() {
            Some(number) => Json::from(number ^ 1),
            None => Json::from(number.as_f64().unwrap() + 1.0),
        },
        Json::String(text) => {
            let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            match text.strip_prefix('0') {
                Some(rest) if is_hex => Json::from(format!("1{rest}")),
                None if is_hex => Json::from(format!("0{}", &text[1..])),
                _ => Json::from(format!("{text}x")),
            }
        }
        other => other.clone(),
    }
}

/// The records of a store, but for the audit log.
fn records(workspace: &Workspace) -> Vec<String> {
    let is_record = |key: &String| {
        key.ends_with(".json")
            && is_evidence(key)
            && !key.starts_with("audit/")
            && key != "format.json"
    };
    workspace.keys("").into_iter().filter(is_record).collect()
}

/// Writes new digests wherever records name the old ones, each record sealed again, until nothing changes; then the audit
/// log as a whole.
fn follow(workspace: &Workspace, old: &[u8], new: &[u8]) {
    let store = workspace.path("store");
    let mut renamed = vec![(Digest::of(old).to_string(), Digest::of(new).to_string())];
    let mut entries: Vec<String> = Vec::new();
    for seq in 0..workspace.keys("audit/log/").len() as u64 {
        let key = LogFolder::of_audit().entry(seq);
        entries.push(fs::read_to_string(store.join(key.as_str())).unwrap());
    }
    let mut at = 0;
    while let Some((from, to)) = renamed.get(at).cloned() {
        at += 1;
        for key in records(workspace) {
            let text = fs::read_to_string(store.join(&key)).unwrap();
            if !text.contains(&from) {
                continue;
            }
            let value: Json = serde_json::from_str(&text.replace(&from, &to)).unwrap();
            let bytes = sealed(&value);
            renamed.push((Digest::of(text.as_bytes()).to_string(), Digest::of(&bytes).to_string()));
            fs::write(store.join(&key), bytes).unwrap();
        }
        entries.iter_mut().for_each(|entry| *entry = entry.replace(&from, &to));
    }
    let parsed = |(seq, text): (u64, &String)| -> AuditEntry {
        let value: Json = serde_json::from_str(text).unwrap();
        unseal(&LogFolder::of_audit().entry(seq), &sealed(&value)).unwrap()
    };
    let entries = (0..).zip(&entries).map(parsed).collect();
    rewrite(workspace, entries);
}

#[test]
fn a_hundred_forgeries_are_found_against_an_anchor() {
    let evidence = Evidence::new();
    let program = program(&evidence);
    let (mut forged, mut kinds) = (0, BTreeSet::new());
    let copy = evidence.copy();
    for key in records(&copy) {
        let path = copy.path("store").join(&key);
        let old = fs::read(&path).unwrap();
        let value: Json = serde_json::from_slice(&old).unwrap();
        let mut all = Vec::new();
        places(&value, "", &mut all);
        // Each record its own share of the values, so that all of them have their turn in some record.
        let step = all.len().div_ceil(3).max(1);
        for place in all.iter().skip(forged % step).step_by(step) {
            let mut value = value.clone();
            let found = value.pointer_mut(place).unwrap();
            *found = other(found);
            let new = sealed(&value);
            let what = format!("{key}: {place}");

            fs::write(&path, &new).unwrap();
            assert!(!evidence.faults_of_digests(&copy).is_empty(), "{what}, sealed");
            fs::write(&path, &old).unwrap();

            let whole = evidence.copy();
            fs::write(whole.path("store").join(&key), &new).unwrap();
            follow(&whole, &old, &new);
            assert!(
                !evidence.faults_of_digests(&whole).is_empty(),
                "{what}, with all that follows"
            );
            if forged % SECOND_EVERY == 0 {
                let (code, text) = second(&program, &evidence, &whole);
                assert_eq!(
                    code, 1,
                    "{what}, with all that follows, by the second verifier: {text}"
                );
            }
            forged += 2;
            kinds.insert(key.split('/').next().unwrap_or_default().to_owned());
        }
    }
    assert!(forged >= 100, "{forged} forgeries");
    let expected = ["artifacts", "ledger", "memories", "runs"].map(str::to_owned);
    assert_eq!(kinds, BTreeSet::from(expected));
}
