//! `proofmill diff`

use crate::cli::args;
use crate::cli::attribute::attribute;
use crate::cli::environment::Environment;
use crate::diff::metrics::metrics;
use crate::diff::pair::TablePair;
use crate::diff::runs::{Side, StageState, runs};
use crate::session::Engine;
use crate::views::diff::{DiffView, RowsView};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::styled::printable;
use proofmill_base::suggest::{self, some_names};
use proofmill_store::Store;

/// Compares two runs, or the rows of one of their stages.
pub async fn diff(args: &args::Diff, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let a = environment.run(&store, Some(&args.a)).await?;
    let b = environment.run(&store, Some(&args.b)).await?;
    if a.run == b.run {
        let message = format!("`{}` and `{}` are the same run, {}", args.a, args.b, a.run);
        let help = "name two runs: `proofmill runs` lists them";
        return Err(Error::new(ErrorKind::Usage, message).with_hint(help));
    }
    if args.attribute {
        return attribute(args, [a, b], environment, &store).await;
    }
    let engine = environment.host.engine(&store, &environment.host.new_run())?;
    let sides = [Side::open(a, &store).await?, Side::open(b, &store).await?];
    let comparison = Comparison { args, sides, store: &store, engine: &engine, environment };
    match &args.stage {
        Some(stage) => comparison.of_stage(stage).await,
        None => comparison.of_runs().await,
    }
}

struct Comparison<'a> {
    args: &'a args::Diff,
    sides: [Side; 2],
    store: &'a Store,
    engine: &'a Engine,
    environment: &'a Environment,
}

impl Comparison<'_> {
    async fn of_runs(&self) -> Result<()> {
        let [a, b] = &self.sides;
        let found = runs(a, b);
        let (numbers, remarks) = metrics(a, b, &self.args.on, self.store, self.engine).await?;
        let (mut rows, mut unpaired) = (Vec::new(), Vec::new());
        for stage in found.stages.iter().filter(|stage| stage.state == StageState::Changed) {
            let Some(pair) = self.pair(stage.stage.as_str()).await? else { continue };
            match self.key(&pair).await {
                Ok(on) => rows.push(pair.diff(&on, &self.args.ignore, 0, self.engine).await?),
                // Such a table is still listed as changed.
                Err(_) => unpaired.push(pair.stage),
            }
        }
        let output = &self.environment.output;
        remarks.iter().for_each(|remark| output.remark(printable(remark, true)));
        if !unpaired.is_empty() {
            let named = some_names(unpaired.iter().map(String::as_str));
            output.remark(format!(
                "rows of tables without known key columns are not compared: {named}; name the columns with `--on`"
            ));
        }
        let (option, names_key) = (self.environment.store_option(), !self.args.on.is_empty());
        output.view(&DiffView::of(&self.sides, found, numbers, rows, option, names_key))
    }

    async fn of_stage(&self, stage: &str) -> Result<()> {
        let Some(pair) = self.pair(stage).await? else {
            let message = format!("`{stage}` is not a table in both runs");
            let [a, b] = &self.sides;
            let both = a.stages.keys().filter(|name| b.stages.contains_key(*name));
            let help = suggest::help(stage, both.map(|name| name.as_str()));
            let error = Error::new(ErrorKind::Usage, message);
            return Err(help.into_iter().fold(error, Error::with_hint));
        };
        let on = pair.key(&self.args.on, self.engine).await?;
        let found = pair.diff(&on, &self.args.ignore, self.args.limit, self.engine).await?;
        let (view, output) = (RowsView::of(&self.sides, found), &self.environment.output);
        output.view(&view)?;
        if !output.json {
            view.remark().into_iter().for_each(|remark| output.remark(remark));
        }
        Ok(())
    }

    /// The table of a stage in both runs; `None` unless both have one.
    async fn pair(&self, stage: &str) -> Result<Option<TablePair>> {
        let Ok(name) = stage.parse::<StageName>() else { return Ok(None) };
        let [a, b] = &self.sides;
        match (a.record(&name), b.record(&name)) {
            (Some(ours), Some(theirs)) => {
                TablePair::of(stage, [a, b], [ours, theirs], self.store).await
            }
            _ => Ok(None),
        }
    }

    /// The key of a table among others: that of `--on` where it fits.
    async fn key(&self, pair: &TablePair) -> Result<Vec<String>> {
        match pair.key(&self.args.on, self.engine).await {
            Err(_) if !self.args.on.is_empty() => pair.key(&[], self.engine).await,
            found => found,
        }
    }
}
