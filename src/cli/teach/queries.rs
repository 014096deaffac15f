//! What `teach` shows: what a memory holds, its history, its conflicts, all memories.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::cli::environment::Environment;
use crate::cli::teach::args::Of;
use crate::memory::{Conflict, Journal, JournalEntry, Row, RowKind, Sentence, catalog};
use crate::report::units::plural;
use proofmill_base::error::Result;
use proofmill_base::sentence::fact_id;
use proofmill_base::styled::printable;
use proofmill_store::Store;

/// Shows what a memory holds.
pub async fn list(args: &Of, store: &Store, environment: &Environment) -> Result<()> {
    let journal = Journal::open_known(store, &args.name).await?;
    let rows = journal.state().rows();
    let output = &environment.output;
    if output.json {
        output.json(&rows.iter().map(row_json).collect::<Vec<_>>())?;
        return Ok(());
    }
    let line = |row: &Row| {
        vec![
            row.entry.to_string(),
            row.kind.as_str().to_owned(),
            printable(&row.text(), args.full),
            printable(row.question.as_ref().map_or("", Sentence::as_str), args.full),
            row.source.as_str().to_owned(),
            row.author.clone(),
        ]
    };
    let header = ["entry", "kind", "what", "question", "source", "author"].map(str::to_owned);
    output.long(output.table(&header, rows.iter().map(line).collect(), &[true]))?;
    let conflicts = journal.state().conflicts().len();
    if conflicts > 0 {
        let name = &args.name;
        let some = plural(conflicts, "conflict");
        output.remark(format!("{some}; `proofmill teach conflicts {name}` shows them"));
    }
    Ok(())
}

/// Shows every entry.
pub async fn history(args: &Of, store: &Store, environment: &Environment) -> Result<()> {
    let journal = Journal::open_known(store, &args.name).await?;
    let output = &environment.output;
    let entries = || journal.entries().iter().zip(journal.undone_by());
    if output.json {
        output.json(
            &entries().map(|(entry, undone)| entry_json(entry, undone)).collect::<Vec<_>>(),
        )?;
        return Ok(());
    }
    let line = |(entry, undone): (&JournalEntry, Option<u64>)| {
        vec![
            entry.seq.to_string(),
            entry.t_utc.format("%Y-%m-%d %H:%M:%S").to_string(),
            entry.author.clone(),
            entry.action.verb().to_string(),
            printable(&entry.action.to_string(), args.full),
            undone.map(|by| format!("by {by}")).unwrap_or_default(),
            printable(entry.reason.as_deref().unwrap_or_default(), args.full),
            entry.proof.clone().unwrap_or_default(),
        ]
    };
    let header = ["entry", "at (UTC)", "author", "action", "what", "undone", "reason", "proof"];
    output.long(output.table(
        &header.map(str::to_owned),
        entries().map(line).collect(),
        &[true],
    ))?;
    Ok(())
}

/// Shows the facts that conflict.
pub async fn conflicts(args: &Of, store: &Store, environment: &Environment) -> Result<()> {
    let journal = Journal::open_known(store, &args.name).await?;
    let found = journal.state().conflicts();
    let output = &environment.output;
    if output.json {
        let json =
            |(_, later, conflict): &(Row, Row, Conflict)| conflict_json(later.entry, conflict);
        output.json(&found.iter().map(json).collect::<Vec<_>>())?;
        return Ok(());
    }
    if found.is_empty() {
        output.remark(format!("no facts of `{}` conflict", args.name));
        return Ok(());
    }
    let line = |(earlier, later, conflict): &(Row, Row, Conflict)| {
        vec![
            conflict.clash.to_string(),
            earlier.entry.to_string(),
            printable(&earlier.text(), args.full),
            later.entry.to_string(),
            printable(&later.text(), args.full),
        ]
    };
    let header = ["what", "entry", "fact", "entry", "fact"].map(str::to_owned);
    let right = [false, true, false, true];
    output.long(output.table(&header, found.iter().map(line).collect(), &right))?;
    Ok(())
}

/// Lists the memories of the store.
pub async fn memories(store: &Store, environment: &Environment) -> Result<()> {
    let output = &environment.output;
    let (mut lines, mut all) = (Vec::new(), Vec::new());
    for name in catalog(store).await?.into_keys() {
        let journal = Journal::open(store, &name).await?;
        let mut counts: BTreeMap<RowKind, u64> = BTreeMap::new();
        for row in journal.state().rows() {
            *counts.entry(row.kind).or_default() += 1;
        }
        let count = |kind: RowKind| counts.get(&kind).copied().unwrap_or_default();
        let last = journal.entries().last().map(|entry| entry.t_utc);
        let kinds = [
            RowKind::Fact,
            RowKind::Noted,
            RowKind::Blocked,
            RowKind::Confirmed,
            RowKind::Excluded,
            RowKind::Forced,
        ];
        let entries = journal.entries().len();
        let counted = kinds.map(|kind| (kind.as_str(), count(kind)));
        let held: BTreeMap<&str, u64> = counted.into_iter().collect();
        all.push(json!({"memory": name, "entries": entries, "holds": held, "changed_at": last}));
        let numbers = counted.map(|(_, count)| count.to_string());
        let at = last.map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default();
        lines.push(
            [vec![name.to_string(), entries.to_string()], numbers.to_vec(), vec![at]].concat(),
        );
    }
    if output.json {
        output.json(&Json::Array(all))?;
        return Ok(());
    }
    let header = [
        "memory",
        "entries",
        "fact",
        "noted",
        "blocked",
        "confirmed",
        "excluded",
        "forced",
        "changed (UTC)",
    ];
    let right = [false, true, true, true, true, true, true, true];
    output.long(output.table(&header.map(str::to_owned), lines, &right))?;
    Ok(())
}

/// A conflict for programs; `entry` has the later fact.
pub fn conflict_json(entry: u64, conflict: &Conflict) -> Json {
    json!({
        "what": conflict.clash.as_str(),
        "entry": entry,
        "fact": conflict.fact,
        "with_entry": conflict.with.entry,
        "with_fact": conflict.with.fact,
    })
}

/// A row for programs, with the names of the columns of a `memory` stage.
fn row_json(row: &Row) -> Json {
    let mut json = json!(row);
    json["fact_id"] = json!(row.fact.as_ref().map(|fact| fact_id(fact.as_str())));
    json
}

fn entry_json(entry: &JournalEntry, undone: Option<u64>) -> Json {
    json!({
        "entry": entry.seq,
        "at": entry.t_utc,
        "author": entry.author,
        "action": entry.action,
        "what": entry.action.to_string(),
        "undone_by": undone,
        "reason": entry.reason,
        "proof": entry.proof,
        "run": entry.run,
    })
}
