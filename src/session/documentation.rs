//! What DataFusion says of its own functions.

use std::collections::BTreeMap;

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::Documentation;

/// DataFusion's own functions by all of their names, each with its documentation in Markdown; `None` where it has none.
pub fn engine_functions() -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    let mut add = |name: &str, aliases: &[String], documentation: Option<&Documentation>| {
        for name in aliases.iter().map(String::as_str).chain([name]) {
            all.insert(name.to_owned(), documentation.map(markdown));
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

fn markdown(documentation: &Documentation) -> String {
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
