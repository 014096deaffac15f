//! Signed notes and their keys, as in C2SP `signed-note` v1.0.0, with Ed25519 signatures.
//!
//! Our own code: the published crate is two generations behind on its cryptographic dependencies.
//! The tests hold it against that crate and against the vectors of the specification.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use proofmill_base::digest::{Digest, hex};

/// The type of an Ed25519 key or signature.
const ED25519: u8 = 1;
/// What a private key begins with.
const PRIVATE: &str = "PRIVATE+KEY+";
/// What a line with a signature begins with: an em dash and a space.
const SIGNATURE: &str = "\u{2014} ";
/// Signatures that a note may have.
const SIGNATURES_MAX: usize = 100;
/// Bytes that a note may have.
const NOTE_BYTES_MAX: usize = 1 << 20;

/// Why a text is not a key or not a signed note, or does not verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    #[error("this is not a key: {0}")]
    Key(&'static str),
    #[error("this is not a signed note: {0}")]
    Malformed(&'static str),
    #[error("it has no signature of the key `{0}`")]
    Unsigned(String),
    #[error("its signature of the key `{0}` is not valid")]
    Invalid(String),
}

/// A key that verifies: its name, and the public half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    name: String,
    key: VerifyingKey,
}

/// A key that signs. It shows nothing of itself.
#[derive(Clone)]
pub struct Signer {
    name: String,
    key: SigningKey,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.name)
    }
}

/// The first bytes of the digest of a key, which a signature line names.
fn key_id(name: &str, key: &VerifyingKey) -> [u8; 4] {
    let mut text = name.as_bytes().to_vec();
    text.extend_from_slice(&[b'\n', ED25519]);
    text.extend_from_slice(key.as_bytes());
    let digest = Digest::of(&text);
    let [a, b, c, d, ..] = *digest.as_bytes();
    [a, b, c, d]
}

fn checked_name(name: &str) -> Result<String, NoteError> {
    let fits =
        !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '+');
    fits.then(|| name.to_owned())
        .ok_or(NoteError::Key("its name is empty, or has a space or a `+`"))
}

/// The parts of a written key: its name, and the 32 bytes of its half.
fn parts(text: &str) -> Result<(String, String, [u8; 32]), NoteError> {
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(NoteError::Key("expected a name, an id and a key with `+` between them"));
    };
    let key = BASE64.decode(key).map_err(|_| NoteError::Key("it is not base64"))?;
    let [ED25519, key @ ..] = key.as_slice() else {
        return Err(NoteError::Key("it is not an Ed25519 key"));
    };
    let key = key.try_into().map_err(|_| NoteError::Key("it has not 32 bytes"))?;
    Ok((checked_name(name)?, id.to_owned(), key))
}

impl FromStr for Verifier {
    type Err = NoteError;

    /// Reads `name+id+base64`.
    fn from_str(text: &str) -> Result<Self, NoteError> {
        if text.trim().starts_with(PRIVATE) {
            return Err(NoteError::Key("it is a private key, which must stay with its owner"));
        }
        let (name, id, key) = parts(text.trim())?;
        let key = VerifyingKey::from_bytes(&key)
            .map_err(|_| NoteError::Key("it is not a point of the curve"))?;
        match id == hex(&key_id(&name, &key)) {
            true => Ok(Self { name, key }),
            false => Err(NoteError::Key("its id is that of another key")),
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![ED25519];
        key.extend_from_slice(self.key.as_bytes());
        write!(f, "{}+{}", self.id(), BASE64.encode(key))
    }
}

impl Verifier {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name and the first bytes of its digest: what a signature names.
    pub fn id(&self) -> String {
        format!("{}+{}", self.name, hex(&key_id(&self.name, &self.key)))
    }
}

impl Signer {
    /// The key of this name with these secret bytes, which must be random.
    ///
    /// # Errors
    ///
    /// If no key can have such a name.
    pub fn of_seed(name: &str, seed: [u8; 32]) -> Result<Self, NoteError> {
        Ok(Self { name: checked_name(name)?, key: SigningKey::from_bytes(&seed) })
    }

    /// The key that verifies what this one signs.
    pub fn verifier(&self) -> Verifier {
        Verifier { name: self.name.clone(), key: self.key.verifying_key() }
    }

    /// The secret, as the file of a key has it.
    pub fn secret(&self) -> String {
        let mut key = vec![ED25519];
        key.extend_from_slice(self.key.as_bytes());
        let id = hex(&key_id(&self.name, &self.key.verifying_key()));
        format!("{PRIVATE}{}+{id}+{}", self.name, BASE64.encode(key))
    }

    /// The bare signature over some bytes, for other formats than notes.
    pub fn signature(&self, bytes: &[u8]) -> [u8; 64] {
        self.key.sign(bytes).to_bytes()
    }

    /// A note of `text`, which ends with a line end, with the signature of this key.
    pub fn sign(&self, text: &str) -> SignedNote {
        let signature = self.key.sign(text.as_bytes()).to_bytes();
        let mut bytes = key_id(&self.name, &self.key.verifying_key()).to_vec();
        bytes.extend_from_slice(&signature);
        let signatures = vec![NoteSignature { name: self.name.clone(), bytes }];
        SignedNote { text: text.to_owned(), signatures }
    }
}

impl FromStr for Signer {
    type Err = NoteError;

    /// Reads `PRIVATE+KEY+name+id+base64`.
    fn from_str(text: &str) -> Result<Self, NoteError> {
        let rest = text.trim().strip_prefix(PRIVATE);
        let rest = rest.ok_or(NoteError::Key("expected `PRIVATE+KEY+…`"))?;
        let (name, id, seed) = parts(rest)?;
        let signer = Self::of_seed(&name, seed)?;
        match id == hex(&key_id(&name, &signer.key.verifying_key())) {
            true => Ok(signer),
            false => Err(NoteError::Key("its id is that of another key")),
        }
    }
}

/// A text with signatures, which may be of keys that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNote {
    text: String,
    signatures: Vec<NoteSignature>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NoteSignature {
    name: String,
    /// Four bytes of the id of the key, then the signature.
    bytes: Vec<u8>,
}

impl SignedNote {
    /// The text, with its last line end.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks the signature of a key.
    ///
    /// # Errors
    ///
    /// If there is none, or it is not valid.
    pub fn verify(&self, verifier: &Verifier) -> Result<(), NoteError> {
        let id = key_id(&verifier.name, &verifier.key);
        let mut own = self.signatures.iter().filter(|signature| {
            signature.name == verifier.name && signature.bytes.starts_with(&id)
        });
        let signature = own.next().ok_or_else(|| NoteError::Unsigned(verifier.name.clone()))?;
        let invalid = || NoteError::Invalid(verifier.name.clone());
        let signature = Signature::from_slice(&signature.bytes[4..]).map_err(|_| invalid())?;
        verifier.key.verify_strict(self.text.as_bytes(), &signature).map_err(|_| invalid())
    }
}

impl FromStr for SignedNote {
    type Err = NoteError;

    fn from_str(note: &str) -> Result<Self, NoteError> {
        let malformed = |reason| Err(NoteError::Malformed(reason));
        if note.len() > NOTE_BYTES_MAX {
            return malformed("it is longer than 1 MiB");
        }
        if note.chars().any(|c| c.is_control() && c != '\n') {
            return malformed("it has a control character");
        }
        // The last empty line parts the text from the signatures.
        let Some(at) = note.rfind("\n\n") else { return malformed("it has no signatures") };
        let (text, lines) = (&note[..=at], &note[at + 2..]);
        if lines.is_empty() || !lines.ends_with('\n') {
            return malformed("it does not end with a line of a signature");
        }
        let mut signatures = Vec::new();
        for line in lines.lines() {
            let parts = line.strip_prefix(SIGNATURE).and_then(|rest| rest.split_once(' '));
            let Some((name, signature)) = parts else { return malformed("a line is no signature") };
            let bytes = BASE64.decode(signature).ok().filter(|bytes| bytes.len() > 4);
            let Some(bytes) = bytes else { return malformed("a signature is not base64") };
            if checked_name(name).is_err() {
                return malformed("a signature has no name of a key");
            }
            signatures.push(NoteSignature { name: name.to_owned(), bytes });
            if signatures.len() > SIGNATURES_MAX {
                return malformed("it has more than 100 signatures");
            }
        }
        Ok(Self { text: text.to_owned(), signatures })
    }
}

impl fmt::Display for SignedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|signature| {
            writeln!(f, "{SIGNATURE}{} {}", signature.name, BASE64.encode(&signature.bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key, the text and the signature of the tests of Go's `sumdb/note`, which the specification names.
    const KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const NOTE: &str = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n\n\
        \u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

    #[test]
    fn the_note_of_the_specification_verifies() {
        let verifier: Verifier = KEY.parse().unwrap();
        assert_eq!(verifier.to_string(), KEY);
        let note: SignedNote = NOTE.parse().unwrap();
        assert_eq!(note.to_string(), NOTE);
        note.verify(&verifier).unwrap();
        let changed: SignedNote = NOTE.replace("answer", "question").parse().unwrap();
        assert_eq!(changed.verify(&verifier), Err(NoteError::Invalid("PeterNeumann".into())));
    }

    #[test]
    fn a_key_signs_what_its_verifier_and_another_program_accept() {
        let signer = Signer::of_seed("example.org/log", [7; 32]).unwrap();
        assert_eq!(signer.secret().parse::<Signer>().unwrap().secret(), signer.secret());
        let verifier = signer.verifier();
        let note = signer.sign("one\n\ntwo\n");
        let read: SignedNote = note.to_string().parse().unwrap();
        assert_eq!(read, note);
        read.verify(&verifier).unwrap();
        let other = Signer::of_seed("example.org/log", [8; 32]).unwrap().verifier();
        assert_eq!(read.verify(&other), Err(NoteError::Unsigned("example.org/log".into())));

        let foreign = signed_note::StandardVerifier::new(&verifier.to_string());
        let known = signed_note::VerifierList::new(vec![Box::new(foreign.unwrap())]);
        let theirs = signed_note::Note::from_bytes(note.to_string().as_bytes()).unwrap();
        let (verified, unknown) = theirs.verify(&known).unwrap();
        assert_eq!((verified.len(), unknown.len()), (1, 0));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let signer = Signer::of_seed("a", [1; 32]).unwrap();
        for text in [
            "",
            "a",
            "a+b",
            "a b+00000000+AAAA",
            &signer.secret(),
            &KEY.replace("c74f20a3", "c74f20a4"),
            &KEY.replace("ARpc", "AApc"),
            &KEY[..KEY.len() - 8],
        ] {
            assert!(text.parse::<Verifier>().is_err(), "{text}");
        }
        assert!(KEY.parse::<Signer>().is_err());
        assert!(Signer::of_seed("a b", [1; 32]).is_err());
    }

    #[test]
    fn what_is_no_note_is_refused() {
        for text in [
            "",
            "a\n",
            "a\n\n",
            "a\n\nb\n",
            "a\u{7}\n\n\u{2014} a AAAAAAA=\n",
            &NOTE[..NOTE.len() - 1],
        ] {
            assert!(text.parse::<SignedNote>().is_err(), "{text:?}");
        }
    }
}
