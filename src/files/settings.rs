//! The settings of `read`, checked for one format and completed.

use encoding_rs::Encoding;

use crate::error::FilesError;
use crate::field_path::{FieldPath, Step};
use crate::format::{Fields, FormatTraits, traits};
use crate::kind::Kind;
use proofmill_base::suggest;
use proofmill_pipeline::kinds::read::{Column, ColumnType, Compression, Format, Read};

/// Name of the first column: the identity of a row, which the records have or their place gives.
pub const ROW_ID: &str = "row_id";

/// Checked settings.
#[derive(Clone, Debug)]
pub struct Options {
    pub format: Format,
    /// Compression, if it is set.
    pub compression: Option<Compression>,
    /// Encoding, if it is not UTF-8 by default.
    pub encoding: Option<&'static Encoding>,
    /// For `json`: names on the way to the list of records.
    pub records: Vec<String>,
    /// The character between cells.
    pub delimiter: u8,
    /// For `csv` and `tsv`: whether the first line names the columns.
    pub header: bool,
    /// Columns, unless all top-level fields are wanted.
    pub columns: Option<Vec<Wanted>>,
}

/// A requested column.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: String,
    pub path: String,
    /// Its type, if it is declared.
    pub declared: Option<ColumnType>,
}

impl Wanted {
    /// The declared type.
    pub fn kind(&self) -> Option<Kind> {
        self.declared.map(Kind::from)
    }
}

impl Options {
    /// Where the names of fields come from.
    pub fn fields(&self) -> Fields {
        traits(self.format).fields
    }

    /// Whether a top-level field leads to a column; all do where no columns are requested.
    pub fn reads(&self, field: &str) -> bool {
        let leads = |path: &str| match path.strip_prefix(field) {
            Some(rest) => rest.is_empty() || rest.starts_with(['.', '[']),
            None => false,
        };
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|it| leads(&it.path)))
    }

    /// Checks `settings` for files of `format`.
    pub fn new(settings: &Read, format: Format) -> Result<Self, FilesError> {
        let FormatTraits { name, fields, settings: own, .. } = traits(format);
        for (field, set) in [
            ("encoding", settings.encoding.is_some()),
            ("records", settings.records.is_some()),
            ("delimiter", settings.delimiter.is_some()),
            ("header", settings.header.is_some()),
        ] {
            if set && !own.contains(&field) {
                return Err(FilesError::NotForFormat { field, format: name });
            }
        }
        let usual = match fields {
            Fields::Cells { delimiter, .. } => delimiter,
            Fields::Named | Fields::Line | Fields::Columns => b',',
        };
        Ok(Self {
            format,
            compression: settings.compression,
            encoding: settings.encoding.as_deref().map(encoding).transpose()?,
            records: settings.records.as_deref().map(records).transpose()?.unwrap_or_default(),
            delimiter: settings.delimiter.as_deref().map(delimiter).transpose()?.unwrap_or(usual),
            header: settings.header.unwrap_or(true),
            columns: columns(settings)?,
        })
    }
}

fn encoding(label: &str) -> Result<&'static Encoding, FilesError> {
    const COMMON: [&str; 12] = [
        "utf-8",
        "utf-16le",
        "utf-16be",
        "latin1",
        "iso-8859-1",
        "iso-8859-15",
        "windows-1251",
        "windows-1252",
        "shift_jis",
        "euc-jp",
        "gb18030",
        "big5",
    ];
    Encoding::for_label_no_replacement(label.as_bytes()).ok_or_else(|| FilesError::Setting {
        field: "encoding".to_owned(),
        value: label.to_owned(),
        expected: "the label of an encoding",
        help: suggest::help(label, COMMON),
    })
}

fn delimiter(text: &str) -> Result<u8, FilesError> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err(FilesError::Setting {
            field: "delimiter".to_owned(),
            value: text.escape_debug().to_string(),
            expected: "one ASCII character other than a quote and a line end",
            help: None,
        }),
    }
}

fn records(path: &str) -> Result<Vec<String>, FilesError> {
    let wrong = |expected| FilesError::Setting {
        field: "records".to_owned(),
        value: path.to_owned(),
        expected,
        help: Some("names of objects are joined by `.`, as in `data.records`".to_owned()),
    };
    let path = FieldPath::parse(path).map_err(|_| wrong("the path of a list"))?;
    let steps = path.steps.into_iter().map(|step| match step {
        Step::Name(name) => Ok(name),
        Step::Index(_) => Err(wrong("a path of names only")),
    });
    std::iter::once(Ok(path.head)).chain(steps).collect()
}

fn columns(settings: &Read) -> Result<Option<Vec<Wanted>>, FilesError> {
    let Some(columns) = &settings.columns else {
        return Ok(None);
    };
    let wanted = columns.iter().map(|(name, column)| {
        check_name(name, true)?;
        let (path, declared) = match column {
            Column::Path(path) => (Some(path), None),
            Column::Typed(typed) => (typed.path.as_ref(), typed.kind),
        };
        Ok(Wanted { name: name.clone(), path: path.unwrap_or(name).clone(), declared })
    });
    wanted.collect::<Result<_, _>>().map(Some)
}

/// Checks the name of a column, which stands in the settings or else in the data.
pub fn check_name(name: &str, set: bool) -> Result<(), FilesError> {
    let reason = if name.is_empty() {
        "the name is empty"
    } else if name.chars().any(char::is_control) {
        "the name has control characters"
    } else {
        return Ok(());
    };
    Err(FilesError::ColumnName { column: name.escape_debug().to_string(), reason, set })
}
