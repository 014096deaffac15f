//! Parts and files: round trips, reproducible bytes, damage.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use futures::TryStreamExt as _;
use object_store::ObjectStoreExt as _;

use super::{faulty, in_memory, keys, on_disk, run};
use proofmill_base::digest::Digest;
use proofmill_base::rng::{Rng as _, SeededRng};
use crate::faulty::{Fault, Op};
use crate::upload::{PIECE_BYTES, PieceUpload};
use crate::{
    Attempt, Part, PartWriter, Store, StoreError, part_key, read_part, stream_part, verify_file,
    verify_part, write_file,
};

fn batch(rows: usize, seed: u64) -> RecordBatch {
    let rng = SeededRng::new(seed);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|n| n * 3)));
    let text = |_| format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(text)));
    RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap()
}

/// Rows that nothing compresses.
fn noise(rows: usize, seed: u64) -> RecordBatch {
    let rng = SeededRng::new(seed);
    let numbers = || Int64Array::from_iter_values((0..rows).map(|_| rng.next_u64() as i64));
    let (a, b): (ArrayRef, ArrayRef) = (Arc::new(numbers()), Arc::new(numbers()));
    RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap()
}

async fn write(store: &Store, batches: &[RecordBatch], schema: SchemaRef) -> Part {
    let attempt = Attempt::new(store.rng().as_ref());
    let key = part_key(&run(1), &"answers".parse().unwrap(), &attempt, 0);
    let mut writer = PartWriter::create(store, key, schema).unwrap();
    for batch in batches {
        writer.write(batch).await.unwrap();
    }
    writer.finish().await.unwrap()
}

/// The same objects, seen by a process that verified nothing yet.
async fn reopened(store: &Store) -> Store {
    let (clock, rng) = (store.clock().clone(), store.rng().clone());
    let retry = proofmill_base::retry::RetryPolicy::default();
    Store::over(store.objects().clone(), store.url().clone(), clock, rng, retry).await.unwrap()
}

#[tokio::test]
async fn rows_read_back_and_the_record_is_true() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        for batches in [vec![], vec![batch(0, 1)], vec![batch(5, 1), batch(20_000, 2)]] {
            let schema = batch(0, 1).schema();
            let part = write(&store, &batches, schema.clone()).await;
            let stored = store.get(&part.key).await.unwrap();
            assert_eq!((part.bytes, part.sha256), (stored.len() as u64, Digest::of(&stored)));
            let store = reopened(&store).await;
            let read = read_part(&store, &part).await.unwrap();
            let expected = arrow::compute::concat_batches(&schema, &batches).unwrap();
            assert_eq!(arrow::compute::concat_batches(&schema, &read).unwrap(), expected);
            let (streamed_schema, rows) = stream_part(&store, &part).await.unwrap();
            let streamed: Vec<RecordBatch> = rows.try_collect().await.unwrap();
            assert_eq!((streamed_schema, streamed), (schema, read));
        }
    }
}

#[tokio::test]
async fn the_same_rows_give_the_same_bytes() {
    let store = in_memory().await;
    for batches in [[batch(100, 1), batch(100, 2)], [batch(10, 1), batch(1000, 2)]] {
        let a = write(&store, &batches, batches[0].schema()).await;
        let b = write(&store, &batches, batches[0].schema()).await;
        assert_ne!(a.key, b.key);
        assert_eq!(a.sha256, b.sha256);
    }
}

#[tokio::test]
async fn rows_that_do_not_fit_the_schema_are_an_error() {
    let store = in_memory().await;
    let key = part_key(&run(1), &"s".parse().unwrap(), &Attempt::new(&SeededRng::new(1)), 0);
    let mut writer = PartWriter::create(&store, key.clone(), noise(0, 1).schema()).unwrap();
    writer.write(&batch(3, 1)).await.unwrap();
    let error = writer.finish().await.unwrap_err();
    assert!(matches!(error, StoreError::Encode { .. }), "{error}");
    assert_eq!(store.size(&key).await.unwrap(), None);
}

#[tokio::test]
async fn large_parts_go_in_pieces_and_survive() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        let rows = noise(300_000, 5);
        let part = write(&store, &[rows.clone(), rows.clone()], rows.schema()).await;
        assert!(part.bytes > 8 << 20, "{}", part.bytes);
        let store = reopened(&store).await;
        verify_part(&store, &part).await.unwrap();
        let read = read_part(&store, &part).await.unwrap();
        let expected = arrow::compute::concat_batches(&rows.schema(), [&rows, &rows]).unwrap();
        assert_eq!(arrow::compute::concat_batches(&rows.schema(), &read).unwrap(), expected);
    }
}

#[tokio::test]
async fn an_aborted_or_dropped_upload_leaves_nothing() {
    let (folder, disk) = on_disk().await;
    let piece = bytes::Bytes::from(vec![7; PIECE_BYTES]);
    let rows = batch(20, 5);
    for store in [in_memory().await, disk] {
        let before = keys(&store).await;
        for abort in [true, false] {
            let key =
                part_key(&run(1), &"s".parse().unwrap(), &Attempt::new(&SeededRng::new(1)), 0);
            let mut upload = PieceUpload::new(&store, &key);
            upload.push(piece.clone()).await.unwrap();
            let mut writer = PartWriter::create(&store, key, rows.schema()).unwrap();
            writer.write(&rows).await.unwrap();
            assert_eq!(writer.rows(), 20);
            if abort {
                upload.abort().await;
                writer.abort().await;
            }
        }
        assert_eq!(keys(&store).await, before);
    }
    let data = folder.path().join("made/store/runs").join(run(1).as_str()).join("data");
    assert_eq!(std::fs::read_dir(data).unwrap().count(), 0);
}

#[tokio::test]
async fn every_flipped_bit_is_found_before_decoding() {
    let store = in_memory().await;
    let rows = batch(20, 3);
    let part = write(&store, std::slice::from_ref(&rows), rows.schema()).await;
    let bytes = store.get(&part.key).await.unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 1 << (at % 8);
        let found = Digest::of(&damaged);
        store.put(&part.key, damaged.into()).await.unwrap();
        let store = reopened(&store).await;
        for error in [
            read_part(&store, &part).await.unwrap_err(),
            verify_part(&store, &part).await.unwrap_err(),
            stream_part(&store, &part).await.err().unwrap(),
        ] {
            let StoreError::Corrupt { key, expected, found: seen } = &error else {
                panic!("{error}")
            };
            assert_eq!((key.as_str(), *expected, *seen), (part.key.as_str(), part.sha256, found));
        }
    }
}

#[tokio::test]
async fn shorter_longer_and_missing_parts_are_found() {
    let store = in_memory().await;
    let rows = batch(20, 3);
    let part = write(&store, std::slice::from_ref(&rows), rows.schema()).await;
    let bytes = store.get(&part.key).await.unwrap();
    let longer = [bytes.as_ref(), b"x"].concat();
    for damaged in [bytes.slice(..0), bytes.slice(..bytes.len() - 1), longer.into()] {
        store.put(&part.key, damaged.into()).await.unwrap();
        let store = reopened(&store).await;
        let error = read_part(&store, &part).await.unwrap_err();
        assert!(matches!(error, StoreError::WrongSize { .. }), "{error}");
        assert!(verify_part(&store, &part).await.is_err());
        assert_eq!(store.exists_all(&[(part.key.clone(), part.bytes)]).await.unwrap(), [false]);
    }
    store.delete(&part.key).await.unwrap();
    let error = read_part(&store, &part).await.unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
}

#[tokio::test]
async fn bytes_that_match_their_digest_but_are_no_rows_are_errors() {
    let store = in_memory().await;
    let rows = batch(20, 3);
    let part = write(&store, std::slice::from_ref(&rows), rows.schema()).await;
    let miscounted = Part { rows: 21, ..part.clone() };
    let error = read_part(&store, &miscounted).await.unwrap_err();
    assert!(matches!(error, StoreError::WrongRows { expected: 21, found: 20, .. }), "{error}");

    // Foreign bytes with a matching digest: whatever the decoder does, it stays an error or rows.
    let bytes = store.get(&part.key).await.unwrap();
    for at in 0..bytes.len() {
        let mut foreign = bytes.to_vec();
        foreign[at] ^= 0xff;
        let part = Part { sha256: Digest::of(&foreign), ..part.clone() };
        store.put(&part.key, foreign.into()).await.unwrap();
        let read = read_part(&store, &part).await;
        assert!(matches!(
            read,
            Ok(_) | Err(StoreError::Decode { .. } | StoreError::WrongRows { .. })
        ));
    }
}

#[tokio::test]
async fn a_body_damaged_on_its_way_is_read_again() {
    let (objects, store) = faulty().await;
    let rows = batch(20, 3);
    let part = write(&store, std::slice::from_ref(&rows), rows.schema()).await;
    for fault in [Fault::FlippedBody, Fault::TruncatedBody, Fault::BrokenBody, Fault::FailBefore] {
        let store = reopened(&store).await;
        objects.script(vec![(Op::Get, 0, fault)]);
        assert_eq!(
            read_part(&store, &part).await.unwrap(),
            std::slice::from_ref(&rows),
            "{fault:?}"
        );
        let store = reopened(&store).await;
        objects.script(vec![(Op::Get, 0, fault)]);
        verify_part(&store, &part).await.unwrap();
        objects.script(vec![]);
    }
}

#[tokio::test]
async fn a_write_that_fails_is_repeated_and_one_that_cannot_succeed_is_an_error() {
    let (objects, store) = faulty().await;
    let rows = batch(20, 3);
    objects.script(vec![(Op::Put, 0, Fault::FailBefore), (Op::Put, 1, Fault::FailAfter)]);
    let part = write(&store, std::slice::from_ref(&rows), rows.schema()).await;
    assert_eq!(read_part(&store, &part).await.unwrap(), std::slice::from_ref(&rows));

    objects.script(vec![(Op::Put, 0, Fault::Denied)]);
    let key = part_key(&run(1), &"s".parse().unwrap(), &Attempt::new(&SeededRng::new(9)), 0);
    let mut writer = PartWriter::create(&store, key.clone(), rows.schema()).unwrap();
    writer.write(&rows).await.unwrap();
    let error = writer.finish().await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert_eq!(store.size(&key).await.unwrap(), None);
}

#[tokio::test]
async fn files_of_any_size_are_copied_and_checked() {
    let (folder, disk) = on_disk().await;
    for size in [0, 1, PIECE_BYTES, PIECE_BYTES + 1] {
        let content = vec![7; size];
        let source = folder.path().join("segment.idx");
        std::fs::write(&source, &content).unwrap();
        for store in [&in_memory().await, &disk] {
            let attempt = Attempt::new(disk.rng().as_ref());
            let key = crate::file_key(&run(1), &"index".parse().unwrap(), &attempt, 0);
            let file =
                write_file(store, key, "segment.idx".parse().unwrap(), &source).await.unwrap();
            assert_eq!((file.bytes, file.sha256), (size as u64, Digest::of(&content)));
            let store = reopened(store).await;
            assert_eq!(store.get(&file.key).await.unwrap(), content);
            verify_file(&store, &file).await.unwrap();
            let copy = object_store::path::Path::from("copy");
            store.objects().copy(file.key.path(), &copy).await.unwrap();
            assert_eq!(store.objects().head(&copy).await.unwrap().size, size as u64);
        }
    }
}
