//! Character encodings: everything after this point is UTF-8.
//!
//! Bytes that are no text in the encoding come out as a byte that is no UTF-8, so that the record
//! they stand in becomes an error row and nothing is replaced in silence.

use std::io::{self, Cursor, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};

use crate::stream::Refusal;

/// Stands for bytes that are no text.
const NO_TEXT: u8 = 0xff;

const INPUT_BYTES: usize = 64 << 10;
const OUTPUT_BYTES: usize = 3 * INPUT_BYTES;

/// `bytes` as UTF-8, without a byte order mark. Without an encoding they are UTF-8 already.
pub fn to_utf8<'a>(
    mut bytes: impl Read + 'a,
    encoding: Option<&'static Encoding>,
) -> io::Result<Box<dyn Read + 'a>> {
    if let Some(encoding) = encoding.filter(|encoding| *encoding != encoding_rs::UTF_8) {
        return Ok(Box::new(Transcoder {
            bytes,
            decoder: encoding.new_decoder_with_bom_removal(),
            input: vec![0; INPUT_BYTES],
            unread: 0..0,
            output: vec![0; OUTPUT_BYTES],
            ready: 0..0,
            ended: false,
        }));
    }
    let mut mark = [0; 3];
    let mut len = 0;
    while len < mark.len() {
        match bytes.read(&mut mark[len..])? {
            0 => break,
            read => len += read,
        }
    }
    match &mark[..len] {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(io::Error::other(Refusal::Utf16)),
        [0xef, 0xbb, 0xbf] => Ok(Box::new(bytes)),
        _ => Ok(Box::new(Cursor::new(mark).take(len as u64).chain(bytes))),
    }
}

struct Transcoder<R> {
    bytes: R,
    decoder: Decoder,
    input: Vec<u8>,
    unread: std::ops::Range<usize>,
    output: Vec<u8>,
    ready: std::ops::Range<usize>,
    ended: bool,
}

impl<R: Read> Transcoder<R> {
    fn fill(&mut self) -> io::Result<()> {
        let mut last = false;
        if self.unread.is_empty() {
            let len = self.bytes.read(&mut self.input)?;
            last = len == 0;
            self.unread = 0..len;
        }
        let room = self.output.len() - 1;
        let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
            &self.input[self.unread.clone()],
            &mut self.output[..room],
            last,
        );
        self.unread.start += read;
        self.ready = 0..written;
        match result {
            DecoderResult::InputEmpty => self.ended = last,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => {
                self.output[written] = NO_TEXT;
                self.ready.end += 1;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Transcoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.ready.is_empty() && !self.ended {
            self.fill()?;
        }
        let len = self.ready.len().min(out.len());
        out[..len].copy_from_slice(&self.output[self.ready.start..self.ready.start + len]);
        self.ready.start += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(bytes: &[u8], label: &str) -> Vec<u8> {
        let mut text = Vec::new();
        let encoding = Encoding::for_label(label.as_bytes());
        to_utf8(bytes, encoding).unwrap().read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn encodings_come_out_as_utf8() {
        assert_eq!(utf8(b"caf\xe9", "latin1"), "café".as_bytes());
        assert_eq!(utf8(b"\xff\xfea\0\n\0", "utf-16le"), b"a\n");
        assert_eq!(utf8(b"\xef\xbb\xbfa", "utf-8"), b"a");
        assert_eq!(utf8(b"\xef\xbb", "utf-8"), b"\xef\xbb");
        assert_eq!(utf8(b"", "utf-8"), b"");
    }

    #[test]
    fn what_is_no_text_stays_visible() {
        assert_eq!(utf8(b"a\xffb", "utf-8"), b"a\xffb");
        assert_eq!(utf8(b"a\x81\xffb", "shift_jis"), b"a\xffb");
        assert_eq!(utf8(b"a\0\0\xd8", "utf-16le"), b"a\xff");
    }

    #[test]
    fn pieces_of_any_size_agree() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i % 255) as u8).collect();
        let whole = utf8(&bytes, "windows-1252");
        assert_eq!(whole, encoding_rs::WINDOWS_1252.decode(&bytes).0.as_bytes());
    }

    #[test]
    fn utf16_is_not_taken_for_utf8() {
        assert!(to_utf8(&b"\xff\xfea\0"[..], None).is_err());
    }
}
