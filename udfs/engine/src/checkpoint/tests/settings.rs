//! Single settings and special tokens.

use serde_json::{Value, json};

use super::made::Made;
use crate::checkpoint::{Config, LoadError, Special};

fn config(values: &Value) -> (Made, Config) {
    let made = Made::empty().json("config.json", values);
    let config = Config::read(&made.path().join("config.json")).unwrap();
    (made, config)
}

#[test]
fn a_value_of_the_wrong_type_is_told_with_its_key() {
    let (made, config) = config(&json!({
        "n": 0, "half": 0.5, "text": 3, "flag": "yes", "list": ["a", 1], "eos": [1, "x"],
        "two": [1, 2], "eps": -1.0, "inner": {"factor": "big"}, "wide": 1_u64 << 40
    }));
    let why = |error: LoadError| made.why::<()>(Err(error));
    let size = "expected a whole number from 1 to 2^24";
    let cases = [
        (config.size("n").unwrap_err(), format!("`n` is 0, {size}")),
        (config.size("half").unwrap_err(), format!("`half` is 0.5, {size}")),
        (config.size("gone").unwrap_err(), format!("`gone` is absent, {size}")),
        (config.size("wide").unwrap_err(), format!("`wide` is 1099511627776, {size}")),
        (config.text("text").unwrap_err(), "`text` is 3, expected a text".into()),
        (
            config.flag_or("flag", true).unwrap_err(),
            "`flag` is \"yes\", expected true or false".into(),
        ),
        (config.texts("list").unwrap_err(), "`list` is [\"a\",1], expected a list of texts".into()),
        (
            config.tokens("eos").unwrap_err(),
            "`eos` is [1,\"x\"], expected a token id or a list of token ids".into(),
        ),
        (config.token("two").unwrap_err(), "`two` is [1,2], expected one token id".into()),
        (config.positive("eps").unwrap_err(), "`eps` is -1.0, expected a number above 0".into()),
        (
            config.section("inner").unwrap().unwrap().positive("factor").unwrap_err(),
            "`inner.factor` is \"big\", expected a number above 0".into(),
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(why(error), format!("./config.json: {expected}"));
    }
}

#[test]
fn null_is_absent() {
    let (_made, config) = config(&json!({"n": null, "eos": null}));
    assert_eq!(config.size_or("n", 7).unwrap(), 7);
    assert_eq!(config.tokens("eos").unwrap(), Vec::<u32>::new());
}

fn special(config: &Value, generation: Option<Value>) -> Special {
    let mut made = Made::new(config, &[]);
    if let Some(generation) = generation {
        made = made.json("generation_config.json", &generation);
    }
    Special::read(&made.open().unwrap()).unwrap()
}

#[test]
fn generation_settings_go_first() {
    let config = json!({"model_type": "llama", "eos_token_id": 9, "bos_token_id": 8});
    let found = special(&config, Some(json!({"eos_token_id": [3, 4]})));
    assert_eq!(found, Special { bos: Some(8), ends: vec![3, 4], ..Special::default() });
    assert_eq!(special(&config, None).ends, [9]);
}

#[test]
fn what_no_file_mentions_has_the_default_of_the_class() {
    assert_eq!(
        special(&json!({"model_type": "bart"}), None),
        Special {
            start: Some(2),
            bos: Some(0),
            ends: vec![2],
            forced_bos: None,
            forced_eos: Some(2),
            pad: Some(1)
        }
    );
    let null = json!({"model_type": "bart", "forced_eos_token_id": null, "eos_token_id": null});
    assert_eq!(special(&null, None).forced_eos, None);
    assert!(special(&null, None).ends.is_empty());
    // Where there are generation settings, what they leave out is not forced.
    assert_eq!(special(&json!({"model_type": "bart"}), Some(json!({}))).forced_eos, None);
    assert_eq!(special(&json!({"model_type": "t5"}), None).start, Some(0));
    assert_eq!(special(&json!({"model_type": "gpt2"}), None).ends, [50256]);
}
