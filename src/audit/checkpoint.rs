//! Checkpoints of the audit log: which entries it had, in a form that other programs verify (C2SP `tlog-checkpoint`).
//!
//! A checkpoint that is kept outside the store is an *anchor*: whatever is done to the store afterwards, the log that it
//! names can be compared with the log that is there.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use proofmill_base::digest::Digest;
use proofmill_base::merkle::{Tree, leaf_hash};
use proofmill_catalog::audit::log::{LogHead, StoredAuditEntry};
use proofmill_store::{
    Created, Format, Key, Store, StoreError, checkpoint_note_key, checkpoint_notes_prefix,
};

use crate::note::{NoteError, SignedNote, Signer, Verifier};

/// The size and the root of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log: `proofmill/` and the identity of the store.
    pub origin: String,
    /// Entries.
    pub size: u64,
    /// Root of the hash tree of RFC 6962 over their stored bytes.
    pub root: Digest,
}

/// The name of the log of a store.
pub fn origin(format: &Format) -> String {
    format!("proofmill/{}", format.store)
}

impl Checkpoint {
    /// That of the log of `store` at its head; of an empty log, of no entries.
    pub fn at(store: &Store, head: Option<&LogHead>) -> Self {
        let tree = head.map(|head| head.state.tree.clone()).unwrap_or_default();
        Self { origin: origin(store.format()), size: tree.size(), root: tree.root() }
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.origin, self.size, BASE64.encode(self.root.as_bytes()))
    }
}

impl FromStr for Checkpoint {
    type Err = NoteError;

    /// Reads the text of a note. Further lines are extensions, and mean nothing here.
    fn from_str(text: &str) -> Result<Self, NoteError> {
        let malformed = NoteError::Malformed;
        let mut lines = text.lines();
        let origin = lines.next().filter(|origin| !origin.is_empty());
        let origin = origin.ok_or(malformed("its first line names no log"))?.to_owned();
        let size = lines.next().filter(|size| *size == "0" || !size.starts_with(['0', '+']));
        let size = size.and_then(|size| size.parse().ok());
        let size = size.ok_or(malformed("its second line is not the size of a log"))?;
        let root = lines.next().and_then(|root| BASE64.decode(root).ok());
        let root = root.and_then(|root| <[u8; 32]>::try_from(root).ok());
        let root = root.ok_or(malformed("its third line is not the root of a log"))?;
        Ok(Self { origin, size, root: root.into() })
    }
}

/// An anchor: a checkpoint, with signatures if it has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub checkpoint: Checkpoint,
    /// `None` for a checkpoint without signatures, which proves as much as the place where it was kept.
    note: Option<SignedNote>,
    /// The bytes, which a timestamp is of.
    pub text: String,
}

impl Anchor {
    /// An anchor of `checkpoint`, signed if there is a key.
    pub fn new(checkpoint: Checkpoint, signer: Option<&Signer>) -> Self {
        let note = signer.map(|signer| signer.sign(&checkpoint.to_string()));
        let text = note.as_ref().map_or_else(|| checkpoint.to_string(), ToString::to_string);
        Self { checkpoint, note, text }
    }

    /// True if it has signatures.
    pub fn is_signed(&self) -> bool {
        self.note.is_some()
    }

    /// Checks the signature of a key.
    ///
    /// # Errors
    ///
    /// If there is none, or it is not valid.
    pub fn verify(&self, verifier: &Verifier) -> Result<(), NoteError> {
        match &self.note {
            Some(note) => note.verify(verifier),
            None => Err(NoteError::Unsigned(verifier.name().to_owned())),
        }
    }

    /// What the log is that it should be that of: `entries` from the first, without a gap.
    pub fn compare(&self, format: &Format, entries: &[StoredAuditEntry]) -> Compared {
        let Checkpoint { origin: named, size, root } = &self.checkpoint;
        if *named != origin(format) {
            return Compared::OtherLog;
        }
        let size = usize::try_from(*size).unwrap_or(usize::MAX);
        let Some(first) = entries.get(..size) else { return Compared::Shorter };
        let tree: Tree = first.iter().map(|stored| leaf_hash(&stored.bytes)).collect();
        match tree.root() == *root {
            true => Compared::Continued,
            false => Compared::Rewritten,
        }
    }
}

impl FromStr for Anchor {
    type Err = NoteError;

    fn from_str(text: &str) -> Result<Self, NoteError> {
        let note = match text.contains("\n\n") {
            true => Some(text.parse::<SignedNote>()?),
            false => None,
        };
        let checkpoint = note.as_ref().map_or(text, SignedNote::text).parse()?;
        Ok(Self { checkpoint, note, text: text.to_owned() })
    }
}

/// What a log is to an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// It begins with the entries of the anchor.
    Continued,
    /// Another store's.
    OtherLog,
    /// Entries that the anchor names are gone.
    Shorter,
    /// Its entries are others than those of the anchor.
    Rewritten,
}

/// Stores a signed checkpoint of the log beside it. One of the same size that is there already stays.
///
/// # Errors
///
/// If the store fails.
pub async fn keep(store: &Store, head: &LogHead, signer: &Signer) -> Result<(), StoreError> {
    let checkpoint = Checkpoint::at(store, Some(head));
    let key = checkpoint_note_key(checkpoint.size);
    let text = Anchor::new(checkpoint, Some(signer)).text;
    match store.create(&key, text.into()).await? {
        Created::Won | Created::Lost(_) => Ok(()),
    }
}

/// The checkpoints that lie beside the log, by their keys, as far as they can be read.
///
/// # Errors
///
/// If the store fails.
pub async fn kept(store: &Store) -> Result<Vec<(Key, Result<Anchor, NoteError>)>, StoreError> {
    let keys = store.list(&checkpoint_notes_prefix()).await?;
    let found = store.get_all(&keys).await?;
    let anchors = keys.into_iter().zip(found).filter_map(|(key, bytes)| {
        let text = String::from_utf8(bytes?.to_vec()).ok();
        let anchor = text.ok_or(NoteError::Malformed("it is not UTF-8"));
        Some((key, anchor.and_then(|text| text.parse())))
    });
    Ok(anchors.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_reads_back_and_is_one_to_another_program() {
        let leaf = leaf_hash(b"entry");
        let root = [leaf, leaf, leaf].into_iter().collect::<Tree>().root();
        let checkpoint = Checkpoint { origin: "proofmill/1".into(), size: 3, root };
        let signer = Signer::of_seed("proofmill/1", [3; 32]).unwrap();
        let anchor = Anchor::new(checkpoint.clone(), Some(&signer));
        assert_eq!(anchor.text.parse::<Anchor>().unwrap(), anchor);
        anchor.verify(&signer.verifier()).unwrap();
        let bare = Anchor::new(checkpoint.clone(), None);
        assert_eq!(bare.text.parse::<Anchor>().unwrap(), bare);
        assert!(bare.verify(&signer.verifier()).is_err());

        let theirs = tlog_tiles::Checkpoint::from_bytes(checkpoint.to_string().as_bytes());
        let theirs = theirs.unwrap();
        assert_eq!((theirs.origin(), theirs.size()), ("proofmill/1", 3));
        assert_eq!(theirs.hash().0, *root.as_bytes());
    }

    #[test]
    fn what_is_no_checkpoint_is_refused() {
        for text in ["", "a", "a\n1\n", "a\n01\n\n", "a\n-1\nAA==\n", "\n1\nAA==\n", "a\n1\nAA==\n"]
        {
            assert!(text.parse::<Checkpoint>().is_err(), "{text:?}");
        }
    }
}
