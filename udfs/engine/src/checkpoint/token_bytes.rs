//! The bytes that each token of a vocabulary stands for, which the decoder of `tokenizer.json` tells. Constrained
//! decoding needs them: a text can be cut into tokens in the middle of a character.

use serde_json::Value;
use tokenizers::Tokenizer;

/// Begins what a special token stands for: no text has this byte.
const SPECIAL: u8 = 0xff;

/// How the pieces of a vocabulary spell bytes.
enum Spelling {
    /// Each character is a byte (GPT-2 and most that came after it).
    ByteLevel,
    /// Text with a mark for each space, and `<0x0A>` for bytes that no piece has (Llama 2, Mistral).
    ByteFallback { space: String },
}

/// Of each token by its id; nothing for ids that no token has.
pub(super) fn token_bytes(tokenizer: &Tokenizer) -> Result<Vec<Vec<u8>>, String> {
    let decoder = serde_json::to_value(tokenizer.get_decoder()).map_err(|it| it.to_string())?;
    let spelling = Spelling::of(&decoder)?;
    let vocabulary = tokenizer.get_vocab(true);
    let added = tokenizer.get_added_tokens_decoder();
    let size = vocabulary.values().max().map_or(0, |id| *id as usize + 1);
    let mut all = vec![Vec::new(); size];
    for (piece, id) in &vocabulary {
        all[*id as usize] = match added.get(id) {
            Some(token) if token.special => [&[SPECIAL], piece.as_bytes()].concat(),
            Some(token) => token.content.as_bytes().to_vec(),
            None => spelling.bytes(piece),
        };
    }
    Ok(all)
}

impl Spelling {
    fn of(decoder: &Value) -> Result<Self, String> {
        let steps = match decoder["type"].as_str() {
            Some("Sequence") => decoder["decoders"].as_array().map_or(&[][..], Vec::as_slice),
            _ => std::slice::from_ref(decoder),
        };
        let is = |name: &str| steps.iter().find(|step| step["type"] == name);
        if is("ByteLevel").is_some() {
            return Ok(Self::ByteLevel);
        }
        let Some(_) = is("ByteFallback") else {
            let found = decoder["type"].as_str().unwrap_or("none");
            return Err(format!(
                "only answers of models with a tokenizer of bytes can be held to a form: expected the decoder \
                 ByteLevel or ByteFallback in tokenizer.json, found {found}"
            ));
        };
        let mark = is("Replace").filter(|step| step["content"] == " ");
        let mark = mark.and_then(|step| step["pattern"]["String"].as_str()).unwrap_or(" ");
        Ok(Self::ByteFallback { space: mark.to_owned() })
    }

    fn bytes(&self, piece: &str) -> Vec<u8> {
        match self {
            // A character that stands for no byte is written as it is.
            Self::ByteLevel => piece
                .chars()
                .map(byte_of)
                .collect::<Option<_>>()
                .unwrap_or_else(|| piece.as_bytes().to_vec()),
            Self::ByteFallback { space } => {
                let code = piece.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                match code.filter(|it| it.len() == 2).map(|it| u8::from_str_radix(it, 16)) {
                    Some(Ok(byte)) => vec![byte],
                    _ => piece.replace(space.as_str(), " ").into_bytes(),
                }
            }
        }
    }
}

/// The byte that a character of a byte-level vocabulary stands for: itself where it can be seen, and else the next
/// of those behind U+0100, in their order.
fn byte_of(c: char) -> Option<u8> {
    let is_seen = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let code = u32::from(c);
    match u8::try_from(code) {
        Ok(byte) => is_seen(byte).then_some(byte),
        Err(_) => {
            let place = code.checked_sub(0x100)? as usize;
            (0..=u8::MAX).filter(|byte| !is_seen(*byte)).nth(place)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::tests::texts::{CODECS, codec_named};

    #[test]
    fn all_bytes_have_a_character_of_their_own() {
        let mut bytes: Vec<u8> = ('\0'..='\u{200}').filter_map(byte_of).collect();
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..=u8::MAX));
    }

    #[test]
    fn a_fallback_spells_bytes_and_marks_spaces() {
        let decoder = serde_json::json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}
        ]});
        let spelling = Spelling::of(&decoder).unwrap();
        assert_eq!(spelling.bytes("▁the▁"), b" the ");
        assert_eq!(spelling.bytes("<0x0A>"), [10]);
        assert_eq!(spelling.bytes("<0xZZ>"), b"<0xZZ>");
    }

    proptest! {
        #![proptest_config(ProptestConfig { max_global_rejects: 10_000, ..ProptestConfig::with_cases(200) })]
        /// What tokens stand for, one after the other, is what the tokenizer makes of them.
        #[test]
        fn bytes_are_those_that_the_tokenizer_decodes(
            which in 0..CODECS.len(),
            ids in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        ) {
            let codec = codec_named(CODECS[which]);
            let known = ["bytes", "fallback"].contains(&CODECS[which]);
            let Ok(bytes) = codec.token_bytes() else {
                prop_assert!(!known, "{}", CODECS[which]);
                return Ok(());
            };
            prop_assert!(known, "{}", CODECS[which]);
            let ids: Vec<u32> = ids.iter().map(|id| id.index(codec.vocabulary()) as u32).collect();
            let plain = ids.into_iter().filter(|id| !codec.is_special(*id));
            // A space at the beginning of a text may be taken out.
            let before = codec.encode("so", false).unwrap();
            let all: Vec<u32> = before.iter().copied().chain(plain).collect();
            let spelled: Vec<u8> =
                all.iter().flat_map(|id| bytes[*id as usize].iter().copied()).collect();
            let expected = codec.decode_as_written(&all).unwrap();
            prop_assume!(!expected.contains(char::REPLACEMENT_CHARACTER));
            prop_assert_eq!(String::from_utf8_lossy(&spelled), expected);
        }
    }
}
