//! `compare`: systems on the same items, pair by pair.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use indexmap::IndexMap;
use proofmill_udfs::stats::{self, NoiseFloor};

use crate::stages::error::StageError;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::Computed;
use crate::stages::tables::paired::{Paired, few_clusters, paired};
use crate::stages::tables::values::{self, Columns, Key, Metric, Selection, text_at};
use proofmill_base::natural::Natural;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::compare::Compare;
use proofmill_pipeline::kinds::statistics::all_metrics;

/// A prepared `compare`.
#[derive(Clone, Debug)]
pub struct ComparePlan {
    /// The systems' rows: one plan for all, or one for each of two with its name.
    plans: Vec<(Option<String>, LogicalPlan)>,
    metrics: Vec<Metric>,
    settings: Compare,
    schema: SchemaRef,
}

#[async_trait]
impl StagePlan for ComparePlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let (pairs, note) = compute(self, &execution.session()).await?;
        let mut computed = execution.sink.table(pairs).await?;
        computed.notes.extend(note);
        Ok(computed)
    }
}

impl Kind for Compare {
    fn traits(&self) -> Traits {
        Traits {
            version: 6,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::All,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, components, diagnostics, .. } = context;
        let wanted = all_metrics(&self.correct, &self.metrics);
        values::check_names(&self.correct, &self.metrics, "compare", diagnostics)?;
        if wanted.is_empty() {
            let message = "nothing to compare: give `correct` or `metrics`".to_owned();
            diagnostics.error(&["compare"], Code::MissingKey, message, None);
            return None;
        }
        let mut missing = |key: &str, beside: &str| {
            let message = format!("`{beside}` requires `{key}`");
            diagnostics.error(&["compare", beside], Code::MissingKey, message, None);
        };
        let sides = match (&self.from, &self.systems, &self.baseline, &self.candidate) {
            (Some(from), Some(_), None, None) => vec![("from", from)],
            (Some(_), None, ..) => {
                missing("systems", "from");
                return None;
            }
            (None, _, Some(baseline), Some(candidate)) if baseline == candidate => {
                let message = format!("`{candidate}` is compared with itself");
                diagnostics.error(&["compare", "candidate"], Code::Duplicate, message, None);
                return None;
            }
            (None, _, Some(baseline), Some(candidate)) => {
                vec![("baseline", baseline), ("candidate", candidate)]
            }
            (None, _, Some(_), None) => {
                missing("candidate", "baseline");
                return None;
            }
            _ => {
                let message = "give `from` and `systems`, or `baseline` and `candidate`".to_owned();
                diagnostics.error(&["compare"], Code::NotExactlyOne, message, None);
                return None;
            }
        };
        let mut plans = Vec::new();
        let mut metrics = None;
        for (path, name) in sides {
            let table = inputs.table(path)?;
            let input = table.schema();
            let mut selection = Selection::new(engine, name, table)?;
            let mut valid = true;
            for column in self.key.all() {
                valid &= diagnostics.column(&["compare", "key"], column, &input).is_some();
                selection.text(column);
            }
            let single =
                [("systems", &self.systems), ("cluster", &self.cluster), ("reruns", &self.reruns)];
            for (key, column) in single {
                if let Some(column) = column {
                    valid &= diagnostics.column(&["compare", key], column, &input).is_some();
                    selection.text(column);
                }
            }
            metrics =
                Some(selection.metrics(&wanted, &["compare"], diagnostics).filter(|_| valid)?);
            let system = self.from.is_none().then(|| name.to_string());
            // Names of tables are names of systems in the result.
            system.iter().for_each(|name| components.set(format!("system[{}]", plans.len()), name));
            let plan = selection.plan()?;
            plans.push((system, plan));
        }
        components.set_order("metrics", wanted.keys());
        let schema = schema(self);
        let plan = ComparePlan {
            plans,
            metrics: metrics?,
            settings: self.clone(),
            schema: Arc::clone(&schema),
        };
        Some(Preparation::new(schema, plan))
    }
}

fn schema(settings: &Compare) -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::Float64, true);
    let count = |name: &str| Field::new(name, DataType::Int64, true);
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let mut fields = vec![
        text("metric"),
        text("baseline"),
        text("candidate"),
        number("baseline_value"),
        number("candidate_value"),
        number("diff"),
        number("ci_low"),
        number("ci_high"),
        text("ci_method"),
        count("only_baseline"),
        count("only_candidate"),
        number("p_mcnemar"),
        number("p_bootstrap"),
        number("p_clustered"),
        number("p_holm"),
        count("n"),
        count("n_unpaired"),
    ];
    let boolean = |name: &str| Field::new(name, DataType::Boolean, true);
    if settings.reruns.is_some() {
        fields.extend([count("runs"), number("noise_floor"), boolean("above_noise")]);
    }
    if settings.look.is_some() {
        fields.extend([number("alpha_spent"), boolean("alarm"), number("e_value")]);
    }
    Arc::new(Schema::new(fields))
}

/// An item of one system: its cluster, its run, and its values by metric.
struct Item {
    cluster: Option<String>,
    run: Option<String>,
    values: Vec<f64>,
}

/// The items of each system, by key.
type Systems = IndexMap<String, HashMap<Key, Item>>;

/// Compares all pairs; with a note where few clusters stand behind them.
pub async fn compute(
    plan: &ComparePlan,
    state: &SessionState,
) -> Result<(RecordBatch, Option<String>), StageError> {
    let keys = plan.settings.key.all().len();
    let single = [&plan.settings.systems, &plan.settings.cluster, &plan.settings.reruns];
    let texts = keys + single.into_iter().flatten().count();
    let mut systems = Systems::new();
    for (name, query) in &plan.plans {
        let columns = values::read(query, texts, state).await?;
        if let Some(name) = name {
            systems.entry(name.clone()).or_default();
        }
        collect(plan, name.as_deref(), &columns, keys, &mut systems)?;
    }
    let plan = plan.clone();
    let compare = move || {
        let lines = pairs(&plan, &systems)?;
        let fewest = lines.iter().filter_map(|line| line.found.clusters).min();
        let column = plan.settings.cluster.as_ref().zip(fewest);
        let note = column.and_then(|(column, fewest)| few_clusters(column, fewest));
        Ok((batch(&plan, &lines)?, note))
    };
    tokio::task::spawn_blocking(compare)
        .await
        .unwrap_or_else(|error| Err(StageError::Task(error.to_string())))
}

fn collect(
    plan: &ComparePlan,
    name: Option<&str>,
    columns: &Columns,
    keys: usize,
    systems: &mut Systems,
) -> Result<(), StageError> {
    let rows = columns.values.first().map_or(0, Float64Array::len);
    let mut rest = columns.texts[keys + usize::from(plan.settings.systems.is_some())..].iter();
    let cluster = plan.settings.cluster.as_ref().and_then(|_| rest.next());
    let run = plan.settings.reruns.as_ref().and_then(|_| rest.next());
    for row in 0..rows {
        let identity = columns.texts[..keys].iter().chain(run);
        let key: Key = identity.map(|column| text_at(column, row)).collect();
        let system = match name {
            Some(name) => name.to_owned(),
            None => text_at(&columns.texts[keys], row).ok_or_else(|| StageError::Data {
                message: format!("the system of the item `{}` is NULL", shown(&key)),
                help: "give each row of `systems` a string, or filter such rows out".to_owned(),
            })?,
        };
        let value =
            |column: &Float64Array| if column.is_valid(row) { column.value(row) } else { 0.0 };
        let item = Item {
            cluster: cluster.and_then(|column| text_at(column, row)),
            run: run.and_then(|column| text_at(column, row)),
            values: columns.values.iter().map(value).collect(),
        };
        let items = systems.entry(system.clone()).or_default();
        if items.insert(key.clone(), item).is_some() {
            return Err(StageError::Data {
                message: format!("`{system}` has two rows for the item `{}`", shown(&key)),
                help: "`key` must identify one row of each system; add a column to it".to_owned(),
            });
        }
    }
    Ok(())
}

/// The values of a key, for messages.
fn shown(key: &[Option<String>]) -> String {
    key.iter().map(|text| text.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join(", ")
}

/// One comparison.
struct Line {
    metric: String,
    baseline: String,
    candidate: String,
    found: Paired,
    p_holm: Option<f64>,
    unpaired: usize,
    /// Of the system whose runs lie further apart.
    noise: Option<NoiseFloor>,
}

fn pairs(plan: &ComparePlan, systems: &Systems) -> Result<Vec<Line>, StageError> {
    let mut names: Vec<&String> = systems.keys().collect();
    if plan.settings.from.is_some() {
        names.sort_by_key(|name| Natural::of(name));
    }
    let against = plan.settings.against.as_ref();
    if let Some(against) = against.filter(|against| !systems.contains_key(*against)) {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        return Err(StageError::Data {
            message: format!("there is no system `{against}` to compare with"),
            help: format!("the column has {}", names.join(", ")),
        });
    }
    let mut wanted = Vec::new();
    for (i, first) in names.iter().enumerate() {
        for second in &names[i + 1..] {
            match against {
                None => wanted.push((*first, *second)),
                Some(against) if *first == against => wanted.push((*first, *second)),
                Some(against) if *second == against => wanted.push((*second, *first)),
                Some(_) => {}
            }
        }
    }
    let mut lines = Vec::new();
    for (m, metric) in plan.metrics.iter().enumerate() {
        let mut of_metric = Vec::new();
        for (baseline, candidate) in &wanted {
            of_metric.extend(pair(plan, systems, (baseline, candidate), (m, metric))?);
        }
        let mut tested: Vec<(&mut Line, f64)> =
            of_metric.iter_mut().filter_map(|line| line.found.p().map(|p| (line, p))).collect();
        let p: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
        let corrected = if p.is_empty() { Vec::new() } else { stats::holm(&p)? };
        tested.iter_mut().zip(corrected).for_each(|((line, _), p)| line.p_holm = Some(p));
        lines.extend(of_metric);
    }
    Ok(lines)
}

fn pair(
    plan: &ComparePlan,
    systems: &Systems,
    (baseline, candidate): (&str, &str),
    (m, metric): (usize, &Metric),
) -> Result<Option<Line>, StageError> {
    let (first, second) = (&systems[baseline], &systems[candidate]);
    let mut keys: Vec<_> = first.keys().filter(|key| second.contains_key(*key)).collect();
    keys.sort();
    if keys.is_empty() {
        return Ok(None);
    }
    let a: Vec<f64> = keys.iter().map(|key| first[*key].values[m]).collect();
    let b: Vec<f64> = keys.iter().map(|key| second[*key].values[m]).collect();
    let two = keys.iter().find(|key| first[**key].cluster != second[**key].cluster);
    if let Some(key) = two {
        let cluster =
            |items: &HashMap<Key, Item>| shown(std::slice::from_ref(&items[*key].cluster));
        let (one, other) = (cluster(first), cluster(second));
        return Err(StageError::Data {
            message: format!(
                "the item `{}` is in the cluster `{one}` for `{baseline}` and in `{other}` for `{candidate}`",
                shown(key)
            ),
            help: "give each item one cluster, or add a column to `key`".to_owned(),
        });
    }
    let clusters: Vec<_> = keys.iter().map(|key| first[*key].cluster.as_deref()).collect();
    let clusters = plan.settings.cluster.as_ref().map(|_| clusters.as_slice());
    let found = paired(&a, &b, clusters, metric.boolean, &plan.settings.ci)?;
    let noise = match plan.settings.reruns {
        None => None,
        Some(_) => {
            let runs: Vec<_> = keys.iter().map(|key| first[*key].run.as_deref()).collect();
            let of_both = [noise(&a, &runs)?, noise(&b, &runs)?];
            of_both.into_iter().max_by(|a, b| a.floor.total_cmp(&b.floor))
        }
    };
    Ok(Some(Line {
        metric: metric.name.clone(),
        baseline: baseline.to_owned(),
        candidate: candidate.to_owned(),
        unpaired: first.len() + second.len() - 2 * found.n,
        found,
        p_holm: None,
        noise,
    }))
}

/// How far the means of the runs lie apart.
fn noise(values: &[f64], runs: &[Option<&str>]) -> Result<NoiseFloor, StageError> {
    let mut sums: BTreeMap<&Option<&str>, (f64, f64)> = BTreeMap::new();
    for (value, run) in values.iter().zip(runs) {
        let sum = sums.entry(run).or_default();
        *sum = (sum.0 + value, sum.1 + 1.0);
    }
    let means: Vec<f64> = sums.into_values().map(|(sum, n)| sum / n).collect();
    Ok(stats::noise_floor(&means)?)
}

fn batch(plan: &ComparePlan, lines: &[Line]) -> Result<RecordBatch, StageError> {
    let number = |of: &dyn Fn(&Line) -> Option<f64>| -> ArrayRef {
        let finite = |line| of(line).filter(|value: &f64| value.is_finite());
        Arc::new(lines.iter().map(finite).collect::<Float64Array>())
    };
    let count = |of: &dyn Fn(&Line) -> Option<u64>| -> ArrayRef {
        Arc::new(lines.iter().map(|line| of(line).map(|n| n as i64)).collect::<Int64Array>())
    };
    let text = |of: &dyn Fn(&Line) -> &str| -> ArrayRef {
        Arc::new(lines.iter().map(|line| Some(of(line))).collect::<StringArray>())
    };
    let boolean = |of: &dyn Fn(&Line) -> Option<bool>| -> ArrayRef {
        Arc::new(lines.iter().map(of).collect::<BooleanArray>())
    };
    let mut columns = vec![
        text(&|line| &line.metric),
        text(&|line| &line.baseline),
        text(&|line| &line.candidate),
        number(&|line| Some(line.found.means.0)),
        number(&|line| Some(line.found.means.1)),
        number(&|line| Some(line.found.diff)),
        number(&|line| Some(line.found.interval.0)),
        number(&|line| Some(line.found.interval.1)),
        text(&|line| &line.found.method),
        count(&|line| line.found.discordant.map(|(b, _)| b)),
        count(&|line| line.found.discordant.map(|(_, c)| c)),
        number(&|line| line.found.p_mcnemar),
        number(&|line| line.found.p_bootstrap),
        number(&|line| line.found.p_clustered),
        number(&|line| line.p_holm),
        count(&|line| Some(line.found.n as u64)),
        count(&|line| Some(line.unpaired as u64)),
    ];
    let settings = &plan.settings;
    if settings.reruns.is_some() {
        // One run does not tell how far runs lie apart.
        let known = |line: &Line| line.noise.filter(|noise| noise.runs > 1);
        columns.extend([
            count(&|line| line.noise.map(|noise| noise.runs as u64)),
            number(&|line| known(line).map(|noise| noise.floor)),
            boolean(&|line| known(line).map(|noise| noise.exceeded_by(line.found.diff))),
        ]);
    }
    if let Some(look) = settings.look {
        let alpha = stats::alpha_spent(1.0 - settings.ci.level, look);
        columns.extend([
            number(&|_| alpha),
            boolean(&|line| Some(line.p_holm? <= alpha?)),
            number(&|line| line.found.discordant.map(|(b, c)| stats::sign_e_value(b, c))),
        ]);
    }
    values::table(&plan.schema, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::tables::results::result_column;

    #[test]
    fn all_columns_are_known() {
        let settings = r#"{"from": "t", "correct": "hit", "key": "id", "systems": "system",
            "baseline": "a", "reruns": "run", "look": 1}"#;
        let schema = schema(&serde_json::from_str(settings).unwrap());
        assert!(schema.field_with_name("above_noise").is_ok());
        assert!(schema.fields().iter().all(|field| result_column(field.name()).is_some()));
    }
}
