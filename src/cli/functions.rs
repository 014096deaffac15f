//! `proofmill functions`

use std::collections::BTreeMap;

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::Documentation;
use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_udfs::definition::Doc;

/// Lists the SQL functions beside DataFusion's own, or shows one of either.
pub fn functions(args: &args::Functions, environment: &Environment) -> Result<()> {
    let (output, ours) = (&environment.output, proofmill_udfs::docs());
    let Some(wanted) = &args.name else {
        if output.json {
            return output.json(&Json::Array(ours.into_iter().map(json_of).collect()));
        }
        for doc in ours {
            output.data(format!("{} → {}\n    {}\n", doc.syntax(), doc.returns, doc.summary()))?;
        }
        output.remark(
            "DataFusion's own, such as `round`, are available too; `proofmill functions NAME` explains each",
        );
        return Ok(());
    };
    let name = wanted.to_lowercase();
    if let Some(doc) = ours.iter().find(|doc| doc.name == name) {
        return match output.json {
            true => output.json(&json_of(doc)),
            false => output.data(format!("{}\n\n{}", doc.name, doc.markdown())),
        };
    }
    let theirs = of_datafusion();
    match theirs.get(&name) {
        Some(Some(documentation)) => {
            let text = of_documentation(documentation);
            match output.json {
                true => output.json(&json!({"name": name, "documentation": text})),
                false => output.data(format!("{name}\n\n{text}")),
            }
        }
        Some(None) => output.data(format!("{name}: a DataFusion function without documentation\n")),
        None => {
            let error = Error::new(ErrorKind::Usage, format!("there is no function `{wanted}`"));
            let names = ours.iter().map(|doc| doc.name).chain(theirs.keys().map(String::as_str));
            let help = suggest::nearest(&name, names)
                .map_or("`proofmill functions` lists them".to_owned(), |near| {
                    format!("did you mean `{near}`?")
                });
            Err(error.with_hint(help))
        }
    }
}

fn json_of(doc: &Doc) -> Json {
    let argument = |argument: &proofmill_udfs::definition::Argument| {
        json!({
            "name": argument.name,
            "type": argument.kind.expected(),
            "optional": argument.optional,
            "repeated": argument.repeated,
            "description": argument.description,
        })
    };
    json!({
        "name": doc.name,
        "syntax": doc.syntax(),
        "returns": doc.returns,
        "description": doc.description,
        "arguments": doc.arguments.iter().map(argument).collect::<Vec<_>>(),
        "example": {"sql": doc.example.sql, "result": doc.example.result.trim()},
        "version": doc.version,
    })
}

/// DataFusion's own functions by all of their names.
fn of_datafusion() -> BTreeMap<String, Option<Documentation>> {
    let mut all = BTreeMap::new();
    let mut add = |name: &str, aliases: &[String], documentation: Option<&Documentation>| {
        for name in aliases.iter().map(String::as_str).chain([name]) {
            all.insert(name.to_owned(), documentation.cloned());
        }
    };
    for it in SessionStateDefaults::default_scalar_functions() {
        add(it.name(), it.aliases(), it.documentation());
    }
    for it in SessionStateDefaults::default_aggregate_functions() {
        add(it.name(), it.aliases(), it.documentation());
    }
    for it in SessionStateDefaults::default_window_functions() {
        add(it.name(), it.aliases(), it.documentation());
    }
    all
}

fn of_documentation(documentation: &Documentation) -> String {
    let Documentation { description, syntax_example, sql_example, arguments, .. } = documentation;
    let mut text = format!("`{}`\n\n{}\n", syntax_example.trim(), description.trim());
    for (name, description) in arguments.iter().flatten() {
        text.push_str(&format!("\n- `{name}`: {}", description.trim()));
    }
    if let Some(example) = sql_example {
        text.push_str(&format!("\n\n{}", example.trim()));
    }
    text.trim_end().to_owned() + "\n"
}
