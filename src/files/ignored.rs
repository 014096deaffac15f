//! Fields that were passed over: they came up after the sample and have no column.

use indexmap::IndexMap;

use crate::limits::IGNORED_NAMES_MAX;

/// Names of fields that were passed over, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored(IndexMap<String, u64>);

impl Ignored {
    /// Counts a field. Beyond the first hundred, new names are not kept.
    pub fn add(&mut self, name: &str) {
        self.add_times(name, 1);
    }

    /// The names, in the order they came up, and how often each did.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, times)| (name.as_str(), *times))
    }

    /// Whether no field was passed over.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts a field that occurred `times`.
    pub(super) fn add_times(&mut self, name: &str, times: u64) {
        if let Some(known) = self.0.get_mut(name) {
            *known += times;
        } else if self.0.len() < IGNORED_NAMES_MAX {
            self.0.insert(name.to_owned(), times);
        }
    }
}
