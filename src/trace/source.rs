//! Follows facts from the table that recalled them to what put them there: through indexes, rankings
//! and queries, up to lessons, entries of memories, or rows of files.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::stages::queries::sql_kind::{literal, name};
use crate::trace::origin::{Known, entries, first_lessons, hint, holders};
use crate::trace::read::Reader;
use crate::trace::roles::{handed_on, role};
use proofmill_base::error::Result;
use proofmill_base::sentence::{normalized_sql, without_stop};
use proofmill_catalog::lineage::{Lineage, TableId};
use proofmill_pipeline::role::KindRole;

/// Rows of one table that are looked at.
const ROWS_MAX: usize = 1000;
/// The columns of an entry of a memory, among others.
const ENTRY: [&str; 4] = ["fact", "entry", "author", "reason"];

/// What is known of each fact, by the id of its sentence.
pub type Sources = HashMap<String, Known>;

/// Follows facts upstream.
pub struct Walk<'a, 'r> {
    lineage: &'a Lineage,
    reader: &'a mut Reader<'r>,
    /// The sentences by id, normalized, with and without a full stop: what a proof says of a fact may
    /// differ so from the fact.
    sentences: HashMap<String, [String; 2]>,
    /// Tables to be searched, each for some facts.
    queue: VecDeque<(TableId, Vec<String>)>,
    seen: HashSet<(TableId, String)>,
    /// Tables in which facts were found.
    holding: HashSet<(TableId, String)>,
    sources: Sources,
}

impl<'a, 'r> Walk<'a, 'r> {
    /// For these facts: their ids, and what they say.
    pub fn new(
        lineage: &'a Lineage,
        reader: &'a mut Reader<'r>,
        facts: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let both = |fact: &str| {
            let bare = without_stop(fact);
            [format!("{bare}."), bare]
        };
        let sentences = facts.into_iter().map(|(id, fact)| (id, both(&fact))).collect();
        Self {
            lineage,
            reader,
            sentences,
            queue: VecDeque::new(),
            seen: HashSet::new(),
            holding: HashSet::new(),
            sources: Sources::new(),
        }
    }

    /// From the table that recalled them.
    ///
    /// # Errors
    ///
    /// When a table is lost or damaged.
    pub async fn from(mut self, recalled: TableId) -> Result<Sources> {
        self.push(recalled, self.fact_ids());
        self.finish().await
    }

    /// From a lesson of `round`, which knew what the rounds before it taught and what was there from
    /// the start.
    ///
    /// # Errors
    ///
    /// As [`Self::from`].
    pub async fn before_round(mut self, teach: TableId, round: i64) -> Result<Sources> {
        let facts = self.fact_ids();
        self.lessons(teach, &facts, &format!("AND round < {round}")).await?;
        if let Some(memory) = self.lineage.input(teach, "memory") {
            self.push(memory, facts);
        }
        self.finish().await
    }

    async fn finish(mut self) -> Result<Sources> {
        while let Some((table, facts)) = self.queue.pop_front() {
            self.step(table, facts).await?;
        }
        self.leave_unexplained();
        self.leave_the_way();
        Ok(self.sources)
    }

    fn fact_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.sentences.keys().cloned().collect();
        ids.sort();
        ids
    }

    fn push(&mut self, table: TableId, facts: Vec<String>) {
        let facts: Vec<String> =
            facts.into_iter().filter(|fact| self.seen.insert((table, fact.clone()))).collect();
        if !facts.is_empty() {
            self.queue.push_back((table, facts));
        }
    }

    async fn step(&mut self, table: TableId, facts: Vec<String>) -> Result<()> {
        if let Some(inputs) = handed_on(self.lineage, table) {
            inputs.into_iter().for_each(|input| self.push(input, facts.clone()));
            return Ok(());
        }
        match role(self.lineage.table(table)) {
            Some(KindRole::Lessons) => self.lessons(table, &facts, "").await,
            _ => self.held(table, &facts).await,
        }
    }

    /// Forgets tables that are not on the way from who taught a fact, where somebody did.
    fn leave_the_way(&mut self) {
        let has_taught = |id: TableId| {
            let table = self.lineage.table(id);
            role(table) == Some(KindRole::Lessons) || table.has(&ENTRY)
        };
        for (fact, known) in &mut self.sources {
            if known.lessons.is_empty() && known.entries.is_empty() {
                continue;
            }
            known.through.retain(|stage| {
                let Some(table) = self.lineage.named(stage) else { return true };
                let upstream = self.lineage.upstream(table).into_iter();
                upstream
                    .filter(|id| has_taught(*id))
                    .any(|id| self.holding.contains(&(id, fact.clone())))
            });
        }
    }

    /// Forgets rows that a table before them explains.
    fn leave_unexplained(&mut self) {
        for (fact, known) in &mut self.sources {
            known.rows.retain(|stage, _| {
                let Some(table) = self.lineage.named(stage) else { return true };
                let mut queue: Vec<TableId> = self.lineage.inputs(table).collect();
                while let Some(input) = queue.pop() {
                    if self.holding.contains(&(input, fact.clone())) {
                        return false;
                    }
                    queue.extend(handed_on(self.lineage, input).into_iter().flatten());
                }
                true
            });
        }
    }

    /// Lessons that taught the facts, where `more` holds: nothing is looked for beyond them.
    async fn lessons(&mut self, teach: TableId, facts: &[String], more: &str) -> Result<()> {
        let table = self.lineage.table(teach);
        let ids: Vec<String> = facts.iter().map(|fact| literal(fact)).collect();
        let sql = format!(
            "SELECT place, round, question_id, question, answer, proof_id, correct, fact_id,
                fact
            FROM t
            WHERE taught AND fact_id IN ({}) {more}",
            ids.join(", ")
        );
        let rows = match ids.is_empty() {
            true => Vec::new(),
            false => self.reader.rows(table, &sql).await?,
        };
        for (fact, (lesson, says)) in first_lessons(table.name(), &rows) {
            self.holding.insert((teach, fact.clone()));
            let known = self.sources.entry(fact).or_default();
            known.lessons.push(lesson);
            known.fact = known.fact.take().or(says);
        }
        Ok(())
    }

    /// Rows of a table that hold the facts; what they were made from is searched next.
    async fn held(&mut self, id: TableId, facts: &[String]) -> Result<()> {
        let table = self.lineage.table(id);
        let columns = if table.has(&["fact"]) { vec!["fact"] } else { table.texts() };
        if columns.is_empty() {
            return Ok(());
        }
        let sentences: Vec<String> = facts
            .iter()
            .filter_map(|fact| self.sentences.get(fact))
            .flatten()
            .map(|it| literal(it))
            .collect();
        let sentences = sentences.join(", ");
        let holds = |column: &&str| format!("{} IN ({sentences})", normalized_sql(&name(column)));
        let holds: Vec<String> = columns.iter().map(holds).collect();
        let sql = format!("SELECT * FROM t WHERE {} LIMIT {ROWS_MAX}", holds.join(" OR "));
        let rows = self.reader.rows(table, &sql).await?;
        let stage = table.name().to_owned();
        let found = holders((&stage, table.kind()), &columns, &rows, facts);
        let is_memory = table.has(&ENTRY);
        for (fact, (row, source)) in &found {
            let known = self.sources.entry(fact.clone()).or_default();
            known.through.push(stage.clone());
            known.hint = known.hint.take().or_else(|| hint(row));
            known.fact = known.fact.take().or_else(|| row.text(&source.column));
            self.holding.insert((id, fact.clone()));
            if is_memory {
                known.entries.extend(entries(&stage, &rows, fact));
            } else {
                known.rows.insert(stage.clone(), source.clone());
            }
        }
        let mut found: Vec<String> = found.into_keys().collect();
        found.sort();
        for input in self.lineage.inputs(id).collect::<Vec<_>>() {
            self.push(input, found.clone());
        }
        Ok(())
    }
}
