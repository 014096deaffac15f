//! Format and compression of a file: determined by its name, checked against its first bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::FilesError;
use crate::format::{Beginning, FORMATS, FormatTraits, traits};
use proofmill_pipeline::kinds::read::{Compression, Format};

/// What the name of a file says: its format, and its compression.
pub fn by_name(name: &str) -> (Option<Format>, Compression) {
    let name = name.to_lowercase();
    let (stem, compression) = match name.rsplit_once('.') {
        Some((stem, "gz")) => (stem, Compression::Gzip),
        Some((stem, "zst" | "zstd")) => (stem, Compression::Zstd),
        _ => (name.as_str(), Compression::None),
    };
    let ending = stem.rsplit_once('.').map(|(_, ending)| ending);
    let format = ending.and_then(|ending| {
        FORMATS.into_iter().find(|format| traits(*format).endings.contains(&ending))
    });
    (format, compression)
}

/// The one format of all files, from the settings or else from their names.
pub fn one_format<'a>(
    set: Option<Format>,
    paths: impl IntoIterator<Item = &'a str>,
) -> Result<Format, FilesError> {
    let mut first = None;
    for path in paths {
        let format = set
            .or_else(|| by_name(path).0)
            .ok_or_else(|| FilesError::UnknownFormat { path: path.to_owned() })?;
        let (first, known) = *first.get_or_insert((path, format));
        if known != format {
            return Err(FilesError::MixedFormats {
                first: first.to_owned(),
                first_format: traits(known).name,
                second: path.to_owned(),
                second_format: traits(format).name,
            });
        }
    }
    first.map(|(_, format)| format).ok_or(FilesError::NoPaths)
}

/// The compression of a file, from the settings or else from its name. Its first bytes must agree,
/// and must not be those of another format.
pub fn compression(
    set: Option<Compression>,
    format: Format,
    shown: &str,
    path: &Path,
) -> Result<Compression, FilesError> {
    let compression = set.unwrap_or_else(|| by_name(shown).1);
    let FormatTraits { name, settings, begins, .. } = traits(format);
    if !settings.contains(&"compression") && compression != Compression::None {
        return Err(FilesError::NotForFormat { field: "compression", format: name });
    }
    let content = |fact, field, help: &str| {
        Err(FilesError::Content { path: shown.to_owned(), fact, field, help: help.to_owned() })
    };
    let found = magic(path).map_err(|error| FilesError::io(shown, error))?;
    match (compression, found, format) {
        (Compression::Gzip, Some(Magic::Gzip), _) | (Compression::Zstd, Some(Magic::Zstd), _) => {}
        (Compression::Gzip, ..) => {
            return content("is not gzip", "compression", "set `compression` to what it is");
        }
        (Compression::Zstd, ..) => {
            return content("is not zstd", "compression", "set `compression` to what it is");
        }
        (Compression::None, Some(Magic::Gzip), _) if set.is_none() => {
            return content("is gzip-compressed", "compression", "set `compression: gzip`");
        }
        (Compression::None, Some(Magic::Zstd), _) if set.is_none() => {
            return content("is zstd-compressed", "compression", "set `compression: zstd`");
        }
        (Compression::None, Some(Magic::Format(found, _)), format) if found == format => {}
        (Compression::None, Some(Magic::Format(found, beginning)), _) => {
            let help = format!("set `format: {}`", traits(found).name);
            return content(beginning.is, "format", &help);
        }
        (Compression::None, ..) => {
            if let Some(beginning) = begins {
                return content(beginning.is_not, "format", "set `format` to what it is");
            }
        }
    }
    Ok(compression)
}

enum Magic {
    Gzip,
    Zstd,
    Format(Format, Beginning),
}

/// What the first bytes of a file say.
fn magic(path: &Path) -> io::Result<Option<Magic>> {
    let mut start = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut start)?;
    Ok(match start[..] {
        [0x1f, 0x8b, ..] => Some(Magic::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Magic::Zstd),
        _ => FORMATS.into_iter().find_map(|format| {
            let beginning = traits(format).begins?;
            start.starts_with(beginning.bytes).then_some(Magic::Format(format, beginning))
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_format_and_compression() {
        for (name, format, compression) in [
            ("a.jsonl", Some(Format::Jsonl), Compression::None),
            ("a.b.NDJSON", Some(Format::Jsonl), Compression::None),
            ("a.json.gz", Some(Format::Json), Compression::Gzip),
            ("a.tsv.zst", Some(Format::Tsv), Compression::Zstd),
            ("a.csv.zstd", Some(Format::Csv), Compression::Zstd),
            ("a.lines", Some(Format::Lines), Compression::None),
            ("a.gz", None, Compression::Gzip),
            ("jsonl", None, Compression::None),
            ("a.md", None, Compression::None),
        ] {
            assert_eq!(by_name(name), (format, compression), "{name}");
        }
    }
}
