//! Opening: finds the files, digests them, and tells the schema from a sample.

use std::collections::HashMap;

use arrow::datatypes::Schema;

use crate::detect::{compression, one_format};
use crate::error::FilesError;
use crate::format::Fields;
use crate::limits::{SAMPLE_BYTES_MAX, SAMPLE_RECORDS};
use crate::locate::{Located, locate};
use crate::parquet;
use crate::parquet_columns::ParquetPlan;
use crate::read::open_records;
use crate::sample::Sample;
use crate::settings::Options;
use crate::source::{Layout, Source};
use crate::source_file::SourceFile;
use crate::stream::digest_of;
use proofmill_pipeline::kinds::read::{Compression, Paths, Read};

/// Opens the files of a `read`: finds them, digests them, and tells the schema from them.
pub fn open(settings: &Read) -> Result<Source, FilesError> {
    let located = locate(settings.path.as_ref().map(Paths::all).unwrap_or_default())?;
    let format = one_format(settings.format, located.iter().map(|file| file.shown.as_str()))?;
    let options = Options::new(settings, format)?;
    match options.fields() {
        Fields::Columns => open_parquet(located, &options),
        Fields::Named | Fields::Cells { .. } | Fields::Line => open_texts(located, options),
    }
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

fn open_parquet(located: Vec<Located>, options: &Options) -> Result<Source, FilesError> {
    let mut files: Vec<SourceFile> = Vec::with_capacity(located.len());
    let mut first: Option<(String, Schema)> = None;
    for file in located {
        compression(options.compression, options.format, &file.shown, &file.path)?;
        let (file, schema) = parquet::open(file)?;
        match &first {
            Some((path, known)) => parquet::same_columns(path, known, &file, &schema, options)?,
            None => first = Some((file.path.clone(), schema)),
        }
        files.push(file);
    }
    same_content(&files)?;
    let (path, schema) = first.unwrap_or_else(|| (String::new(), Schema::empty()));
    let plan = ParquetPlan::new(&path, &schema, options)?;
    let rows = files.iter().flat_map(|file| &file.groups).map(|group| group.rows).sum();
    let (schema, layout) = (plan.schema(), Layout::Parquet(plan));
    Ok(Source { files, schema, layout, rows_estimate: Some(rows), notes: Vec::new() })
}

fn open_texts(located: Vec<Located>, options: Options) -> Result<Source, FilesError> {
    let mut files = Vec::with_capacity(located.len());
    for file in located {
        let compression =
            compression(options.compression, options.format, &file.shown, &file.path)?;
        let digested = digest_of(&file.path);
        let (digest, bytes) = digested.map_err(|error| FilesError::io(&file.shown, error))?;
        files.push(SourceFile { compression, ..SourceFile::new(file, digest, bytes) });
    }
    same_content(&files)?;
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
    let (plan, notes) = (sample.plan()?, sample.notes());
    let schema = plan.schema();
    let rows_estimate = seen.estimate(files.iter().map(|file| file.bytes).sum());
    Ok(Source { files, schema, layout: Layout::Text { options, plan }, rows_estimate, notes })
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

/// Names the cells of formats that have cells, and checks that all files have the same, or those that are
/// requested.
fn read_headers(files: &mut [SourceFile], options: &Options) -> Result<(), FilesError> {
    let mut first: Option<(String, Vec<String>)> = None;
    for file in files {
        let header = match (options.fields(), &first) {
            (Fields::Named | Fields::Columns, _) => return Ok(()),
            (Fields::Line, _) => vec!["line".to_owned()],
            (Fields::Cells { .. }, Some((_, known))) if !options.header => known.clone(),
            (Fields::Cells { .. }, _) => read_header(file, options)?,
        };
        match &first {
            Some((path, known)) if !header.is_empty() => {
                same_columns(path, known, file, &header, options)?;
            }
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
    options: &Options,
) -> Result<(), FilesError> {
    let lacks = known.iter().find(|name| options.reads(name) && !header.contains(name));
    let adds = header.iter().find(|name| options.reads(name) && !known.contains(name));
    let difference = match (lacks, adds) {
        (Some(name), _) => format!("it lacks `{name}`"),
        (None, Some(name)) => format!("it adds `{name}`"),
        (None, None) => return Ok(()),
    };
    let (first, second) = (first.to_owned(), file.path.clone());
    Err(FilesError::Differs { first, second, difference })
}
