//! Clauses that the planner reads and does not obey. A query that has one would be answered as if it were not there, so it
//! is refused, with its place and another way to write it.

use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::{
    Distinct, DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, Join, JoinConstraint, JoinOperator, LimitClause, ObjectName, Query, Select,
    SelectItem, Spanned, TableFactor, Value, Visit, Visitor, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sqltext::words::{find_only, find_word, offset};

/// What a name in front of parentheses is, as far as clauses depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// One row in, one value out.
    Scalar,
    /// An aggregate that obeys `ORDER BY`, or whose value does not depend on it.
    Ordered,
    /// Any other aggregate or window function.
    Folds,
    /// Nothing that is known.
    Unknown,
}

/// A clause that would be passed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Unobeyed {
    pub message: String,
    pub help: String,
    pub range: Range<usize>,
}

/// The first clause of a statement or an expression that would not be obeyed; `called` says what a function's name stands
/// for.
pub fn unobeyed(
    sql: &str,
    parsed: &impl Visit,
    called: &dyn Fn(&str) -> Called,
) -> Option<Unobeyed> {
    match parsed.visit(&mut Clauses { sql, called }) {
        ControlFlow::Break(found) => Some(found),
        ControlFlow::Continue(()) => None,
    }
}

struct Clauses<'a> {
    sql: &'a str,
    called: &'a dyn Fn(&str) -> Called,
}

impl Visitor for Clauses<'_> {
    type Break = Unobeyed;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Unobeyed> {
        let Query { locks, for_clause, settings, format_clause, limit_clause, fetch, .. } = query;
        self.unsupported(fetch.is_some(), "FETCH", "write `LIMIT`")?;
        self.absent(!locks.is_empty(), "FOR", "leave it out: no row of a table changes here")?;
        self.absent(for_clause.is_some(), "FOR", "build JSON or XML with functions")?;
        self.absent(settings.is_some(), "SETTINGS", "leave it out")?;
        self.absent(format_clause.is_some(), "FORMAT", "choose the format where rows are shown")?;
        if let Some(LimitClause::LimitOffset { limit_by, .. }) = limit_clause {
            let help = "number the rows with `row_number()` and filter with `QUALIFY`";
            self.absent(!limit_by.is_empty(), "LIMIT", help)?;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Unobeyed> {
        self.unsupported(select.top.is_some(), "TOP", "write `LIMIT` at the end")?;
        let Select { prewhere, connect_by, distribute_by, into, exclude, .. } = select;
        self.absent(prewhere.is_some(), "PREWHERE", "write `WHERE`")?;
        self.absent(!connect_by.is_empty(), "CONNECT", "a query cannot refer to itself")?;
        self.absent(!distribute_by.is_empty(), "DISTRIBUTE", "leave it out")?;
        self.absent(into.is_some(), "INTO", "a stage is named in the pipeline file")?;
        self.absent(exclude.is_some(), "EXCLUDE", "write `* EXCLUDE (…)`")?;
        self.absent(select.value_table_mode.is_some(), "AS", "build records with `struct(…)`")?;
        self.absent(select.select_modifiers.is_some(), "SELECT", "leave its modifiers out")?;
        if select.projection.is_empty() {
            let message = "`SELECT` names no column".to_owned();
            return self.refuse(message, "write `SELECT *`, or its columns", "SELECT", None);
        }
        let (GroupByExpr::Expressions(_, modifiers) | GroupByExpr::All(modifiers)) =
            &select.group_by;
        let help = "write `GROUP BY ROLLUP (…)`, `CUBE (…)` or `GROUPING SETS (…)`";
        self.absent(!modifiers.is_empty(), "WITH", help)?;
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    self.wildcard(item, options)?;
                }
                _ => {}
            }
        }
        for table in &select.from {
            for join in &table.joins {
                self.join(join)?;
            }
        }
        let several = matches!(&select.distinct, Some(Distinct::On(on)) if on.is_empty());
        self.absent(several, "DISTINCT", "name the columns of `DISTINCT ON`")
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Unobeyed> {
        let sampled = "take rows by their `row_id`, such as `WHERE row_id < '2'`";
        let counted = "number the items with `row_number()`";
        match factor {
            TableFactor::Table { with_hints, version, with_ordinality, partitions, .. } => {
                self.absent(!with_hints.is_empty(), "WITH", "leave the hints out")?;
                self.absent(version.is_some(), "FOR", "name a run with `--run` or `read`")?;
                self.absent(*with_ordinality, "ORDINALITY", counted)?;
                self.absent(!partitions.is_empty(), "PARTITION", "filter with `WHERE`")
            }
            TableFactor::Derived { sample, .. } => {
                self.absent(sample.is_some(), "TABLESAMPLE", sampled)
            }
            TableFactor::Function { with_ordinality, .. } => {
                self.absent(*with_ordinality, "ORDINALITY", counted)
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                table_with_joins.joins.iter().try_for_each(|join| self.join(join))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Unobeyed> {
        match expr {
            Expr::Function(call) => self.function(call),
            Expr::SimilarTo { .. } => {
                let help = "write the pattern out, or use `regexp_like`";
                let message = "`SIMILAR TO` needs a literal pattern".to_owned();
                self.refuse(message, help, "SIMILAR", None)
            }
            Expr::Like { escape_char: Some(escape), .. }
            | Expr::ILike { escape_char: Some(escape), .. }
                if escape.value != Value::SingleQuotedString("\\".to_owned()) =>
            {
                let help = "write the pattern out, or escape with backslashes";
                let message = "`ESCAPE` needs a literal pattern".to_owned();
                self.refuse(message, help, "ESCAPE", None)
            }
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => self.number(number, value.span),
                Value::Placeholder(name) => {
                    let message = format!("`{name}` has no value");
                    let help = "write the value, or `${params.name}`";
                    self.refuse(message, help, name, Some(value.span))
                }
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Clauses<'_> {
    /// Refuses the clause that begins with `word` where it is there.
    fn absent(&self, is_there: bool, word: &str, help: &str) -> ControlFlow<Unobeyed> {
        match is_there {
            true => self.refuse(format!("`{word}` would be ignored here"), help, word, None),
            false => ControlFlow::Continue(()),
        }
    }

    /// Refuses what the planner refuses too, in other words.
    fn unsupported(&self, is_there: bool, word: &str, help: &str) -> ControlFlow<Unobeyed> {
        match is_there {
            true => self.refuse(format!("`{word}` is not supported"), help, word, None),
            false => ControlFlow::Continue(()),
        }
    }

    fn refuse(
        &self,
        message: String,
        help: &str,
        word: &str,
        span: Option<Span>,
    ) -> ControlFlow<Unobeyed> {
        let at = |line, column| offset(self.sql, line, column);
        let spanned = span
            .filter(|span| span.start.line > 0)
            .map(|span| at(span.start.line, span.start.column)..at(span.end.line, span.end.column));
        let found = spanned.filter(|range| !range.is_empty());
        let found = found.or_else(|| find_only(self.sql, word));
        let found = found.or_else(|| find_word(self.sql, word));
        let first = 0..self.sql.lines().next().map_or(0, str::len);
        ControlFlow::Break(Unobeyed {
            message,
            help: help.to_owned(),
            range: found.unwrap_or(first),
        })
    }

    /// A key of `USING` is the left one alone, which is NULL where only the right side has a row.
    fn join(&self, join: &Join) -> ControlFlow<Unobeyed> {
        let (word, constraint) = match &join.join_operator {
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                ("RIGHT", constraint)
            }
            JoinOperator::FullOuter(constraint) => ("FULL", constraint),
            JoinOperator::Semi(_) => {
                return self.unsupported(true, "SEMI", "write `LEFT SEMI JOIN`");
            }
            JoinOperator::Anti(_) => {
                return self.unsupported(true, "ANTI", "write `LEFT ANTI JOIN`");
            }
            _ => return ControlFlow::Continue(()),
        };
        let (clause, span, column) = match constraint {
            JoinConstraint::Using(names) => {
                let column = names.first().map_or_else(|| "k".to_owned(), ObjectName::to_string);
                ("USING", names.first().map(Spanned::span), column)
            }
            JoinConstraint::Natural => ("NATURAL", None, "k".to_owned()),
            _ => return ControlFlow::Continue(()),
        };
        let message = format!(
            "`{clause}` of a `{word} JOIN` would give NULL for keys that only the right side has"
        );
        let help = format!(
            "write `ON a.{column} = b.{column}` and select `coalesce(a.{column}, b.{column}) AS {column}`"
        );
        self.refuse(message, &help, clause, span)
    }

    fn wildcard(
        &self,
        item: &SelectItem,
        options: &WildcardAdditionalOptions,
    ) -> ControlFlow<Unobeyed> {
        if options.opt_ilike.is_some() {
            let message = "`* ILIKE` would select every column".to_owned();
            return self.refuse(message, "name the columns", "ILIKE", Some(item.span()));
        }
        ControlFlow::Continue(())
    }

    /// A whole number beyond 64 bits would be rounded to a float, and a larger float be infinite.
    fn number(&self, number: &str, span: Span) -> ControlFlow<Unobeyed> {
        let is_whole = number.bytes().all(|byte| byte.is_ascii_digit());
        let (message, help) = if is_whole && number.parse::<u64>().is_err() {
            let help = format!(
                "write `CAST('{number}' AS DECIMAL(38, 0))`, or `{number}.0` for an approximation"
            );
            (format!("`{number}` does not fit in BIGINT and would be rounded"), help)
        } else if number.parse::<f64>().is_ok_and(f64::is_infinite) {
            let help = "write `CAST('inf' AS DOUBLE)` for infinity".to_owned();
            (format!("`{number}` does not fit in DOUBLE and would be infinite"), help)
        } else {
            return ControlFlow::Continue(());
        };
        self.refuse(message, &help, number, Some(span))
    }

    fn function(&self, call: &Function) -> ControlFlow<Unobeyed> {
        let name = call.name.to_string().to_lowercase();
        let Function { args, filter, null_treatment, over, within_group, parameters, .. } = call;
        let FunctionArguments::List(list) = args else { return ControlFlow::Continue(()) };
        let refuse = |clause: &str, help: &str| {
            let message = format!("`{name}` would ignore `{clause}`");
            self.refuse(message, help, &name, Some(call.name.span()))
        };
        if !matches!(parameters, FunctionArguments::None) {
            return refuse("(…) (…)", "write its arguments in one pair of parentheses");
        }
        let called = (self.called)(&name);
        if called == Called::Unknown {
            return ControlFlow::Continue(());
        }
        let ordered = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(order) if !order.is_empty());
        let nulls = null_treatment.is_some()
            || list
                .clauses
                .iter()
                .any(|clause| matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_)));
        if called != Called::Ordered && list.clauses.iter().any(ordered) {
            return refuse(
                "ORDER BY",
                "take the value with `first_value(… ORDER BY …)`, or order in a subquery",
            );
        }
        if called == Called::Scalar {
            let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            let folds = "only aggregate and window functions take it; use `CASE` or a subquery";
            let clause = [
                (distinct, "DISTINCT"),
                (filter.is_some(), "FILTER"),
                (nulls, "IGNORE NULLS"),
                (over.is_some(), "OVER"),
                (!within_group.is_empty(), "WITHIN GROUP"),
            ];
            if let Some((_, clause)) = clause.iter().find(|(is_there, _)| *is_there) {
                return refuse(clause, folds);
            }
        }
        let first_of = |name: &str| {
            ["first_value", "last_value", "nth_value", "lag", "lead", "array_agg"].contains(&name)
        };
        if nulls && called != Called::Scalar && !first_of(&name) {
            return refuse("IGNORE NULLS", "filter with `FILTER (WHERE … IS NOT NULL)`");
        }
        ControlFlow::Continue(())
    }
}
