//! What commands write: data, remarks, diagnostics and errors, and with which colours.

use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use serde_json::Value as Json;

use crate::cli::args::Colour;
use crate::cli::pager;
use crate::console::{self, Stream};
use crate::draw::plot::text::draw;
use crate::draw::table::prioritized;
use crate::views::section::{Grid, Section, View};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::secret;
use proofmill_base::styled::{Ink, Styled};
use proofmill_pipeline::diagnostic::{Diagnostic, Severity};
use proofmill_pipeline::source::Sources;

/// Where a command writes.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
    colour: bool,
    paints: bool,
    /// Whether what is longer than the screen goes through a pager.
    pages: bool,
}

impl Output {
    /// As the options and the terminal say.
    pub fn new(json: bool, colour: Colour, pages: bool) -> Self {
        let (errors, data) = (paints(colour, Stream::Err), paints(colour, Stream::Out));
        Self { json, colour: errors, paints: data, pages }
    }

    /// Columns of the terminal that data goes to; `None` where it goes elsewhere.
    pub fn width(&self) -> Option<usize> {
        console::size(Stream::Out).map(|(columns, _)| columns)
    }

    /// A table for people, as wide as the terminal if data goes to one.
    pub fn table(&self, header: &[String], rows: Vec<Vec<String>>, right: &[bool]) -> String {
        prioritized(header, rows, right, self.width(), ": `--json`")
    }

    /// Data that may be longer than the screen: through a pager then.
    ///
    /// # Errors
    ///
    /// As [`Self::data`].
    pub fn long(&self, text: impl Into<Styled>) -> Result<()> {
        let text = text.into();
        let lines = text.as_str().lines().count();
        let is_long = console::size(Stream::Out).is_some_and(|(_, rows)| lines >= rows);
        match is_long && self.pages && pager::show(&text) {
            true => Ok(()),
            false => self.data(text),
        }
    }

    /// Whether data for people has colours.
    pub fn paints(&self) -> bool {
        self.paints
    }

    /// Data, to standard output.
    ///
    /// # Errors
    ///
    /// When it cannot be written as a whole. A reader that went away is no error.
    pub fn data(&self, text: impl Into<Styled>) -> Result<()> {
        written(console::print(&text.into()))
    }

    /// JSON, to standard output.
    ///
    /// # Errors
    ///
    /// As [`Self::data`].
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value).map_err(|error| {
            Error::new(
                ErrorKind::Resources,
                format!("the result cannot be written as JSON: {error}"),
            )
        })?;
        written(console::print_json(&value))
    }

    /// What a command found: JSON for programs, or its sections for people.
    ///
    /// # Errors
    ///
    /// As [`Self::data`].
    pub fn view(&self, view: &impl View) -> Result<()> {
        if self.json {
            return self.json(view);
        }
        let sections: Vec<String> =
            view.sections().into_iter().map(|it| self.section(it)).collect();
        self.long(sections.join("\n"))
    }

    fn section(&self, section: Section) -> String {
        match section {
            Section::Heading(text) => format!("{text}\n{}\n", "═".repeat(text.chars().count())),
            Section::Text(text) | Section::Drawn(text) | Section::Picture { text, .. } => text,
            Section::Fold { title, sections } => {
                let parts = sections.into_iter().map(|it| self.section(it));
                format!("{title}\n{}", parts.collect::<String>())
            }
            Section::Table(Grid { title, header, rows, right, note }) => {
                let line = |text: Option<String>| text.map(|it| it + "\n").unwrap_or_default();
                line(title) + &self.table(&header, rows, &right) + &line(note)
            }
            Section::Plot(plot) => draw(&plot),
        }
    }

    /// A remark, to standard error.
    pub fn remark(&self, text: impl Into<Styled>) {
        console::remark(&text.into());
    }

    /// Mistakes of a pipeline file: excerpts to standard error, or JSON to standard output.
    ///
    /// # Errors
    ///
    /// As [`Self::data`].
    pub fn diagnostics(&self, diagnostics: &[Diagnostic], sources: &Sources) -> Result<()> {
        if self.json {
            let all: Vec<Json> = diagnostics.iter().map(|d| d.to_json(sources)).collect();
            return self.json(&Json::Array(all));
        }
        self.warnings(diagnostics, sources);
        Ok(())
    }

    /// What somebody should look at in a pipeline that runs: always to standard error, as standard
    /// output has its results.
    pub fn warnings(&self, warnings: &[Diagnostic], sources: &Sources) {
        for warning in warnings {
            self.remark(warning.render(sources, self.colour) + "\n");
        }
    }

    /// An error, with what to do.
    pub fn error(&self, error: &Error) {
        let word = |ink, word| match self.colour {
            true => Styled::inked(ink, word),
            false => word.into(),
        };
        // No line of a message looks like one of ours, and none shows what an address hides.
        let indented = |text: &str| secret::covered(text.trim_end()).replace('\n', "\n    ");
        let mut text = word(Ink::Error, "error") + ": " + indented(&error.message);
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = text + "\n  because: " + indented(&cause.to_string());
            source = cause.source();
        }
        if let Some(hint) = &error.hint {
            text = text + "\n  " + word(Ink::Help, "help") + ": " + indented(hint);
        }
        self.remark(text);
    }
}

/// Writes a file, or appends to it; `hint` says where else it is.
///
/// # Errors
///
/// If it cannot be written.
pub fn to_file(path: &Path, bytes: &[u8], is_appended: bool, hint: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).append(is_appended).truncate(!is_appended);
    let written = options.open(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| {
        let message = format!("`{}` cannot be written: {error}", path.display());
        Error::new(ErrorKind::Usage, message).with_hint(hint)
    })
}

/// Whether a stream has colours.
pub fn paints(colour: Colour, stream: Stream) -> bool {
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => std::env::var_os("NO_COLOR").is_none() && console::is_terminal(stream),
    }
}

/// What a failure to write results means: their reader does not have all of them.
pub fn written(done: io::Result<()>) -> Result<()> {
    done.map_err(|error| {
        let message = format!("standard output cannot be written: {error}");
        Error::new(ErrorKind::Resources, message)
            .with_hint("the output is incomplete; free space or choose another destination, then run the command again")
    })
}

/// Fails if one of the diagnostics stops the pipeline.
pub fn valid(diagnostics: &[Diagnostic]) -> Result<()> {
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    match errors {
        0 => Ok(()),
        n => {
            let n = crate::report::units::plural(n, "error");
            Err(Error::new(ErrorKind::Pipeline, format!("the pipeline has {n}"))
                .with_hint("`proofmill explain CODE` explains each"))
        }
    }
}
