//! Opening: finds the files, digests them, and tells the schema from a sample.

use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use crate::files::detect::{compression, one_format};
use crate::files::error::FilesError;
use crate::files::limits::{SAMPLE_BYTES_MAX, SAMPLE_RECORDS};
use crate::files::locate::locate;
use crate::files::parquet;
use crate::files::records::Records;
use crate::files::sample::Sample;
use crate::files::settings::Options;
use crate::files::source::{Layout, Source, SourceFile};
use crate::files::stream::{Tap, digest_of, open_text};
use crate::spec::kinds::read::{Compression, Format, Read};

/// Opens the files of a `read`: finds them, digests them, and tells the schema from them.
pub fn open(settings: &Read) -> Result<Source, FilesError> {
    let located = locate(&settings.path)?;
    let format = one_format(settings.format, located.iter().map(|file| file.shown.as_str()))?;
    let options = Options::new(settings, format)?;
    let mut files = Vec::with_capacity(located.len());
    for file in located {
        let (path, location) = (file.shown, file.path);
        let compression = compression(options.compression, format, &path, &location)?;
        let modified = modified(&location);
        let (digest, bytes) = digest_of(&location).map_err(|error| FilesError::io(&path, error))?;
        files.push(SourceFile {
            path,
            bytes,
            digest,
            location,
            compression,
            modified,
            header: None,
            groups: Vec::new(),
        });
    }
    same_content(&files)?;
    match format {
        Format::Parquet => open_parquet(files, &options),
        _ => open_texts(files, options),
    }
}

/// Opens a text file at its first record.
pub fn open_records(file: &SourceFile, options: &Options) -> Result<(Records, Tap), FilesError> {
    let (text, tap) = open_text(&file.location, file.compression, options.encoding)
        .map_err(|error| FilesError::io(&file.path, error))?;
    let delimited = matches!(options.format, Format::Csv | Format::Tsv);
    let named = delimited && options.header;
    let width = file.header.as_ref().map(Vec::len).filter(|_| !named);
    let mut records = Records::open(&file.path, text, options, width)?;
    if named && file.header.is_some() {
        records.header()?;
    }
    Ok((records, tap))
}

/// When a file was last written, where the host knows.
pub fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Rows of equal files would have equal identities.
fn same_content(files: &[SourceFile]) -> Result<(), FilesError> {
    let mut seen = HashMap::new();
    for file in files.iter().filter(|file| file.bytes > 0) {
        if let Some(first) = seen.insert(file.digest, &file.path) {
            let (first, second) = (first.clone(), file.path.clone());
            return Err(FilesError::SameContent { first, second });
        }
    }
    Ok(())
}

fn open_parquet(mut files: Vec<SourceFile>, options: &Options) -> Result<Source, FilesError> {
    let plan = parquet::plan(&mut files, options)?;
    let rows = files.iter().flat_map(|file| &file.groups).map(|group| group.rows).sum();
    let schema = plan.schema();
    Ok(Source { files, schema, layout: Layout::Parquet(plan), rows_estimate: Some(rows) })
}

fn open_texts(mut files: Vec<SourceFile>, options: Options) -> Result<Source, FilesError> {
    read_headers(&mut files, &options)?;
    let mut sample = Sample::new(&options);
    files.iter().for_each(|file| sample.header(file.header.as_deref().unwrap_or_default()));
    let mut seen = Seen::default();
    for file in &files {
        if !seen.enough() {
            seen.look_at(file, &options, &mut sample)?;
        } else {
            seen.cut = true;
        }
    }
    let plan = sample.plan()?;
    let schema = plan.schema();
    let rows_estimate = seen.estimate(files.iter().map(|file| file.bytes).sum());
    Ok(Source { files, schema, layout: Layout::Text { options, plan }, rows_estimate })
}

/// How much of the files the sample has seen.
#[derive(Default)]
struct Seen {
    records: u64,
    text_bytes: u64,
    file_bytes: f64,
    cut: bool,
}

impl Seen {
    fn enough(&self) -> bool {
        self.records >= SAMPLE_RECORDS || self.text_bytes >= SAMPLE_BYTES_MAX
    }

    fn look_at(
        &mut self,
        file: &SourceFile,
        options: &Options,
        sample: &mut Sample<'_>,
    ) -> Result<(), FilesError> {
        let (mut records, tap) = open_records(file, options)?;
        let header = file.header.as_deref().unwrap_or_default();
        let before = self.text_bytes;
        while !self.enough() {
            let Some(record) = records.next()? else {
                self.file_bytes += file.bytes as f64;
                return Ok(());
            };
            self.records += 1;
            self.text_bytes += record.raw.len() as u64;
            if let Ok(content) = &record.content {
                sample.add(content, header)?;
            }
        }
        self.cut = records.next()?.is_some();
        let text_bytes = self.text_bytes - before;
        self.file_bytes += match (records.text_bytes(), file.compression) {
            (Some(whole), _) => file.bytes as f64 * text_bytes as f64 / whole.max(1) as f64,
            (None, Compression::None) if options.encoding.is_none() => text_bytes as f64,
            (None, _) => tap.bytes_read() as f64,
        };
        Ok(())
    }

    fn estimate(&self, file_bytes: u64) -> Option<u64> {
        if !self.cut {
            return Some(self.records);
        }
        let rows = self.records as f64 * file_bytes as f64 / self.file_bytes;
        rows.is_finite().then_some(rows as u64)
    }
}

/// Names the cells of formats that have cells, and checks that all files have the same.
fn read_headers(files: &mut [SourceFile], options: &Options) -> Result<(), FilesError> {
    let mut first: Option<(String, Vec<String>)> = None;
    for file in files {
        let header = match (options.format, &first) {
            (Format::Jsonl | Format::Json | Format::Parquet, _) => return Ok(()),
            (Format::Lines, _) => vec!["line".to_owned()],
            (Format::Csv | Format::Tsv, Some((_, known))) if !options.header => known.clone(),
            (Format::Csv | Format::Tsv, _) => read_header(file, options)?,
        };
        match &first {
            Some((path, known)) if !header.is_empty() => same_columns(path, known, file, &header)?,
            None if !header.is_empty() => first = Some((file.path.clone(), header.clone())),
            _ => {}
        }
        file.header = Some(header);
    }
    Ok(())
}

/// The names in the first line, or numbered names for the cells of the first whole record.
fn read_header(file: &SourceFile, options: &Options) -> Result<Vec<String>, FilesError> {
    let (mut records, _) = open_records(file, options)?;
    if options.header {
        return records.header();
    }
    while records.width().is_none() && records.next()?.is_some() {}
    let width = records.width().unwrap_or_default();
    Ok((1..=width).map(|number| format!("column_{number}")).collect())
}

fn same_columns(
    first: &str,
    known: &[String],
    file: &SourceFile,
    header: &[String],
) -> Result<(), FilesError> {
    let lacks = known.iter().find(|name| !header.contains(name));
    let adds = header.iter().find(|name| !known.contains(name));
    let difference = match (lacks, adds) {
        (Some(name), _) => format!("it lacks `{name}`"),
        (None, Some(name)) => format!("it adds `{name}`"),
        (None, None) => return Ok(()),
    };
    let (first, second) = (first.to_owned(), file.path.clone());
    Err(FilesError::Differs { first, second, difference })
}
