//! Tests of pipelines, and how they ended.

use serde::Serialize;

use crate::run::testing::TestVerdict;
use crate::views::section::{Section, View};
use proofmill_base::styled::printable;

/// A test of a pipeline.
#[derive(Clone, Debug, Serialize)]
pub struct TestView {
    file: String,
    test: String,
    pub passed: bool,
    differences: Vec<String>,
}

impl TestView {
    /// Of a test of `file`.
    pub fn of(file: String, verdict: TestVerdict) -> Self {
        let TestVerdict { name: test, differences } = verdict;
        Self { file, test, passed: differences.is_empty(), differences }
    }
}

impl View for TestView {
    fn sections(&self) -> Vec<Section> {
        let Self { file, test, passed, differences } = self;
        let mark = if *passed { "ok    " } else { "FAILED" };
        let lines = differences.iter().map(|line| format!("          {}\n", printable(line, true)));
        vec![Section::Text(format!("{mark}  {file}: {test}\n{}", lines.collect::<String>()))]
    }
}
