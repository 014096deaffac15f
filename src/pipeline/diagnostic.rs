//! A diagnostic with its place, and how a person and a program see it.

use std::borrow::Cow;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde_json::json;

use crate::code::Code;
use crate::source::{Sources, Span};
use proofmill_base::secret;
use proofmill_base::styled::{Styled, escaped};

/// Whether a diagnostic stops the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The pipeline cannot run.
    Error,
    /// The pipeline runs; somebody should look.
    Warning,
}

/// One diagnostic.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Its kind.
    pub code: Code,
    /// Whether it stops the pipeline.
    pub severity: Severity,
    /// Where it is.
    pub span: Span,
    /// The YAML path of its place, such as `stages.test.read.format`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic that stops the pipeline.
    pub fn error(
        code: Code,
        span: Span,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity: Severity::Error,
            span,
            path: path.into(),
            message: message.into(),
            help: None,
        }
    }

    /// The same, of something that only somebody should look at.
    pub fn as_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// Adds what to do.
    pub fn with_help(mut self, help: impl Into<Option<String>>) -> Self {
        self.help = help.into();
        self
    }

    /// The diagnostic with an excerpt of the file, for people.
    pub fn render(&self, sources: &Sources, colour: bool) -> Styled {
        let source = sources.get(self.span.source);
        let shown = sources.shown(self.span.source);
        let (message, help) = self.said();
        let (name, message, path) = (escaped(&source.name), escaped(&message), escaped(&self.path));
        let help = help.as_deref().map(escaped);
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        // Places move with the escapes before them.
        let text = escaped(&shown);
        let end = self.span.end.max(self.span.start) as usize;
        let place = |at: usize| match &text {
            Cow::Borrowed(text) => at.min(text.len()),
            Cow::Owned(text) => shown.get(..at).map_or(text.len(), |it| escaped(it).len()),
        };
        let range = place(self.span.start as usize)..place(end);
        let snippet =
            Snippet::source(&*text).path(&*name).annotation(AnnotationKind::Primary.span(range));
        let mut group = level.primary_title(&*message).id(self.code.as_str()).element(snippet);
        if !path.is_empty() {
            group = group.element(Level::NOTE.message(format!("at `{path}`")));
        }
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(&**help));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        Styled::drawn(renderer.decor_style(DecorStyle::Ascii).render(&[group]))
    }

    /// The diagnostic as `file:line:column: message`, for logs and editors.
    pub fn line(&self, sources: &Sources) -> String {
        let (line, column) = sources.position(self.span);
        let name = &sources.get(self.span.source).name;
        format!("{name}:{line}:{column}: {}: {}", self.code, self.said().0)
    }

    /// What is wrong and what to do, without the secrets that a value may have had.
    fn said(&self) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
        (secret::covered(&self.message), self.help.as_deref().map(secret::covered))
    }

    /// The diagnostic as JSON, for programs.
    pub fn to_json(&self, sources: &Sources) -> serde_json::Value {
        let (line, column) = sources.position(self.span);
        let (message, help) = self.said();
        json!({
            "code": self.code.as_str(),
            "severity": match self.severity { Severity::Error => "error", Severity::Warning => "warning" },
            "file": sources.get(self.span.source).name,
            "line": line,
            "column": column,
            "path": self.path,
            "message": message,
            "help": help,
        })
    }
}

/// True if one of them stops the pipeline.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// Sorts by place and drops repetitions.
pub fn tidy(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by(|a, b| (a.span, a.code, &a.message).cmp(&(b.span, b.code, &b.message)));
    diagnostics.dedup_by(|a, b| (a.span, a.code, &a.message) == (b.span, b.code, &b.message));
}
