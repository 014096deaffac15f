//! The parser's dialect: precedences as SQL has them, and an end to its work. Where a text is wrong, the parser takes back what it tried and
//! tries the other meaning of each keyword around it (`NOT (…)` may call a function `not`), which doubles the work with
//! each level: 30 levels would take days. So attempts are counted, and there is a last one.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Expressions that are begun for each token of a text, beside [`ATTEMPTS_MIN`].
const ATTEMPTS_PER_TOKEN: usize = 100;
/// Expressions that are begun in any text, however short: less than a second.
const ATTEMPTS_MIN: usize = 100_000;

/// Between `||` (40) and `::` (50).
const JSON_PRECEDENCE: u8 = 45;
/// `IN`, `BETWEEN` and `LIKE`: between `=` (20) and `||`.
const MEMBER_PRECEDENCE: u8 = 21;

/// [`GenericDialect`] in everything but that it gives up, and how tight `IS DISTINCT FROM` and the operators of JSON
/// bind.
#[derive(Debug)]
pub struct Bounded {
    attempts_left: Cell<usize>,
}

impl Bounded {
    /// For a text with so many tokens.
    pub fn new(tokens: usize) -> Self {
        Self { attempts_left: Cell::new(ATTEMPTS_MIN + ATTEMPTS_PER_TOKEN * tokens) }
    }
}

/// Methods that tell a feature, passed on.
macro_rules! as_the_generic_dialect {
    ($($feature:ident)*) => {
        $(fn $feature(&self) -> bool {
            GenericDialect.$feature()
        })*
    };
}

impl Dialect for Bounded {
    fn dialect(&self) -> TypeId {
        GenericDialect.dialect()
    }

    /// Counts attempts; and `NOT` binds as loosely in front of `EXISTS` as elsewhere: `NOT EXISTS (…) IS NULL` is
    /// `NOT (EXISTS (…) IS NULL)`.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let Some(left) = self.attempts_left.get().checked_sub(1) else {
            // The one error that no attempt catches.
            return Some(Err(ParserError::RecursionLimitExceeded));
        };
        self.attempts_left.set(left);
        let ahead = |nth: usize, keyword: Keyword| matches!(&parser.peek_nth_token_ref(nth).token, Token::Word(word) if word.keyword == keyword);
        if !(ahead(0, Keyword::NOT) && ahead(1, Keyword::EXISTS)) {
            return None;
        }
        parser.advance_token();
        let what = parser.parse_subexpr(self.prec_value(Precedence::UnaryNot));
        Some(what.map(|what| match what {
            Expr::Exists { subquery, negated } => Expr::Exists { subquery, negated: !negated },
            other => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(other) },
        }))
    }

    /// The operators of JSON bind tighter than others, so that `json ->> 'label' = 'yes'` compares and
    /// `'It says ' || json ->> 'why'` joins what they find.
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        matches!(parser.peek_token_ref().token, Token::Arrow | Token::LongArrow)
            .then_some(Ok(JSON_PRECEDENCE))
    }

    /// `IN`, `BETWEEN` and `LIKE` bind tighter than comparisons: `flag = x IN (1, 2)` compares with what `IN` finds.
    fn prec_value(&self, prec: Precedence) -> u8 {
        match prec {
            Precedence::Between | Precedence::Like => MEMBER_PRECEDENCE,
            other => GenericDialect.prec_value(other),
        }
    }

    /// The right side of `IS [NOT] DISTINCT FROM` ends at `AND` and `OR`; the parser reads on to the end of the whole
    /// expression.
    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        _: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let negated = if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
            false
        } else if parser.parse_keywords(&[
            Keyword::IS,
            Keyword::NOT,
            Keyword::DISTINCT,
            Keyword::FROM,
        ]) {
            true
        } else {
            return None;
        };
        let left = Box::new(left.clone());
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new);
        Some(right.map(|right| match negated {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        }))
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    // All that `GenericDialect` says otherwise than a dialect by default.
    as_the_generic_dialect! {
        allow_extract_custom allow_extract_single_quotes support_map_literal_syntax
        supports_array_join_syntax supports_array_typedef_with_brackets
        supports_asc_desc_in_column_definition supports_bitwise_shift_operators
        supports_comma_separated_set_assignments supports_comma_separated_trim supports_comment_on
        supports_comment_optimizer_hint supports_connect_by
        supports_constraint_keyword_without_name supports_create_index_with_clause
        supports_create_view_comment_syntax supports_cte_without_as
        supports_data_type_signed_suffix supports_detach supports_dictionary_syntax
        supports_empty_projections supports_explain_with_utility_options
        supports_extract_comma_syntax supports_filter_during_aggregation
        supports_from_first_select supports_group_by_expr supports_group_by_with_modifier
        supports_install supports_interpolate supports_interval_options supports_key_column_option
        supports_left_associative_joins_without_parens supports_limit_by supports_limit_comma
        supports_load_extension supports_match_against supports_match_recognize
        supports_multiline_comment_hints supports_named_fn_args_with_assignment_operator
        supports_nested_comments supports_optimize_table supports_parens_around_table_factor
        supports_parenthesized_set_variables supports_partition_by_after_order_by
        supports_pipe_operator supports_prewhere supports_projection_trailing_commas
        supports_quote_delimited_string supports_select_format
        supports_select_item_multi_column_alias supports_select_wildcard_except
        supports_select_wildcard_exclude supports_select_wildcard_ilike
        supports_select_wildcard_rename supports_select_wildcard_replace supports_set_names
        supports_settings supports_start_transaction_modifier supports_string_escape_constant
        supports_struct_literal supports_try_convert supports_unicode_string_literal
        supports_update_order_by supports_user_host_grantee supports_values_as_table_factor
        supports_window_clause_named_window_reference supports_window_function_null_treatment_arg
        supports_with_fill supports_xml_expressions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_parsed_is_what_the_generic_dialect_parses() {
        let texts = [
            "SELECT a, count(*) FILTER (WHERE b) OVER w FROM t WINDOW w AS (PARTITION BY c ORDER BY d)",
            "SELECT * EXCLUDE (a) FROM t",
            "SELECT * EXCEPT (a) REPLACE (b AS c) FROM t",
            "SELECT {a: 1, b: [2, 3]}, MAP {'x': 1}, x -> (x + 1), STRUCT(1 AS a)",
            "FROM t SELECT a GROUP BY ALL WITH ROLLUP LIMIT 1, 2",
            "SELECT INTERVAL '1' DAY, U&'\\0041', E'a\\n', DATE '2026-11-23', a::INT[2], $1, @b",
            "SELECT first_value(a IGNORE NULLS) OVER (), EXTRACT(year, b), 1 << 2, TRIM(a, b) FROM t",
            "SELECT a FROM t1 LEFT JOIN t2 LEFT JOIN t3 ON 1 = 1 ON 2 = 2 QUALIFY b > 1",
            "SELECT * FROM (VALUES (1, 2)) AS v (a, b), VALUES (3)",
            "SELECT a b c FROM",
            "SELECT NOT (CAST(CASE WHEN a THEN",
        ];
        for text in texts {
            let parse = |dialect: &dyn Dialect| Parser::parse_sql(dialect, text);
            assert_eq!(parse(&Bounded::new(100)), parse(&GenericDialect), "{text}");
        }
    }

    #[test]
    fn operators_of_json_bind_tighter_than_others() {
        for (text, means) in [
            ("j ->> 'a' = 'b' AND c", "((j ->> 'a') = 'b') AND c"),
            ("j -> 'a' ->> 'b' LIKE 'c'", "((j -> 'a') ->> 'b') LIKE 'c'"),
            ("j ->> 'a' IS NULL", "(j ->> 'a') IS NULL"),
            ("j ->> 'a' IN ('b')", "(j ->> 'a') IN ('b')"),
            ("j ->> 'a' || 'b'", "(j ->> 'a') || 'b'"),
            ("'b' || j ->> 'a'", "'b' || (j ->> 'a')"),
            ("1 + j ->> 'a' * 2", "1 + ((j ->> 'a') * 2)"),
        ] {
            assert_eq!(nesting(text), nesting(means), "{text}");
        }
    }

    #[test]
    fn memberships_bind_tighter_than_comparisons_and_not_the_loosest() {
        for (text, means) in [
            ("a = b IN (c)", "a = (b IN (c))"),
            ("b IN (c) = a", "(b IN (c)) = a"),
            ("a <> b LIKE 'c' AND d", "(a <> (b LIKE 'c')) AND d"),
            ("a = b || c IN (d)", "a = ((b || c) IN (d))"),
            ("NOT a IN (b)", "NOT (a IN (b))"),
            ("a = b IS NULL", "(a = b) IS NULL"),
            ("NOT EXISTS (SELECT a) IS NULL", "NOT (EXISTS (SELECT a) IS NULL)"),
            ("NOT EXISTS (SELECT a) = b AND c", "(NOT (EXISTS (SELECT a) = b)) AND c"),
            ("b = NOT EXISTS (SELECT a)", "b = (NOT EXISTS (SELECT a))"),
        ] {
            assert_eq!(nesting(text), nesting(means), "{text}");
        }
    }

    #[test]
    fn distinct_from_ends_at_and_and_or() {
        for (text, means) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
            ("a IS NOT DISTINCT FROM b OR c", "(a IS NOT DISTINCT FROM b) OR c"),
            ("c AND a IS DISTINCT FROM b + 1 AND d", "(c AND (a IS DISTINCT FROM (b + 1))) AND d"),
            ("NOT a IS NOT DISTINCT FROM b AND c", "(NOT (a IS NOT DISTINCT FROM b)) AND c"),
            ("a IS DISTINCT FROM b IS NULL", "(a IS DISTINCT FROM b) IS NULL"),
            ("a IS DISTINCT FROM b = c", "a IS DISTINCT FROM (b = c)"),
        ] {
            assert_eq!(nesting(text), nesting(means), "{text}");
        }
    }

    /// How the operators of an expression nest, whatever its parentheses.
    fn nesting(text: &str) -> String {
        fn of(expr: &Expr) -> String {
            match expr {
                Expr::Nested(inner) => of(inner),
                Expr::BinaryOp { left, op, right } => format!("[{} {op} {}]", of(left), of(right)),
                Expr::Like { expr, pattern, .. } => format!("[{} LIKE {pattern}]", of(expr)),
                Expr::IsNull(expr) => format!("[{} IS NULL]", of(expr)),
                Expr::IsDistinctFrom(a, b) => format!("[{} DISTINCT {}]", of(a), of(b)),
                Expr::IsNotDistinctFrom(a, b) => format!("[{} SAME {}]", of(a), of(b)),
                Expr::UnaryOp { op, expr } => format!("[{op} {}]", of(expr)),
                Expr::InList { expr, .. } => format!("[{} IN]", of(expr)),
                other => other.to_string(),
            }
        }
        of(&crate::sqltext::parse_expression(text).unwrap())
    }

    #[test]
    fn an_error_deep_inside_of_keywords_is_found_soon() {
        for word in
            ["NOT (", "CAST(", "IN (SELECT ", "CASE WHEN a IN (SELECT NOT (", "EXISTS (SELECT "]
        {
            let levels = 40 / word.matches(['(', 'W']).count();
            let text = format!("SELECT {} a b c", word.repeat(levels));
            assert!(crate::sqltext::parse(&text).is_err(), "{text}");
            assert!(crate::sqltext::parse_expression(&text[7..]).is_err(), "{text}");
        }
    }
}
