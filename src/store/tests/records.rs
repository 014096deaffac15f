//! Artifact records, manifests and the store's own record.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use chrono::DateTime;

use super::{in_memory, on_disk, run};
use crate::sealed::seal;
use crate::{
    ARTIFACT_VERSION, Artifact, Extensions, FORMAT_VERSION, Head, Location, LogFolder, Lookup,
    MANIFEST_VERSION, Machine, Manifest, Outcome, Part, PipelineRef, RecordRef, SourceRefs,
    StageOutcome, StageStatus, StageUsage, Store, StoreError, Trigger, artifact_key, columns_of,
    find, find_exact, find_many, format_key, manifest_key, publish, publish_manifest,
    read_manifest, replace, run_ids, schema_to_hex,
};
use proofmill_base::digest::Digest;
use proofmill_base::ids::Fingerprint;
use proofmill_base::retry::RetryPolicy;

fn fingerprint(n: u64) -> Fingerprint {
    Fingerprint(Digest::of(&n.to_le_bytes()))
}

fn artifact(n: u64, note: &str) -> Artifact {
    let schema = Schema::new(vec![Field::new("answer", DataType::Utf8, true)]);
    Artifact {
        v: ARTIFACT_VERSION,
        fingerprint: fingerprint(n),
        stage: "answers".parse().unwrap(),
        kind: "sql".into(),
        created_by: run(n),
        created_at: DateTime::UNIX_EPOCH,
        schema: columns_of(&schema),
        schema_ipc: schema_to_hex(&schema),
        rows: 3,
        bytes: 100,
        parts: vec![Part {
            key: LogFolder::of_run(&run(n)).entry(0),
            sha256: Digest::of(b"part"),
            bytes: 100,
            rows: 3,
        }],
        errors: vec![],
        files: vec![],
        components: BTreeMap::from([("settings".to_owned(), "{}".to_owned())]),
        inputs: Some(BTreeMap::new()),
        transient_errors: 0,
        checks: vec![],
        wall_ms: 12,
        usage: Some(StageUsage { input_rows: 5, answered: 3, replayed: 1, tokens: 120 }),
        notes: vec![note.to_owned()],
        rows_root: Some(Digest::of(b"rows")),
        extensions: Extensions::new(),
    }
}

#[tokio::test]
async fn the_first_record_counts() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        assert!(matches!(find(&store, &fingerprint(1)).await.unwrap(), Lookup::Absent));
        let first = publish(&store, &artifact(1, "first")).await.unwrap();
        let second = publish(&store, &artifact(1, "second")).await.unwrap();
        assert_eq!(second, first);
        assert_eq!(second.record.notes, ["first"]);
        let found = find(&store, &fingerprint(1)).await.unwrap().found().unwrap();
        assert_eq!(found, first);
        assert_eq!(found.sha256, Digest::of(&store.get(&found.key).await.unwrap()));
        assert_eq!(found.record.arrow_schema().unwrap().field(0).name(), "answer");
    }
}

#[tokio::test]
async fn many_lookups_answer_in_order() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        let requested: Vec<Fingerprint> = (0..300).map(fingerprint).collect();
        for n in (0..300).step_by(3) {
            publish(&store, &artifact(n, "")).await.unwrap();
        }
        let found = find_many(&store, &requested).await.unwrap();
        assert_eq!(found.len(), 300);
        for (n, lookup) in (0..).zip(found) {
            let record = lookup.found().map(|found| found.record.fingerprint);
            assert_eq!(record, (n % 3 == 0).then(|| fingerprint(n)), "{n}");
        }
    }
}

#[tokio::test]
async fn a_damaged_record_is_reported_and_replaced() {
    let store = in_memory().await;
    let key = artifact_key(&fingerprint(1));
    let whole = publish(&store, &artifact(1, "first")).await.unwrap();
    let bytes = store.get(&key).await.unwrap();
    let mut flipped = bytes.to_vec();
    flipped[bytes.len() / 2] ^= 1;
    let other = seal(&key, &artifact(2, "of another fingerprint")).unwrap();
    for damaged in [flipped, bytes[..40].to_vec(), vec![], b"{}".to_vec(), other.to_vec()] {
        store.put(&key, damaged.into()).await.unwrap();
        let lookup = find(&store, &fingerprint(1)).await.unwrap();
        assert!(matches!(lookup, Lookup::Damaged(StoreError::Damaged { .. })), "{lookup:?}");
        assert_eq!(publish(&store, &artifact(1, "first")).await.unwrap(), whole);
        assert!(find(&store, &fingerprint(1)).await.unwrap().found().is_some());
    }
}

#[tokio::test]
async fn a_record_with_broken_objects_is_replaced_once() {
    let store = in_memory().await;
    let broken = publish(&store, &artifact(1, "broken")).await.unwrap();
    let replaced = replace(&store, &artifact(1, "whole"), &broken).await.unwrap();
    assert_eq!(replaced.record.notes, ["whole"]);
    let late = replace(&store, &artifact(1, "late"), &broken).await.unwrap();
    assert_eq!(late, replaced);
    assert_eq!(find(&store, &fingerprint(1)).await.unwrap().found(), Some(replaced));
}

fn made_of(n: u64, note: &str, input: &str) -> Artifact {
    let inputs = BTreeMap::from([("input.from".to_owned(), Digest::of(input.as_bytes()))]);
    Artifact { inputs: Some(inputs), ..artifact(n, note) }
}

#[tokio::test]
async fn a_result_of_other_inputs_is_not_adopted() {
    let store = in_memory().await;
    let old = publish(&store, &made_of(1, "old", "a")).await.unwrap();
    let same = publish(&store, &made_of(1, "same", "a")).await.unwrap();
    assert_eq!(same, old);
    let new = publish(&store, &made_of(1, "new", "b")).await.unwrap();
    assert_eq!(new.record.notes, ["new"]);
    assert_eq!(find(&store, &fingerprint(1)).await.unwrap().found(), Some(new.clone()));
    // A third one, which looked before the second came, is of the first one's inputs again.
    let third = replace(&store, &made_of(1, "third", "a"), &old).await.unwrap();
    assert_eq!(third.record.notes, ["third"]);
    for named in [&old, &new, &third] {
        let found = find_exact(&store, &fingerprint(1), named.sha256).await.unwrap();
        assert_eq!(found, *named, "what a run names by digest stays");
    }
    let error = find_exact(&store, &fingerprint(1), Digest::of(b"x")).await.unwrap_err();
    assert!(matches!(error, StoreError::Replaced { .. }), "{error}");
}

/// A record that loses the race to be the one that counts is still the one that its run names.
#[tokio::test]
async fn two_that_replace_one_record_at_once_both_stay() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        let old = publish(&store, &made_of(1, "old", "a")).await.unwrap();
        let replaced = ["b", "c", "d", "e"].map(|input| {
            let (store, old) = (store.clone(), old.clone());
            tokio::spawn(async move { replace(&store, &made_of(1, input, input), &old).await })
        });
        for one in replaced {
            let one = one.await.unwrap().unwrap();
            assert_eq!(find_exact(&store, &fingerprint(1), one.sha256).await.unwrap(), one);
        }
        assert_eq!(find_exact(&store, &fingerprint(1), old.sha256).await.unwrap(), old);
    }
}

#[test]
fn the_digest_of_a_table_is_of_what_others_read() {
    let one = artifact(1, "one");
    let table = |change: fn(&mut Artifact)| {
        let mut other = artifact(1, "one");
        change(&mut other);
        other.digest() == one.digest()
    };
    assert!(table(|it| it.notes.clear()));
    assert!(table(|it| it.parts[0].key = format_key()), "wherever it lies");
    assert!(table(|it| it.errors = it.parts.clone()), "no run reads them");
    assert!(!table(|it| it.parts[0].sha256 = Digest::of(b"other")));
    assert!(!table(|it| it.parts.push(it.parts[0].clone())));
    assert!(!table(|it| it.schema_ipc.clear()));
}

#[tokio::test]
async fn a_record_of_a_newer_program_is_neither_used_nor_replaced() {
    let store = in_memory().await;
    let key = artifact_key(&fingerprint(1));
    let newer = seal(&key, &Artifact { v: 7, ..artifact(1, "") }).unwrap();
    store.put(&key, newer.clone().into()).await.unwrap();
    let error = find(&store, &fingerprint(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 7, .. }), "{error}");
    let error = publish(&store, &artifact(1, "")).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 7, .. }), "{error}");
    assert_eq!(store.get(&key).await.unwrap(), newer);
}

fn manifest(n: u64, pipeline: &str) -> Manifest {
    let at = DateTime::UNIX_EPOCH;
    Manifest {
        v: MANIFEST_VERSION,
        sessions: Vec::new(),
        run: run(n),
        pipeline: PipelineRef {
            name: pipeline.parse().unwrap(),
            path: "pipelines/teachme.yaml".into(),
            yaml_sha256: Digest::of(b"yaml"),
        },
        params: BTreeMap::from([("recall".to_owned(), 5.into())]),
        trigger: Trigger::Command,
        code: BTreeMap::from([("proofmill".to_owned(), "0.1.0".to_owned())]),
        started_at: at,
        finished_at: at,
        outcome: Outcome::Succeeded,
        stages: vec![StageOutcome {
            stage: "answers".parse().unwrap(),
            kind: "sql".into(),
            fingerprint: Some(fingerprint(1)),
            status: StageStatus::Cached,
            cached_from: Some(run(1)),
            rows: 3,
            bytes: 100,
            error_rows: 0,
            wall_ms: 1,
            artifact: Some(RecordRef {
                key: artifact_key(&fingerprint(1)),
                sha256: Digest::of(b"r"),
            }),
        }],
        metrics: vec![serde_json::json!({"name": "accuracy", "value": "0.8737"})],
        templates: BTreeMap::new(),
        machine: Machine::default(),
        models: BTreeMap::new(),
        local_models: BTreeMap::new(),
        log: Head { seq: 4, sha256: Digest::of(b"head") },
        sources: SourceRefs::new(),
        extensions: Extensions::new(),
    }
}

#[tokio::test]
async fn a_run_is_published_once_and_found_again() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        assert_eq!(run_ids(&store).await.unwrap(), []);
        assert_eq!(read_manifest(&store, &run(1)).await.unwrap(), None);
        for (n, pipeline) in [(2, "teachme"), (30, "nightly"), (1, "teachme")] {
            let published = publish_manifest(&store, &manifest(n, pipeline)).await.unwrap();
            assert_eq!(read_manifest(&store, &run(n)).await.unwrap(), Some(published));
        }
        // An unfinished run and a stray name.
        store.put(&LogFolder::of_run(&run(40)).entry(0), "{}".into()).await.unwrap();
        store
            .objects()
            .put_opts(&"runs/notes/a".into(), "a".into(), Default::default())
            .await
            .unwrap();

        assert_eq!(run_ids(&store).await.unwrap(), [run(40), run(30), run(2), run(1)]);

        let error = publish_manifest(&store, &manifest(2, "nightly")).await.unwrap_err();
        assert!(matches!(error, StoreError::ManifestExists { .. }), "{error}");
        let copied = store.get(&manifest_key(&run(1))).await.unwrap();
        store.put(&manifest_key(&run(40)), copied.into()).await.unwrap();
        let error = read_manifest(&store, &run(40)).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_store_keeps_its_identity_and_a_newer_one_is_refused() {
    let store = in_memory().await;
    let again = |store: &Store| {
        let (clock, rng) = (store.clock().clone(), store.rng().clone());
        Store::over(
            store.objects().clone(),
            store.url().clone(),
            clock,
            rng,
            RetryPolicy::default(),
        )
    };
    let same = again(&store).await.unwrap();
    assert_eq!(same.format(), store.format());
    assert_eq!(store.format().v, FORMAT_VERSION);

    let mut newer = store.format().clone();
    newer.v = FORMAT_VERSION + 1;
    let key = format_key();
    store.put(&key, seal(&key, &newer).unwrap().into()).await.unwrap();
    let error = again(&store).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert!(error.to_string().contains("format version 2"), "{error}");
}

#[tokio::test]
async fn many_openers_of_a_new_folder_agree_on_its_identity() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Local(folder.path().join("new"));
    let openers = (0..8).map(|seed| {
        let clock = Arc::new(crate::faulty::StillClock::default());
        Store::open(&location, clock, Arc::new(proofmill_base::rng::SeededRng::new(seed)))
    });
    let stores = futures::future::try_join_all(openers.collect::<Vec<_>>()).await.unwrap();
    assert!(stores.iter().all(|store| store.format() == stores[0].format()));
}
