//! `write`: a table exported to a file outside the store, replaced as a whole.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::TableProvider;

use crate::stages::error::StageError;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::plan::{Execution, Export, StagePlan};
use crate::stages::sink::Computed;
use crate::stages::tables::export::{digest, export};
use crate::stages::tables::{outside, rows};
use proofmill_base::ids::StageName;
use proofmill_files::{check_columns, endings, format_of};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::read::Format;
use proofmill_pipeline::kinds::write::Write;
use proofmill_store::NamedFile;

/// A prepared `write`.
#[derive(Clone, Debug)]
pub struct WritePlan {
    /// The stage that is exported.
    pub from: StageName,
    pub path: PathBuf,
    format: Format,
    schema: SchemaRef,
}

#[async_trait]
impl StagePlan for WritePlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let (sink, store) = (execution.sink, &execution.sink.store);
        let Some(table) = execution.table(&self.from) else { return Ok(Computed::default()) };
        let rows = rows::of_table(table, store);
        let written = export(self.path.clone(), self.format, table.schema(), rows).await?;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![self.path.display().to_string()])),
            Arc::new(Int64Array::from(vec![written.rows as i64])),
            Arc::new(Int64Array::from(vec![written.bytes as i64])),
            Arc::new(StringArray::from(vec![written.sha256.to_string()])),
        ];
        sink.table(RecordBatch::try_new(Arc::clone(&self.schema), columns)?).await
    }
}

impl Export for WritePlan {
    /// True if the file is still what the stored table of this stage says.
    fn is_current(&self, rows: &[RecordBatch], _: &[NamedFile]) -> bool {
        let recorded = rows.first().and_then(|batch| {
            batch.column_by_name("sha256")?.as_any().downcast_ref::<StringArray>().cloned()
        });
        let found = outside::open(&self.path).and_then(digest).ok();
        match (recorded, found) {
            (Some(recorded), Some((found, _))) if !recorded.is_empty() => {
                recorded.value(0) == found.to_string()
            }
            _ => false,
        }
    }
}

impl Kind for Write {
    fn traits(&self) -> Traits {
        Traits {
            version: 1,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::All,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, diagnostics, .. } = context;
        let from = inputs.name("from")?.clone();
        let input = inputs.table_of(&from)?.schema();
        let path = PathBuf::from(&self.path);
        let format = self.format.or_else(|| format_of(&self.path));
        let Some(format) = format else {
            let message = format!("cannot infer a format from the name `{}`", self.path);
            let help = format!("end it in {}, or give `format`", endings());
            diagnostics.error(&["write", "path"], Code::MissingKey, message, Some(help));
            return None;
        };
        if let Err(error) = check_columns(format, &input) {
            let help = "write `jsonl` or `parquet`, or select plain columns first".to_owned();
            diagnostics.error(&["write"], Code::ColumnType, error.to_string(), Some(help));
            return None;
        }
        let schema = schema();
        let plan = WritePlan { from, path, format, schema };
        Some(Preparation::exporting(Arc::clone(&plan.schema), plan).expecting(1))
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("path", DataType::Utf8, false),
        Field::new("rows", DataType::Int64, false),
        Field::new("bytes", DataType::Int64, false),
        Field::new("sha256", DataType::Utf8, false),
    ]))
}
