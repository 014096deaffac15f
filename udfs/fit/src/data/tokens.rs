//! From text to ids and back: by the tokenizer of a checkpoint, by one that is given, or by one token a
//! word, made from the texts, with bytes for all other words.

use std::collections::BTreeMap;

use proofmill_engine::checkpoint::Codec;
use serde_json::{Map, Value, json};
use tokenizers::tokenizer::{NormalizedString, Normalizer, PreTokenizedString, PreTokenizer};
use tokenizers::{OffsetReferential, OffsetType, Tokenizer};

use crate::error::FitError;

/// Special tokens of the tokenizer of words; their ids are their places.
const SPECIAL: [&str; 3] = [PAD, END, UNKNOWN];
/// Fills, and begins every output.
pub const PAD: &str = "<pad>";
/// Ends every text.
pub const END: &str = "</s>";
/// Begins every text of an encoder, whose decoder, if it gets one, begins with it, and of a decoder-only model.
pub const BEGIN: &str = "<s>";
/// What T5's tokenizers have for a word that is not known; here every word has tokens.
pub const UNKNOWN: &str = "<unk>";

/// Stands for a space inside a token.
const SPACE: char = '▁';

/// One token: a name in dollars, a name in brackets, a word (with `'` and `-` inside), or any other
/// character; with the space before it.
const PIECE: &str = concat!(
    r"▁?(?:\$\w+\$|\[[^\[\]\s▁]+\]",
    r"|[\p{L}\p{M}\p{N}_]+(?:['’-][\p{L}\p{M}\p{N}_]+)*|[^\s▁])",
);

/// What stands around a text that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// [`END`] behind it (T5).
    End,
    /// [`BEGIN`] before it and [`END`] behind it (an encoder).
    Both,
    /// [`BEGIN`] before it (a decoder-only model).
    Begin,
}

/// A tokenizer.
pub enum Reader {
    Checkpoint(Box<Codec>),
    /// That of a new model, with the id of its end.
    New(Box<Tokenizer>),
}

impl Reader {
    /// What stands before every text that a decoder reads; `end` is no part of it.
    pub fn leading(&self, end: u32) -> Result<Vec<u32>, FitError> {
        match self {
            Self::Checkpoint(codec) => Ok(codec.leading().to_vec()),
            Self::New(_) => {
                let around = self.encode("", true)?;
                Ok(around.into_iter().take_while(|&id| id != end).collect())
            }
        }
    }

    /// The tokens of a context and of the text that follows it, separated as the engine does where
    /// it scores: the tokenizer reads both as one text.
    pub fn continuation(
        &self,
        context: &str,
        text: &str,
    ) -> Result<(Vec<u32>, Vec<u32>), FitError> {
        match self {
            Self::Checkpoint(codec) => {
                let parts = codec
                    .encode_continuation(context, text)
                    .map_err(|error| FitError::Tokenizer(error.to_string()))?;
                Ok((parts.context, parts.continuation))
            }
            Self::New(_) => {
                let context_ids = self.encode(context.trim_end(), false)?;
                let whole = self.encode(&format!("{context}{text}"), false)?;
                let rest = whole.get(context_ids.len()..).unwrap_or_default().to_vec();
                Ok((context_ids, rest))
            }
        }
    }

    /// The tokens of a text, with what stands around every text that is read, or without.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, FitError> {
        match self {
            Self::Checkpoint(codec) => {
                codec.encode(text, special).map_err(|error| FitError::Tokenizer(error.to_string()))
            }
            Self::New(tokenizer) => {
                Ok(broken(tokenizer.encode_fast(text, special))?.get_ids().to_vec())
            }
        }
    }
}

/// A tokenizer from the text of a `tokenizer.json`, without the padding and the cuts it may ask for.
pub fn read(json: &[u8]) -> Result<Tokenizer, FitError> {
    let mut tokenizer = broken(Tokenizer::from_bytes(json))?;
    tokenizer.with_padding(None);
    broken(tokenizer.with_truncation(None))?;
    Ok(tokenizer)
}

/// The id of a token that must be there.
pub fn id(tokenizer: &Tokenizer, token: &str) -> Result<u32, FitError> {
    tokenizer.token_to_id(token).ok_or_else(|| {
        FitError::Tokenizer(format!("it has no token `{token}`; T5 needs {PAD} and {END}"))
    })
}

/// The `tokenizer.json` of all words that come at least `min_count` times in these texts; other words are spelled in
/// bytes, so that every text comes back as it was, with single spaces. Commoner words have smaller ids; those that
/// are as common stand in order of their letters.
pub fn words<'a>(
    texts: impl Iterator<Item = &'a str> + Clone,
    min_count: u32,
    around: Around,
) -> Result<Vec<u8>, FitError> {
    let bare = read(&file(&[], around)?)?;
    let mut counts = BTreeMap::<String, u32>::new();
    for text in texts.clone() {
        for piece in pieces(&bare, text)? {
            *counts.entry(piece).or_default() += 1;
        }
    }
    let mut words: Vec<(String, u32)> =
        counts.into_iter().filter(|(_, count)| *count >= min_count).collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = words.into_iter().map(|(word, _)| word).collect();
    let json = file(&words, around)?;
    let tokenizer = read(&json)?;
    for text in texts {
        let ids = broken(tokenizer.encode_fast(text, false))?.get_ids().to_vec();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let back = broken(tokenizer.decode(&ids, true))?;
        if text != back {
            return Err(FitError::RoundTrip { text, back });
        }
    }
    Ok(json)
}

fn pieces(tokenizer: &Tokenizer, text: &str) -> Result<Vec<String>, FitError> {
    let mut text = NormalizedString::from(text);
    if let Some(normalizer) = tokenizer.get_normalizer() {
        broken(normalizer.normalize(&mut text))?;
    }
    let mut text = PreTokenizedString::from(text);
    if let Some(splitter) = tokenizer.get_pre_tokenizer() {
        broken(splitter.pre_tokenize(&mut text))?;
    }
    let splits = text.get_splits(OffsetReferential::Normalized, OffsetType::None);
    Ok(splits.into_iter().map(|(piece, _, _)| piece.to_owned()).collect())
}

fn file(words: &[String], around: Around) -> Result<Vec<u8>, FitError> {
    let (begins, ends) = (around != Around::End, around != Around::Begin);
    let special: Vec<&str> = SPECIAL.into_iter().chain(begins.then_some(BEGIN)).collect();
    let added = special.iter().enumerate().map(|(id, content)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    });
    // What a word that is not among them is spelled in.
    let letters =
        [SPACE.to_string()].into_iter().chain((0..=u8::MAX).map(|it| format!("<0x{it:02X}>")));
    let all = special.iter().map(|&it| it.to_owned()).chain(letters).chain(words.iter().cloned());
    let vocabulary: Map<String, Value> =
        all.enumerate().map(|(id, token)| (token, json!(id))).collect();
    let space = json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": true});
    let put = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let (first, last) = (begins.then(|| put(BEGIN)), ends.then(|| put(END)));
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let single: Vec<Value> = first.into_iter().chain([text]).chain(last).collect();
    let token = |(id, token): (usize, &str)| {
        (token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]}))
    };
    let used =
        special.iter().copied().enumerate().filter(|(_, token)| [BEGIN, END].contains(token));
    let used: Map<String, Value> = used.map(token).collect();
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Strip", "strip_left": true, "strip_right": true},
        ]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            space,
            {"type": "Split", "pattern": {"Regex": PIECE}, "behavior": "Isolated", "invert": false},
        ]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": used,
        },
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        // Without merges there are whole words, and bytes.
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": true, "ignore_merges": true,
            "vocab": vocabulary, "merges": [],
        },
    });
    serde_json::to_vec(&file).map_err(|error| FitError::Tokenizer(error.to_string()))
}

fn broken<T>(result: tokenizers::Result<T>) -> Result<T, FitError> {
    result.map_err(|error| FitError::Tokenizer(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;

    fn made(texts: &[&str]) -> Tokenizer {
        read(&words(texts.iter().copied(), 1, Around::End).unwrap()).unwrap()
    }

    #[test]
    fn names_and_words_are_one_token_each() {
        let text = "$proof$ = [PREMISE] a hook isn't steel-made, (it costs 3.5).  $valid$\n= true";
        let tokenizer = made(&[text]);
        let encoding = tokenizer.encode_fast(text, false).unwrap();
        let tokens: Vec<String> =
            encoding.get_ids().iter().map(|&id| tokenizer.id_to_token(id).unwrap()).collect();
        let expected = "▁$proof$ ▁= ▁[PREMISE] ▁a ▁hook ▁isn't ▁steel-made , ▁( it ▁costs ▁3 . 5 ) . \
                        ▁$valid$ ▁= ▁true";
        assert_eq!(tokens, expected.split(' ').collect::<Vec<_>>());
        let whole = tokenizer.encode_fast("a hook", true).unwrap();
        assert_eq!(whole.get_ids().last(), Some(&1));
        assert_eq!(tokenizer.token_to_id(PAD), Some(0));
        let spelled = tokenizer.encode_fast("a spöön", false).unwrap();
        let spelled: Vec<String> =
            spelled.get_ids()[1..].iter().map(|&id| tokenizer.id_to_token(id).unwrap()).collect();
        let expected = "▁ <0x73> <0x70> <0xC3> <0xB6> <0xC3> <0xB6> <0x6E>";
        assert_eq!(spelled, expected.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn texts_of_an_encoder_have_a_beginning() {
        let tokenizer = read(&words(["a b"].into_iter(), 1, Around::Both).unwrap()).unwrap();
        assert_eq!(tokenizer.encode_fast("b a", true).unwrap().get_ids(), [3, 262, 261, 1]);
        assert_eq!(tokenizer.decode(&[3, 262, 261, 1], true).unwrap(), "b a");
    }

    #[test]
    fn texts_of_a_decoder_have_no_end() {
        let json = words(["a b"].into_iter(), 1, Around::Begin).unwrap();
        let reader = Reader::New(Box::new(read(&json).unwrap()));
        assert_eq!(reader.encode("b a", true).unwrap(), [3, 262, 261]);
        assert_eq!(reader.leading(1).unwrap(), [3]);
        assert_eq!(reader.continuation("b ", "a b").unwrap(), (vec![262], vec![261, 262]));
        assert_eq!(reader.continuation("", "a").unwrap(), (vec![], vec![261]));
    }

    #[test]
    fn commoner_words_come_first_and_rare_ones_can_be_spelled() {
        let tokenizer = made(&["b a b", "b c a"]);
        assert_eq!(tokenizer.token_to_id("▁b"), Some(260));
        assert_eq!(tokenizer.token_to_id("▁a"), Some(261));
        let tokenizer =
            read(&words(["b a b", "b c a"].into_iter(), 2, Around::End).unwrap()).unwrap();
        assert_eq!(tokenizer.token_to_id("▁c"), None);
        let ids = tokenizer.encode_fast("b c a", false).unwrap().get_ids().to_vec();
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), "b c a");
    }

    #[test]
    fn what_does_not_come_back_is_refused() {
        let error = words(["a </s> b"].into_iter(), 1, Around::End).unwrap_err().to_string();
        assert!(error.contains(r#""a </s> b" decodes to "a b""#), "{error}");
        assert!(words(["a ▁ b"].into_iter(), 1, Around::End).is_err());
    }

    proptest! {
        // Each makes a tokenizer, which takes long without optimisation.
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn texts_come_back_with_single_spaces(text in r"[ a-cA-Z0-9.,;:!?$\[\]()'’_=/<>é-]{0,40}") {
            let tokenizer = made(&[&text[..text.floor_char_boundary(text.len() / 2)]]);
            let ids = tokenizer.encode_fast(&text[..], false).unwrap().get_ids().to_vec();
            prop_assert!(!ids.contains(&2));
            let single = text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(tokenizer.decode(&ids, true).unwrap(), single);
        }
    }

    /// Any text without what stands for a space in tokens, and without the special tokens.
    fn plain() -> impl Strategy<Value = String> {
        let any = proptest::collection::vec(any::<char>(), 0..20)
            .prop_map(|letters| letters.into_iter().collect::<String>());
        let text = prop_oneof![
            any,
            "[\u{0}-\u{ff}]{0,30}",
            "[ぁ-ゖ一-鿿가-힣ก-๛ \u{300}-\u{36f}😀-🙏\u{200d}\u{fe0f}]{0,20}",
        ];
        text.prop_map(|text| text.replace(SPACE, "_"))
    }

    #[test]
    fn whatever_a_tokenizer_never_saw_comes_back() {
        let tokenizer = made(&["a hook is made of steel.", "$proof$ = [PREMISE]"]);
        let config = ProptestConfig { cases: 2_000, ..ProptestConfig::default() };
        let tested = TestRunner::new(config).run(&plain(), |text| {
            let special = [PAD, END, UNKNOWN].iter().any(|token| text.contains(token));
            prop_assume!(!special);
            let ids = tokenizer.encode_fast(&text[..], false).unwrap().get_ids().to_vec();
            prop_assert!(ids.iter().all(|id| *id > 2), "{:?}", ids);
            let single = text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(tokenizer.decode(&ids, true).unwrap(), single);
            Ok(())
        });
        tested.unwrap();
    }

    #[test]
    fn words_that_are_not_known_are_their_bytes() {
        let tokenizer = made(&["a hook"]);
        for (text, tokens) in [
            ("a hook", "▁a ▁hook"),
            ("hook a", "▁hook ▁a"),
            ("ox", "▁ <0x6F> <0x78>"),
            ("a.", "▁a <0x2E>"),
            ("漢😀", "▁ <0xE6> <0xBC> <0xA2> <0xF0> <0x9F> <0x98> <0x80>"),
            ("a \u{7}b", "▁a ▁ <0x07> <0x62>"),
        ] {
            let encoding = tokenizer.encode_fast(text, false).unwrap();
            let found: Vec<String> =
                encoding.get_ids().iter().map(|&id| tokenizer.id_to_token(id).unwrap()).collect();
            assert_eq!(found.join(" "), tokens, "{text:?}");
            assert_eq!(tokenizer.decode(encoding.get_ids(), true).unwrap(), text);
        }
    }
}
