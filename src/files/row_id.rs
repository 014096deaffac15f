//! `row_id`: the identity of a row, from the content of its file and its number in it.

use proofmill_base::digest::Digest;

use crate::error_rows::{ErrorClass, Fault};
use crate::settings::ROW_ID;

/// Bytes of a row id; it is written as twice as many hex digits.
const ROW_ID_BYTES: usize = 16;

/// What is wrong with a record without the identity that all records should have.
pub fn no_row_id() -> Fault {
    Fault {
        class: ErrorClass::Fields,
        column: Some(ROW_ID.to_owned()),
        message: format!("the record has no `{ROW_ID}`, which identifies the rows of this source"),
    }
}

/// Computes the ids of the rows of one file.
pub struct RowIds {
    input: [u8; 40],
    hex: [u8; 2 * ROW_ID_BYTES],
}

impl RowIds {
    /// Ids for the rows of the file with this digest.
    pub fn new(file: &Digest) -> Self {
        let mut input = [0; 40];
        input[..32].copy_from_slice(file.as_bytes());
        Self { input, hex: [b'0'; 2 * ROW_ID_BYTES] }
    }

    /// The id of a record: the first 16 bytes, in hex, of the SHA-256 of the file's digest and
    /// the record's number from 1 as a little-endian `u64`.
    pub fn id(&mut self, record: u64) -> &str {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.input[32..].copy_from_slice(&record.to_le_bytes());
        let digest = Digest::of(&self.input);
        for (pair, byte) in self.hex.chunks_exact_mut(2).zip(digest.as_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        std::str::from_utf8(&self.hex).expect("hex digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_checked_with_sha256sum() {
        let file = Digest::of(b"");
        let mut input = file.as_bytes().to_vec();
        input.extend(258_u64.to_le_bytes());
        assert_eq!(RowIds::new(&file).id(258), &Digest::of(&input).to_string()[..32]);
    }

    #[test]
    fn files_and_records_tell_ids_apart() {
        let mut a = RowIds::new(&Digest::of(b"a"));
        let mut b = RowIds::new(&Digest::of(b"b"));
        assert_ne!(a.id(1).to_owned(), a.id(2));
        assert_ne!(a.id(1), b.id(1));
    }
}
