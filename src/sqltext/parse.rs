//! One query: its statement, and the tables it names with their places.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Spanned, Statement, TableFactor, Visit, VisitMut, Visitor,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::sqltext::bounded::Bounded;
use crate::sqltext::limits::{self, Excess};
use crate::sqltext::words::{find_only, first_word, offset, place, second_statement, tokens};
use crate::sqltext::{
    casts, distinct, fetch, patterns, row_values, set_arms, stars, using, windows,
};

/// A `SELECT`, parsed.
#[derive(Clone, Debug)]
pub struct Query {
    pub text: String,
    pub statement: Statement,
    /// The tables it reads, each once.
    pub tables: Vec<TableName>,
}

/// A table that a query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The name: `table` or `group.table`.
    pub name: String,
    pub range: Range<usize>,
}

/// Why a text is no query.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlError {
    pub kind: SqlErrorKind,
    pub message: String,
    pub range: Range<usize>,
    pub help: Option<String>,
}

/// Kinds of diagnostics that the text alone shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// It does not parse.
    Syntax,
    /// It is not one `SELECT`.
    NotAllowed,
    /// It is larger than any query may be.
    TooLarge,
}

/// First words of statements that are no queries.
const COMMANDS: [&str; 29] = [
    "ALTER",
    "ANALYZE",
    "ATTACH",
    "BEGIN",
    "CALL",
    "COMMIT",
    "COPY",
    "CREATE",
    "DEALLOCATE",
    "DELETE",
    "DESCRIBE",
    "DROP",
    "EXECUTE",
    "EXPLAIN",
    "GRANT",
    "INSERT",
    "LOAD",
    "MERGE",
    "PRAGMA",
    "PREPARE",
    "RESET",
    "REVOKE",
    "ROLLBACK",
    "SET",
    "SHOW",
    "TRUNCATE",
    "UPDATE",
    "USE",
    "VACUUM",
];

/// Parses exactly one `SELECT` (or `WITH`, `VALUES`, `TABLE`).
pub fn parse(sql: &str) -> Result<Query, SqlError> {
    let (tokens, dialect) = lexed(sql);
    let first = tokens.as_deref().and_then(|all| first_word(sql, all));
    let has = [
        Keyword::USING,
        Keyword::WINDOW,
        Keyword::DISTINCT,
        Keyword::GROUP,
        Keyword::FETCH,
        Keyword::UNION,
        Keyword::EXCEPT,
        Keyword::INTERSECT,
    ]
    .map(|keyword| has_word(tokens.as_deref(), keyword));
    let has_casts = tokens.iter().flatten().any(|token| is_cast(&token.token));
    let written = Written::of(tokens.as_deref());
    if let Some((word, range)) = &first
        && let Some(command) = COMMANDS.iter().find(|command| word.eq_ignore_ascii_case(command))
    {
        return Err(no_query(command, range.clone()));
    }
    let mut statements = parser(sql, tokens, &dialect)?
        .parse_statements()
        .map_err(|error| syntax_error(sql, &error))?;
    let not_allowed = |message: &str, range: Range<usize>| SqlError {
        kind: SqlErrorKind::NotAllowed,
        message: message.to_owned(),
        range,
        help: Some("a stage has one query; give the other a stage of its own".to_owned()),
    };
    if statements.is_empty() {
        return Err(not_allowed("expected a query, found none", 0..sql.trim_end().len().min(1)));
    }
    if statements.len() > 1 {
        let range = second_statement(sql).unwrap_or(0..0);
        let message = format!("expected one query, found {} statements", statements.len());
        return Err(not_allowed(&message, range));
    }
    let mut statement = statements.remove(0);
    if !matches!(statement, Statement::Query(_)) {
        let (word, range) = first.unwrap_or_default();
        return Err(no_query(&word.to_uppercase(), range));
    }
    limits::expanded(&statement).map_err(|excess| too_large(sql, excess))?;
    stars::all_of_from(&mut statement);
    // Each visits the whole statement: none where its word is not there.
    let [joins, windows, distinct, groups, fetches, unions, excepts, intersects] = has;
    written.out(&mut statement).map_err(|excess| too_large(sql, excess))?;
    if fetches {
        fetch::written_out(&mut statement);
    }
    if unions || excepts || intersects {
        set_arms::written_out(&mut statement);
    }
    if joins {
        using::written_out(&mut statement);
    }
    if windows {
        windows::written_out(&mut statement).map_err(|conflict| SqlError {
            kind: SqlErrorKind::NotAllowed,
            message: conflict.message,
            range: spanned(sql, conflict.span),
            help: None,
        })?;
    }
    if distinct {
        distinct::written_out(&mut statement);
    }
    if groups || has_casts {
        casts::written_out(&mut statement);
    }
    let tables = tables(sql, &statement)?;
    Ok(Query { text: sql.to_owned(), statement, tables })
}

/// Parses exactly one expression.
pub fn parse_expression(sql: &str) -> Result<Expr, SqlError> {
    let (tokens, dialect) = lexed(sql);
    let written = Written::of(tokens.as_deref());
    let mut parser = parser(sql, tokens, &dialect)?;
    let mut expr = parser
        .parse_expr()
        .and_then(|expr| match parser.peek_token().token {
            Token::EOF => Ok(expr),
            _ => parser.expected("the end of the expression", parser.peek_token()),
        })
        .map_err(|error| syntax_error(sql, &error))?;
    written.out(&mut expr).map_err(|excess| too_large(sql, excess))?;
    Ok(expr)
}

/// Whether a word or a sign begins a cast.
fn is_cast(token: &Token) -> bool {
    match token {
        Token::DoubleColon => true,
        Token::Word(word) => {
            matches!(word.keyword, Keyword::CAST | Keyword::TRY_CAST | Keyword::SAFE_CAST)
        }
        _ => false,
    }
}

fn has_word(tokens: Option<&[TokenWithSpan]>, keyword: Keyword) -> bool {
    let is_it = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == keyword);
    tokens.into_iter().flatten().any(is_it)
}

/// What of a text is written out, be it a statement or an expression.
struct Written {
    patterns: bool,
    rows: bool,
}

impl Written {
    fn of(tokens: Option<&[TokenWithSpan]>) -> Self {
        let patterns = [Keyword::ESCAPE, Keyword::SIMILAR];
        let is = |token: &TokenWithSpan, wanted: Token| token.token == wanted;
        // A name in front of parentheses is a function.
        let mut last = None;
        let opens_row = |token: &TokenWithSpan| {
            let before = last.replace(token.token.clone());
            let is_call =
                matches!(before, Some(Token::Word(word)) if word.keyword == Keyword::NoKeyword);
            is(token, Token::LParen) && !is_call
        };
        Self {
            patterns: patterns.into_iter().any(|keyword| has_word(tokens, keyword)),
            rows: tokens.into_iter().flatten().any(|token| is(token, Token::Comma))
                && tokens.into_iter().flatten().any(opens_row),
        }
    }

    fn out(&self, parsed: &mut impl VisitMut) -> Result<(), Excess> {
        if self.patterns {
            patterns::written_out(parsed);
        }
        match self.rows {
            true => row_values::written_out(parsed),
            false => Ok(()),
        }
    }
}

/// A parser of a text that is not too deep to be parsed.
fn parser<'d>(
    sql: &str,
    tokens: Option<Vec<TokenWithSpan>>,
    dialect: &'d Bounded,
) -> Result<Parser<'d>, SqlError> {
    let parser = Parser::new(dialect);
    match tokens {
        Some(tokens) => {
            limits::depth(sql, &tokens).map_err(|excess| too_large(sql, excess))?;
            named_numbers(sql, &tokens)?;
            Ok(parser.with_tokens_with_locations(tokens))
        }
        None => parser.try_with_sql(sql).map_err(|error| syntax_error(sql, &error)),
    }
}

/// Refuses a name right behind a number: `1_000` would be a 1 that is called `_000`.
fn named_numbers(sql: &str, tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let named = |pair: &&[TokenWithSpan]| {
        matches!((&pair[0].token, &pair[1].token), (Token::Number(..), Token::Word(_)))
    };
    let Some([number, name]) = tokens.windows(2).find(named) else { return Ok(()) };
    Err(SqlError {
        kind: SqlErrorKind::Syntax,
        message: format!("`{}` directly follows a number", name.token),
        range: place(sql, number).start..place(sql, name).end,
        help: Some("write digits alone, and put a space before a name".to_owned()),
    })
}

/// The words and signs of a text, and a dialect for as many.
fn lexed(sql: &str) -> (Option<Vec<TokenWithSpan>>, Bounded) {
    let tokens = tokens(sql);
    let count = tokens.as_ref().map_or(0, Vec::len);
    (tokens, Bounded::new(count))
}

fn too_large(sql: &str, excess: Excess) -> SqlError {
    let whole = 0..sql.lines().next().map_or(0, str::len);
    SqlError {
        kind: SqlErrorKind::TooLarge,
        message: excess.message,
        range: if excess.range.is_empty() { whole } else { excess.range },
        help: Some(excess.help.to_owned()),
    }
}

fn no_query(command: &str, range: Range<usize>) -> SqlError {
    SqlError {
        kind: SqlErrorKind::NotAllowed,
        message: format!("`{command}` is not allowed: only queries are"),
        range,
        help: Some(
            "a stage's SQL is one `SELECT`; `read` turns files into tables, and `write` tables into files"
                .to_owned(),
        ),
    }
}

fn tables(sql: &str, statement: &Statement) -> Result<Vec<TableName>, SqlError> {
    let wrapped = AnyStatement::Statement(Box::new(statement.clone()));
    let (names, _) = resolve_table_references(&wrapped, true).map_err(|error| SqlError {
        kind: SqlErrorKind::NotAllowed,
        message: error.strip_backtrace(),
        range: 0..0,
        help: None,
    })?;
    let mut places = Places { sql, found: Vec::new(), functions: HashSet::new(), sampled: None };
    let _ = statement.visit(&mut places);
    if let Some(range) = places.sampled {
        return Err(SqlError {
            kind: SqlErrorKind::NotAllowed,
            message: "`TABLESAMPLE` is not supported and would be ignored".to_owned(),
            range,
            help: Some("take rows by their `row_id`, such as `WHERE row_id < '2'`".to_owned()),
        });
    }
    let table = |name: String| {
        let same = |(written, _): &&(String, Range<usize>)| *written == name;
        let range = places.found.iter().find(same).map(|(_, range)| range.clone());
        // The parser does not place names in single quotes.
        let range = range.filter(|range| !range.is_empty());
        let range = range.or_else(|| find_only(sql, &format!("'{name}'"))).unwrap_or(0..0);
        TableName { name, range }
    };
    let mut tables: Vec<_> = names
        .iter()
        .map(ToString::to_string)
        .filter(|name| !places.functions.contains(name))
        .map(table)
        .collect();
    tables.sort_by_key(|table| table.range.start);
    Ok(tables)
}

/// Collects where relations are named.
struct Places<'a> {
    sql: &'a str,
    found: Vec<(String, Range<usize>)>,
    /// Functions that stand where tables do.
    functions: HashSet<String>,
    /// A table of which only a sample is requested.
    sampled: Option<Range<usize>>,
}

impl Places<'_> {
    fn range(&self, name: &ObjectName) -> Range<usize> {
        spanned(self.sql, name.span())
    }
}

impl Visitor for Places<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(_), .. } = factor {
            self.functions.insert(plain(name));
        }
        if let TableFactor::Table { name, sample: Some(_), .. } = factor {
            self.sampled = Some(self.range(name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.found.push((plain(relation), self.range(relation)));
        ControlFlow::Continue(())
    }
}

/// The bytes of a span.
fn spanned(sql: &str, span: Span) -> Range<usize> {
    let at = |line, column| offset(sql, line, column);
    at(span.start.line, span.start.column)..at(span.end.line, span.end.column)
}

/// A name without quotes; words that had none in lower case.
fn plain(name: &ObjectName) -> String {
    let part = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    let parts: Vec<_> = name.0.iter().filter_map(|p| p.as_ident()).map(part).collect();
    parts.join(".")
}

/// The parser's message in our words, its position taken out of the text.
fn syntax_error(sql: &str, error: &ParserError) -> SqlError {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.clone(),
        ParserError::RecursionLimitExceeded => "the query is nested too deeply".to_owned(),
    };
    let (text, place) = message.rsplit_once(" at Line: ").unwrap_or((&message, ""));
    let mut numbers = place.split(", Column: ").map(|n| n.trim().parse::<u64>());
    let start = match (numbers.next(), numbers.next()) {
        (Some(Ok(line)), Some(Ok(column))) => offset(sql, line, column),
        _ => sql.trim_end().len(),
    };
    let width =
        sql[start..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(sql.len() - start);
    let end = start + width.max(sql[start..].chars().next().map_or(0, char::len_utf8));
    let text = text.trim_end_matches('.');
    let message = match text
        .strip_prefix("Expected: ")
        .and_then(|rest| rest.split_once(", found: "))
    {
        Some((expected, found)) => format!("expected {}, found {}", wanted(expected), token(found)),
        None => lower_first(text),
    };
    SqlError { kind: SqlErrorKind::Syntax, message, range: start..end, help: None }
}

/// What the parser expected, with signs and keywords marked as such.
fn wanted(expected: &str) -> String {
    match expected {
        "end of statement" => "the end of the query".to_owned(),
        "an SQL statement" => "a query".to_owned(),
        sign if !sign.contains(' ') && !sign.starts_with(|c: char| c.is_lowercase()) => {
            format!("`{sign}`")
        }
        words => words.to_owned(),
    }
}

fn token(found: &str) -> String {
    if found == "EOF" { "the end".to_owned() } else { format!("`{found}`") }
}

/// The text with a small first letter, unless its first word is all capitals.
pub fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_listed_once_and_ctes_are_not_tables() {
        let query = parse(
            "WITH c AS (SELECT * FROM a) SELECT * FROM c JOIN Before.answers USING (x) \
             WHERE x IN (SELECT x FROM a)",
        )
        .unwrap();
        let names: Vec<_> = query.tables.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a", "before.answers"]);
        assert_eq!(&query.text[query.tables[1].range.clone()], "Before.answers");
    }

    #[test]
    fn functions_are_not_tables() {
        let query = parse("SELECT * FROM range(1, 3) AS r JOIN a ON true").unwrap();
        let names: Vec<_> = query.tables.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a"]);
    }

    #[test]
    fn an_expression_ends_where_the_text_does() {
        assert!(parse_expression("a + 1").is_ok());
        let error = parse_expression("a, b").unwrap_err();
        assert_eq!(error.range, 1..2);
        assert_eq!(error.message, "expected the end of the expression, found `,`");
    }

    #[test]
    fn samples_are_refused_because_they_would_be_ignored() {
        let error = parse("SELECT * FROM big TABLESAMPLE (10 PERCENT)").unwrap_err();
        assert_eq!((error.kind, error.range), (SqlErrorKind::NotAllowed, 14..17));
    }

    #[test]
    fn errors_have_places() {
        let error = parse("SELECT a\nFROM t\nWHERE ORDER x").unwrap_err();
        assert_eq!((error.kind, error.range.start), (SqlErrorKind::Syntax, 28));
        let error = parse("COPY t TO 'x'").unwrap_err();
        assert_eq!((error.kind, error.range), (SqlErrorKind::NotAllowed, 0..4));
        let error = parse("SELECT 1; -- more\nSELECT 2").unwrap_err();
        assert_eq!((error.kind, error.range), (SqlErrorKind::NotAllowed, 18..24));
        let error = parse("-- mine\ncreate external nonsense").unwrap_err();
        assert_eq!((error.kind, error.range), (SqlErrorKind::NotAllowed, 8..14));
        assert!(parse("SELECT 1;").is_ok());
        assert!(parse("").is_err());
    }
}
