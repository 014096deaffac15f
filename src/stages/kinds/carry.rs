//! A table that a repeated group is carried in one of its turns: what `from` names in the first, and in a later one the
//! rows of the turn before that are not done.

use arrow::datatypes::{DataType, Field, SchemaRef};

use crate::stages::diagnostics::{Diagnostics, mismatch};
use crate::stages::kind::{Kind, Preparation, Preparing, Traits};
use crate::stages::queries::sql_kind::{self, Named, SqlKind};
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::{CarriedRows, Carry};

const KIND: &str = "carry";

impl Kind for Carry {
    fn traits(&self) -> Traits {
        Traits::of_query(1)
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, components, diagnostics, .. } = context;
        let (name, rows) = self.0.first()?;
        let (table, sql) = match rows {
            CarriedRows::First { .. } => {
                (inputs.table(&format!("{name}.from"))?, "SELECT * FROM carried".to_owned())
            }
            CarriedRows::Later { next, until, .. } => {
                let table = inputs.table(&format!("{name}.next"))?;
                let (found, before) =
                    (table.schema(), inputs.table(&format!("{name}.before"))?.schema());
                let columns = columns((name, next), &found, &before, diagnostics)?;
                let open = match until {
                    None => String::new(),
                    Some(until) => {
                        let steps = [KIND, name, "until"];
                        let kind =
                            sql_kind::expression(&steps, until, &found, engine, diagnostics)?;
                        if kind != DataType::Boolean {
                            let message = mismatch("`until`", "a boolean", &kind);
                            diagnostics.error(&steps, Code::SqlType, message, None);
                            return None;
                        }
                        format!(" WHERE {} IS NOT TRUE", sql_kind::inside(until))
                    }
                };
                (table, format!("SELECT {} FROM carried{open}", columns.join(", ")))
            }
        };
        let tables = Named::from([("carried".to_owned(), table)]);
        let query = SqlKind { kind: KIND, sql: &sql, tables, models: &[] };
        query.prepare(engine, components, diagnostics)
    }
}

/// The columns of the turn before, as they stand in `next`; a diagnostic for each that is not there or has another type.
fn columns(
    (name, next): (&str, &str),
    found: &SchemaRef,
    before: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Vec<String>> {
    let mut columns = Some(Vec::new());
    for field in before.fields() {
        let column = field.name();
        let carried = match found.field_with_name(column) {
            Ok(other) => carried(field, other).ok_or_else(|| {
                let message = format!(
                    "`{column}` of `{next}` is {}, but {} in the first turn",
                    kind(other.data_type()),
                    kind(field.data_type())
                );
                (
                    Code::SqlType,
                    message,
                    Some(format!("cast it in `{next}`, or in the table that `{name}` starts with")),
                )
            }),
            Err(_) => {
                let message = format!(
                    "`{next}` has no column `{column}`, which `{name}` has in the first turn"
                );
                let known = found.fields().iter().map(|field| field.name().as_str());
                Err((Code::UnknownColumn, message, suggest::help(column, known)))
            }
        };
        match carried {
            Ok(sql) => columns.iter_mut().for_each(|all| all.push(sql.clone())),
            Err((code, message, help)) => {
                diagnostics.error(&[KIND, name, "next"], code, message, help);
                columns = None;
            }
        }
    }
    columns
}

/// The column `other` as the column `field`; `None` if its type is another one. Texts are texts, however they are stored.
fn carried(field: &Field, other: &Field) -> Option<String> {
    let (column, kind) = (sql_kind::quoted(field.name()), field.data_type());
    if kind == other.data_type() {
        return Some(column);
    }
    let both = kind.is_string() && other.data_type().is_string();
    both.then(|| format!("arrow_cast({column}, '{kind}') AS {column}"))
}

/// A type as messages name it.
fn kind(kind: &DataType) -> String {
    match kind {
        DataType::Null => "nothing but NULL".to_owned(),
        kind if kind.is_string() => "a string".to_owned(),
        kind => format!("`{kind}`"),
    }
}
