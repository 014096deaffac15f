//! `prompt`: a template whose slots are columns, filled in for every row.

use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::prompt::Prompt;
use proofmill_udfs::text::template::Template;

use crate::stages::diagnostics::Diagnostics;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::queries::sql_kind::{Named, SqlKind, literal, quoted};
use crate::stages::settings_file::{self, SourceFile};
use crate::stages::stored_tables::FromStore;

const KIND: &str = "prompt";

impl Kind for Prompt {
    fn traits(&self) -> Traits {
        Traits {
            version: 1,
            rows_can_fail: false,
            has_partitions: true,
            settings: Counted::ByTheKind,
            repeats: Repeats::Set,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, from_store, components, diagnostics, files, .. } = context;
        let table = inputs.table("from")?;
        let columns = table.schema();
        let (key, text) = source(self, from_store, diagnostics, files)?;
        let template = match Template::parse(&text) {
            Ok(template) => template,
            Err(error) => {
                let message = format!("this is not a valid template: {error}");
                diagnostics.error(&[KIND, key], Code::WrongValue, message, None);
                return None;
            }
        };
        let slots = template.slots();
        let mut valid = Some(());
        for slot in slots.iter().filter(|slot| columns.index_of(slot).is_err()) {
            let message = format!("the table has no column `{slot}` for the slot of this name");
            let known = columns.fields().iter().map(|field| field.name().as_str());
            let help = suggest::help(slot, known);
            diagnostics.error(&[KIND, key], Code::UnknownColumn, message, help);
            valid = None;
        }
        if columns.index_of(&self.column).is_ok() {
            let message = format!("the table already has a column `{}`", self.column);
            let help = Some("give the text another name with `column`".to_owned());
            diagnostics.error(&[KIND, "column"], Code::Duplicate, message, help);
            valid = None;
        }
        valid?;
        let value = |slot: &String| format!("{}, {}", literal(slot), quoted(slot));
        let mut values: Vec<String> = slots.iter().map(value).collect();
        if values.is_empty() {
            // A struct has a field at least.
            values.push("'slots', 0".to_owned());
        }
        let sql = format!(
            "SELECT *, render({}, named_struct({})) AS {} FROM filled",
            literal(&text),
            values.join(", "),
            quoted(&self.column)
        );
        let settings = Self { file: None, text: Some(text), ..self.clone() };
        let tables = Named::from([("filled".to_owned(), table)]);
        let query = SqlKind { kind: KIND, sql: &sql, tables, models: &[] };
        components.set_settings(&settings);
        query.prepare(engine, components, diagnostics)
    }
}

/// The template, and the setting that it comes from.
fn source<'a>(
    settings: &Prompt,
    from_store: &FromStore,
    diagnostics: &mut Diagnostics<'_>,
    files: &mut Vec<SourceFile>,
) -> Option<(&'a str, String)> {
    let Some(path) = &settings.file else {
        return Some(("text", settings.text.clone().unwrap_or_default()));
    };
    match settings_file::read_text(path, from_store, files) {
        Ok(text) => Some(("file", text)),
        Err((code, message)) => {
            diagnostics.error(&[KIND, "file"], code, message, None);
            None
        }
    }
}
