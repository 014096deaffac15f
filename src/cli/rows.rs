//! The rows of a query on their way out: as a table, as data for programs, or into a file. What is for programs
//! goes out batch by batch; a table is measured first, and so held in memory.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::Pin;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use serde::Serialize;
use serde_json::Value as Json;

use crate::cli::args::{Printed, RowOptions};
use crate::cli::output::{Output, written};
use crate::console;
use crate::draw::table::of_batches;
use crate::draw::vertical::vertical;
use crate::report::units::{bytes, plural};
use crate::stages::error::StageError;
use crate::stages::tables::export::{Exported, export};
use crate::stages::tables::rows::try_objects;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_files::{RowsAsText, WriteError, check_columns, endings, format_of};
use proofmill_pipeline::kinds::read::Format;

/// Where columns are that find no room in a table.
const ELSEWHERE: &str = ": `--format vertical`, `--output FILE`";

/// The rows of a query, batch by batch.
pub type Batches = BoxStream<'static, Result<RecordBatch, StageError>>;

/// The requested output, checked.
#[derive(Clone, Debug)]
pub struct Outlet {
    to: To,
    /// Most rows; all where there is none.
    pub limit: Option<usize>,
    full: bool,
    /// What stands above the rows where they are for people.
    pub heading: String,
}

#[derive(Clone, Debug)]
enum To {
    Print(Printed),
    File(PathBuf, Format),
}

impl Outlet {
    /// What the options say; `few` is the limit where rows are for people and none is given.
    ///
    /// # Errors
    ///
    /// If two options contradict each other, or the name of the file tells no format.
    pub fn of(options: &RowOptions, few: usize, output: &Output) -> Result<Self> {
        let to = match (&options.output, options.format, output.json) {
            (Some(path), _, _) => {
                let format = format_of(&path.to_string_lossy()).ok_or_else(|| {
                    let message =
                        format!("cannot infer a format from the name `{}`", path.display());
                    Error::new(ErrorKind::Usage, message)
                        .with_hint(format!("end it in {}", endings()))
                })?;
                To::File(path.clone(), format)
            }
            (None, Some(format), true) if format != Printed::Rows(Format::Json) => {
                let message = "`--json` and `--format` select different formats";
                return Err(
                    Error::new(ErrorKind::Usage, message).with_hint("leave out one of them")
                );
            }
            (None, None, true) => To::Print(Printed::Rows(Format::Json)),
            (None, format, _) => To::Print(format.unwrap_or(Printed::Table)),
        };
        let for_people = matches!(to, To::Print(Printed::Table | Printed::Vertical));
        let limit = match options.limit {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => for_people.then_some(few),
        };
        Ok(Self { to, limit, full: options.full, heading: String::new() })
    }

    /// Whether the rows are printed as this.
    pub fn prints(&self, format: Printed) -> bool {
        matches!(&self.to, To::Print(own) if *own == format)
    }

    /// Gives out the rows, the first of them if there is a limit.
    ///
    /// # Errors
    ///
    /// Those of the rows and of whatever they are written to. What is for programs may have begun by then.
    pub async fn give(&self, schema: &SchemaRef, rows: Batches, output: &Output) -> Result<()> {
        let mut rows = Limited::new(rows, self.limit);
        match &self.to {
            To::Print(format @ (Printed::Table | Printed::Vertical)) => {
                let (batches, width) = (rows.collect().await?, output.width());
                let text = match format {
                    Printed::Vertical => vertical(&batches, self.full, width),
                    _ => of_batches(schema, &batches, self.full, width, ELSEWHERE),
                };
                output.long(format!("{}{text}", self.heading))?;
                self.remark(&mut rows, output).await
            }
            To::Print(Printed::Rows(Format::Json)) => print_json(&mut rows).await,
            To::Print(Printed::Rows(format)) => print_lines(*format, schema, &mut rows).await,
            To::File(path, format) => {
                check_columns(*format, schema).map_err(unwritable)?;
                let done = to_file(path.clone(), *format, schema, rows).await?;
                let path = path.display().to_string();
                if output.json {
                    return output.json(&ExportedFile { output: path, done });
                }
                let rows = plural(done.rows as usize, "row");
                output.remark(format!("{rows}, {} in {path}", bytes(done.bytes)));
                Ok(())
            }
        }
    }

    /// Says so if there are more rows than were printed.
    async fn remark(&self, rows: &mut Limited, output: &Output) -> Result<()> {
        if let Some(limit) = self.limit
            && rows.has_more().await?
        {
            let first = if limit == 1 { "row".to_owned() } else { plural(limit, "row") };
            output.remark(format!("the first {first}; `--limit 0` prints all"));
        }
        Ok(())
    }
}

/// The first rows of a query, as many as are wanted.
pub struct Limited {
    rows: Batches,
    left: Option<usize>,
    /// Whether a batch was cut.
    cut: bool,
}

impl Limited {
    /// The first `limit` rows, or all.
    pub fn new(rows: Batches, limit: Option<usize>) -> Self {
        Self { rows, left: limit, cut: false }
    }

    /// The next rows; `None` at their end.
    async fn next(&mut self) -> Result<Option<RecordBatch>, StageError> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let Some(batch) = self.rows.next().await.transpose()? else { return Ok(None) };
        let Some(left) = &mut self.left else { return Ok(Some(batch)) };
        let taken = batch.num_rows().min(*left);
        *left -= taken;
        self.cut |= taken < batch.num_rows();
        Ok(Some(batch.slice(0, taken)))
    }

    /// The rows, in memory.
    pub async fn collect(&mut self) -> Result<Vec<RecordBatch>, StageError> {
        let mut all = Vec::new();
        while let Some(batch) = self.next().await? {
            all.push(batch);
        }
        Ok(all)
    }

    /// Whether there are rows behind those that were taken.
    async fn has_more(&mut self) -> Result<bool, StageError> {
        while !self.cut
            && let Some(batch) = self.rows.next().await.transpose()?
        {
            self.cut = batch.num_rows() > 0;
        }
        Ok(self.cut)
    }

    fn stream(self) -> Pin<Box<impl Stream<Item = Result<RecordBatch, StageError>>>> {
        Box::pin(stream::try_unfold(self, |mut rows| async move {
            Ok(rows.next().await?.map(|batch| (batch, rows)))
        }))
    }
}

/// A file that rows were written to.
#[derive(Serialize)]
struct ExportedFile {
    output: String,
    #[serde(flatten)]
    done: Exported,
}

/// One JSON document: a list of objects, as `serde_json` prints it.
async fn print_json(rows: &mut Limited) -> Result<()> {
    let mut before = "[\n";
    while let Some(batch) = rows.next().await? {
        let mut text = String::new();
        for object in try_objects(&[batch]).map_err(StageError::from)? {
            // Texts in JSON have no line breaks.
            let object = format!("{:#}", Json::Object(object)).replace('\n', "\n  ");
            text.extend([before, "  ", &object]);
            before = ",\n";
        }
        if print(&text, true)?.is_break() {
            return Ok(());
        }
    }
    let end = if before == "[\n" { "[]\n" } else { "\n]\n" };
    print(end, true).map(|_| ())
}

/// A line for each row.
async fn print_lines(format: Format, schema: &SchemaRef, rows: &mut Limited) -> Result<()> {
    let mut text = RowsAsText::new(format, schema).map_err(unwritable)?;
    let mut bytes = Vec::new();
    text.begin(&mut bytes).map_err(unwritable)?;
    loop {
        // All formats that are text are UTF-8.
        if print(&String::from_utf8_lossy(&bytes), format == Format::Jsonl)?.is_break() {
            return Ok(());
        }
        bytes.clear();
        let Some(batch) = rows.next().await? else { return Ok(()) };
        text.add(&batch, &mut bytes).map_err(unwritable)?;
    }
}

fn print(text: &str, is_json: bool) -> Result<ControlFlow<()>> {
    let printed = console::print_rows(text, is_json);
    printed.or_else(|error| written(Err(error)).map(|()| ControlFlow::Break(())))
}

/// Ctrl-C leaves no partial file behind.
async fn to_file(
    path: PathBuf,
    format: Format,
    schema: &SchemaRef,
    rows: Limited,
) -> Result<Exported> {
    let writing = export(path, format, schema.clone(), rows.stream());
    tokio::select! {
        done = writing => done.map_err(|error| match error {
            StageError::Write { .. } => Error::new(ErrorKind::Resources, error.to_string()),
            error => error.into(),
        }),
        _ = tokio::signal::ctrl_c() => {
            Err(Error::new(ErrorKind::Interrupted, "the command was stopped; no file was written"))
        }
    }
}

fn unwritable(error: WriteError) -> Error {
    let hint = "use JSON Lines (`jsonl`) or `--output FILE.parquet`, or select plain columns";
    Error::new(ErrorKind::Usage, error.to_string()).with_hint(hint)
}
