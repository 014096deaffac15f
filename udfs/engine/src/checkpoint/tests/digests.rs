//! Digests, their cache, and the identity of a model.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use serde_json::json;

use super::made::Made;
use crate::checkpoint::{
    Digest, DigestCache, Identity, LoadError, Trust, digest_of_parts, seal, unseal,
};

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
    assert_eq!(digest_of_parts(parts), Digest::of(lines.as_bytes()));
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

/// A model whose files can be changed.
fn model() -> Made {
    let tensors: &[(&str, &[usize])] = &[("a", &[2])];
    let made = Made::with_tensors(tensors).json("tokenizer.json", &json!({"a": 1}));
    made.json("generation_config.json", &json!({"eos_token_id": 2}))
}

const FILES: [&str; 4] =
    ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"];

/// Other bytes of the same number, in place, with the times of before.
fn rewrite(made: &Made, name: &str) {
    let path = made.path().join(name);
    let times = fs::metadata(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let changed = |it: &fs::Metadata| (it.ctime(), it.ctime_nsec());
    // The clock of the file system has ticks.
    while changed(&fs::metadata(&path).unwrap()) == changed(&times) {
        file.write_all_at(&bytes, 0).unwrap();
        file.set_modified(times.modified().unwrap()).unwrap();
    }
}

/// Another file under the name: the bytes that `change` makes of those of before.
fn replace(made: &Made, name: &str, change: impl Fn(&mut Vec<u8>)) {
    let path = made.path().join(name);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(made.path().join("draft"), bytes).unwrap();
    fs::rename(made.path().join("draft"), path).unwrap();
}

#[test]
fn a_folder_opened_later_must_hold_what_was_digested() {
    let cached = Made::empty();
    let cache = DigestCache::new(cached.path());
    let taken = |made: &Made| made.open().unwrap().digested(&cache, Trust::Unchanged).unwrap();
    for name in FILES {
        let made = model();
        let digested = taken(&made);
        // The same bytes as another file, and under another time, are the same model.
        replace(&made, name, |_| ());
        made.open().unwrap().expect(&digested).unwrap();
        // Other settings that can be read still.
        replace(&made, name, |bytes| {
            let at = bytes.iter().rposition(|byte| *byte == b'}').unwrap_or(bytes.len());
            bytes.insert(at, b' ');
        });
        let why = made.why(made.open().and_then(|folder| folder.expect(&digested)));
        assert!(why.starts_with(&format!("./{name}: ")), "{why}");
        assert!(why.contains("changed after") || name == "model.safetensors", "{why}");
    }
    // A file more, and one less.
    let made = model();
    let digested = taken(&made);
    let made = made.json("special_tokens_map.json", &json!({}));
    let why = made.why(made.open().unwrap().expect(&digested));
    assert!(why.starts_with("./special_tokens_map.json: changed after"), "{why}");
    fs::remove_file(made.path().join("special_tokens_map.json")).unwrap();
    made.open().unwrap().expect(&digested).unwrap();
    fs::remove_file(made.path().join("generation_config.json")).unwrap();
    let why = made.why(made.open().unwrap().expect(&digested));
    assert!(why.starts_with("./generation_config.json: changed after"), "{why}");
}

#[test]
fn a_file_that_is_written_while_it_is_used_spoils_the_model_and_a_new_name_does_not() {
    let cached = Made::empty();
    let cache = DigestCache::new(cached.path());
    for name in FILES {
        let made = model();
        let folder = made.open().unwrap();
        folder.digested(&cache, Trust::Unchanged).unwrap();
        let watch = folder.watch();
        watch.examine().unwrap();
        fs::hard_link(made.path().join(name), made.path().join("link")).unwrap();
        watch.examine().unwrap();
        replace(&made, name, |bytes| bytes.push(b' '));
        watch.examine().unwrap();

        let made = model();
        let folder = made.open().unwrap();
        folder.digested(&cache, Trust::Unchanged).unwrap();
        rewrite(&made, name);
        for _ in 0..2 {
            let why = made.why(folder.watch().examine());
            assert!(why.starts_with(&format!("./{name}: changed after")), "{why}");
        }
        // Also when the bytes come back.
        rewrite(&made, name);
        assert!(folder.watch().examine().is_err());
    }
}
