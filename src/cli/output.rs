//! Standard output and standard error: who writes what, and with which colours.

use std::io::{self, IsTerminal, Write};

use serde_json::Value as Json;

use crate::cli::args::Colour;
use crate::error::{Error, Result};
use crate::spec::diagnostic::{Diagnostic, Severity};
use crate::spec::source::Sources;

/// Where a command writes.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Print results as JSON.
    pub json: bool,
    colour: bool,
    paints: bool,
}

impl Output {
    /// As the options and the terminal say.
    pub fn new(json: bool, colour: Colour) -> Self {
        let wanted = |is_terminal: bool| match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none(),
        };
        let colour = wanted(io::stderr().is_terminal());
        Self { json, colour, paints: wanted(io::stdout().is_terminal()) }
    }

    /// Whether data for people has colours.
    pub fn paints(&self) -> bool {
        self.paints
    }

    /// Data, to standard output. A reader that went away is no error.
    pub fn data(&self, text: &str) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// JSON, to standard output.
    pub fn json(&self, value: &Json) {
        self.data(&format!("{value:#}\n"));
    }

    /// A remark, to standard error.
    pub fn remark(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Mistakes of a pipeline file: excerpts to standard error, or JSON to standard output.
    pub fn diagnostics(&self, diagnostics: &[Diagnostic], sources: &Sources) {
        if self.json {
            let all: Vec<Json> = diagnostics.iter().map(|d| d.to_json(sources)).collect();
            self.json(&Json::Array(all));
            return;
        }
        for diagnostic in diagnostics {
            self.remark(&format!("{}\n", diagnostic.render(sources, self.colour)));
        }
    }

    /// What somebody should look at in a pipeline that runs: always to standard error, as standard
    /// output has its results.
    pub fn warnings(&self, warnings: &[Diagnostic], sources: &Sources) {
        for warning in warnings {
            self.remark(&format!("{}\n", warning.render(sources, self.colour)));
        }
    }

    /// An error, with what to do.
    pub fn error(&self, error: &Error) {
        let (red, cyan, plain) =
            if self.colour { ("\u{1b}[1;31m", "\u{1b}[1;36m", "\u{1b}[0m") } else { ("", "", "") };
        let mut text = format!("{red}error{plain}: {}", error.message);
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(&format!("\n  because: {cause}"));
            source = cause.source();
        }
        if let Some(hint) = &error.hint {
            text.push_str(&format!("\n  {cyan}help{plain}: {hint}"));
        }
        self.remark(&text);
    }
}

/// Fails if one of the diagnostics stops the pipeline.
pub fn sound(diagnostics: &[Diagnostic]) -> Result<()> {
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    match errors {
        0 => Ok(()),
        n => {
            let n = crate::report::units::plural(n, "mistake");
            Err(Error::new(crate::error::ErrorKind::Pipeline, format!("the pipeline has {n}"))
                .with_hint("`proofmill explain CODE` says more about each"))
        }
    }
}
