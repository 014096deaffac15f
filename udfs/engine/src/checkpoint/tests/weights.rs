//! Files of weights.

use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::json;

use super::made::{Made, numbers, shapes};
use crate::checkpoint::tensors::Tensors;

const ONE: &[(&str, &[usize])] = &[("a.weight", &[2, 3]), ("b.bias", &[4])];

/// The bytes of a file with the tensors above.
fn bytes() -> Vec<u8> {
    std::fs::read(Made::with_tensors(ONE).path().join("model.safetensors")).unwrap()
}

/// A file that begins with a header, whatever it says.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
}

fn refused(bytes: &[u8]) -> String {
    Made::with_tensors(&[]).file("model.safetensors", bytes).refused()
}

#[test]
fn all_three_types_are_read() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        let made = Made::with_tensors(&[]).weights("model.safetensors", &shapes(ONE), dtype);
        let folder = made.open().unwrap();
        let tensor = folder.tensor("a.weight", &[2, 3]).unwrap();
        assert_eq!(tensor.values(), numbers("a.weight", 6), "{dtype}");
    }
}

#[test]
fn a_file_cut_short_says_how_much_is_missing() {
    let whole = bytes();
    let end = "download it again";
    let at = |length: usize| refused(&whole[..length]);
    let found = |expected, found| {
        format!("./model.safetensors: cut short: expected {expected} bytes, found {found}; {end}")
    };
    assert_eq!(at(0), found(8, 0));
    assert_eq!(at(7), found(8, 7));
    assert_eq!(at(50), found(whole.len() - 40, 50));
    assert_eq!(at(whole.len() - 1), found(whole.len(), whole.len() - 1));
    assert_eq!(at(whole.len()), "it loads");
}

#[test]
fn a_broken_header_is_told() {
    let why = |bytes: &[u8]| {
        let refused = refused(bytes);
        let start = "./model.safetensors: not a valid safetensors file: ";
        refused.strip_prefix(start).unwrap_or(&refused).to_owned()
    };
    assert_eq!(
        why(&u64::MAX.to_le_bytes()),
        "its header is said to have 18446744073709551615 bytes, and 100000000 is the most"
    );
    assert_eq!(why(&with_header("{]", 0)), "key must be a string at line 1 column 2");
    let long = [bytes(), vec![0]].concat();
    assert_eq!(why(&long), "incomplete metadata, file not fully covered");
    let hole = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    assert_eq!(why(&with_header(hole, 8)), "invalid offset for tensor `a`");
    let odd = r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#;
    assert_eq!(why(&with_header(odd, 8)), "invalid shape, data type, or offset for tensor");
    let huge = r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}"#;
    assert_eq!(
        why(&with_header(huge, 8)),
        "overflow computing buffer size from shape and/or element type"
    );
}

#[test]
fn a_missing_tensor_is_named_with_the_nearest_there_is() {
    let made = Made::with_tensors(ONE);
    let folder = made.open().unwrap();
    assert_eq!(
        made.why(folder.tensor("a.weights", &[2, 3])),
        "./model.safetensors: no tensor `a.weights`; the nearest name is `a.weight`"
    );
    assert_eq!(
        made.why(folder.tensor("model.b.bias", &[4])),
        "./model.safetensors: no tensor `model.b.bias`; the nearest name is `b.bias`"
    );
    assert_eq!(
        made.why(folder.tensor("embeddings", &[4])),
        "./model.safetensors: no tensor `embeddings`"
    );
}

#[test]
fn a_wrong_shape_is_told_with_both_shapes() {
    let made = Made::with_tensors(ONE);
    assert_eq!(
        made.why(made.open().unwrap().tensor("a.weight", &[3, 2])),
        "./model.safetensors: tensor `a.weight` has shape [2, 3], expected [3, 2] by config.json"
    );
}

#[test]
fn other_types_are_refused_when_they_are_asked_for() {
    for dtype in [Dtype::I8, Dtype::F64] {
        let made = Made::with_tensors(&[]).weights("model.safetensors", &shapes(ONE), dtype);
        assert_eq!(
            made.why(made.open().unwrap().tensor("b.bias", &[4])),
            format!("./model.safetensors: tensor `b.bias` is {dtype}, expected F32, F16 or BF16")
        );
    }
}

/// Two shards, and an index that says what it is told to.
fn sharded(places: serde_json::Value) -> Made {
    let made = Made::empty().json("config.json", &json!({"model_type": "llama"}));
    let made = made.weights("model-1.safetensors", &shapes(&[("a", &[2])]), Dtype::F32);
    let made = made.weights("model-2.safetensors", &shapes(&[("b", &[3])]), Dtype::F16);
    made.json("model.safetensors.index.json", &json!({"weight_map": places}))
}

#[test]
fn shards_are_one_checkpoint() {
    let made = sharded(json!({"a": "model-1.safetensors", "b": "model-2.safetensors"}));
    let folder = made.open().unwrap();
    assert_eq!(folder.tensor("a", &[2]).unwrap().values(), numbers("a", 2));
    assert_eq!(folder.tensor("b", &[3]).unwrap().values(), numbers("b", 3));
    assert_eq!(folder.weights().len(), 2);
    assert_eq!(folder.parameters(), 5);
    assert_eq!(
        made.why(folder.tensor("c.weight", &[3])),
        "./model.safetensors.index.json: no tensor `c.weight`"
    );
}

#[test]
fn an_index_that_lies_is_refused() {
    let (one, two) = ("model-1.safetensors", "model-2.safetensors");
    let cases = [
        (
            json!({"a": one, "b": two, "c": "model-3.safetensors"}),
            "`c`: is said to be in `model-3.safetensors`, but there is no such file",
        ),
        (
            json!({"a": one, "b": two, "c": "../model-1.safetensors"}),
            "`c`: is said to be in `../model-1.safetensors`, but there is no such file",
        ),
        (
            json!({"a": one, "b": two, "c": two}),
            "`c`: is said to be in `model-2.safetensors`, but is not",
        ),
        (json!({"a": one, "c": two}), "`b`: is in `model-2.safetensors`, not in the index"),
        (
            json!({"a": one, "b": one, "c": two}),
            "`b`: is said to be in `model-1.safetensors`, but is in `model-2.safetensors` too",
        ),
    ];
    for (places, why) in cases {
        assert_eq!(
            sharded(places).refused(),
            format!("./model.safetensors.index.json: tensor {why}")
        );
    }
    assert_eq!(
        sharded(json!({"a": 1})).refused(),
        "./model.safetensors.index.json: `weight_map` has a value that is not the name of a file"
    );
    assert_eq!(
        sharded(json!([])).refused(),
        "./model.safetensors.index.json: expected an object `weight_map` from tensors to files"
    );
}

#[test]
fn a_shard_cut_short_is_named() {
    let made = sharded(json!({"a": "model-1.safetensors", "b": "model-2.safetensors"}));
    let bytes = std::fs::read(made.path().join("model-2.safetensors")).unwrap();
    let length = bytes.len();
    let made = made.file("model-2.safetensors", &bytes[..length - 2]);
    assert_eq!(
        made.refused(),
        format!(
            "./model-2.safetensors: cut short: expected {length} bytes, found {}; download it again",
            length - 2
        )
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        length in 0_usize..400,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = bytes();
        bytes.truncate(length);
        for (place, mask) in flips {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] ^= mask;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        std::fs::write(&file, &bytes).unwrap();
        if let Ok(tensors) = Tensors::open(&file) {
            for (name, shape) in tensors.shapes() {
                if let Ok(tensor) = tensors.get(name, shape) {
                    prop_assert_eq!(tensor.values().len(), shape.iter().product::<usize>());
                }
            }
        }
    }
}
