//! Rows of stored tables, fetched by queries: only what belongs to a question leaves a table.

use std::collections::HashMap;
use std::sync::Arc;

use crate::run::bind::tables_of;
use crate::session::{Engine, StageTable};
use crate::stages::queries::sql_kind::literal;
use crate::stages::tables::query::rows_of;
use crate::stages::tables::rows::objects;
use crate::trace::document::Failure;
use crate::trace::find::belongs;
use crate::trace::row::JsonRow;
use proofmill_base::error::Result;
use proofmill_base::ids::Fingerprint;
use proofmill_catalog::lineage::Table;
use proofmill_store::Store;

/// What a query calls the table that it asks.
const NAME: &str = "t";

/// The rows and the error rows of an artifact; no error rows where it has none.
type Opened = (Option<Arc<StageTable>>, Option<Arc<StageTable>>);

/// Reads tables of one store; each is verified once.
pub struct Reader<'a> {
    store: &'a Store,
    engine: &'a Engine,
    opened: HashMap<Fingerprint, Opened>,
    /// Rows of questions, which several answers share.
    by_question: HashMap<(Fingerprint, String), Vec<JsonRow>>,
}

impl<'a> Reader<'a> {
    /// A reader of `store` that computes with `engine`.
    pub fn new(store: &'a Store, engine: &'a Engine) -> Self {
        Self { store, engine, opened: HashMap::new(), by_question: HashMap::new() }
    }

    /// The rows that `sql` gives, a query over the table `t`; none where the artifact is no table.
    ///
    /// # Errors
    ///
    /// When the table is lost or damaged, or the query cannot be run.
    pub async fn rows(&mut self, table: &Table, sql: &str) -> Result<Vec<JsonRow>> {
        match self.open(table).await?.0 {
            Some(rows) => self.query(rows, sql).await,
            None => Ok(Vec::new()),
        }
    }

    /// The rows of a question in a table that has a column `question_id`.
    ///
    /// # Errors
    ///
    /// As [`Self::rows`].
    pub async fn of_question(&mut self, table: &Table, question_id: &str) -> Result<Vec<JsonRow>> {
        let key = (table.artifact.fingerprint, question_id.to_owned());
        if let Some(rows) = self.by_question.get(&key) {
            return Ok(rows.clone());
        }
        let sql = format!("SELECT * FROM {NAME} WHERE question_id = {}", literal(question_id));
        let rows = self.rows(table, &sql).await?;
        self.by_question.insert(key, rows.clone());
        Ok(rows)
    }

    /// The error rows of a question: its own, those of its hypotheses, those of their proofs.
    ///
    /// # Errors
    ///
    /// As [`Self::rows`].
    pub async fn failures(&mut self, table: &Table, question_id: &str) -> Result<Vec<Failure>> {
        let Some(errors) = self.open(table).await?.1 else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT * FROM {NAME} WHERE starts_with(source, {}) ORDER BY source",
            literal(question_id)
        );
        let rows = self.query(errors, &sql).await?;
        let failure = |row: JsonRow| {
            let text = |column| row.text(column).unwrap_or_default();
            let failure = Failure {
                stage: table.name().to_owned(),
                source: text("source"),
                class: text("class"),
                message: text("message"),
                raw: text("raw"),
            };
            belongs(&failure.source, question_id).then_some(failure)
        };
        Ok(rows.into_iter().filter_map(failure).collect())
    }

    async fn open(&mut self, table: &Table) -> Result<Opened> {
        let artifact = &table.artifact;
        if let Some(opened) = self.opened.get(&artifact.fingerprint) {
            return Ok(opened.clone());
        }
        let both = tables_of(self.store, &artifact.stage, artifact).await?;
        let mut both = both.into_iter().map(|(_, table)| table);
        let opened = (both.next(), both.next());
        self.opened.insert(artifact.fingerprint, opened.clone());
        Ok(opened)
    }

    async fn query(&self, table: Arc<StageTable>, sql: &str) -> Result<Vec<JsonRow>> {
        let (_, rows) = rows_of(sql, &[(NAME, &table)], self.engine).await?;
        Ok(objects(&rows).into_iter().map(JsonRow).collect())
    }
}
