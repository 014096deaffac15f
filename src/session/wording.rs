//! DataFusion's messages in the words that a writer of SQL needs.

use std::ops::Range;

use proofmill_udfs::model::CallError;
use thiserror::Error;

use crate::sqltext::{self, lower_first};
use proofmill_pipeline::code::Code;

/// Words that DataFusion puts before what happened.
const PREFIXES: [&str; 7] = [
    "Error during planning: ",
    "Execution error: ",
    "Internal error: ",
    "This feature is not implemented: ",
    "Schema error: ",
    "SQL error: ",
    "type_coercion\ncaused by\n",
];

/// Operators as its messages write them between two types.
const OPERATORS: [&str; 20] = [
    "+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">=", "||", "&", "|", "AND", "OR", "LIKE",
    "~", "IS", "IN",
];

/// What is not supported: a part of the message, ours, how to write it instead, and the word to blame.
const UNSUPPORTED: [(&str, &str, &str, &str); 13] = [
    (
        "logical expression WindowFunction",
        "a window function is not allowed here",
        "filter with `QUALIFY`, or compute it in a subquery",
        "OVER",
    ),
    ("logical expression Wildcard", "only `count` takes a `*`", "name a column", "*"),
    (
        "Unsupported LIMIT expression",
        "`LIMIT` takes a number",
        "number rows with `row_number()` and filter with `QUALIFY`",
        "LIMIT",
    ),
    (
        "Unsupported OFFSET expression",
        "`OFFSET` takes a number",
        "number rows with `row_number()` and filter with `QUALIFY`",
        "OFFSET",
    ),
    (
        "only support Literal types for field",
        "this argument of a window function must be a literal number",
        "select the value with `CASE`, or join the row",
        "OVER",
    ),
    (
        "Expected a signed integer literal",
        "this argument of a window function must be a literal number",
        "select the value with `CASE`, or join the row",
        "OVER",
    ),
    (
        "ccumulator for (Null",
        "`NULL` alone has no type",
        "give it one, such as `CAST(NULL AS DOUBLE)`",
        "NULL",
    ),
    (
        "not supported for Null",
        "`NULL` alone has no type",
        "give it one, such as `CAST(NULL AS DOUBLE)`",
        "NULL",
    ),
    (
        "for GROUPING aggregate function",
        "`grouping` is not a window function",
        "compute it in a subquery",
        "grouping",
    ),
    (
        "(DISTINCT) aggregations are not available",
        "this aggregate does not take `DISTINCT` values",
        "aggregate the rows of a `SELECT DISTINCT` in a subquery",
        "DISTINCT",
    ),
    (
        "nnest should be rewritten",
        "`unnest` is allowed only in the `SELECT` list",
        "unnest in a subquery",
        "unnest",
    ),
    (
        "rguments must be literals",
        "a table function takes only literal arguments",
        "write numbers, or make rows with `unnest(range(…))` in the `SELECT` list",
        "FROM",
    ),
    (
        UNORDERED,
        "the engine cannot track the order of a computed key",
        "compute the key in a subquery, and order by its name",
        "ORDER",
    ),
];

/// What the check of operators says of an order that is missing.
pub const UNORDERED: &str = "does not satisfy order requirements";

/// What messages put before the part of a statement that they print as the parser holds it.
const HELD: [&str; 3] =
    ["Unsupported ast node in sqltorel: ", "Unsupported ast node ", "Unsupported JOIN operator "];

/// What cannot be answered rightly, and how to write it instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refused {
    pub message: String,
    pub help: String,
    /// Words of the text to blame, the best first.
    pub blamed: Vec<String>,
}

impl Refused {
    /// As the planner passes errors on.
    pub fn error<T>(self) -> datafusion::common::Result<T> {
        Err(self.into())
    }
}

impl From<Refused> for datafusion::common::DataFusionError {
    fn from(refused: Refused) -> Self {
        Self::External(Box::new(refused))
    }
}

fn unsupported(
    message: &str,
) -> Option<&'static (&'static str, &'static str, &'static str, &'static str)> {
    UNSUPPORTED.iter().find(|(part, ..)| message.contains(part))
}

/// Whether a message says that something is not supported, whatever the rows are.
pub fn is_unsupported(message: &str) -> bool {
    unsupported(message).is_some()
}

/// A diagnostic as far as the message alone shows it.
#[derive(Debug, PartialEq)]
pub struct Fact {
    pub code: Code,
    pub message: String,
    pub help: Option<String>,
    /// Words and signs to blame, the best first.
    blamed: Vec<String>,
}

impl Fact {
    /// Where the blamed word stands in the text.
    pub fn place(&self, text: &str) -> Option<Range<usize>> {
        let sign = |blamed: &String| match blamed.chars().all(|c| c.is_alphanumeric() || c == '_') {
            true => sqltext::find_word(text, blamed),
            false => sqltext::find_only(text, blamed),
        };
        self.blamed.iter().find_map(sign)
    }
}

/// The message without the words around it.
pub fn plain(message: &str) -> String {
    let mut message = message.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| message.strip_prefix(prefix)) {
        message = rest.trim_start();
    }
    message.to_owned()
}

/// The message of a plan that cannot be made, shortened.
pub fn shorten(message: &str) -> Fact {
    let fact = |code, message: String| Fact { code, message, help: None, blamed: Vec::new() };
    if let Some((function, rest)) = function_of(message) {
        let wanted = rest.split_once("failed with: ").map(|(_, inner)| plain(inner));
        let text = match wanted {
            // Our own functions say it best.
            Some(inner) => sentence(&inner),
            None if rest.contains("failed to match any signature") => match received(rest) {
                Some(kind) => format!("`{function}` does not take an argument of type {kind}"),
                None => format!("`{function}` does not take these arguments"),
            },
            None => format!("`{function}` {}", sentence(rest.trim_start())),
        };
        let blamed = vec![function.to_owned()];
        return Fact { blamed, ..fact(Code::SqlType, text) };
    }
    if message.contains("only queries are") {
        return fact(Code::SqlNotAllowed, message.to_owned());
    }
    if message.starts_with("Substring without for/from") {
        let text = "`substr` needs the position to start from".to_owned();
        let blamed = vec!["substr".to_owned(), "substring".to_owned()];
        return Fact { blamed, ..fact(Code::SqlType, text) };
    }
    if let Some((_, rest)) = message.split_once("non-boolean predicate '")
        && let Some((predicate, kind)) = rest.split_once("' returning ")
    {
        let column = predicate.rsplit('.').next().unwrap_or(predicate).to_owned();
        let text = format!("a condition must be a boolean, but `{predicate}` is {kind}");
        let blamed = vec![column, "WHERE".to_owned(), "HAVING".to_owned()];
        return Fact { blamed, ..fact(Code::SqlType, text) };
    }
    if let Some((_, rest)) = message.split_once("nary operator '")
        && let Some((operator, rest)) = rest.split_once("' requires ")
    {
        let text = format!("`{operator}` requires {}", sentence(rest));
        return Fact { blamed: vec![operator.to_owned()], ..fact(Code::SqlType, text) };
    }
    // Values as the library holds them are no words.
    let message = match message.split_once(", got ") {
        Some((said, held)) if held.contains('(') => said,
        _ => message,
    };
    if let Some((_, text, help, word)) = unsupported(message) {
        let blamed = vec![(*word).to_owned()];
        return Fact {
            blamed,
            help: Some((*help).to_owned()),
            ..fact(Code::SqlPlan, (*text).to_owned())
        };
    }
    if let Some(held) = HELD.iter().find_map(|before| message.strip_prefix(before)) {
        let name = held.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        return fact(Code::SqlPlan, format!("`{name}` is not supported"));
    }
    if message.to_lowercase().starts_with("correlated scalar subquery") {
        let text = "a correlated scalar subquery is not supported in this place, such as in `ON`";
        let help = "make it a column in a subquery of its own, as in `FROM (SELECT *, (SELECT …) AS v FROM t)`, and use \
                    the column";
        // Which one of several the message does not say.
        let fact = fact(Code::SqlPlan, text.to_owned());
        return Fact { help: Some(help.to_owned()), ..fact };
    }
    if message.starts_with("UNION queries have different number of columns") {
        let text = "the queries of a `UNION` have different numbers of columns".to_owned();
        return Fact { blamed: vec!["UNION".to_owned()], ..fact(Code::SqlType, text) };
    }
    if message.starts_with("Aggregate functions are not allowed in the WHERE clause") {
        let help = "filter groups with `HAVING`, or aggregate in a subquery".to_owned();
        let text = "`WHERE` is evaluated row by row and cannot aggregate".to_owned();
        let blamed = vec!["WHERE".to_owned()];
        return Fact { blamed, help: Some(help), ..fact(Code::SqlPlan, text) };
    }
    if let Some((_, rest)) = message.split_once("expanding wildcard, column \"").or_else(|| {
        message.split_once("column \"").filter(|_| message.contains("must appear in the GROUP BY"))
    }) {
        let column = rest.split('"').next().unwrap_or_default();
        let column = column.rsplit('.').next().unwrap_or(column);
        let text = format!("`{column}` is neither in `GROUP BY` nor inside an aggregate function");
        let help = format!("add it to `GROUP BY`, or take one value, such as `max({column})`");
        let blamed = vec![column.to_owned()];
        return Fact { blamed, help: Some(help), ..fact(Code::SqlPlan, text) };
    }
    let operands = ["coerc", "Cannot infer common", "cast ", "data type", "argument type"];
    if operands.iter().any(|part| message.contains(part)) {
        let operator = OPERATORS.iter().find(|operator| message.contains(&format!(" {operator} ")));
        let blamed = operator.map(|operator| (*operator).to_owned()).into_iter().collect();
        let help = "cast one side, as in `CAST(x AS DOUBLE)`".to_owned();
        return Fact { blamed, help: Some(help), ..fact(Code::SqlType, operands_of(message)) };
    }
    if message.starts_with("Aggregate function calls cannot be nested") {
        let text = "aggregate functions cannot be nested".to_owned();
        let help = "compute the inner one in a subquery".to_owned();
        return Fact { help: Some(help), ..fact(Code::SqlPlan, text) };
    }
    if message.starts_with("Too many columns! The subquery should only return one column") {
        let text = "a scalar subquery must have one column".to_owned();
        // The message names columns, which may be called like functions.
        return Fact { blamed: vec!["SELECT".to_owned()], ..fact(Code::SqlPlan, text) };
    }
    fact(Code::SqlPlan, sentence(message))
}

/// A call that asks a model and cannot.
pub fn of_a_call(error: &CallError) -> Fact {
    let at = |code, message: String, help: Option<String>, blamed: Vec<String>| Fact {
        code,
        message,
        help,
        blamed,
    };
    match error {
        CallError::UnknownModel { function, model, help } => {
            let blamed = vec![format!("'{model}'"), (*function).to_owned()];
            let message = format!("there is no model `{model}`");
            at(Code::UnknownModel, message, Some(help.clone()), blamed)
        }
        CallError::Arguments { function, problem, help } => {
            at(Code::SqlType, problem.clone(), help.clone(), vec![(*function).to_owned()])
        }
        CallError::Placement { function, place, help } => {
            let message = format!("`{function}` stands {place}, where no model can be asked");
            at(Code::SqlPlan, message, Some((*help).to_owned()), vec![function.clone()])
        }
    }
}

/// The function that a message about its arguments names, and what the message says of it.
fn function_of(message: &str) -> Option<(&str, &str)> {
    let (_, rest) = message.split_once("unction '")?;
    let (name, rest) = rest.split_once('\'')?;
    let words = ["expects", "failed to match", "failed with", "requires", "Incorrect number"];
    words.iter().any(|word| message.contains(word)).then_some((name, rest))
}

/// The type that a function was given, if all its signatures say the same of it.
fn received(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("(DataType: ")?;
    rest.split(')').next()
}

/// The two types of an operation that has none for them.
fn operands_of(message: &str) -> String {
    let between = [
        ("Cannot coerce arithmetic expression ", " to valid types"),
        ("Cannot infer common argument type for comparison operation ", ""),
    ];
    for (before, after) in between {
        if let Some((_, rest)) = message.split_once(before) {
            let operation = rest.split(after).next().filter(|_| !after.is_empty()).unwrap_or(rest);
            return format!("there is no operation `{}`", first_line(operation));
        }
    }
    sentence(message)
}

/// The first sentence, as a fragment that reads after "error:".
fn sentence(message: &str) -> String {
    let first = readable(first_line(message)).split(". ").next().unwrap_or_default();
    lower_first(&first.trim_end_matches('.').replace('\'', "`"))
}

/// The message without the part of a statement that it prints as the parser holds it.
fn readable(message: &str) -> &str {
    let held = ["Ident {", "ValueWithSpan {"].iter().filter_map(|part| message.find(part)).min();
    match held {
        Some(at) => message[..at].rsplit_once(": ").map_or(&message[..at], |(before, _)| before),
        None => message,
    }
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default().trim()
}
