//! `memory`: the table of what users taught. Its rows are read before stages are prepared, so that its
//! fingerprint covers them: another memory is another table, and what is undone is a table that was.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;

use crate::memory::{Row, Sentence};
use crate::stages::error::StageError;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::Computed;
use proofmill_base::ids::{InvalidId, MemoryName};
use proofmill_base::sentence::fact_id;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::memory::Memory;

const KIND: &str = "memory";

/// The rows of a memory, as they were when the pipeline was loaded.
#[derive(Debug)]
pub struct MemoryPlan {
    rows: Vec<Row>,
    /// Where they come from, for people.
    note: String,
}

#[async_trait]
impl StagePlan for MemoryPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let mut computed = execution.sink.table(batch(&self.rows)?).await?;
        computed.notes.push(self.note.clone());
        Ok(computed)
    }
}

impl Kind for Memory {
    fn traits(&self) -> Traits {
        Traits {
            version: 1,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::ByTheKind,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { from_store, components, diagnostics, .. } = context;
        let name: MemoryName = match self.name.parse() {
            Ok(name) => name,
            Err(error) => {
                let error: InvalidId = error;
                diagnostics.error(&[KIND, "name"], Code::InvalidName, error.to_string(), None);
                return None;
            }
        };
        // Where pipelines are only checked, the store is not queried.
        let recalled = from_store.memories.get(&name);
        if let Some(recalled) = recalled {
            if let Some(until) = self.until.filter(|until| *until > recalled.len()) {
                let entries = recalled.len();
                let message = format!("the memory `{name}` has no entry {until}: it has {entries}");
                let help =
                    "leave `until` out to read all entries, or name another memory".to_owned();
                diagnostics.error(&[KIND, "until"], Code::WrongValue, message, Some(help));
                return None;
            }
            if recalled.is_empty() {
                let message = format!("memory `{name}` has no entries");
                let help = match &recalled.near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("`proofmill teach add {name} \"…\"` adds one"),
                };
                diagnostics.warning(&[KIND, "name"], Code::MemoryMissing, message, Some(help));
            }
        }
        let state = recalled.map(|recalled| recalled.state(self.until)).unwrap_or_default();
        let note = match recalled.map_or(0, |recalled| recalled.len()) {
            0 => format!("the memory `{name}` did not exist"),
            all => {
                let until = self.until.unwrap_or(all);
                format!("the memory `{name}` up to entry {until} of {all}")
            }
        };
        components.set("memory.sha256", state.sha256());
        let rows = state.rows();
        let expected = rows.len() as u64;
        Some(Preparation::new(schema(), MemoryPlan { rows, note }).expecting(expected))
    }
}

/// The columns of the table.
fn schema() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let premise = Arc::new(Field::new("item", DataType::Utf8, true));
    Arc::new(Schema::new(vec![
        text("fact_id", true),
        text("fact", true),
        text("kind", false),
        text("source", false),
        text("question", true),
        text("answer", true),
        text("hypothesis", true),
        Field::new("premises", DataType::List(premise), true),
        text("author", false),
        text("reason", true),
        text("proof_id", true),
        Field::new("entry", DataType::Int64, false),
        text("created_at", false),
    ]))
}

fn batch(rows: &[Row]) -> Result<RecordBatch, StageError> {
    let texts = |value: &dyn Fn(&Row) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<StringArray>())
    };
    let sentence = |sentence: &Option<Sentence>| sentence.as_ref().map(Sentence::to_string);
    let mut premises = ListBuilder::new(StringBuilder::new());
    for row in rows {
        row.premises.iter().for_each(|premise| premises.values().append_value(premise.as_str()));
        premises.append(!row.premises.is_empty());
    }
    let entries: Int64Array =
        rows.iter().map(|row| i64::try_from(row.entry).unwrap_or(i64::MAX)).collect();
    let columns: Vec<ArrayRef> = vec![
        texts(&|row| row.fact.as_ref().map(|fact| fact_id(fact.as_str()))),
        texts(&|row| sentence(&row.fact)),
        texts(&|row| Some(row.kind.as_str().to_owned())),
        texts(&|row| Some(row.source.as_str().to_owned())),
        texts(&|row| sentence(&row.question)),
        texts(&|row| sentence(&row.answer)),
        texts(&|row| sentence(&row.hypothesis)),
        Arc::new(premises.finish()),
        texts(&|row| Some(row.author.clone())),
        texts(&|row| row.reason.clone()),
        texts(&|row| row.proof_id.clone()),
        Arc::new(entries),
        texts(&|row| Some(row.created_at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}
