//! The codes of diagnostics: the closed set, each with a page that `proofmill explain` shows.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal,)*) => {
        /// What a diagnostic reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $doc])* $name,)*
        }

        /// All codes, in order.
        pub const CODES: &[Code] = &[$(Code::$name),*];

        impl Code {
            /// The code as it is printed, and as `proofmill explain` takes it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// The page that explains the code, in Markdown.
            pub fn page(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("../../docs/errors/", $code, ".md")),)*
                }
            }
        }
    };
}

codes! {
    /// The file is not YAML.
    Syntax = "E0101",
    /// A key that the format does not have.
    UnknownKey = "E0102",
    /// A key that must be there is not.
    MissingKey = "E0103",
    /// A value of another type than the format wants.
    WrongType = "E0104",
    /// A value of the right type that is not accepted.
    WrongValue = "E0105",
    /// None, or more than one, of keys of which there must be exactly one.
    NotExactlyOne = "E0106",
    /// A name that cannot be a table, a key and a file at once.
    InvalidName = "E0107",
    /// `${…}` that names nothing.
    UnknownParameter = "E0108",
    /// A parameter without a value.
    MissingParameter = "E0109",
    /// A template that cannot be used.
    Template = "E0110",
    /// Two things of one name.
    Duplicate = "E0111",
    /// An address with a secret in it.
    SecretInAddress = "E0112",
    /// A stage that the pipeline does not have.
    UnknownStage = "E0201",
    /// Stages that wait for each other.
    Cycle = "E0202",
    /// A stage of the wrong kind for this use.
    WrongKind = "E0203",
    /// A model that the pipeline does not declare.
    UnknownModel = "E0204",
    /// SQL that does not parse.
    SqlSyntax = "E0301",
    /// A column that the input does not have.
    UnknownColumn = "E0302",
    /// A function that does not exist.
    UnknownFunction = "E0303",
    /// Arguments or operands of the wrong type or number.
    SqlType = "E0304",
    /// A statement that a stage may not run.
    SqlNotAllowed = "E0305",
    /// SQL that has no plan for another reason.
    SqlPlan = "E0306",
    /// A column of the wrong type for this use.
    ColumnType = "E0307",
    /// SQL that is nested too deeply, or stands for too many tables.
    SqlTooLarge = "E0308",
    /// A query whose answer depends on an order that nothing fixes.
    SqlOrder = "E0309",
    /// A source that does not exist.
    SourceMissing = "E0401",
    /// A source whose columns cannot be determined.
    SourceSchema = "E0402",
    /// A model whose folder cannot be used.
    ModelUnreadable = "E0403",
    /// A memory that was never taught.
    MemoryMissing = "E0404",
    /// A source without records.
    SourceEmpty = "E0405",
    /// A program, or something that it needs, that is not there.
    ProgramMissing = "E0406",
    /// A chat model that reads a prompt without its chat template.
    RawPrompt = "E0407",
}

impl Code {
    /// The code with the given text, in either case.
    pub fn find(text: &str) -> Option<Self> {
        CODES.iter().copied().find(|code| code.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
