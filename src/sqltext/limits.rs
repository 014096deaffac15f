//! How large a query may be. Parsing, planning and running take one frame of the stack for each level
//! of a query, and typing an expression takes time that grows with the square of its depth; so what
//! is deeper than any person writes is refused before it is parsed.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement, Visit, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sqltext::words::place;

/// Operators in a row, joins of one `SELECT` and queries of one `UNION`, with those around them.
pub const DEPTH_MAX: usize = 500;
/// Parentheses, brackets and `CASE` inside each other; the parser gives up soon after.
pub const NESTING_MAX: usize = 45;
/// Queries and tables that the names of `WITH` stand for, all written out.
pub const EXPANDED_MAX: u64 = 5_000;

/// What is too much, and where.
#[derive(Debug, PartialEq)]
pub struct Excess {
    pub message: String,
    pub range: Range<usize>,
    pub help: &'static str,
}

/// One level of parentheses.
#[derive(Clone, Copy, Default)]
struct Level {
    /// `UNION` and its like.
    unions: usize,
    /// Tables behind the first one of a `FROM`.
    joins: usize,
    /// `AND` and `OR` of an expression.
    logical: usize,
    /// Other operators since the last of those, and the most there were.
    operators: usize,
    operators_max: usize,
    /// Whether a comma stands between tables.
    in_from: bool,
    /// Whether `END` closes it.
    is_case: bool,
}

impl Level {
    fn depth(&self) -> usize {
        1 + self.unions + self.joins + self.logical + self.operators_max
    }

    fn end_expression(&mut self) {
        (self.logical, self.operators, self.operators_max) = (0, 0, 0);
    }

    fn operator(&mut self) {
        self.operators += 1;
        self.operators_max = self.operators_max.max(self.operators);
    }

    /// A token that opens or closes no level.
    fn read(&mut self, token: &Token, before: Option<&Token>) {
        match token {
            Token::Word(word) if word.quote_style.is_none() => self.keyword(word.keyword),
            Token::Comma | Token::SemiColon => {
                self.joins += usize::from(self.in_from);
                self.end_expression();
            }
            // `table.column` is one name, and what follows is a field of a field.
            Token::Period if before != Some(&Token::Period) => {}
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Whitespace(_)
            | Token::Colon
            | Token::EOF => {}
            _ => self.operator(),
        }
    }

    fn keyword(&mut self, keyword: Keyword) {
        match keyword {
            Keyword::AND | Keyword::OR | Keyword::XOR => {
                self.logical += 1;
                self.operators = 0;
            }
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                self.unions += 1;
                (self.joins, self.in_from) = (0, false);
                self.end_expression();
            }
            Keyword::SELECT | Keyword::VALUES => {
                (self.joins, self.in_from) = (0, false);
                self.end_expression();
            }
            Keyword::FROM => {
                self.in_from = true;
                self.end_expression();
            }
            Keyword::JOIN => {
                self.joins += 1;
                self.end_expression();
            }
            Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::QUALIFY
            | Keyword::WINDOW
            | Keyword::ORDER
            | Keyword::LIMIT => {
                self.in_from = false;
                self.end_expression();
            }
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE | Keyword::ON => self.end_expression(),
            Keyword::IS
            | Keyword::NOT
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::BETWEEN
            | Keyword::AT
            | Keyword::COLLATE
            | Keyword::DIV
            | Keyword::OVERLAPS => self.operator(),
            _ => {}
        }
    }
}

/// What of a text is nested too deeply, as determined by its words alone.
pub fn depth(sql: &str, tokens: &[TokenWithSpan]) -> Result<(), Excess> {
    let mut levels = vec![Level::default()];
    // The depth of all levels but the last.
    let mut around = 0;
    let seen = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut last_two: [Option<&Token>; 2] = [None, None];
    for token in seen {
        let keyword = match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        match &token.token {
            _ if keyword == Keyword::CASE => {
                around += levels.last().map_or(0, Level::depth);
                levels.push(Level { is_case: true, ..Level::default() });
            }
            _ if keyword == Keyword::END && levels.last().is_some_and(|level| level.is_case) => {
                levels.pop();
                around -= levels.last().map_or(0, Level::depth);
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                let Some(level) = levels.last_mut() else { break };
                // A subscript of a subscript, a call of a call.
                level.operators += usize::from(token.token == Token::LBracket);
                level.operators_max = level.operators_max.max(level.operators);
                around += level.depth();
                levels.push(Level::default());
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                // A `CASE` without its `END` ends here too; the parser will say so.
                while levels.len() > 1 {
                    let closed = levels.pop();
                    around -= levels.last().map_or(0, Level::depth);
                    if closed.is_some_and(|level| !level.is_case) {
                        break;
                    }
                }
            }
            other => {
                let Some(level) = levels.last_mut() else { break };
                level.read(other, last_two[0]);
            }
        }
        last_two = [last_two[1], Some(&token.token)];
        let depth = around + levels.last().map_or(0, Level::depth);
        if levels.len() > NESTING_MAX {
            return Err(Excess {
                message: format!("more than {NESTING_MAX} parentheses or `CASE` inside each other"),
                range: place(sql, token),
                help: "compute the inner parts in stages of their own, or with `WITH`",
            });
        }
        if depth > DEPTH_MAX {
            return Err(Excess {
                message: format!(
                    "more than {DEPTH_MAX} operators, joins or queries in a row and inside each other"
                ),
                range: place(sql, token),
                help: "write `IN (…)` for many `OR`, union many tables with a `matrix`, or compute \
                       parts in stages of their own",
            });
        }
    }
    Ok(())
}

/// What of a query is too large once its names of `WITH` are written out.
pub fn expanded(statement: &Statement) -> Result<(), Excess> {
    let mut sizes = Sizes::default();
    let _ = statement.visit(&mut sizes);
    let Some(name) = sizes.first_beyond else { return Ok(()) };
    Err(Excess {
        message: format!("`{name}` expands to more than {EXPANDED_MAX} queries and tables"),
        range: 0..0,
        help: "give parts of the query stages of their own: a stage is computed once, however often \
               it is named",
    })
}

/// How many queries and tables each name of `WITH` stands for.
#[derive(Default)]
struct Sizes {
    of: HashMap<String, u64>,
    first_beyond: Option<String>,
}

impl Visitor for Sizes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        // Each name can use those before it.
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let mut tables = Tables { known: &self.of, size: 1 };
            let _ = table.query.visit(&mut tables);
            let size = tables.size;
            let name = table.alias.name.value.to_lowercase();
            if size > EXPANDED_MAX {
                self.first_beyond.get_or_insert(name);
                return ControlFlow::Break(());
            }
            // Of two with one name, the larger counts: which one is meant is decided later.
            let known = self.of.entry(name).or_default();
            *known = size.max(*known);
        }
        ControlFlow::Continue(())
    }
}

/// Adds up what a query names.
struct Tables<'a> {
    known: &'a HashMap<String, u64>,
    size: u64,
}

impl Visitor for Tables<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = relation.to_string().trim_matches('"').to_lowercase();
        self.size = self.size.saturating_add(self.known.get(&name).copied().unwrap_or(1));
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::sqltext::{SqlErrorKind, parse, parse_expression};

    /// Texts of `n` levels.
    fn deep(n: usize) -> Vec<String> {
        let chain = |between: &str| vec!["x"; n].join(between);
        vec![
            format!("SELECT {} FROM t", chain(" + ")),
            format!("SELECT x FROM t WHERE {}", chain(" = 1 OR ")),
            format!("SELECT x FROM t WHERE {}", chain(" AND NOT ")),
            format!("SELECT 'a' || {} FROM t", chain(" || ")),
            format!("SELECT x{} FROM t", "::INT".repeat(n)),
            format!("SELECT x{} FROM t", "[1]".repeat(n)),
            format!("SELECT x{} FROM t", ".y".repeat(n)),
            format!("SELECT x {} FROM t", "IS NULL ".repeat(n)),
            vec!["SELECT x FROM t"; n].join(" UNION ALL "),
            vec!["SELECT x FROM t"; n].join(" EXCEPT "),
            format!("SELECT 1 FROM {}", vec!["t"; n].join(", ")),
            format!("SELECT 1 FROM t {}", "CROSS JOIN t ".repeat(n)),
            format!("SELECT {}x{} FROM t", "(".repeat(n), ")".repeat(n)),
            format!("SELECT {}x{} FROM t", "abs(".repeat(n), ")".repeat(n)),
            format!("SELECT {}x{} FROM t", "[".repeat(n), "]".repeat(n)),
            format!("SELECT {}1{} FROM t", "CASE WHEN x THEN ".repeat(n), " END".repeat(n)),
            format!("SELECT {}x FROM t", "- ".repeat(n)),
            format!("SELECT {}x FROM t", "NOT ".repeat(n)),
            format!("{}SELECT 1{}", "SELECT * FROM (".repeat(n), ") AS t".repeat(n)),
            format!("SELECT x FROM t WHERE {}1{}", "x IN (SELECT ".repeat(n), ")".repeat(n)),
        ]
    }

    #[test]
    fn what_is_too_deep_is_refused_where_it_is_and_before_it_is_parsed() {
        for sql in deep(20_000) {
            let error = parse(&sql).err().unwrap_or_else(|| panic!("{} is parsed", &sql[..60]));
            assert_eq!(error.kind, SqlErrorKind::TooLarge, "{}: {error:?}", &sql[..60]);
            assert!(!error.range.is_empty() && error.range.start < 60_000, "{error:?}");
        }
        let error = parse_expression(&vec!["x"; 20_000].join(" + ")).unwrap_err();
        assert_eq!(error.kind, SqlErrorKind::TooLarge);
        assert_eq!(error.range, 1998..1999);
    }

    #[test]
    fn wide_is_not_deep() {
        let many = |text: &str| vec![text; 5_000].join(", ");
        for sql in [
            format!("SELECT x FROM t WHERE x IN ({})", many("1 + 1")),
            format!("SELECT {} FROM t", many("t.x + 1 AS y")),
            format!("SELECT CASE {} END FROM t", "WHEN x = 1 AND y = 2 THEN 3 ".repeat(5_000)),
            format!("VALUES {}", many("(1, 'a')")),
            format!("SELECT x FROM t WHERE {}", vec!["t.a = 1 + 2"; 400].join(" AND ")),
            format!("SELECT concat({}) FROM t", many("'a' || x")),
        ] {
            assert!(parse(&sql).is_ok(), "{}", &sql[..60]);
        }
    }

    #[test]
    fn names_of_with_are_counted_written_out() {
        let doubling = |n: usize| {
            let tables: Vec<_> = (1..n)
                .map(|i| {
                    format!("c{i} AS (SELECT * FROM c{0} UNION ALL SELECT * FROM c{0})", i - 1)
                })
                .collect();
            format!("WITH c0 AS (SELECT 1 AS x), {} SELECT * FROM c{}", tables.join(", "), n - 1)
        };
        assert!(parse(&doubling(9)).is_ok());
        let error = parse(&doubling(40)).unwrap_err();
        assert_eq!(error.kind, SqlErrorKind::TooLarge);
        assert!(error.message.contains("`c12` expands to more than 5000"), "{error:?}");
    }
}
