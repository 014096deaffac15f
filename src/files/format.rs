//! What is known of each format of a file before its records are read or written: the one list of formats.

use proofmill_pipeline::kinds::read::Format;

/// What is true of all files of a format.
#[derive(Clone, Copy, Debug)]
pub struct FormatTraits {
    /// As settings and messages name it.
    pub name: &'static str,
    /// As people call it.
    pub label: &'static str,
    /// What rows become when they are written.
    pub written: &'static str,
    /// Endings of names, without the dot, in small letters.
    pub endings: &'static [&'static str],
    /// How every file begins, if all do alike.
    pub begins: Option<Beginning>,
    pub fields: Fields,
    /// Of the settings of `read` that some formats do not have, those that it has.
    pub settings: &'static [&'static str],
}

/// The bytes that every file of a format begins with, and what people read of files with and without them.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    pub bytes: &'static [u8],
    pub is: &'static str,
    pub is_not: &'static str,
}

/// Where the names of fields come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Each record names its own.
    Named,
    /// The first line names the cells of all records.
    Cells { delimiter: u8, quoted: bool },
    /// A record is a text, the only field.
    Line,
    /// The file has a schema.
    Columns,
}

impl Fields {
    /// Whether a record is a list of texts without names.
    pub fn are_cells(self) -> bool {
        matches!(self, Self::Cells { .. } | Self::Line)
    }
}

/// All formats.
pub const FORMATS: [Format; 6] =
    [Format::Jsonl, Format::Json, Format::Csv, Format::Tsv, Format::Parquet, Format::Lines];

/// What is known of a format.
pub fn traits(format: Format) -> FormatTraits {
    let text = FormatTraits {
        name: "",
        label: "",
        written: "",
        endings: &[],
        begins: None,
        fields: Fields::Named,
        settings: &["compression", "encoding"],
    };
    match format {
        Format::Jsonl => FormatTraits {
            name: "jsonl",
            label: "JSON Lines",
            written: "JSON Lines: one object per line",
            endings: &["jsonl", "ndjson"],
            ..text
        },
        Format::Json => FormatTraits {
            name: "json",
            label: "JSON",
            written: "One JSON document, as with `--json`",
            endings: &["json"],
            settings: &["compression", "encoding", "records"],
            ..text
        },
        Format::Csv => FormatTraits {
            name: "csv",
            label: "CSV",
            written: "CSV with a header",
            endings: &["csv"],
            fields: Fields::Cells { delimiter: b',', quoted: true },
            settings: &["compression", "encoding", "delimiter", "header"],
            ..text
        },
        Format::Tsv => FormatTraits {
            name: "tsv",
            label: "TSV",
            written: "Tab-separated values with a header, without quoting",
            endings: &["tsv"],
            fields: Fields::Cells { delimiter: b'\t', quoted: false },
            settings: &["compression", "encoding", "header"],
            ..text
        },
        Format::Parquet => FormatTraits {
            name: "parquet",
            label: "Parquet",
            written: "Apache Parquet",
            endings: &["parquet"],
            begins: Some(Beginning {
                bytes: b"PAR1",
                is: "is a Parquet file",
                is_not: "is not a Parquet file",
            }),
            fields: Fields::Columns,
            settings: &[],
        },
        Format::Lines => FormatTraits {
            name: "lines",
            label: "a file of lines",
            written: "The texts of the only column, one per line",
            endings: &["txt", "lines"],
            fields: Fields::Line,
            ..text
        },
    }
}
