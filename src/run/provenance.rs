//! What a run records of where it comes from: the build of the program, the machine, the files.

use std::collections::BTreeMap;
use std::fs::File;

use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};

use proofmill_base::digest::Digest;
use crate::session::Limits;
use proofmill_pipeline::source::Sources;
use proofmill_store::Machine;

/// Versions of the code that takes part in a run, and the very build of this program.
pub fn code_versions() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("proofmill".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("datafusion".to_owned(), datafusion::DATAFUSION_VERSION.to_owned()),
        ("build".to_owned(), build_id().unwrap_or_else(|| "unknown".to_owned())),
    ])
}

/// The digest that the linker made of this program; `None` if it made none. Only the notes of its
/// segments are read: symbols are many.
fn build_id() -> Option<String> {
    let program = ReadCache::new(File::open(std::env::current_exe().ok()?).ok()?);
    let header = FileHeader64::<Endianness>::parse(&program).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, &program).ok()? {
        let Some(mut notes) = segment.notes(endian, &program).ok()? else { continue };
        while let Some(note) = notes.next().ok()? {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
            }
        }
    }
    None
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
