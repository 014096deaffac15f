//! Whether the rows of a query come in the order that it ends in. A sort that a rule has planned away leaves no other
//! trace than rows in another order, so they are looked at while they are written.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DynComparator, Float32Array, Float64Array, RecordBatch, make_comparator,
};
use arrow::compute::SortOptions;
use arrow::compute::kernels::numeric::add;
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{Expr, ExprSchemable, Limit, LogicalPlan, Projection, Sort};
use proofmill_udfs::model::placement::asks_model;

use crate::session::new_names;

/// What a key is called that no column of the result is.
const KEY: &str = "__order_key_";
/// Characters of a value that a message shows.
const VALUE_CHARS_MAX: usize = 60;

/// A query, and what its rows are sorted by.
#[derive(Debug)]
pub struct KeptOrder {
    /// The query, with keys that it does not give as further columns.
    pub plan: LogicalPlan,
    /// Its own columns.
    shown: usize,
    keys: Arc<[Key]>,
}

#[derive(Debug)]
struct Key {
    /// As people know it.
    text: String,
    column: usize,
    options: SortOptions,
}

/// Rows that are not in the order of the query's last `ORDER BY`.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[error(
    "row {row} is not in the order of its `ORDER BY`: `{key}` is {after} there, after {before}"
)]
pub struct Disorder {
    key: String,
    row: u64,
    before: String,
    after: String,
}

impl KeptOrder {
    /// The order of a query whose types are settled: that of all keys up to the first that cannot be computed again
    /// (because it is random, asks a model or a table) or has parts.
    pub fn of(plan: &LogicalPlan) -> Result<Self> {
        let shown = plan.schema().fields().len();
        let Some(sort) = last_sort(plan) else {
            return Ok(Self { plan: plan.clone(), shown, keys: Arc::new([]) });
        };
        let (mut keys, mut missing) = (Vec::new(), Vec::new());
        let schemas = [plan.schema().as_ref(), sort.input.schema().as_ref()];
        let mut names = new_names(&schemas, KEY);
        for key in sort.expr.iter().take_while(|key| can_be_looked_at(key, sort)) {
            let column = place(plan, &key.expr).unwrap_or_else(|| {
                missing.extend(names.next().map(|name| (key.expr.clone(), name)));
                shown + missing.len() - 1
            });
            let text = match unnamed(&key.expr) {
                Expr::Column(column) => column.name.clone(),
                other => other.human_display().to_string(),
            };
            let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
            keys.push(Key { text, column, options });
        }
        let plan = match missing.is_empty() {
            true => plan.clone(),
            false => carrying(plan, &missing)?,
        };
        Ok(Self { plan, shown, keys: keys.into() })
    }

    /// Looks at the rows of one partition.
    pub fn watch(&self) -> OrderWatch {
        let keys = Arc::clone(&self.keys);
        OrderWatch { keys, shown: self.shown, rows: 0, first: None, last: None }
    }
}

fn unnamed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unnamed(&alias.expr),
        other => other,
    }
}

/// The `ORDER BY` that a query ends in.
fn last_sort(plan: &LogicalPlan) -> Option<&Sort> {
    match plan {
        LogicalPlan::Sort(sort) => Some(sort),
        LogicalPlan::Projection(projection) => last_sort(&projection.input),
        LogicalPlan::Limit(limit) => last_sort(&limit.input),
        _ => None,
    }
}

fn can_be_looked_at(key: &SortExpr, sort: &Sort) -> bool {
    let mut repeats = !key.expr.is_volatile();
    let looked = key.expr.apply(|part| {
        repeats &= match part {
            Expr::ScalarFunction(call) => !asks_model(call.name()),
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => false,
            _ => true,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    let kind = key.expr.get_type(sort.input.schema()).unwrap_or(DataType::Null);
    let is_plain = kind.is_numeric()
        || kind.is_string()
        || kind.is_binary()
        || kind == DataType::Boolean
        || kind.is_temporal() && !matches!(kind, DataType::Interval(_));
    looked.is_ok() && repeats && is_plain
}

/// The column of the result of `plan` that is `key`, a column of its sort.
fn place(plan: &LogicalPlan, key: &Expr) -> Option<usize> {
    match plan {
        LogicalPlan::Sort(sort) => match key {
            Expr::Column(column) => sort.input.schema().maybe_index_of_column(column),
            _ => None,
        },
        LogicalPlan::Limit(limit) => place(&limit.input, key),
        LogicalPlan::Projection(projection) => {
            let below = place(&projection.input, key)?;
            let schema = projection.input.schema();
            projection.expr.iter().position(|expr| match unnamed(expr) {
                Expr::Column(column) => schema.maybe_index_of_column(column) == Some(below),
                _ => false,
            })
        }
        _ => None,
    }
}

/// The query with `keys` of its sort as further columns.
fn carrying(plan: &LogicalPlan, keys: &[(Expr, String)]) -> Result<LogicalPlan> {
    let columns = || keys.iter().map(|(_, name)| Expr::Column(Column::from_name(name)));
    Ok(match plan {
        LogicalPlan::Projection(projection) => {
            let all = projection.expr.iter().cloned().chain(columns());
            let input = Arc::new(carrying(&projection.input, keys)?);
            LogicalPlan::Projection(Projection::try_new(all.collect(), input)?)
        }
        LogicalPlan::Limit(limit) => {
            let input = Arc::new(carrying(&limit.input, keys)?);
            LogicalPlan::Limit(Limit { input, ..limit.clone() })
        }
        // Below the sort: a key that is computed above it gives the planner a reason to divide the rows again.
        LogicalPlan::Sort(sort) => {
            let own = sort.input.schema().columns().into_iter().map(Expr::Column);
            let computed = keys.iter().map(|(key, name)| key.clone().alias(name));
            let input =
                Projection::try_new(own.chain(computed).collect(), Arc::clone(&sort.input))?;
            let carried = |key: &SortExpr| {
                let mut pairs = keys.iter().zip(columns());
                let found = pairs.find(|((expr, _), _)| *expr == key.expr);
                found.map_or_else(|| key.clone(), |(_, expr)| SortExpr { expr, ..*key })
            };
            let sorted = sort.expr.iter().map(carried);
            let expr = sorted.collect();
            let input = Arc::new(LogicalPlan::Projection(input));
            LogicalPlan::Sort(Sort { expr, input, fetch: sort.fetch })
        }
        other => other.clone(),
    })
}

/// The values of a key, with one zero: those of either sign are equal for an order.
fn even(column: &ArrayRef) -> ArrayRef {
    let sum = match column.data_type() {
        DataType::Float64 => add(column, &Float64Array::new_scalar(0.0)),
        DataType::Float32 => add(column, &Float32Array::new_scalar(0.0)),
        _ => return Arc::clone(column),
    };
    // It cannot fail for numbers of one type.
    sum.unwrap_or_else(|_| Arc::clone(column))
}

/// The rows of one partition that have come so far.
#[derive(Debug)]
pub struct OrderWatch {
    keys: Arc<[Key]>,
    shown: usize,
    rows: u64,
    /// The keys of the first row and of the last.
    first: Option<Vec<ArrayRef>>,
    last: Option<Vec<ArrayRef>>,
}

impl OrderWatch {
    /// Looks at the next rows; gives them without the keys that are no columns of the query.
    ///
    /// # Errors
    ///
    /// If they are out of order.
    pub fn look(&mut self, batch: RecordBatch) -> Result<RecordBatch, Disorder> {
        let rows = batch.num_rows();
        if !self.keys.is_empty() && rows > 0 {
            let keys: Vec<_> = self.keys.iter().map(|key| even(batch.column(key.column))).collect();
            if let Some(last) = &self.last {
                self.in_order(last, &keys, std::iter::once((0, 0)))?;
            }
            self.in_order(&keys, &keys, (1..rows).map(|row| (row - 1, row)))?;
            let row = |row: usize| keys.iter().map(|key| key.slice(row, 1)).collect::<Vec<_>>();
            self.first.get_or_insert_with(|| row(0));
            self.last = Some(row(rows - 1));
        }
        self.rows += rows as u64;
        let shown: Vec<_> = (0..self.shown).collect();
        match batch.num_columns() == self.shown {
            true => Ok(batch),
            // The columns are there.
            false => Ok(batch.project(&shown).unwrap_or(batch)),
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// That the rows of `next` come behind these.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub fn ends_before(&self, next: &Self) -> Result<(), Disorder> {
        match (&self.last, &next.first) {
            (Some(last), Some(first)) => self.in_order(last, first, std::iter::once((0, 0))),
            _ => Ok(()),
        }
    }

    /// That of each pair of rows the one in `before` is no later than the one in `behind`, which stands at its place
    /// in `behind` after the rows so far.
    fn in_order(
        &self,
        before: &[ArrayRef],
        behind: &[ArrayRef],
        mut pairs: impl Iterator<Item = (usize, usize)>,
    ) -> Result<(), Disorder> {
        let columns = || before.iter().zip(behind).zip(self.keys.iter());
        // Types that cannot be compared are none that can be sorted.
        let compared = columns().map(|((a, b), key)| make_comparator(a, b, key.options));
        let Ok(compared) = compared.collect::<Result<Vec<_>, _>>() else { return Ok(()) };
        let disordered = pairs.find_map(|(a, b)| {
            let decides = |of: &DynComparator| of(a, b) != Ordering::Equal;
            let key = compared.iter().position(decides)?;
            (compared[key](a, b) == Ordering::Greater).then_some((key, a, b))
        });
        let Some((key, a, b)) = disordered else { return Ok(()) };
        Err(Disorder {
            key: self.keys[key].text.clone(),
            row: self.rows + b as u64 + 1,
            before: shown(&before[key], a),
            after: shown(&behind[key], b),
        })
    }
}

/// A value as a message shows it.
fn shown(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    let text = array_value_to_string(array, row).unwrap_or_default();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::tree_node::Transformed;
    use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
    use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::session::execute::Operators;

    /// A rule that is wrong: the last key of each sort is gone.
    #[derive(Debug)]
    struct DropsKey;

    impl OptimizerRule for DropsKey {
        fn name(&self) -> &str {
            "drops_key"
        }

        fn apply_order(&self) -> Option<ApplyOrder> {
            Some(ApplyOrder::BottomUp)
        }

        fn rewrite(
            &self,
            plan: LogicalPlan,
            _: &dyn OptimizerConfig,
        ) -> Result<Transformed<LogicalPlan>> {
            Ok(match plan {
                LogicalPlan::Sort(mut sort) if sort.expr.len() > 1 => {
                    sort.expr.pop();
                    Transformed::yes(LogicalPlan::Sort(sort))
                }
                other => Transformed::no(other),
            })
        }
    }

    /// What the rows of a query are found to be, and its columns.
    async fn looked_at(sql: &str, state: &SessionState) -> (Result<u64, Disorder>, usize) {
        let plan = state.create_logical_plan(sql).await.unwrap();
        let order = KeptOrder::of(&plan).unwrap();
        let operators = Operators::of(&order.plan, state).await.unwrap();
        let mut watch = order.watch();
        let (mut found, mut columns) = (Ok(0), 0);
        for batch in operators.collect().await.unwrap() {
            for row in 0..batch.num_rows() {
                // Each row is a batch, so that all pairs cross a border.
                match watch.look(batch.slice(row, 1)) {
                    Ok(shown) => columns = shown.num_columns(),
                    Err(disorder) => found = found.and(Err(disorder)),
                }
            }
            let mut whole = order.watch();
            assert_eq!(whole.look(batch).err(), found.clone().err(), "{sql}");
        }
        (found.map(|_| watch.rows), columns)
    }

    #[tokio::test]
    async fn rows_out_of_order_are_named_by_their_key() {
        let context = SessionContext::new();
        let right = context.state();
        let broken = SessionStateBuilder::new_from_existing(context.state())
            .with_optimizer_rule(Arc::new(DropsKey))
            .build();
        let rows = "(VALUES (2, 'b', 1.5), (1, 'y', NULL), (2, 'a', -1.5), (1, 'x', 0.0), (NULL, 'n', 7.0)) AS t(k, v, w)";
        for (sql, columns, key) in [
            (format!("SELECT k, v FROM {rows} ORDER BY k, v"), 2, "v"),
            (format!("SELECT k, v FROM {rows} ORDER BY k DESC NULLS LAST, v"), 2, "v"),
            (format!("SELECT v AS name, k FROM {rows} ORDER BY k, name LIMIT 5"), 2, "name"),
            (format!("SELECT w FROM {rows} ORDER BY k, v"), 1, "v"),
            (format!("SELECT w FROM {rows} ORDER BY k NULLS FIRST, upper(v)"), 1, "upper(t.v)"),
            (format!("SELECT k, w FROM {rows} ORDER BY k, w NULLS FIRST LIMIT 9"), 2, "w"),
        ] {
            assert_eq!(looked_at(&sql, &right).await, (Ok(5), columns), "{sql}");
            let (found, _) = looked_at(&sql, &broken).await;
            assert_eq!(found.map_err(|found| found.key), Err(key.to_owned()), "{sql}");
        }
        // Nothing to look at, or nothing that comes out the same twice.
        for sql in [
            format!("SELECT k FROM {rows}"),
            format!("SELECT k FROM (SELECT k FROM {rows} ORDER BY k, v) AS t"),
            format!("SELECT k, v FROM {rows} ORDER BY k, random(), v"),
        ] {
            assert_eq!(looked_at(&sql, &broken).await.0, Ok(5), "{sql}");
        }
    }

    #[tokio::test]
    async fn the_message_names_row_key_and_values() {
        let state = SessionContext::new().state();
        let plan = state.create_logical_plan("SELECT x FROM (VALUES (1)) AS t(x) ORDER BY x");
        let order = KeptOrder::of(&plan.await.unwrap()).unwrap();
        let batch = |sql: &'static str| async {
            let frame = SessionContext::new().sql(sql).await.unwrap();
            frame.collect().await.unwrap().remove(0)
        };
        let mut first = order.watch();
        first.look(batch("SELECT * FROM (VALUES (1), (3)) AS t(x)").await).unwrap();
        let mut second = order.watch();
        second.look(batch("SELECT * FROM (VALUES (3), (4)) AS t(x)").await).unwrap();
        first.ends_before(&second).unwrap();
        let message = "row 3 is not in the order of its `ORDER BY`: `x` is `1` there, after `4`";
        let behind = second.ends_before(&first).unwrap_err().to_string();
        assert_eq!(behind, message);
        let next = batch("SELECT * FROM (VALUES (1), (3)) AS t(x)").await;
        assert_eq!(second.look(next).unwrap_err().to_string(), message);
    }
}
