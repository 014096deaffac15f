//! The form that the answers of `generate` are to have: checked, with the schema of its file read.

use proofmill_engine::request::{NamedSchema, ResponseFormat};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::generate::{AnswerSchema, AnswerType, Generate};
use proofmill_settings::endpoint::Api;
use serde_json::Value as Json;

use crate::stages::diagnostics::Diagnostics;
use crate::stages::settings_file::{self, SourceFile};
use crate::stages::stored_tables::FromStore;

/// Where the setting stands.
const STEPS: [&str; 2] = ["generate", "response_format"];

/// The requested form of the answers, if any; `None` if it is not possible, which is reported.
pub fn answer_format(
    settings: &Generate,
    from_store: &FromStore,
    diagnostics: &mut Diagnostics<'_>,
    files: &mut Vec<SourceFile>,
) -> Option<Option<ResponseFormat>> {
    let Some(requested) = &settings.response_format else { return Some(None) };
    let mut refuse = |steps: &[&str], code, message: &str, help: Option<&str>| {
        diagnostics.error(
            &[&STEPS[..], steps].concat(),
            code,
            message.to_owned(),
            help.map(str::to_owned),
        );
        None
    };
    if requested.kind != AnswerType::Regex && requested.regex.is_some() {
        let message = "`regex` has no effect with this `type`";
        let help = "write `type: regex`, or leave it out";
        return refuse(&["regex"], Code::UnknownKey, message, Some(help));
    }
    let format = match (requested.kind, &requested.json_schema) {
        (AnswerType::Regex, None) => {
            let Some(regex) = &requested.regex else {
                let message = "`type: regex` needs `regex`";
                return refuse(&[], Code::MissingKey, message, Some("add `regex: …`"));
            };
            ResponseFormat::Regex(regex.clone())
        }
        (AnswerType::JsonObject, None) => ResponseFormat::JsonObject,
        (AnswerType::JsonObject | AnswerType::Regex, Some(_)) => {
            let message = "`json_schema` has no effect with this `type`";
            let help = "write `type: json_schema`, or leave it out";
            return refuse(&["json_schema"], Code::UnknownKey, message, Some(help));
        }
        (AnswerType::JsonSchema, None) => {
            let message = "`type: json_schema` needs `json_schema`";
            let help =
                "add `json_schema: { name: …, schema: … }`, with `file` for a schema in a file";
            return refuse(&[], Code::MissingKey, message, Some(help));
        }
        (AnswerType::JsonSchema, Some(named)) => match schema(named, from_store, files) {
            Ok(schema) => {
                let (name, strict) = (named.name.clone(), named.strict);
                let json_schema = NamedSchema { name, schema, strict };
                ResponseFormat::JsonSchema(json_schema)
            }
            Err((code, message)) => {
                return refuse(&["json_schema", "file"], code, &message, None);
            }
        },
    };
    if let Some(problem) = format.problem() {
        let message = format!("`response_format` cannot be followed: {problem}");
        return refuse(&["json_schema"], Code::WrongValue, &message, None);
    }
    match diagnostics.endpoint(&settings.model).map(|model| model.api.unwrap_or_default()) {
        Some(Api::Chat) if requested.kind == AnswerType::Regex => {
            let message = "endpoints do not support `type: regex`".to_owned();
            let help = Some("write `type: json_schema`, or use a model on this machine".to_owned());
            diagnostics.error(&STEPS, Code::WrongValue, message, help);
            None
        }
        Some(Api::Chat) => Some(Some(format)),
        Some(Api::Completions) => {
            let message = "only a chat endpoint takes `response_format`".to_owned();
            let help = Some("set `api: chat` for the model".to_owned());
            diagnostics.error(&STEPS, Code::WrongValue, message, help);
            None
        }
        // A model on this machine, or one that is not there, which is said elsewhere.
        None => Some(Some(format)),
    }
}

/// The schema, from the setting or from its file.
fn schema(
    named: &AnswerSchema,
    from_store: &FromStore,
    files: &mut Vec<SourceFile>,
) -> Result<Json, (Code, String)> {
    let Some(path) = &named.file else { return Ok(named.schema.clone().unwrap_or_default()) };
    let bytes = settings_file::read(path, from_store, files)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| (Code::WrongValue, format!("`{path}` is not valid JSON: {error}")))
}
