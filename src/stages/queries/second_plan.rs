//! A second plan of a query, by fewer rules and in one piece, and whether it gives the same rows as
//! the table that is stored. A rule that is wrong in the first plan and missing in the second shows
//! here, whether the rule is ours or DataFusion's.
//!
//! Rows are compared without their order, for a query leaves it open where it does not say otherwise; numbers with a
//! fraction but for their last digits, for a sum depends on the order. What no order fixes, such as the rows of a `LIMIT`
//! behind ties, is not compared at all, and [`Compared::Open`] says so.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use crate::session::execute::Operators;
use crate::session::order;
use crate::stages::error::StageError;
use proofmill_base::suggest::some_names;

/// Rows of a table that is compared, at most: both tables are held in memory.
const ROWS_MAX: u64 = 2_000_000;
/// Numbers differ if they differ by more than this part of the larger one.
const TOLERANCE: f64 = 1e-9;

/// What a second plan says of a table.
#[derive(Debug)]
pub enum Compared {
    Same,
    Open(Open),
    Different(Disagreement),
}

/// Why rows are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Open {
    /// Which rows a query gives depends on an order that nothing fixes.
    Order,
    /// The table is too large to be held twice.
    Size,
}

impl Open {
    fn text(self) -> &'static str {
        match self {
            Self::Order => "their rows depend on an unspecified order",
            Self::Size => "two tables of that size do not fit in memory",
        }
    }
}

/// What the second plans of a run said.
#[derive(Debug, Default)]
pub struct Tally {
    same: usize,
    open: BTreeMap<Open, BTreeSet<String>>,
}

impl Tally {
    /// Counts what was said of the query of `stage`.
    pub fn note(&mut self, stage: &str, compared: &Compared) {
        match compared {
            Compared::Same => self.same += 1,
            Compared::Open(why) => {
                self.open.entry(*why).or_default().insert(stage.to_owned());
            }
            Compared::Different(_) => {}
        }
    }

    /// As a run says it at its end, a line each.
    pub fn lines(&self) -> Vec<String> {
        let queries = |n: usize| if n == 1 { "1 query".to_owned() } else { format!("{n} queries") };
        let same = format!("a second plan gave the same rows for {}", queries(self.same));
        let open = self.open.iter().map(|(why, stages)| {
            let (count, named) = (queries(stages.len()), some_names(stages));
            format!("not compared, as {}: {count}, {named}", why.text())
        });
        [same].into_iter().chain(open).collect()
    }
}

/// Two plans of one query that give other rows.
#[derive(Debug)]
pub struct Disagreement {
    /// What differs first.
    pub message: String,
    /// Both plans, as people read them.
    pub plans: String,
}

/// Compares the `rows` that `plan` gave in a session of the `first` kind with what it gives in the `second`.
///
/// # Errors
///
/// Whatever keeps the second plan from being run.
pub async fn compare(
    plan: &LogicalPlan,
    rows: Vec<RecordBatch>,
    first: &SessionState,
    second: &SessionState,
) -> Result<Compared, StageError> {
    if rows.iter().map(|batch| batch.num_rows() as u64).sum::<u64>() > ROWS_MAX {
        return Ok(Compared::Open(Open::Size));
    }
    if !order::unfixed(plan)?.is_empty() {
        return Ok(Compared::Open(Open::Order));
    }
    let operators = Operators::of(plan, second).await?;
    let schema = operators.schema();
    let again = operators.collect().await?;
    let named = |batches: &[RecordBatch]| match batches.first() {
        Some(batch) => concat_batches(&batch.schema(), batches),
        None => Ok(RecordBatch::new_empty(Arc::clone(&schema))),
    };
    let Some(message) = difference(&named(&rows)?, &named(&again)?)? else {
        return Ok(Compared::Same);
    };
    let usual = Operators::of(plan, first).await?;
    let plans =
        format!("the plan of the table:\n{}the second plan:\n{}", usual.text(), operators.text());
    Ok(Compared::Different(Disagreement { message, plans }))
}

/// A table whose rows are sorted by what can be compared exactly, then by numbers with a fraction.
struct Sorted<'a> {
    batch: &'a RecordBatch,
    exact: Rows,
    numbers: Vec<ArrayRef>,
    order: Vec<usize>,
}

impl<'a> Sorted<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self, StageError> {
        let is_number = |array: &&ArrayRef| array.data_type().is_floating();
        let exact: Vec<ArrayRef> =
            batch.columns().iter().filter(|a| !is_number(a)).cloned().collect();
        let numbers = batch.columns().iter().filter(is_number);
        let numbers: Vec<ArrayRef> =
            numbers.map(|array| cast(array, &DataType::Float64)).collect::<Result<_, _>>()?;
        let fields = exact.iter().map(|array| SortField::new(array.data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        let exact = match exact.is_empty() {
            true => converter.empty_rows(0, 0),
            false => converter.convert_columns(&exact)?,
        };
        let mut sorted = Self { batch, exact, numbers, order: (0..batch.num_rows()).collect() };
        let mut order = std::mem::take(&mut sorted.order);
        order.sort_by(|a, b| {
            let numbers = || {
                let each = 0..sorted.numbers.len();
                let compared = each.map(|i| {
                    let number = |row: usize| sorted.number(i, row).unwrap_or(f64::NEG_INFINITY);
                    number(*a).total_cmp(&number(*b))
                });
                compared.fold(Ordering::Equal, Ordering::then)
            };
            sorted.exact_row(*a).cmp(&sorted.exact_row(*b)).then_with(numbers)
        });
        sorted.order = order;
        Ok(sorted)
    }

    fn exact_row(&self, row: usize) -> Option<arrow::row::Row<'_>> {
        (self.exact.num_rows() > 0).then(|| self.exact.row(row))
    }

    fn number(&self, column: usize, row: usize) -> Option<f64> {
        let array = self.numbers[column].as_primitive::<Float64Type>();
        array.is_valid(row).then(|| array.value(row))
    }

    fn text(&self, row: usize) -> Result<String, StageError> {
        let cells = self.batch.columns().iter().map(|array| match array.is_null(row) {
            true => Ok("NULL".to_owned()),
            false => array_value_to_string(array, row),
        });
        Ok(format!("({})", cells.collect::<Result<Vec<_>, _>>()?.join(", ")))
    }
}

/// What differs first between two tables as sets of rows.
fn difference(table: &RecordBatch, again: &RecordBatch) -> Result<Option<String>, StageError> {
    let (table, again) = (Sorted::of(table)?, Sorted::of(again)?);
    let same = |(a, b): &(&usize, &usize)| {
        let numbers =
            (0..table.numbers.len()).all(|i| near(table.number(i, **a), again.number(i, **b)));
        table.exact_row(**a).map(|row| row.owned()) == again.exact_row(**b).map(|row| row.owned())
            && numbers
    };
    let pairs = table.order.iter().zip(&again.order);
    if let Some((a, b)) = pairs.clone().find(|pair| !same(pair)) {
        let (a, b) = (table.text(*a)?, again.text(*b)?);
        return Ok(Some(format!("the table has {a} where a second plan of its query gives {b}")));
    }
    let (rows, others) = (table.order.len(), again.order.len());
    Ok((rows != others).then(|| {
        format!("the table has {rows} rows where a second plan of its query gives {others}")
    }))
}

fn near(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array};
    use arrow::datatypes::{Field, Schema};
    use datafusion::common::tree_node::Transformed;
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn batch(rows: &[(Option<i64>, f64)]) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("k", DataType::Int64, true),
            Field::new("x", DataType::Float64, true),
        ]);
        let k = Int64Array::from_iter(rows.iter().map(|row| row.0));
        let x = Float64Array::from_iter_values(rows.iter().map(|row| row.1));
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(k), Arc::new(x)]).unwrap()
    }

    /// A rule that is wrong: conditions are gone.
    #[derive(Debug)]
    struct DropsFilters;

    impl OptimizerRule for DropsFilters {
        fn name(&self) -> &str {
            "drops_filters"
        }

        fn apply_order(&self) -> Option<ApplyOrder> {
            Some(ApplyOrder::BottomUp)
        }

        fn rewrite(
            &self,
            plan: LogicalPlan,
            _: &dyn OptimizerConfig,
        ) -> datafusion::common::Result<Transformed<LogicalPlan>> {
            Ok(match plan {
                LogicalPlan::Filter(filter) => Transformed::yes(Arc::unwrap_or_clone(filter.input)),
                other => Transformed::no(other),
            })
        }
    }

    #[tokio::test]
    async fn a_rule_that_is_wrong_shows() {
        let right = SessionContext::new();
        let query = "SELECT x FROM (VALUES (1), (2), (3)) AS t(x) WHERE x % 2 = 1";
        let plan = right.sql(query).await.unwrap().into_unoptimized_plan();
        let (right, broken) = (right.state(), SessionContext::new());
        let broken = SessionStateBuilder::new_from_existing(broken.state())
            .with_optimizer_rule(Arc::new(DropsFilters))
            .build();
        let rows = async |state: &SessionState| {
            Operators::of(&plan, state).await.unwrap().collect().await.unwrap()
        };
        let same = compare(&plan, rows(&right).await, &right, &right).await.unwrap();
        assert!(matches!(same, Compared::Same), "{same:?}");
        let other = compare(&plan, rows(&broken).await, &broken, &right).await.unwrap();
        let Compared::Different(found) = other else { panic!("{other:?}") };
        assert_eq!(found.message, "the table has (2) where a second plan of its query gives (3)");
        let (first, second) = found.plans.split_once("the second plan:").unwrap();
        assert!(!first.contains("FilterExec") && second.contains("FilterExec"), "{}", found.plans);
    }

    #[test]
    fn a_run_says_how_many_agreed_and_which_were_not_compared() {
        let mut tally = Tally::default();
        tally.note("a", &Compared::Same);
        assert_eq!(tally.lines(), ["a second plan gave the same rows for 1 query"]);
        for stage in ["e", "d", "c", "b"] {
            tally.note(stage, &Compared::Open(Open::Order));
        }
        tally.note("large", &Compared::Open(Open::Size));
        assert_eq!(
            tally.lines()[1..],
            [
                "not compared, as their rows depend on an unspecified order: 4 queries, `b`, `c`, `d` and 1 more",
                "not compared, as two tables of that size do not fit in memory: 1 query, `large`",
            ]
        );
    }

    #[test]
    fn rows_count_and_not_their_order_or_last_digits() {
        let table = batch(&[(Some(2), 0.3), (None, 1.0), (Some(1), f64::NAN)]);
        let same = batch(&[(Some(1), f64::NAN), (Some(2), 0.1 + 0.2), (None, 1.0)]);
        assert_eq!(difference(&table, &same).unwrap(), None);
        let other = batch(&[(Some(1), f64::NAN), (Some(2), 0.31), (None, 1.0)]);
        let message = difference(&table, &other).unwrap().unwrap();
        assert_eq!(
            message,
            "the table has (2, 0.3) where a second plan of its query gives (2, 0.31)"
        );
        let twice = batch(&[(Some(2), 0.3), (None, 1.0), (Some(1), f64::NAN), (Some(2), 0.3)]);
        let message = difference(&table, &twice).unwrap().unwrap();
        assert_eq!(message, "the table has 3 rows where a second plan of its query gives 4");
    }
}
