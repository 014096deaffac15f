//! `USING` of `RIGHT` and `FULL` joins, written out: the planner takes its column from the left side alone, where it is NULL
//! for rows that only the right side has. `a FULL JOIN b USING (k)` becomes a join `ON a.k = b.k`, and `k` becomes
//! `coalesce(a.k, b.k)`. Wherever that is not seen to, `k` belongs to two tables, which the planner refuses. It refuses it
//! in `WHERE` behind other joins too, where it becomes `a.k`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExceptSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, ObjectName, OrderByExpr, Query, ReplaceSelectElement, ReplaceSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, Statement, TableFactor, TableWithJoins, VisitMut,
    VisitorMut, WildcardAdditionalOptions,
};

use crate::sqltext::rewriting::{call, each_select};

/// Writes out every such join of a statement whose sides have names. Others stay as they are, and are refused.
pub fn written_out(statement: &mut Statement) {
    let _ = each_select(statement, |select, order| {
        of_select(select, order);
        ControlFlow::<()>::Continue(())
    });
}

/// A column that both sides of a join share, and what it stands for.
#[derive(Clone)]
struct Shared {
    name: Ident,
    value: Expr,
}

fn of_select(select: &mut Select, order: &mut [OrderByExpr]) {
    let [table] = select.from.as_mut_slice() else { return };
    let Some(Joined { tables, shared, joins }) = of_table(table) else { return };
    let mut names = Names { shared: &shared, depth: 0 };
    if !table.joins.iter().any(keeps_right) {
        let _ = select.selection.visit(&mut names);
        return;
    }
    table.joins = joins;
    let is_first = matches!(select.distinct, Some(Distinct::On(_)));
    let mut items = Vec::new();
    let mut given: Vec<String> = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if is_bare(&options) => {
                let names = shared.iter().map(|one| plain(&one.name));
                given.extend(names.filter(|_| !is_first));
                items.extend(all_columns(&tables, &shared, &options));
            }
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                match shared.iter().find(|one| plain(&one.name) == plain(&name)) {
                    Some(one) => {
                        // What `DISTINCT ON` names is written out in the order too.
                        given.extend((!is_first).then(|| plain(&name)));
                        items.push(aliased(one.value.clone(), name));
                    }
                    None => items.push(SelectItem::UnnamedExpr(Expr::Identifier(name))),
                }
            }
            mut other => {
                if let SelectItem::ExprWithAlias { alias, .. } = &other {
                    given.push(plain(alias));
                }
                let _ = other.visit(&mut names);
                items.push(other);
            }
        }
    }
    select.projection = items;
    let _ = select.distinct.visit(&mut names);
    let _ = select.selection.visit(&mut names);
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        let _ = groups.visit(&mut names);
    }
    let _ = select.having.visit(&mut names);
    let _ = select.qualify.visit(&mut names);
    for item in order {
        // A column of the result goes first.
        let is_given = matches!(&item.expr, Expr::Identifier(name) if given.contains(&plain(name)));
        if !is_given {
            let _ = item.visit(&mut names);
        }
    }
}

/// What a `*` gives: each shared column once, where the first table has it.
fn all_columns(
    tables: &[Vec<Ident>],
    shared: &[Shared],
    options: &WildcardAdditionalOptions,
) -> Vec<SelectItem> {
    let replaced = shared.iter().map(|Shared { name, value }| {
        let (expr, column_name) = (value.clone(), name.clone());
        Box::new(ReplaceSelectElement { expr, column_name, as_keyword: true })
    });
    let replaced = ReplaceSelectItem { items: replaced.collect() };
    let names = || shared.iter().map(|one| one.name.clone());
    let of_table = |(i, table): (usize, &Vec<Ident>)| {
        let mut options = options.clone();
        if i == 0 {
            options.opt_replace = Some(replaced.clone());
        } else {
            options.opt_except = names().next().map(|first_element| ExceptSelectItem {
                first_element,
                additional_elements: names().skip(1).collect(),
            });
        }
        let name = ObjectName::from(table.clone());
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
    };
    tables.iter().enumerate().map(of_table).collect()
}

/// Whether rows of the right side stay that have none on the left.
fn keeps_right(join: &Join) -> bool {
    matches!(
        &join.join_operator,
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
    )
}

/// Joins by columns of one name.
struct Joined {
    /// What columns of each table are called by.
    tables: Vec<Vec<Ident>>,
    shared: Vec<Shared>,
    /// The joins written out.
    joins: Vec<Join>,
}

/// The joins of a `FROM`, if all are by shared columns and all tables have names.
fn of_table(table: &TableWithJoins) -> Option<Joined> {
    let mut shared: Vec<Shared> = Vec::new();
    let mut joins = table.joins.clone();
    let left = qualifier(&table.relation)?;
    let mut tables = vec![left.clone()];
    for (i, join) in joins.iter_mut().enumerate() {
        let right = qualifier(&join.relation)?;
        let (constraint, keeps) = match &mut join.join_operator {
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (constraint, Keeps::Right)
            }
            JoinOperator::FullOuter(constraint) => (constraint, Keeps::Both),
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint) => (constraint, Keeps::Left),
            _ => return None,
        };
        let JoinConstraint::Using(columns) = constraint else { return None };
        let mut condition: Option<Expr> = None;
        let mut named = Vec::new();
        for column in columns.iter() {
            let name = column.0.first()?.as_ident()?.clone();
            let known = shared.iter().find(|one| plain(&one.name) == plain(&name));
            let value = match known {
                Some(one) => one.value.clone(),
                // Which table of several has it, the text does not tell.
                None if i > 0 => return None,
                None => qualified(&left, &name),
            };
            let other = qualified(&right, &name);
            let equal = Expr::BinaryOp {
                left: Box::new(value.clone()),
                op: BinaryOperator::Eq,
                right: Box::new(other.clone()),
            };
            condition = Some(match condition {
                None => equal,
                Some(before) => Expr::BinaryOp {
                    left: Box::new(before),
                    op: BinaryOperator::And,
                    right: Box::new(equal),
                },
            });
            let value = match keeps {
                Keeps::Left => value,
                Keeps::Right => other,
                Keeps::Both => coalesce(value, other),
            };
            named.push(Shared { name, value });
        }
        // A column that is not shared any longer is one of several.
        if shared.iter().any(|one| !named.iter().any(|new| plain(&new.name) == plain(&one.name))) {
            return None;
        }
        shared = named;
        *constraint = JoinConstraint::On(condition?);
        tables.push(right);
    }
    (!shared.is_empty()).then_some(Joined { tables, shared, joins })
}

/// The side of a join whose rows all stay.
enum Keeps {
    Left,
    Right,
    Both,
}

/// What columns of a table are called by.
fn qualifier(factor: &TableFactor) -> Option<Vec<Ident>> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(vec![alias.name.clone()]),
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.iter().map(|part| part.as_ident().cloned()).collect()
        }
        _ => None,
    }
}

fn qualified(table: &[Ident], column: &Ident) -> Expr {
    Expr::CompoundIdentifier(table.iter().chain([column]).cloned().collect())
}

fn coalesce(left: Expr, right: Expr) -> Expr {
    call(Ident::new("coalesce"), vec![left, right])
}

fn aliased(expr: Expr, alias: Ident) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias }
}

/// Whether a `*` says no more.
fn is_bare(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions {
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        ..
    } = options;
    opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
}

fn plain(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// Replaces shared columns by what they stand for, outside of subqueries, which may have columns of that name.
struct Names<'a> {
    shared: &'a [Shared],
    depth: usize,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && let Some(one) = self.shared.iter().find(|one| plain(&one.name) == plain(name))
        {
            *expr = one.value.clone();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::sqltext::parse;

    #[test]
    fn a_shared_column_is_that_of_the_side_that_stays() {
        for (text, written) in [
            (
                "SELECT k, v FROM a FULL JOIN b USING (k) WHERE k > 1 ORDER BY k",
                "SELECT coalesce(a.k, b.k) AS k, v FROM a FULL JOIN b ON a.k = b.k \
                 WHERE coalesce(a.k, b.k) > 1 ORDER BY k",
            ),
            (
                "SELECT count(*) FROM a AS x RIGHT JOIN b USING (k, l) GROUP BY k HAVING max(l) > 2 ORDER BY k",
                "SELECT count(*) FROM a AS x RIGHT JOIN b ON x.k = b.k AND x.l = b.l \
                 GROUP BY b.k HAVING max(b.l) > 2 ORDER BY b.k",
            ),
            (
                "SELECT * FROM a FULL JOIN b USING (k) FULL JOIN c USING (k)",
                "SELECT a.* REPLACE (coalesce(coalesce(a.k, b.k), c.k) AS k), b.* EXCEPT (k), c.* EXCEPT (k) \
                 FROM a FULL JOIN b ON a.k = b.k FULL JOIN c ON coalesce(a.k, b.k) = c.k",
            ),
            (
                "SELECT DISTINCT ON (k) k, v FROM a FULL JOIN b USING (k) ORDER BY k, v",
                "SELECT DISTINCT ON (coalesce(a.k, b.k)) coalesce(a.k, b.k) AS k, v FROM a FULL JOIN b ON a.k = b.k \
                 ORDER BY coalesce(a.k, b.k), v",
            ),
            (
                "SELECT k FROM a LEFT JOIN b AS c USING (k) WHERE k IN (SELECT k FROM d)",
                "SELECT k FROM a LEFT JOIN b AS c USING(k) WHERE a.k IN (SELECT k FROM d)",
            ),
        ] {
            assert_eq!(parse(text).unwrap().statement.to_string(), written, "{text}");
        }
    }
}
