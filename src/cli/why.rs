//! `proofmill why`

use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::output::Output;
use crate::run::plan::plan;
use crate::run::planned::{Choice, PlannedAction, PlannedStage};
use crate::run::reason::{Change, Reason};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::secret;
use proofmill_base::styled::printable;
use proofmill_base::suggest;

/// Explains why a stage is cached or would run.
pub async fn why(args: &args::Why, environment: &Environment) -> Result<()> {
    let store = environment.store_to_read().await?;
    let engine = environment.engine(&store, &environment.new_run())?;
    let loaded = environment.load_from_store(&args.pipeline, &engine, &store).await?;
    let Some(prepared) = &loaded.prepared else { return Ok(()) };
    let plan = plan(prepared, &Choice::default(), "plan", &store).await?;
    let found = plan.stages.iter().find(|(name, _)| name.as_str() == args.stage);
    let (name, stage) = found.ok_or_else(|| {
        let error = Error::new(ErrorKind::Usage, format!("there is no stage `{}`", args.stage));
        let names = plan.stages.keys().map(StageName::as_str);
        suggest::help(&args.stage, names).into_iter().fold(error, Error::with_hint)
    })?;
    let inputs = prepared.stages[name].stage.inputs.iter();
    let upstream: Vec<&StageName> = inputs
        .map(|input| &input.stage)
        .filter(|input| {
            matches!(plan.stages[*input].action, PlannedAction::Run | PlannedAction::Revalidate(_))
        })
        .collect();
    if environment.output.json {
        environment.output.json(&to_json(name, stage, &upstream))?;
    } else {
        environment.output.long(text(name, stage, &upstream, &environment.output))?;
    }
    Ok(())
}

fn text(
    name: &StageName,
    stage: &PlannedStage,
    upstream: &[&StageName],
    output: &Output,
) -> String {
    let verdict = match stage.action {
        PlannedAction::Cached(_) => "is cached",
        PlannedAction::Revalidate(_) => "is stored and may run",
        PlannedAction::Run | PlannedAction::Skip => "would run",
    };
    let reason = printable(&stage.reason.to_string(), true);
    let mut text = format!("`{name}` {verdict}: {reason}\n");
    if let Some(artifact) = stage.action.stored() {
        let artifact = &artifact.record;
        text.push_str(&format!("made by run {} at {}\n", artifact.created_by, artifact.created_at));
    }
    let header = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match &stage.reason {
        Reason::Changed(changes) => {
            let shown = |value: &Option<String>| {
                value.as_ref().map_or("(absent)".to_owned(), |value| cell(value))
            };
            let rows = changes
                .iter()
                .map(|c| vec![c.component.clone(), shown(&c.old), shown(&c.new)])
                .collect();
            text.push('\n');
            text.push_str(&output.table(&header(&["component", "was", "is"]), rows, &[]));
        }
        _ => {
            let rows = stage.components.map().iter();
            let rows = rows.map(|(name, value)| vec![name.clone(), cell(value)]).collect();
            text.push_str("\nwhat counts:\n");
            text.push_str(&output.table(&header(&["component", "value"]), rows, &[]));
        }
    }
    if !upstream.is_empty() {
        let names: Vec<_> = upstream.iter().map(|name| format!("`{name}`")).collect();
        text.push_str(&format!(
            "\nits inputs {} would run too; ask about them\n",
            names.join(", ")
        ));
    }
    text
}

fn to_json(name: &StageName, stage: &PlannedStage, upstream: &[&StageName]) -> Json {
    let changes: Vec<Json> = match &stage.reason {
        Reason::Changed(changes) => changes.iter().map(change_json).collect(),
        _ => Vec::new(),
    };
    json!({
        "stage": name,
        "cached": matches!(stage.action, PlannedAction::Cached(_)),
        "reason": stage.reason.to_string(),
        "changes": changes,
        "upstream": upstream,
        "fingerprint": stage.fingerprint,
        "components": stage.components.map(),
    })
}

/// A value for people. What was recorded before secrets in addresses were refused may have one.
fn cell(value: &str) -> String {
    printable(&secret::covered(value), false)
}

/// A change for programs.
pub fn change_json(change: &Change) -> Json {
    let covered = |value: &Option<String>| value.as_deref().map(secret::covered).map(Json::from);
    json!({
        "component": change.component,
        "old": covered(&change.old),
        "new": covered(&change.new),
    })
}
