//! `docs/reference`, rendered from the code; `tests/it/tree/reference.rs` keeps it current.

use clap::CommandFactory;

use crate::cli::args::Cli;
use crate::cli::exit;
use proofmill_pipeline::code::CODES;
use proofmill_pipeline::schema::FormatSchema;

/// Every generated file: its name below `docs/reference`, and its content.
pub fn files() -> Vec<(&'static str, String)> {
    let schema = format!("{:#}\n", FormatSchema::generate().document());
    vec![
        ("pipeline.schema.json", schema),
        ("cli.md", cli()),
        ("functions.md", functions()),
        ("errors.md", errors()),
    ]
}

const GENERATED: &str =
    "<!-- Generated from the code; `UPDATE=1 cargo test --test it reference` rewrites it. -->\n";

fn cli() -> String {
    let mut text = format!("# Command line\n\n{GENERATED}");
    let mut command = Cli::command().term_width(100);
    command.build();
    text.push_str(&format!("\n```text\n{}```\n", plain(&mut command)));
    text.push_str("\nEvery command takes these options as well; below, only its own are listed.\n");
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let name = sub.get_name().to_owned();
        text.push_str(&format!("\n## {name}\n\n```text\n{}```\n", plain(&mut own(sub))));
        for inner in sub.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
            let inner_name = inner.get_name().to_owned();
            let help = plain(&mut own(inner));
            text.push_str(&format!("\n### {name} {inner_name}\n\n```text\n{help}```\n"));
        }
    }
    text.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in exit::MEANINGS {
        text.push_str(&format!("| {code} | {meaning} |\n"));
    }
    text
}

/// The command without the options that all have.
fn own(command: &clap::Command) -> clap::Command {
    command.clone().mut_args(|arg| {
        let is_shared = arg.is_global_set() || arg.get_id() == "help";
        let hidden = is_shared || arg.is_hide_set();
        arg.hide(hidden)
    })
}

fn plain(command: &mut clap::Command) -> String {
    let help = command.render_long_help().to_string();
    help.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn functions() -> String {
    let mut text = format!(
        "# SQL functions\n\n{GENERATED}\nBeside DataFusion's own functions. The version is part of \
         the fingerprint of every stage that calls the function.\n"
    );
    for doc in proofmill_udfs::docs() {
        text.push_str(&format!("\n## {}\n\n{}", doc.name, doc.markdown()));
    }
    text
}

fn errors() -> String {
    let mut text = format!("# Error codes\n\n{GENERATED}\n");
    for code in CODES {
        let title = code.page().lines().next().unwrap_or_default().trim_start_matches("# ");
        text.push_str(&format!("- [{title}](../errors/{code}.md)\n"));
    }
    text
}
