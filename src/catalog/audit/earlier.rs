//! Where the log has earlier entries about a pipeline: an index that each entry carries.
//!
//! Names differ in the bits of their SHA-256. An entry names the last entries about its own pipeline, and for each
//! number of first bits the last entry whose name has these bits and another one next: from any entry, the last one about
//! any pipeline is found in about as many steps as the number of pipelines has bits, however many entries stand between.

use std::collections::BTreeMap;

use proofmill_base::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::audit::entry::AuditEntry;

/// The name of the index among the extensions of an entry.
pub const EARLIER: &str = "earlier";
/// Entries about the same pipeline that an entry names.
const SAME_MAX: usize = 16;
/// Bits of a hashed name.
const BITS: u16 = 256;

/// Where the log has earlier entries, as an entry names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// The first entry that the index covers: one before it is in no index.
    pub since: u64,
    /// The last entries about the same pipeline, latest first.
    pub same: Vec<u64>,
    /// By a number of bits, the last entry whose hashed name has these first bits of that of this one, and another next bit.
    pub others: BTreeMap<u16, u64>,
}

impl Earlier {
    /// That of an entry; `None` if it carries none, as those of older programs.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn of(entry: &AuditEntry) -> Result<Option<Self>, String> {
        let Some(value) = entry.extensions.get(EARLIER) else { return Ok(None) };
        let found = Self::deserialize(value)
            .map_err(|error| format!("has an index that cannot be read: {error}"))?;
        let all = || found.same.iter().chain(found.others.values());
        let is_right = all().all(|seq| (found.since..entry.seq).contains(seq))
            && found.since <= entry.seq
            && found.same.is_sorted_by(|a, b| a > b)
            && found.others.keys().all(|bits| *bits < BITS);
        match is_right {
            true => Ok(Some(found)),
            false => Err("has an index of entries that are not before it".to_owned()),
        }
    }
}

/// The name that stands for what an entry is about: its pipeline, or nothing.
pub fn topic(entry: &AuditEntry) -> &str {
    entry.event.pipeline().map_or("", |pipeline| pipeline.as_str())
}

/// A search for the last entry about a pipeline, from the last entry of the log on. What it passes on its way is the index of
/// the next entry about it.
#[derive(Debug)]
pub struct Descent {
    name: Digest,
    /// First bits in which the entry that is sought next has the name.
    bits: u16,
    found: Earlier,
}

impl Descent {
    pub fn to(topic: &str) -> Self {
        Self { name: Digest::of(topic.as_bytes()), bits: 0, found: Earlier::default() }
    }

    /// Takes in an entry and its index, and gives the entry to look at next; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the index leads elsewhere than it says.
    pub fn step(&mut self, entry: &AuditEntry, index: &Earlier) -> Result<Option<u64>, String> {
        let alike = alike(self.name, Digest::of(topic(entry).as_bytes()));
        let end = alike.unwrap_or(BITS);
        if end < self.bits {
            return Err("is about another pipeline than an index says".to_owned());
        }
        self.found.since = index.since;
        let passed = index.others.range(self.bits..end).map(|(bits, seq)| (*bits, *seq));
        self.found.others.extend(passed);
        let Some(bits) = alike else {
            let same = std::iter::once(&entry.seq).chain(&index.same);
            self.found.same = same.copied().take(SAME_MAX).collect();
            return Ok(None);
        };
        self.found.others.insert(bits, entry.seq);
        self.bits = bits + 1;
        Ok(index.others.get(&bits).copied())
    }

    /// The index of the next entry about the pipeline.
    pub fn end(self) -> Earlier {
        self.found
    }
}

/// The indexes of a log as they must be, by a look at all its entries in order.
#[derive(Debug, Default)]
pub struct Indexed {
    /// The first entry that the indexes cover; `None` after an entry without one.
    since: Option<u64>,
    /// The entries about each pipeline from there on, latest first.
    same: BTreeMap<String, (Digest, Vec<u64>)>,
}

impl Indexed {
    /// Takes in the next entry, and gives what is wrong with its index.
    pub fn add(&mut self, entry: &AuditEntry) -> Option<String> {
        let index = match Earlier::of(entry) {
            Ok(Some(index)) => index,
            other => {
                *self = Self::default();
                return other.err();
            }
        };
        let since = *self.since.get_or_insert(entry.seq);
        let (topic, name) = (topic(entry), Digest::of(topic(entry).as_bytes()));
        let mut expected = Earlier { since, ..Earlier::default() };
        for (other, seqs) in self.same.values() {
            match alike(name, *other) {
                None => expected.same.clone_from(seqs),
                Some(bits) => {
                    let last = expected.others.entry(bits).or_default();
                    *last = seqs.first().copied().unwrap_or_default().max(*last);
                }
            }
        }
        let of_topic = self.same.entry(topic.to_owned()).or_insert((name, Vec::new()));
        of_topic.1.insert(0, entry.seq);
        of_topic.1.truncate(SAME_MAX);
        (index != expected)
            .then(|| "has an index that is not that of the entries before it".to_owned())
    }
}

/// The number of first bits that two digests have in common; `None` if they are equal.
fn alike(one: Digest, other: Digest) -> Option<u16> {
    let bytes = one.as_bytes().iter().zip(other.as_bytes());
    let (at, differing) = bytes.map(|(a, b)| a ^ b).enumerate().find(|(_, xor)| *xor != 0)?;
    Some(at as u16 * 8 + differing.leading_zeros() as u16)
}
