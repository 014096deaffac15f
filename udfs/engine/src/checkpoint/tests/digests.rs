//! Digests, their cache, and the identity of a model.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::made::Made;
use crate::checkpoint::{Digest, DigestCache, Identity, LoadError, Trust, seal, unseal};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The only entry of a cache.
fn entry(cache: &Made) -> PathBuf {
    let mut files = fs::read_dir(cache.path()).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "one entry and no drafts");
    file
}

#[test]
fn a_digest_is_a_text_and_back() {
    let digest = Digest::of(b"");
    assert_eq!(digest.to_string(), EMPTY);
    assert_eq!(EMPTY.parse(), Ok(digest));
    for wrong in ["", "e3b0", &EMPTY.to_uppercase(), &EMPTY.replace('e', "g")] {
        let error = wrong.parse::<Digest>().unwrap_err();
        let expected = format!("`{wrong}` is not a digest: expected 64 lower-case hex digits");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn parts_are_lines_as_sha256sum_prints_them() {
    let parts = [("a", Digest::of(b"")), ("b", Digest::of(b""))];
    let lines = format!("{EMPTY}  a\n{EMPTY}  b\n");
    assert_eq!(Digest::of_parts(parts), Digest::of(lines.as_bytes()));
}

#[test]
fn an_unchanged_file_is_read_once() {
    let (cached, made) = (Made::empty(), Made::empty().file("weights", b"one"));
    let (cache, file) = (DigestCache::new(cached.path()), made.path().join("weights"));
    let digest = |trust| cache.digest(&file, trust);
    let real = Digest::of(b"one");
    assert_eq!(digest(Trust::Unchanged).unwrap(), real);
    assert_eq!(digest(Trust::Nothing).unwrap(), real);
    // A lie in the cache shows that the file is not read again, and that it is on demand.
    let known = fs::read(entry(&cached)).unwrap();
    let known = String::from_utf8(unseal(&known).unwrap().to_vec()).unwrap();
    let lie = known.replace(&real.to_string(), EMPTY);
    fs::write(entry(&cached), seal(lie.as_bytes())).unwrap();
    assert_eq!(digest(Trust::Unchanged).unwrap().to_string(), EMPTY);
    assert_eq!(
        made.why(digest(Trust::Nothing)),
        format!(
            "./weights: expected sha256 {EMPTY}, found {real}: the file changed but its size and \
             times did not; check the disk"
        )
    );
}

#[test]
fn a_changed_file_or_a_broken_entry_is_read_again() {
    let (cached, made) = (Made::empty(), Made::empty().file("weights", b"one"));
    let cache = DigestCache::new(cached.path());
    let digest =
        |made: &Made| cache.digest(&made.path().join("weights"), Trust::Unchanged).unwrap();
    assert_eq!(digest(&made), Digest::of(b"one"));
    let made = made.file("weights", b"three");
    assert_eq!(digest(&made), Digest::of(b"three"));
    fs::write(entry(&cached), b"{").unwrap();
    assert_eq!(digest(&made), Digest::of(b"three"));
    assert!(fs::read(entry(&cached)).unwrap().len() > 1, "the entry is written again");
}

#[test]
fn a_damaged_entry_is_never_believed() {
    let (cached, made) = (Made::empty(), Made::empty().file("weights", b"one"));
    let (cache, file) = (DigestCache::new(cached.path()), made.path().join("weights"));
    let digest = || cache.digest(&file, Trust::Unchanged).unwrap();
    assert_eq!(digest(), Digest::of(b"one"));
    let whole = fs::read(entry(&cached)).unwrap();
    for at in 0..whole.len() {
        // A bit that makes another hex digit of most.
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(entry(&cached), &damaged).unwrap();
        assert_eq!(digest(), Digest::of(b"one"), "byte {at}");
    }
    // One without its seal, as older programs wrote them.
    fs::write(entry(&cached), unseal(&whole).unwrap()).unwrap();
    assert_eq!(digest(), Digest::of(b"one"));
}

#[test]
fn a_cache_that_cannot_be_written_costs_nothing_but_time() {
    let made = Made::empty().file("weights", b"one").file("cache", b"not a folder");
    let cache = DigestCache::new(made.path().join("cache"));
    let digest = cache.digest(&made.path().join("weights"), Trust::Unchanged).unwrap();
    assert_eq!(digest, Digest::of(b"one"));
}

#[test]
fn a_missing_file_is_an_error() {
    let made = Made::empty();
    let cache = DigestCache::new(made.path());
    let error = cache.digest(&made.path().join("weights"), Trust::Unchanged);
    assert!(matches!(error, Err(LoadError::Read { .. })));
}

#[test]
fn each_part_of_an_identity_follows_its_files() {
    let cached = Made::empty();
    let identity = |made: &Made| {
        let cache = DigestCache::new(cached.path());
        Identity::read(&made.open().unwrap(), &cache, Trust::Unchanged).unwrap()
    };
    let tensors: &[(&str, &[usize])] = &[("a", &[2])];
    let make = || Made::with_tensors(tensors).json("tokenizer.json", &json!({}));
    let first = identity(&make());
    assert_eq!(first.parameters, 2);
    assert_eq!(first.architecture, "LlamaForCausalLM");
    assert_eq!(identity(&make()), first, "wherever it lies");
    let config = json!({"architectures": ["LlamaForCausalLM"], "rope_theta": 5.0});
    let other = identity(&make().json("config.json", &config));
    assert_ne!(other.config_digest, first.config_digest);
    assert_eq!(other.weights_digest, first.weights_digest);
    let other = identity(&make().json("generation_config.json", &json!({})));
    assert_ne!(other.config_digest, first.config_digest);
    let other = identity(&make().json("tokenizer_config.json", &json!({})));
    assert_ne!(other.tokenizer_digest, first.tokenizer_digest);
    assert_eq!(other.config_digest, first.config_digest);
    let written = serde_json::to_string(&first).unwrap();
    assert_eq!(serde_json::from_str::<Identity>(&written).unwrap(), first);
}

#[test]
fn a_model_without_tokenizer_has_no_identity() {
    let made = Made::with_tensors(&[]);
    let cache = DigestCache::new(made.path());
    assert_eq!(
        made.why(Identity::read(&made.open().unwrap(), &cache, Trust::Unchanged)),
        "./tokenizer.json: not found; write it once with transformers: \
         AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
    );
}
