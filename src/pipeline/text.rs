//! The bytes of a file that somebody wrote by hand, as the text they must be: UTF-8, without NUL, of
//! bounded length.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::{Sources, Span};

/// Largest accepted file, in bytes.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Adds the text of the file `name` to `sources`: its number there, or what keeps the bytes from being a
/// text. Of a longer file, one byte beyond [`FILE_BYTES_MAX`] is enough.
pub fn add(name: &str, bytes: &[u8], sources: &mut Sources) -> Result<u32, Box<Diagnostic>> {
    if bytes.len() > FILE_BYTES_MAX {
        let source = sources.add(name, "");
        let message = format!("the file is larger than the limit of {} MiB", FILE_BYTES_MAX >> 20);
        return Err(diagnostic(source, 0, 0, message, "one file is one pipeline or template"));
    }
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
        let source = sources.add(name, "");
        let message = "the file starts like UTF-16, but must be UTF-8".to_owned();
        return Err(diagnostic(source, 0, 0, message, SAVE));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let source = sources.add(name, text);
            match text.find('\0') {
                None => Ok(source),
                Some(at) => {
                    let message =
                        format!("the byte at offset {at} is NUL, which a text cannot contain");
                    let help = "remove it; where every second byte is NUL, the file is UTF-16 and must \
                                be saved as UTF-8";
                    Err(diagnostic(source, at, 1, message, help))
                }
            }
        }
        Err(error) => {
            let at = error.valid_up_to();
            // What follows is shown as far as it can be; up to the place, both texts are the same.
            let source = sources.add(name, String::from_utf8_lossy(bytes));
            let message = format!("the byte {:#04x} at offset {at} is not valid UTF-8", bytes[at]);
            Err(diagnostic(source, at, char::REPLACEMENT_CHARACTER.len_utf8(), message, SAVE))
        }
    }
}

const SAVE: &str = "save the file as UTF-8";

fn diagnostic(source: u32, at: usize, len: usize, message: String, help: &str) -> Box<Diagnostic> {
    let span = Span { source, start: at as u32, end: (at + len) as u32 };
    Box::new(Diagnostic::error(Code::Syntax, span, "", message).with_help(help.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> (String, (usize, usize)) {
        let mut sources = Sources::default();
        let diagnostic = add("t.yaml", bytes, &mut sources).unwrap_err();
        let place = sources.position(diagnostic.span);
        assert!(!diagnostic.render(&sources, false).as_str().is_empty());
        (diagnostic.message, place)
    }

    #[test]
    fn bytes_that_are_no_text_have_a_place() {
        let cases: [(&[u8], &str, (usize, usize)); 6] = [
            (b"a: 1\nb: caf\xe9 \xff\n", "the byte 0xe9 at offset 11 is not valid UTF-8", (2, 7)),
            (b"\xc3\xa9\n\xc3", "the byte 0xc3 at offset 3 is not valid UTF-8", (2, 1)),
            (b"a: 1\nb\0: 2\n", "the byte at offset 6 is NUL, which a text cannot contain", (2, 2)),
            (b"a\0:\0", "the byte at offset 1 is NUL, which a text cannot contain", (1, 2)),
            (b"\xff\xfea\0", "the file starts like UTF-16, but must be UTF-8", (1, 1)),
            (b"\xfe\xff\0a", "the file starts like UTF-16, but must be UTF-8", (1, 1)),
        ];
        for (bytes, message, place) in cases {
            assert_eq!(refused(bytes), (message.to_owned(), place));
        }
    }

    #[test]
    fn a_file_may_be_as_long_as_is_accepted() {
        let longest = vec![b' '; FILE_BYTES_MAX];
        assert!(add("t.yaml", &longest, &mut Sources::default()).is_ok());
        let longer = vec![b' '; FILE_BYTES_MAX + 1];
        assert!(refused(&longer).0.contains("4 MiB"));
    }
}
