//! One query: its statement, and the tables it names with their places.

use std::ops::{ControlFlow, Range};

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{ObjectName, Spanned, Statement, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use crate::sqltext::words::{find_word, offset};

/// A `SELECT`, parsed.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its text.
    pub text: String,
    /// Its syntax tree.
    pub statement: Statement,
    /// The tables it reads, each once.
    pub tables: Vec<TableName>,
}

/// A table that a query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The name: `table` or `group.table`.
    pub name: String,
    /// Where it first stands.
    pub range: Range<usize>,
}

/// Why a text is no query.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlError {
    /// What kind of mistake.
    pub kind: SqlErrorKind,
    /// What is wrong.
    pub message: String,
    /// Where.
    pub range: Range<usize>,
}

/// Kinds of mistakes that the text alone shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// It does not parse.
    Syntax,
    /// It is not one `SELECT`.
    NotAllowed,
}

/// Parses exactly one `SELECT` (or `WITH`, `VALUES`, `TABLE`).
pub fn parse(sql: &str) -> Result<Query, SqlError> {
    let mut statements = Parser::new(&GenericDialect {})
        .try_with_sql(sql)
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| syntax_error(sql, &error))?;
    let not_allowed = |message: String, range: Range<usize>| SqlError {
        kind: SqlErrorKind::NotAllowed,
        message,
        range,
    };
    if statements.len() != 1 {
        let message = format!("expected one query, found {} statements", statements.len());
        return Err(not_allowed(message, 0..sql.trim_end().len().min(1)));
    }
    let statement = statements.remove(0);
    if !matches!(statement, Statement::Query(_)) {
        let first = sql.split_whitespace().next().unwrap_or("").to_uppercase();
        let range = find_word(sql, &first).unwrap_or(0..0);
        return Err(not_allowed(format!("`{first}` is not allowed: only queries are"), range));
    }
    let tables = tables(sql, &statement)?;
    Ok(Query { text: sql.to_owned(), statement, tables })
}

fn tables(sql: &str, statement: &Statement) -> Result<Vec<TableName>, SqlError> {
    let wrapped = AnyStatement::Statement(Box::new(statement.clone()));
    let (names, _) = resolve_table_references(&wrapped, true).map_err(|error| SqlError {
        kind: SqlErrorKind::NotAllowed,
        message: error.strip_backtrace(),
        range: 0..0,
    })?;
    let mut places = Places { sql, found: Vec::new() };
    let _ = statement.visit(&mut places);
    let table = |name: String| {
        let same = |(written, _): &&(String, Range<usize>)| *written == name;
        let range = places.found.iter().find(same).map_or(0..0, |(_, range)| range.clone());
        TableName { name, range }
    };
    let mut tables: Vec<_> = names.iter().map(|name| table(name.to_string())).collect();
    tables.sort_by_key(|table| table.range.start);
    Ok(tables)
}

/// Collects where relations are named.
struct Places<'a> {
    sql: &'a str,
    found: Vec<(String, Range<usize>)>,
}

impl Visitor for Places<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let part = |ident: &datafusion::sql::sqlparser::ast::Ident| match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_lowercase(),
        };
        let name: Vec<_> =
            relation.0.iter().filter_map(|p| p.as_ident()).map(part).collect();
        let span = relation.span();
        let at = |line, column| offset(self.sql, line, column);
        let range = at(span.start.line, span.start.column)..at(span.end.line, span.end.column);
        self.found.push((name.join("."), range));
        ControlFlow::Continue(())
    }
}

/// The parser's message, its position taken out of the text.
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
    let width = sql[start..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(sql.len() - start);
    let end = start + width.max(sql[start..].chars().next().map_or(0, char::len_utf8));
    let text = text.trim_end_matches(['.', ',']).replace("Expected:", "expected").replace(", found:", ", found");
    SqlError { kind: SqlErrorKind::Syntax, message: text, range: start..end }
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
    fn mistakes_have_places() {
        let error = parse("SELECT a\nFROM t\nWHERE ORDER x").unwrap_err();
        assert_eq!((error.kind, error.range.start), (SqlErrorKind::Syntax, 28));
        let error = parse("COPY t TO 'x'").unwrap_err();
        assert_eq!((error.kind, error.range), (SqlErrorKind::NotAllowed, 0..4));
        assert!(parse("SELECT 1; SELECT 2").is_err());
        assert!(parse("").is_err());
    }
}
