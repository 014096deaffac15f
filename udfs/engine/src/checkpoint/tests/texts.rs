//! Texts to tokens and back.

use serde_json::{Map, Value, json};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::made::Made;
use crate::checkpoint::{Codec, Encoded, TextError};
use crate::request::{Keep, Truncate};

/// Special tokens of the tokenizers below.
const BOS: u32 = 256;
const EOS: u32 = 257;

/// One token per byte, a few merges, `<s>` before and `</s>` after; padding and truncation on.
fn bytes(post_processor: Value) -> Value {
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let mut vocabulary: Map<String, Value> =
        alphabet.iter().enumerate().map(|(id, c)| (c.to_string(), id.into())).collect();
    for (id, token) in ["<s>", "</s>", "th", "Ġth", "the"].iter().enumerate() {
        vocabulary.insert((*token).to_owned(), (id + 256).into());
    }
    let special = |id: u32, text: &str| {
        json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    json!({
        "version": "1.0",
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
                    "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"},
        "added_tokens": [special(BOS, "<s>"), special(EOS, "</s>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                          "use_regex": true},
        "post_processor": post_processor,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                    "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary,
                  "merges": [["t", "h"], ["Ġ", "th"], ["th", "e"]]}
    })
}

/// `<s>` before and `</s>` after.
fn around() -> Value {
    json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<s>": {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [EOS], "tokens": ["</s>"]}
        }
    })
}

fn codec() -> Codec {
    read(&Made::with_tensors(&[]).json("tokenizer.json", &bytes(around())))
}

fn read(made: &Made) -> Codec {
    Codec::read(&made.open().unwrap()).unwrap()
}

/// A tokenizer by words, with a decoder that leaves spaces before punctuation.
fn words() -> Value {
    let vocabulary = json!({"[UNK]": 0, "so": 1, ",": 2, "▁it": 3, "'": 4, "s": 5, "▁.": 6});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    })
}

/// Kinds of tokenizers: bytes in pieces, words with marked spaces (and spaces to be taken out), bytes as tokens of
/// their own, parts of words, and no decoder at all.
pub(crate) const CODECS: [&str; 5] = ["bytes", "marked", "fallback", "parts", "joined"];

/// The codec of one of [`CODECS`].
pub(crate) fn codec_named(name: &str) -> Codec {
    let by_words = |extra: &[&str], decoder: Value| {
        let pieces = [
            "[UNK]", "<s>", "so", ",", "▁it", "▁'", "s", "▁.", "▁", "▁do", "▁n", "'t", "'", "is",
            "##is", "##.", "é",
        ];
        let vocabulary: Map<String, Value> = pieces
            .iter()
            .chain(extra)
            .enumerate()
            .map(|(id, piece)| ((*piece).to_owned(), id.into()))
            .collect();
        let mut tokenizer = words();
        tokenizer["model"]["vocab"] = vocabulary.into();
        tokenizer["decoder"] = decoder;
        tokenizer["added_tokens"] = json!([{
            "id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        }]);
        tokenizer
    };
    let tokens: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let tokenizer = match name {
        "bytes" => bytes(around()),
        "marked" => by_words(
            &[],
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
        ),
        "fallback" => by_words(
            &tokens,
            json!({"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ]}),
        ),
        "parts" => by_words(&[], json!({"type": "WordPiece", "prefix": "##", "cleanup": true})),
        _ => by_words(&[], Value::Null),
    };
    let made = Made::with_tensors(&[]).json("tokenizer.json", &tokenizer);
    read(&made.json("tokenizer_config.json", &json!({"clean_up_tokenization_spaces": true})))
}

#[test]
fn any_number_of_threads_may_share_it() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&codec());
}

#[test]
fn special_tokens_stand_around_and_nothing_is_padded() {
    let codec = codec();
    assert_eq!((codec.leading(), codec.trailing()), (&[BOS][..], &[EOS][..]));
    let plain = codec.encode("see the path", false).unwrap();
    assert_eq!(plain.len(), 3 + 2 + 4, "{plain:?}");
    assert_eq!(codec.encode("see the path", true).unwrap(), [&[BOS], &plain[..], &[EOS]].concat());
    assert_eq!(codec.encode("", true).unwrap(), [BOS, EOS]);
    assert_eq!(codec.encode("a</s>", false).unwrap()[1], EOS);
    assert_eq!(codec.id("</s>"), Some(EOS));
    assert_eq!(codec.vocabulary(), 261);
}

#[test]
fn settings_beside_the_tokenizer_go_before_its_template() {
    let with = |settings: Value| {
        let made = Made::with_tensors(&[]).json("tokenizer.json", &bytes(around()));
        let codec = read(&made.json("tokenizer_config.json", &settings));
        (codec.leading().to_vec(), codec.trailing().to_vec())
    };
    let bos = json!({"add_bos_token": true, "bos_token": {"content": "<s>"}, "eos_token": "</s>"});
    assert_eq!(with(bos), (vec![BOS], vec![]));
    let eos = json!({"add_eos_token": true, "bos_token": "<s>", "eos_token": "</s>"});
    assert_eq!(with(eos), (vec![], vec![EOS]));
    assert_eq!(with(json!({"add_bos_token": false})), (vec![], vec![]));
    assert_eq!(with(json!({"bos_token": "<s>"})), (vec![BOS], vec![EOS]));
}

#[test]
fn a_cut_text_keeps_its_special_tokens() {
    let codec = codec();
    let cut = |tokens, keep| codec.encode_cut("abcdef", Some(Truncate { tokens, keep }));
    let body = codec.encode("abcdef", false).unwrap();
    let around = |ids: &[u32]| [&[BOS], ids, &[EOS]].concat();
    let whole = Encoded { ids: around(&body), truncated: false };
    assert_eq!(codec.encode_cut("abcdef", None), Ok(whole.clone()));
    assert_eq!(cut(8, Keep::End), Ok(whole));
    let cut_to = |ids: &[u32]| Ok(Encoded { ids: around(ids), truncated: true });
    assert_eq!(cut(7, Keep::Start), cut_to(&body[..5]));
    assert_eq!(cut(5, Keep::End), cut_to(&body[3..]));
    assert_eq!(cut(2, Keep::End), cut_to(&[]));
    let error = TextError::NoRoom { tokens: 1, special: 2 };
    assert_eq!(error.to_string(), "`truncate` leaves 1 tokens, and the special tokens alone are 2");
    assert_eq!(cut(1, Keep::Start), Err(error));
}

#[test]
fn space_at_the_end_of_a_context_belongs_to_the_continuation() {
    let codec = codec();
    let split = codec.encode_continuation("in \u{1f} ", "the").unwrap();
    assert_eq!(split.context, codec.encode("in", false).unwrap());
    assert_eq!(codec.decode(&split.continuation, false).unwrap(), " \u{1f} the");
    // One space and a word make one token, which neither part has alone.
    let split = codec.encode_continuation("in ", "th").unwrap();
    assert_eq!(split.continuation, [codec.id("Ġth").unwrap()]);
    // A continuation that melts into the context has no tokens of its own.
    assert!(codec.encode_continuation("t", "h").unwrap().continuation.is_empty());
}

#[test]
fn half_a_character_is_a_replacement_character() {
    let codec = codec();
    let ids = codec.encode("é</s>x", false).unwrap();
    let texts: Vec<String> =
        (1..=ids.len()).map(|end| codec.decode(&ids[..end], false).unwrap()).collect();
    assert_eq!(texts, ["\u{fffd}", "é", "é", "éx"]);
}

#[test]
fn spaces_before_punctuation_go_where_the_settings_say() {
    let made = Made::with_tensors(&[]).json("tokenizer.json", &words());
    assert_eq!(read(&made).decode(&[1, 2, 1], false).unwrap(), "so , so");
    let made = made.json("tokenizer_config.json", &json!({"clean_up_tokenization_spaces": true}));
    let codec = read(&made);
    let texts = [1, 2, 3].map(|end| codec.decode(&[1, 2, 1][..end], false).unwrap());
    assert_eq!(texts, ["so", "so,", "so, so"]);
    // A tokenizer of bytes has spaces only where the text has them.
    let made = made.json("tokenizer.json", &bytes(Value::Null));
    let codec = read(&made);
    let ids = codec.encode("so , so", false).unwrap();
    assert_eq!(codec.decode(&ids, false).unwrap(), "so , so");
}

#[test]
fn a_tokenizer_that_cannot_be_read_is_named() {
    let made = Made::with_tensors(&[]);
    assert_eq!(
        made.why(Codec::read(&made.open().unwrap())),
        "./tokenizer.json: not found; write it once with transformers: \
         AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
    );
    let made = made.file("tokenizer.json", b"{}");
    let why = made.why(Codec::read(&made.open().unwrap()));
    assert!(why.starts_with("./tokenizer.json: "), "{why}");
    let made = made.json("tokenizer.json", &bytes(around()));
    let made =
        made.json("tokenizer_config.json", &json!({"add_bos_token": true, "bos_token": "<b>"}));
    assert_eq!(
        made.why(Codec::read(&made.open().unwrap())),
        "./tokenizer_config.json: `bos_token` is \"<b>\", expected a token of tokenizer.json"
    );
}
