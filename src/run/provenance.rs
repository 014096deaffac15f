//! What a run records of where it comes from: the build of the program, the machine, the files.

use std::collections::BTreeMap;

use crate::session::Limits;
use proofmill_base::digest::Digest;
use proofmill_pipeline::source::Sources;
use proofmill_store::Machine;

/// Versions of the code that takes part in a run, and the digest of all sources and options that this program was built from.
pub fn code_versions() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("proofmill".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("datafusion".to_owned(), datafusion::DATAFUSION_VERSION.to_owned()),
        ("build".to_owned(), env!("PROOFMILL_BUILD").to_owned()),
    ])
}

/// This machine, and what of it the run may use.
pub fn machine(limits: &Limits) -> Machine {
    Machine {
        host: host().unwrap_or_else(|| "unknown".to_owned()),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        jobs: limits.cores,
        memory_bytes: limits.memory_bytes as u64,
    }
}

/// The name of this host, as Linux tells it.
fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The templates among `sources`, whose first is the pipeline file, with the digests of their texts.
pub fn templates(sources: &Sources) -> BTreeMap<String, Digest> {
    let templates = sources.all().skip(1);
    templates.map(|source| (source.name.clone(), Digest::of(source.text.as_bytes()))).collect()
}
