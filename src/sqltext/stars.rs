//! What `*` stands for, where the planner takes it for something else.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Select, SelectFlavor, SelectItem, Statement, VisitMut, VisitorMut,
};

/// Writes out what a `FROM` without a `SELECT` gives: all columns. The planner would give none.
pub fn all_of_from(statement: &mut Statement) {
    struct Froms;
    impl VisitorMut for Froms {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            if select.flavor == SelectFlavor::FromFirstNoSelect {
                select.flavor = SelectFlavor::Standard;
                select.projection = vec![SelectItem::Wildcard(Default::default())];
            }
            ControlFlow::Continue(())
        }
    }
    let _ = statement.visit(&mut Froms);
}

/// The statement with the columns of each `* REPLACE (… AS column)` left out and given behind the `*`, where it has one: a
/// column that is not there cannot be left out, while the planner replaces it without a word.
pub fn replaced_apart(text: &str, statement: &Statement) -> Option<Statement> {
    if !text.to_ascii_lowercase().contains("replace") {
        return None;
    }
    struct Replaced(bool);
    impl VisitorMut for Replaced {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let mut behind = Vec::new();
            for item in &mut select.projection {
                let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) =
                    item
                else {
                    continue;
                };
                let Some(replace) = options.opt_replace.take() else { continue };
                self.0 = true;
                let mut names = replace.items.iter().map(|item| item.column_name.clone());
                options.opt_except = names.next().map(|first_element| ExceptSelectItem {
                    first_element,
                    additional_elements: names.collect(),
                });
                behind.extend(replace.items.into_iter().map(|item| SelectItem::ExprWithAlias {
                    expr: item.expr,
                    alias: item.column_name,
                }));
            }
            select.projection.extend(behind);
            ControlFlow::Continue(())
        }
    }
    let (mut apart, mut replaced) = (statement.clone(), Replaced(false));
    let _ = apart.visit(&mut replaced);
    replaced.0.then_some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqltext::parse;

    #[test]
    fn a_from_alone_gives_all_columns() {
        let query = parse("SELECT a FROM (FROM t) AS u WHERE EXISTS (FROM v)").unwrap();
        assert_eq!(
            query.statement.to_string(),
            "SELECT a FROM (SELECT * FROM t) AS u WHERE EXISTS (SELECT * FROM v)"
        );
    }

    #[test]
    fn what_is_replaced_is_left_out_and_given_behind() {
        for (text, apart) in [
            (
                "SELECT * Replace (a + 1 AS a) FROM t",
                Some("SELECT * EXCEPT (a), a + 1 AS a FROM t"),
            ),
            ("SELECT replace(a, b, c) FROM t", None),
        ] {
            let found = replaced_apart(text, &parse(text).unwrap().statement);
            assert_eq!(found.map(|statement| statement.to_string()).as_deref(), apart);
        }
    }
}
