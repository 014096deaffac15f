//! One block of a page: checked against the columns of its table, then drawn from its rows. The blocks are in files of their
//! own; [`rows_block`] lists them.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use textwrap::{Options, wrap};

use crate::draw::{WIDTH, markdown};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kinds::report::files;
use proofmill_base::ids::StageName;
use proofmill_base::styled::printable;
use proofmill_pipeline::kinds::report::BlockKind;

/// The kind, as settings call it.
pub const KIND: &str = "report";

/// A block that shows rows of a table, as a trait of its settings.
pub trait RowsBlock: Debug + Send + Sync {
    /// The columns and rows that it needs of a table of these columns; `None` after an error.
    fn needs(
        &self,
        schema: &SchemaRef,
        steps: &[&str; 4],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Needs>;

    /// The name of its picture, `of_table` where the settings give none; `None` for a block that is no picture.
    fn picture<'a>(&'a self, of_table: &'a str) -> Option<&'a str>;

    /// Draws the first of `all` rows, which have the columns that it needs.
    fn draw(
        &self,
        rows: &RecordBatch,
        all: u64,
        title: Option<&str>,
    ) -> Result<Drawing, StageError>;
}

/// The list of blocks that show rows; `None` for words.
fn rows_block(kind: &BlockKind<'_>) -> Option<Arc<dyn RowsBlock>> {
    Some(match *kind {
        BlockKind::Text(_) => return None,
        BlockKind::Table(settings) => Arc::new(settings.clone()),
        BlockKind::Plot(settings) => Arc::new(settings.clone()),
        BlockKind::Bars(settings) => Arc::new(settings.clone()),
        BlockKind::Histogram(settings) => Arc::new(settings.clone()),
        BlockKind::Tree(settings) => Arc::new(settings.clone()),
        BlockKind::Proofs(settings) => Arc::new(settings.clone()),
    })
}

/// What a block needs of its table.
pub struct Needs {
    /// Positions of columns.
    pub columns: Vec<usize>,
    /// Rows, at most.
    pub most: usize,
}

/// What a block draws, without its heading; each line ended.
pub enum Drawing {
    /// As text, and as Markdown.
    Text { text: String, markdown: String },
    /// As text, and as a picture.
    Picture { text: String, svg: String },
}

impl Drawing {
    /// Text that Markdown shows as it is.
    pub fn verbatim(text: String) -> Self {
        Self::Text { markdown: markdown::verbatim(&text), text }
    }
}

/// A block that can be drawn.
#[derive(Clone, Debug)]
pub enum Shown {
    Words(String),
    /// Rows of a table.
    Rows(Box<Rows>),
}

/// A block that shows rows of a table.
#[derive(Clone, Debug)]
pub struct Rows {
    pub from: StageName,
    /// Positions of the columns that it needs.
    pub columns: Vec<usize>,
    /// Rows that it needs, at most.
    pub most: usize,
    title: Option<String>,
    /// Its key.
    key: &'static str,
    /// The name of its picture, if it is one.
    picture: Option<String>,
    block: Arc<dyn RowsBlock>,
}

/// A block, drawn.
pub struct Drawn {
    pub block: &'static str,
    pub title: Option<String>,
    /// The stage whose table it shows.
    pub source: Option<String>,
    /// As text, without the heading; each line ended.
    pub content: String,
    /// As Markdown, with the heading.
    pub markdown: String,
    pub svg: Option<String>,
}

impl Drawn {
    pub fn words(block: &'static str, text: &str, markdown: String) -> Self {
        let mut content = String::new();
        for line in text.trim_end().lines() {
            for line in wrap(&printable(line, true), Options::new(WIDTH)) {
                content.push_str(&line);
                content.push('\n');
            }
        }
        Self { block, title: None, source: None, content, markdown, svg: None }
    }
}

impl Shown {
    /// Block `number` of a page; `from` is its stage with the columns. `None` after an error.
    pub fn new(
        number: usize,
        kind: BlockKind<'_>,
        from: Option<(&StageName, &SchemaRef)>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Self> {
        if let BlockKind::Text(text) = kind {
            return Some(Self::Words(text.to_owned()));
        }
        let (block, (from, schema)) = (rows_block(&kind)?, from?);
        let steps = [KIND, "blocks", &number.to_string(), kind.name()];
        let Needs { columns, most } = block.needs(schema, &steps, diagnostics)?;
        // Without the group, which says little in a folder of its own.
        let own = from.as_str().rsplit('.').next().unwrap_or_default();
        let picture = block.picture(own).map(str::to_owned);
        let (title, key, from) = (kind.title().map(str::to_owned), kind.name(), from.clone());
        Some(Self::Rows(Box::new(Rows { from, columns, most, title, key, picture, block })))
    }

    /// The name of its picture, if it has one, behind the key of its block.
    pub fn picture(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Words(_) => None,
            Self::Rows(rows) => Some((rows.key, rows.picture.as_deref()?)),
        }
    }
}

impl Rows {
    /// Draws the first of `all` rows of the table.
    pub fn draw(&self, rows: &RecordBatch, all: u64) -> Result<Drawn, StageError> {
        let title = self.title.as_deref();
        let (content, body, svg) = match self.block.draw(rows, all, title)? {
            Drawing::Text { text, markdown } => (text, markdown, None),
            Drawing::Picture { text, svg } => {
                let name = self.picture.as_deref().unwrap_or_default();
                let shown = markdown::escaped(title.unwrap_or(name)).replace(']', "\\]");
                let link = format!("![{shown}]({})\n", files::file_name(name));
                (text, link, Some(svg))
            }
        };
        let heading = title.map(markdown::escaped);
        let heading = heading.map(|title| format!("## {title}\n\n")).unwrap_or_default();
        Ok(Drawn {
            block: self.key,
            title: self.title.clone(),
            source: Some(self.from.to_string()),
            content,
            markdown: heading + &body,
            svg,
        })
    }
}
