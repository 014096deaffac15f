//! Which table of a run was made from which: read off the records of the store, where every artifact
//! names the fingerprints of its inputs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use futures::{StreamExt, TryStreamExt, stream};

use crate::summary::{RunSummary, artifact};
use proofmill_base::digest::Digest;
use proofmill_base::error::Result;
use proofmill_base::ids::{Fingerprint, StageName};
use proofmill_store::{Artifact, StageOutcome, Store};

/// How the components of an artifact name an input.
pub const INPUT: &str = "input.";
/// Columns that say whose row it is, that of a query first.
pub const ITEM_IDS: [&str; 4] = ["query_id", "question_id", "row_id", "id"];
/// Records that are read at the same time.
const RECORDS_READ_MAX: usize = 64;

/// A table of the lineage: its position there.
pub type TableId = usize;

/// A stored table.
#[derive(Clone, Debug)]
pub struct Table {
    /// What the run calls it; several names where stages compute the same, at least one.
    pub stages: Vec<StageName>,
    pub artifact: Arc<Artifact>,
    schema: Schema,
    /// Its inputs, each with its part.
    inputs: Vec<(String, TableId)>,
}

impl Table {
    /// Its first name.
    pub fn name(&self) -> &str {
        self.stages.first().map_or(self.artifact.stage.as_str(), StageName::as_str)
    }

    /// The kind of its stage.
    pub fn kind(&self) -> &str {
        &self.artifact.kind
    }

    /// Whether it has all these columns.
    pub fn has(&self, columns: &[&str]) -> bool {
        columns.iter().all(|column| self.schema.index_of(column).is_ok())
    }

    /// Its columns of texts.
    pub fn texts(&self) -> Vec<&str> {
        let fields = self.schema.fields().iter().filter(|field| field.data_type().is_string());
        fields.map(|field| field.name().as_str()).collect()
    }

    /// Its columns, in their order, without those of vectors.
    pub fn readable(&self) -> Vec<&str> {
        let is_vector = |kind: &DataType| match kind {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type().is_floating()
            }
            _ => false,
        };
        let fields = self.schema.fields().iter().filter(|field| !is_vector(field.data_type()));
        fields.map(|field| field.name().as_str()).collect()
    }

    /// A number among its settings.
    pub fn setting(&self, name: &str) -> Option<f64> {
        self.artifact.components.get(&format!("settings.{name}"))?.parse().ok()
    }
}

/// The tables of a run, and what they were made from.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    tables: Vec<Table>,
}

impl Lineage {
    /// Of a run, as its store tells it.
    ///
    /// # Errors
    ///
    /// When the store fails, or a record that the run names is damaged or not there any more.
    pub async fn load(run: &RunSummary, store: &Store) -> Result<Self> {
        let mut seen: HashSet<Fingerprint> = HashSet::new();
        let distinct = |stage: &&StageOutcome| stage.fingerprint.is_some_and(|it| seen.insert(it));
        // A stage needs what it was made of, so a run names all tables behind its own.
        let records = run.stages.iter().filter(distinct).map(|stage| artifact(store, stage));
        let records: Vec<_> =
            stream::iter(records).buffered(RECORDS_READ_MAX).try_collect().await?;
        let found = records.into_iter().flatten().map(|stored| stored.record).collect();
        let stages = run.stages.iter();
        let stages = stages.filter_map(|stage| Some((stage.stage.clone(), stage.fingerprint?)));
        Ok(Self::of(stages.collect(), found))
    }

    /// Of the names of a run and all records that it needs, in any order.
    pub fn of(stages: Vec<(StageName, Fingerprint)>, artifacts: Vec<Arc<Artifact>>) -> Self {
        let mut names: HashMap<Fingerprint, Vec<StageName>> = HashMap::new();
        let mut place: HashMap<Fingerprint, usize> = HashMap::new();
        for (i, (name, fingerprint)) in stages.into_iter().enumerate() {
            names.entry(fingerprint).or_default().push(name);
            place.entry(fingerprint).or_insert(i);
        }
        let mut artifacts = artifacts;
        artifacts.sort_by_key(|it| place.get(&it.fingerprint).copied().unwrap_or(usize::MAX));
        let ids: HashMap<Fingerprint, TableId> =
            artifacts.iter().enumerate().map(|(id, it)| (it.fingerprint, id)).collect();
        let table = |artifact: Arc<Artifact>| Table {
            stages: names
                .remove(&artifact.fingerprint)
                .unwrap_or_else(|| vec![artifact.stage.clone()]),
            schema: artifact.arrow_schema().unwrap_or_else(Schema::empty),
            inputs: inputs(&artifact, &ids),
            artifact,
        };
        Self { tables: artifacts.into_iter().map(table).collect() }
    }

    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id]
    }

    /// All tables in the order of the run.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate()
    }

    /// The table that the run calls `name`.
    pub fn named(&self, name: &str) -> Option<TableId> {
        self.tables.iter().position(|table| table.stages.iter().any(|it| it.as_str() == name))
    }

    /// The input that has this part: `from`, `proofs`, `context`, `memory`.
    pub fn input(&self, id: TableId, part: &str) -> Option<TableId> {
        self.tables[id].inputs.iter().find(|(its, _)| its == part).map(|(_, input)| *input)
    }

    /// All inputs of a table.
    pub fn inputs(&self, id: TableId) -> impl Iterator<Item = TableId> {
        self.tables[id].inputs.iter().map(|(_, input)| *input)
    }

    /// `from` and all that it was made from, nearest first, each once.
    pub fn upstream(&self, from: TableId) -> Vec<TableId> {
        let mut queue = VecDeque::from([from]);
        let mut seen = HashSet::from([from]);
        let mut all = Vec::new();
        while let Some(id) = queue.pop_front() {
            all.push(id);
            queue.extend(self.inputs(id).filter(|input| seen.insert(*input)));
        }
        all
    }

    /// The nearest table with these columns: `from`, or what it was made from.
    pub fn nearest(&self, from: TableId, columns: &[&str]) -> Option<TableId> {
        self.upstream(from).into_iter().find(|id| self.tables[*id].has(columns))
    }
}

/// The inputs of a table among all of them.
fn inputs(artifact: &Artifact, ids: &HashMap<Fingerprint, TableId>) -> Vec<(String, TableId)> {
    inputs_of(artifact)
        .into_iter()
        .filter_map(|(part, input)| Some((part, *ids.get(&input)?)))
        .collect()
}

/// The inputs that a record names, each with its part, those of a list in its order.
pub fn inputs_of(artifact: &Artifact) -> Vec<(String, Fingerprint)> {
    let input = |(name, value): (&String, &String)| {
        let part = name.strip_prefix(INPUT)?;
        Some((part.to_owned(), Fingerprint(value.parse::<Digest>().ok()?)))
    };
    let mut inputs: Vec<_> = artifact.components.iter().filter_map(input).collect();
    let number = |part: &str| -> Option<usize> { part.split(['[', ']']).nth(1)?.parse().ok() };
    inputs.sort_by_key(|(part, _)| (number(part), part.clone()));
    inputs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::datatypes::Field;

    use super::*;
    use proofmill_store::{Extensions, schema_to_hex};

    /// A record of a table of texts, made from others.
    pub fn artifact(
        name: &str,
        kind: &str,
        columns: &[&str],
        inputs: &[(&str, &str)],
    ) -> Arc<Artifact> {
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| Field::new(*column, arrow::datatypes::DataType::Utf8, true))
            .collect();
        let components = inputs
            .iter()
            .map(|(part, stage)| (format!("{INPUT}{part}"), fingerprint(stage).to_string()));
        Arc::new(Artifact {
            v: 1,
            fingerprint: fingerprint(name),
            stage: name.parse().unwrap(),
            kind: kind.to_owned(),
            created_by: "20261121-021500123-k3f9qa".parse().unwrap(),
            created_at: "2026-11-21T02:15:00Z".parse().unwrap(),
            schema: Vec::new(),
            schema_ipc: schema_to_hex(&Schema::new(fields)),
            rows: 0,
            bytes: 0,
            parts: Vec::new(),
            errors: Vec::new(),
            files: Vec::new(),
            components: components.collect::<BTreeMap<_, _>>(),
            inputs: None,
            transient_errors: 0,
            checks: Vec::new(),
            wall_ms: 0,
            usage: None,
            notes: Vec::new(),
            rows_root: None,
            extensions: Extensions::new(),
        })
    }

    /// The fingerprint of [`artifact`].
    pub fn fingerprint(name: &str) -> Fingerprint {
        Fingerprint(Digest::of(name.as_bytes()))
    }

    /// A lineage of records in the order of the run, each under its own name.
    pub fn lineage(artifacts: Vec<Arc<Artifact>>) -> Lineage {
        let stages = artifacts.iter().map(|it| (it.stage.clone(), it.fingerprint)).collect();
        Lineage::of(stages, artifacts)
    }

    #[test]
    fn the_nearest_table_with_the_columns_is_found() {
        let all = lineage(vec![
            artifact("facts", "read", &["fact"], &[]),
            artifact("memory", "sql", &["fact", "id"], &[("facts", "facts")]),
            artifact(
                "more",
                "sql",
                &["fact", "id", "x"],
                &[("memory", "memory"), ("facts", "facts")],
            ),
        ]);
        let found = |columns: &[&str]| all.nearest(2, columns).map(|id| all.table(id).name());
        assert_eq!(found(&["x"]), Some("more"));
        assert_eq!(found(&["fact"]), Some("more"));
        assert_eq!(found(&["absent"]), None);
        assert_eq!(all.nearest(1, &["x"]), None, "only what is upstream counts");
        assert_eq!(all.upstream(2).len(), 3, "a table is visited once");
        assert_eq!((all.input(2, "memory"), all.input(2, "from")), (Some(1), None));
    }

    #[test]
    fn stages_that_compute_the_same_are_one_table() {
        let one = artifact("facts", "read", &["fact"], &[]);
        let stages = ["facts", "again"].map(|name| (name.parse().unwrap(), one.fingerprint));
        let all = Lineage::of(stages.to_vec(), vec![one]);
        assert_eq!(all.tables().count(), 1);
        assert_eq!(
            (all.named("facts"), all.named("again"), all.named("x")),
            (Some(0), Some(0), None)
        );
    }

    #[test]
    fn inputs_that_the_run_does_not_list_have_the_name_of_their_record() {
        let artifacts = vec![
            artifact("b", "sql", &["x"], &[("a", "a"), ("lost", "lost")]),
            artifact("a", "read", &["x"], &[]),
        ];
        let all = Lineage::of(vec![("c".parse().unwrap(), fingerprint("b"))], artifacts);
        assert_eq!(all.tables().map(|(_, table)| table.name()).collect::<Vec<_>>(), ["c", "a"]);
        assert_eq!(all.inputs(0).collect::<Vec<_>>(), [1], "what is lost leads nowhere");
    }
}
