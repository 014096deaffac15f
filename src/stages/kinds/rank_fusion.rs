//! `rank_fusion`: several rankings of the same queries become one, as a query over their tables.

use std::collections::{HashMap, HashSet};

use arrow::datatypes::{Field, SchemaRef};

use crate::graph::Role;
use crate::sqltext;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::kind::{Inputs, Kind, Preparation, Preparing, Traits};
use crate::stages::queries::query::QueryPlan;
use crate::stages::queries::sql_kind;
use proofmill_base::ids::StageName;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::StageKind;
use proofmill_pipeline::kinds::rank_fusion::RankFusion;
use proofmill_pipeline::settings::StageRef;

const COLUMNS: [&str; 7] = ["query_id", "rank", "score", "fact_id", "fact", "index", "snapshot"];

impl Kind for RankFusion {
    fn traits(&self) -> Traits {
        Traits::of_query(1)
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, diagnostics, .. } = context;
        let weights = weights(self, diagnostics);
        let mut rankings = HashMap::new();
        let (mut seen, mut valid, mut first) = (HashSet::new(), true, None);
        for (i, name) in self.from.iter().enumerate() {
            let steps = ["rank_fusion", "from", &i.to_string()];
            let ranking = inputs.name(&format!("from[{i}]"))?;
            if !seen.insert(ranking) {
                let message = format!("`{name}` is named twice");
                let help = "to give it more weight, use `weights`".to_owned();
                diagnostics.error(&steps, Code::Duplicate, message, Some(help));
                valid = false;
            }
            let table = inputs.table_of(ranking)?;
            let schema = table.schema();
            if let Some(column) = COLUMNS.into_iter().find(|c| schema.index_of(c).is_err()) {
                let message = format!("`{name}` has no column `{column}`, so it is not a ranking");
                let names = schema.fields().iter().map(|field| field.name().as_str());
                let help =
                    suggest::nearest(column, names).map(|near| format!("did you mean `{near}`?"));
                let help = help.unwrap_or_else(|| "name tables of `retrieve` stages".to_owned());
                diagnostics.error(&steps, Code::UnknownColumn, message, Some(help));
                valid = false;
            }
            valid &= kept(self, &steps, name, (&schema, &first), diagnostics).is_some();
            first.get_or_insert(schema);
            rankings.insert(ranking_name(i), table);
        }
        valid &= same_ids(self, inputs, diagnostics).is_some();
        let weights = weights.filter(|_| valid)?;
        let planned = match sqltext::parse(&query(self, &weights)) {
            Ok(query) => diagnostics.query(&query, rankings, engine).map_err(|error| error.message),
            Err(error) => Err(error.message),
        };
        match planned {
            Ok(planned) => Some(Preparation::new(planned.schema, QueryPlan(planned.plan))),
            Err(message) => {
                // The query is ours: only types of columns that are no ranking's can break it.
                let help = "name tables of `retrieve` stages".to_owned();
                diagnostics.error(&["rank_fusion", "from"], Code::ColumnType, message, Some(help));
                None
            }
        }
    }
}

/// The columns that rows keep are in the ranking `name`, of the types of the first one, and once.
fn kept(
    settings: &RankFusion,
    steps: &[&str],
    name: &str,
    (ranking, first): (&SchemaRef, &Option<SchemaRef>),
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let Some(first) = first else {
        let own = COLUMNS.into_iter().chain(["evidence"]).collect::<Vec<_>>();
        return sql_kind::keep("rank_fusion", &settings.keep, &own, ranking, diagnostics);
    };
    let mut valid = Some(());
    for column in &settings.keep {
        let kind =
            |schema: &SchemaRef| schema.field_with_name(column).map(Field::data_type).ok().cloned();
        let (found, expected) = (kind(ranking), kind(first));
        if expected.is_none() || found == expected {
            continue;
        }
        let what = found.map_or("is missing".to_owned(), |found| format!("is {found}"));
        let message =
            format!("column `{column}` of `{name}` {what}, but `keep` takes it from all rankings");
        let help = "give it to all rankings, with one type".to_owned();
        diagnostics.error(steps, Code::UnknownColumn, message, Some(help));
        valid = None;
    }
    valid
}

/// Facts are the same if their ids are: either all indexes take them from a column, or none does.
fn same_ids(
    settings: &RankFusion,
    inputs: &Inputs<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let mut first: Option<(&StageRef, bool)> = None;
    for (i, name) in settings.from.iter().enumerate() {
        let Some(has_ids) = has_ids(inputs, inputs.name(&format!("from[{i}]"))?) else { continue };
        let (other, others) = *first.get_or_insert((name, has_ids));
        if has_ids != others {
            let (by_id, by_text) = if has_ids { (name, other) } else { (other, name) };
            let message = format!(
                "`{by_id}` identifies facts by a column and `{by_text}` by their text: none would match"
            );
            let help = "give both indexes the same `id`, or none".to_owned();
            let steps = ["rank_fusion", "from", &i.to_string()];
            diagnostics.error(&steps, Code::WrongValue, message, Some(help));
            return None;
        }
    }
    Some(())
}

/// Whether the index behind a ranking takes ids from a column; `None` if it is no table of `retrieve`.
fn has_ids(inputs: &Inputs<'_>, ranking: &StageName) -> Option<bool> {
    let stage = &inputs.stages.get(ranking)?.stage;
    let memory = stage.input(&Role::Setting("memory".to_owned()))?;
    match &inputs.stages.get(memory)?.stage.spec.kind {
        StageKind::Index(index) => Some(index.row_column().is_some()),
        _ => None,
    }
}

/// The weight of each ranking.
fn weights(settings: &RankFusion, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<f64>> {
    let rankings = settings.from.len();
    let Some(weights) = &settings.weights else { return Some(vec![1.0; rankings]) };
    if weights.len() != rankings {
        let message = format!("{} weights for {rankings} rankings", weights.len());
        let help = "give each table of `from` one weight, in their order".to_owned();
        diagnostics.error(&["rank_fusion", "weights"], Code::WrongValue, message, Some(help));
        return None;
    }
    let wrong = weights.iter().position(|weight| *weight <= 0.0);
    if let Some(i) = wrong {
        let message = format!("expected more than 0, found {}", weights[i]);
        diagnostics.error(
            &["rank_fusion", "weights", &i.to_string()],
            Code::WrongValue,
            message,
            None,
        );
    }
    wrong.is_none().then(|| weights.clone())
}

fn ranking_name(i: usize) -> String {
    format!("ranking_{i}")
}

/// The query. A ranking that has a fact more than once for a query counts by its best rank. Scores
/// are added up in the order of the rankings, so that they do not depend on the number of threads.
fn query(settings: &RankFusion, weights: &[f64]) -> String {
    let each = |make: &dyn Fn(usize, f64) -> String, separator: &str| {
        let all = weights.iter().enumerate().map(|(i, weight)| make(i, *weight));
        all.collect::<Vec<_>>().join(separator)
    };
    let RankFusion { k, top_k, .. } = settings;
    // Under names of ours inside, so that none is one of the query's.
    let keep = |make: &dyn Fn(usize, &str) -> String| -> String {
        let quoted = |column: &String| format!("\"{}\"", column.replace('"', "\"\""));
        settings.keep.iter().enumerate().map(|(i, column)| make(i, &quoted(column))).collect()
    };
    let columns = COLUMNS.map(|column| format!("\"{column}\"")).join(", ")
        + &keep(&|i, column| format!(", {column} AS kept_{i}"));
    let firsts =
        keep(&|i, _| format!(", first_value(kept_{i} ORDER BY ranking, rank, fact) AS kept_{i}"));
    let kept = keep(&|i, column| format!(", kept_{i} AS {column}"));
    let found = each(
        &|i, _| format!("SELECT {i} AS ranking, {columns} FROM {}", ranking_name(i)),
        " UNION ALL ",
    );
    let evidence = each(
        &|i, _| {
            format!(
                "first_value(named_struct('index', \"index\", 'snapshot', snapshot, 'rank', rank, \
                 'score', score) ORDER BY rank, fact) FILTER (WHERE ranking = {i}) AS evidence_{i}"
            )
        },
        ", ",
    );
    let score = each(
        &|i, w| format!("coalesce({w:?} / ({k:?} + CAST(evidence_{i}['rank'] AS DOUBLE)), 0.0)"),
        " + ",
    );
    let snapshots = each(&|i, _| format!("evidence_{i}['snapshot']"), ", ");
    let all = each(&|i, _| format!("evidence_{i}"), ", ");
    let label = label(settings);
    format!(
        "WITH found AS ({found}),
        facts AS (
            SELECT query_id, fact_id, first_value(fact ORDER BY ranking, rank, fact) AS fact{firsts},
                {evidence}
            FROM found GROUP BY query_id, fact_id
        ),
        scored AS (SELECT *, {score} AS score FROM facts),
        ranked AS (
            SELECT *, row_number() OVER (PARTITION BY query_id ORDER BY score DESC, fact_id) AS rank
            FROM scored
        )
        SELECT query_id, CAST(rank AS BIGINT) AS rank, score, fact_id, fact, '{label}' AS \"index\",
            concat_ws('+', {snapshots}) AS snapshot, make_array({all}) AS evidence{kept}
        FROM ranked WHERE rank <= {top_k} ORDER BY query_id, rank"
    )
}

/// How the ranking was made, as its column `index` shows it.
fn label(settings: &RankFusion) -> String {
    let weights = settings.weights.iter().map(|weights| {
        format!("/weights={}", weights.iter().map(f64::to_string).collect::<Vec<_>>().join(","))
    });
    format!("rrf/k={}{}", settings.k, weights.collect::<String>())
}
