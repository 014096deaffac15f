//! Facts that cannot both be true, and facts of which that is worth a look.

use std::fmt;

use crate::memory::{Row, Sentence};
use proofmill_udfs::text::negation::{Claim, claim, is_article};

/// What a thing can be only one of, so that two different ones are worth a look.
const SINGLE: [&str; 3] = [" is made of ", " are made of ", " was born in "];

/// How two facts conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// One is the negation of the other.
    Contradiction,
    /// They give one thing two different ends: `made of copper`, `made of iron`.
    Possible,
}

/// A fact that conflicts with another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    pub clash: Clash,
    pub fact: Sentence,
    pub with: Row,
}

/// What a fact claims, made once to be compared often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stance {
    claim: Claim,
    /// What of which there is one, and which one it is.
    single: Option<(String, String)>,
}

impl Clash {
    /// The words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contradiction => "conflict",
            Self::Possible => "possible conflict",
        }
    }
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Conflict {
    /// The other fact with its entry.
    pub fn other(&self) -> String {
        format!("entry {}, \"{}\"", self.with.entry, self.with.text())
    }
}

impl Stance {
    /// The stance of a fact.
    pub fn of(fact: &Sentence) -> Self {
        let claim = claim(fact.as_str());
        let single = if claim.denied { None } else { single(&fact.key()) };
        Self { claim, single }
    }

    /// How two facts conflict, if they do.
    pub fn clash(&self, other: &Self) -> Option<Clash> {
        if self.claim.affirmed == other.claim.affirmed {
            return (self.claim.denied != other.claim.denied).then_some(Clash::Contradiction);
        }
        let ((of, one), (of_other, another)) = (self.single.as_ref()?, other.single.as_ref()?);
        // `copper` and `copper and zinc` do not exclude each other.
        let apart = !one.contains(another.as_str()) && !another.contains(one.as_str());
        (of == of_other && apart).then_some(Clash::Possible)
    }
}

fn single(key: &str) -> Option<(String, String)> {
    let plain: Vec<&str> = key.split_whitespace().filter(|word| !is_article(word)).collect();
    let plain = plain.join(" ");
    let (mark, (of, one)) =
        SINGLE.iter().find_map(|mark| plain.split_once(mark).map(|split| (mark, split)))?;
    Some((format!("{of}{mark}"), one.to_owned()))
}
