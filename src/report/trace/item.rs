//! The path of an item as a tree: table by table, the rows that it has there.

use serde_json::{Map, Value as Json};

use crate::draw::cells::format_float;
use crate::draw::tree::Tree;
use crate::report::trace::words::{Style, clean, commas, lines, number, short};
use crate::report::trace::{failure, head};
use crate::report::units::plural;
use crate::trace::item::{ItemTrace, Step};
use proofmill_base::styled::Styled;
use proofmill_catalog::lineage::ITEM_IDS;

/// Columns that a person need not see; the JSON has them.
const HIDDEN: [&str; 5] = ["index", "snapshot", "prompt_tokens", "prompt_truncated", "seed"];

/// The path, with up to `rows` rows of each table.
pub fn text(trace: &ItemTrace, rows: usize, style: Style) -> Styled {
    let mut children: Vec<Tree> = trace.steps.iter().map(|one| step(one, rows)).collect();
    if !trace.failures.is_empty() {
        let failures = trace.failures.iter().map(failure).collect();
        children.push(Tree::new(style.bad("failed"), failures));
    }
    let top = clean(&format!("{} ({})", trace.stage, trace.kind));
    head(&trace.question, &trace.run, &trace.pipeline).draw(style.width)
        + "\n"
        + Tree::new(top, children).draw(style.width)
}

fn step(one: &Step, rows: usize) -> Tree {
    let shown = one.rows.iter().take(rows);
    let mut children: Vec<Tree> = shown.map(row).collect();
    let more = one.rows_all.saturating_sub(children.len());
    if more > 0 {
        children.push(Tree::leaf(format!("{more} more; `--rows N` shows N of each table")));
    }
    let also = one.same_as.join(", ");
    Tree::new(
        lines([
            Some(clean(&format!("{} ({})", one.stage, one.kind)).into()),
            (!also.is_empty()).then(|| clean(&format!("also called {also}")).into()),
        ]),
        children,
    )
}

/// Characters of a text that is shown again where another column of the row has it too.
const REPEATED_CHARS_MAX: usize = 80;

/// A row: its texts on lines of their own, all else on one line.
fn row(row: &Map<String, Json>) -> Tree {
    let seen = |name: &str| !HIDDEN.contains(&name) && !ITEM_IDS.contains(&name);
    let mut texts: Vec<Styled> = Vec::new();
    let mut said: Vec<(&str, &str)> = Vec::new();
    let mut others: Vec<Option<Styled>> = Vec::new();
    for (name, value) in row.iter().filter(|(name, value)| seen(name) && !value.is_null()) {
        match value {
            Json::String(text) if name.ends_with("digest") || name.ends_with("_id") => {
                others.push(Some(format!("{} {}", clean(name), short(text)).into()));
            }
            Json::String(text) => {
                // A fact may stand in a kept column once more.
                let known = said.iter().find(|(_, other)| other == text);
                texts.push(match known.filter(|_| text.chars().count() > REPEATED_CHARS_MAX) {
                    Some((other, _)) => clean(&format!("{name}: as {other}")).into(),
                    None => clean(&format!("{name}: {text}")).into(),
                });
                said.push((name, text));
            }
            Json::Array(items) if items.iter().all(Json::is_string) => {
                let items: Vec<&str> = items.iter().filter_map(Json::as_str).collect();
                texts.push(clean(&format!("{name}: {}", items.join(" | "))).into());
            }
            Json::Array(items)
                if !items.is_empty() && items.iter().all(|it| message(it).is_some()) =>
            {
                let messages = items.iter().filter_map(message);
                texts.extend(messages.map(|(role, said)| clean(&format!("{role}: {said}")).into()));
            }
            Json::Array(items) => {
                others
                    .push(Some(format!("{}: {}", clean(name), plural(items.len(), "item")).into()));
            }
            Json::Number(value) if value.is_f64() => others.push(number(name, value.as_f64())),
            other => others.push(Some(clean(&format!("{name} {other}")).into())),
        }
    }
    let ranked =
        row.get("rank").and_then(Json::as_i64).zip(row.get("score").and_then(Json::as_f64));
    if let Some((rank, score)) = ranked
        && let [text] = texts.as_slice()
    {
        return Tree::leaf(
            Styled::from(format!("{rank}  {}  ", format_float(score))) + text.clone(),
        );
    }
    texts.extend(commas(others));
    Tree::leaf(texts.into_iter().reduce(|all, line| all + "\n" + line).unwrap_or_default())
}

/// Who says what in a message of a chat.
fn message(value: &Json) -> Option<(&str, &str)> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    Some((fields.get("role")?.as_str()?, fields.get("content")?.as_str()?))
}
