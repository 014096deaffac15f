//! One block of a page: checked against the columns of its table, then drawn from its rows.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use textwrap::{Options, wrap};

use crate::draw::plot::{bars as drawn_bars, histogram as drawn_histogram, svg, text};
use crate::draw::{WIDTH, markdown};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kinds::report::{bars, files, histogram, plot, proofs, table, tree};
use proofmill_base::ids::StageName;
use proofmill_base::styled::printable;
use proofmill_pipeline::kinds::report::{
    BarsBlock, BlockKind, HistogramBlock, PlotBlock, TreeBlock,
};

/// The kind, as settings call it.
pub const KIND: &str = "report";

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
    form: Form,
}

/// How rows are shown.
#[derive(Clone, Debug)]
enum Form {
    Table,
    /// With the name of its picture.
    Picture(Picture, String),
    Tree(Box<TreeBlock>),
    Proofs,
}

/// Blocks that are a picture as well.
#[derive(Clone, Debug)]
enum Picture {
    Plot(Box<PlotBlock>),
    Bars(Box<BarsBlock>),
    Histogram(Box<HistogramBlock>),
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
    /// Block `number` of a page; `from` is its stage with the columns. `None` after mistakes.
    pub fn new(
        number: usize,
        block: BlockKind<'_>,
        from: Option<(&StageName, &SchemaRef)>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Self> {
        let number = number.to_string();
        let steps = [KIND, "blocks", &number, block.name()];
        let title = block.title().map(str::to_owned);
        let schema = || from.map(|(_, schema)| schema);
        let (form, columns, most) = match block {
            BlockKind::Text(text) => return Some(Self::Words(text.to_owned())),
            BlockKind::Table(settings) => {
                let columns = table::columns(settings, schema()?, &steps, diagnostics)?;
                (Form::Table, columns, settings.limit as usize)
            }
            BlockKind::Plot(settings) => {
                let columns = plot::columns(settings, schema()?, &steps, diagnostics)?;
                let picture = Picture::Plot(Box::new(settings.clone()));
                // One more than can be drawn, to be told apart from just as many.
                (picture.named(settings.name.as_ref(), from?.0), columns, plot::POINTS_MAX + 1)
            }
            BlockKind::Bars(settings) => {
                let columns = bars::columns(settings, schema()?, &steps, diagnostics)?;
                let picture = Picture::Bars(Box::new(settings.clone()));
                let most = drawn_bars::BARS_MAX + 1;
                (picture.named(settings.name.as_ref(), from?.0), columns, most)
            }
            BlockKind::Histogram(settings) => {
                let columns = histogram::columns(settings, schema()?, &steps, diagnostics)?;
                let picture = Picture::Histogram(Box::new(settings.clone()));
                (picture.named(settings.name.as_ref(), from?.0), columns, histogram::ROWS_MAX + 1)
            }
            BlockKind::Tree(settings) => {
                let columns = tree::columns(settings, schema()?, &steps, diagnostics)?;
                (Form::Tree(Box::new(settings.clone())), columns, settings.limit as usize)
            }
            BlockKind::Proofs(settings) => {
                let columns = proofs::columns(schema()?, &steps, diagnostics)?;
                (Form::Proofs, columns, settings.limit as usize)
            }
        };
        let from = from?.0.clone();
        Some(Self::Rows(Box::new(Rows { from, columns, most, title, form })))
    }

    /// The name of its picture, if it has one, behind the key of its block.
    pub fn picture(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Words(_) => None,
            Self::Rows(rows) => match &rows.form {
                Form::Picture(picture, name) => Some((picture.key(), name)),
                Form::Table | Form::Tree(_) | Form::Proofs => None,
            },
        }
    }
}

impl Picture {
    fn named(self, name: Option<&String>, from: &StageName) -> Form {
        // Without the group, which says little in a folder of its own.
        let own = from.as_str().rsplit('.').next().unwrap_or_default();
        Form::Picture(self, name.map_or(own, String::as_str).to_owned())
    }

    fn key(&self) -> &'static str {
        match self {
            Self::Plot(_) => "plot",
            Self::Bars(_) => "bars",
            Self::Histogram(_) => "histogram",
        }
    }

    /// As text and as SVG.
    fn draw(
        &self,
        rows: &RecordBatch,
        title: Option<&str>,
    ) -> Result<(String, String), StageError> {
        Ok(match self {
            Self::Plot(settings) => {
                let plot = plot::of_rows(settings, rows)?;
                (text::draw(&plot), svg::draw(&plot, title))
            }
            Self::Bars(settings) => {
                let bars = bars::of_rows(settings, rows)?;
                (drawn_bars::text(&bars), drawn_bars::svg(&bars, title))
            }
            Self::Histogram(settings) => {
                let histogram = histogram::of_rows(settings, rows)?;
                let svg = drawn_histogram::svg(&histogram, title);
                (drawn_histogram::text(&histogram), svg)
            }
        })
    }
}

impl Rows {
    /// Draws the first of `all` rows of the table.
    pub fn draw(&self, rows: &RecordBatch, all: u64) -> Result<Drawn, StageError> {
        let (block, content, body, svg) = match &self.form {
            Form::Table => {
                let (text, markdown) = table::draw(rows, all);
                ("table", text, markdown, None)
            }
            Form::Picture(picture, name) => {
                let title = self.title.as_deref();
                let (text, svg) = picture.draw(rows, title)?;
                let shown = markdown::escaped(title.unwrap_or(name)).replace(']', "\\]");
                let link = format!("![{shown}]({})\n", files::file_name(name));
                (picture.key(), text, link, Some(svg))
            }
            Form::Tree(settings) => {
                let more = table::more(rows.num_rows(), all, "rows");
                let text = tree::draw(settings, rows) + &more;
                let markdown = markdown::verbatim(&text);
                ("tree", text, markdown, None)
            }
            Form::Proofs => {
                let text = proofs::draw(rows)? + &table::more(rows.num_rows(), all, "proofs");
                let markdown = markdown::verbatim(&text);
                ("proofs", text, markdown, None)
            }
        };
        let heading = self.title.as_deref().map(markdown::escaped);
        let heading = heading.map(|title| format!("## {title}\n\n")).unwrap_or_default();
        Ok(Drawn {
            block,
            title: self.title.clone(),
            source: Some(self.from.to_string()),
            content,
            markdown: heading + &body,
            svg,
        })
    }
}
