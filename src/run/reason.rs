//! Why a stage is cached or runs, from what is stored.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use proofmill_base::ids::StageName;
use proofmill_base::secret;

/// Changes that a reason names.
const CHANGES_SHOWN: usize = 3;

/// One part of a fingerprint that is not what it was. What was recorded before secrets in addresses were refused may have
/// one, and shows none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name, such as `settings.top_k`.
    pub component: String,
    /// What it was; `None` if it is new.
    #[serde(serialize_with = "covered")]
    pub old: Option<String>,
    /// What it is; `None` if it is gone.
    #[serde(serialize_with = "covered")]
    pub new: Option<String>,
}

fn covered<S: Serializer>(value: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_deref().map(secret::covered).serialize(serializer)
}

/// Why a stage is cached or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its fingerprint is in the store.
    Stored,
    /// It never ran in this store under this name.
    Never,
    /// Something that counts has changed since it last ran.
    Changed(Vec<Change>),
    /// It calls functions whose value differs between runs.
    Volatile(Vec<String>),
    /// What decides its table does not count for its fingerprint, for this reason.
    Unrepeatable(&'static str),
    Requested,
    /// The store has lost part of its table.
    Lost,
    /// An object of its table is not what its record says.
    Damaged(String),
    /// Its table was made of other tables of these inputs than this run has.
    InputsReplaced(Vec<StageName>),
    /// These inputs run again: it runs if one of them comes out otherwise than before.
    InputsRun(Vec<StageName>),
    /// Its record does not say which tables it was made of.
    InputsUnknown,
    /// So many of its rows failed for a reason that may pass.
    Transient(u64),
    /// The exported file is not what was written.
    ExportChanged,
}

impl Reason {
    /// Compares what counted then with what counts now.
    pub fn compare(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Self {
        let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
        let changes = names.filter_map(|name| {
            let (old, new) = (then.get(name), now.get(name));
            (old != new).then(|| Change {
                component: name.clone(),
                old: old.cloned(),
                new: new.cloned(),
            })
        });
        Self::Changed(changes.collect())
    }
}

/// The first of some stages, and how many more there are.
fn names(stages: &[StageName]) -> String {
    let shown: Vec<_> =
        stages.iter().take(CHANGES_SHOWN).map(|stage| format!("`{stage}`")).collect();
    match stages.len().saturating_sub(CHANGES_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored => write!(f, "its fingerprint is in the store"),
            Self::Never => write!(f, "it never ran in this store"),
            Self::Changed(changes) => {
                let names = changes.iter().map(|change| change.component.as_str());
                let shown: Vec<_> = names.take(CHANGES_SHOWN).collect();
                match changes.len().saturating_sub(CHANGES_SHOWN) {
                    0 => write!(f, "{} changed", shown.join(", ")),
                    more => write!(f, "{} and {more} more changed", shown.join(", ")),
                }
            }
            Self::Volatile(functions) => {
                write!(f, "it calls {}, which differs between runs", functions.join(", "))
            }
            Self::Unrepeatable(why) => write!(f, "{why}"),
            Self::Requested => write!(f, "a rerun was requested"),
            Self::Lost => write!(f, "part of its table is missing from the store"),
            Self::Damaged(error) => write!(f, "{error}"),
            Self::InputsReplaced(inputs) => {
                write!(f, "it was computed from another table of {}", names(inputs))
            }
            Self::InputsRun(inputs) => {
                write!(f, "it runs if {} changes", names(inputs))
            }
            Self::InputsUnknown => {
                write!(f, "an older proofmill did not record which tables it was computed from")
            }
            Self::Transient(1) => write!(f, "1 row failed with a transient error"),
            Self::Transient(rows) => write!(f, "{rows} rows failed with transient errors"),
            Self::ExportChanged => write!(f, "the exported file differs from what was written"),
        }
    }
}
