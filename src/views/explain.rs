//! Error codes, and what each means.

use serde::Serialize;

use crate::views::section::{Section, View};
use proofmill_pipeline::code::{CODES, Code};

/// An error code.
#[derive(Clone, Debug, Serialize)]
pub struct CodeView {
    code: &'static str,
    title: &'static str,
    /// Its page in Markdown, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'static str>,
}

impl CodeView {
    /// With its page.
    pub fn of(code: Code) -> Self {
        Self { page: Some(code.page()), ..Self::line(code) }
    }

    fn line(code: Code) -> Self {
        // The first line of the page is the code and what it means.
        let title = code.page().lines().next().unwrap_or_default().trim_start_matches("# ");
        Self { code: code.as_str(), title, page: None }
    }
}

impl View for CodeView {
    fn sections(&self) -> Vec<Section> {
        let text = self.page.map_or_else(|| format!("{}\n", self.title), str::to_owned);
        vec![Section::Text(text)]
    }
}

/// All error codes.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct CodesView(Vec<CodeView>);

impl CodesView {
    /// In their order.
    pub fn all() -> Self {
        Self(CODES.iter().map(|code| CodeView::line(*code)).collect())
    }
}

impl View for CodesView {
    fn sections(&self) -> Vec<Section> {
        let lines = self.0.iter().map(|code| format!("{}\n", code.title));
        vec![Section::Text(lines.collect())]
    }
}
