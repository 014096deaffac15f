//! What documents name is there: a word in `code` that looks like a name is a key, a value, a column, a function or
//! an option that the program has.
//!
//! Pages for users may name what users can write or see. Pages for developers may name what stands in the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value as Json;

use crate::tree::tidy::{files, root};

/// Pages for developers, by the beginning of their paths.
const FOR_DEVELOPERS: [&str; 12] = [
    "docs/ARCHITECTURE",
    "docs/CHANGELOG",
    "docs/CONTRIBUTING",
    "docs/STYLE",
    "docs/TESTING",
    "docs/decisions/",
    "docs/guarantees",
    "docs/papers/",
    "docs/results",
    "docs/specs/fit",
    "docs/specs/ledger",
    "docs/specs/store",
];

/// Names that are not ours: variables and programs of the system, SQL, other projects, and old names of ours where
/// a page says that they are old.
const OF_OTHERS: [&str; 32] = [
    "--release",
    "--workspace",
    "Authorization",
    "Cargo.toml",
    "EnglishAnalyzer",
    "HTTPS_PROXY",
    "IndexFlatIP",
    "Null",
    "PWD",
    "RLIMIT_AS",
    "TABLE",
    "TRY_CAST",
    "UInt64",
    "deps",
    "e0ffd67",
    "f7bd107",
    "fsync",
    "information_schema",
    "libcublasLt.so.13",
    "min_p",
    "name_value",
    "nohup",
    "read_csv",
    "setsid",
    "sha256sum",
    "sm_100",
    "sm_120",
    "sm_86",
    "sm_89",
    "sm_90",
    "syncfs",
    "wgmma",
];

/// How variables of object storage begin: `variables` asks the clients for each.
const OF_CLIENTS: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// Macros that write entries of the log: the names of their fields are seen by users.
const LOGGED: [&str; 10] = [
    "debug",
    "debug_span",
    "error",
    "error_span",
    "info",
    "info_span",
    "trace",
    "trace_span",
    "warn",
    "warn_span",
];

/// Words of a text: letters, digits and `_`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// `SameRows` as `same_rows`.
fn snake(word: &str) -> String {
    let mut snake = String::new();
    for (at, c) in word.char_indices() {
        if c.is_ascii_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Everything that a name may be.
#[derive(Default)]
struct Names {
    /// What users can write or see.
    shown: BTreeSet<String>,
    /// Every word of the sources.
    sources: BTreeSet<String>,
    /// Options of the command line, with their hyphens.
    options: BTreeSet<String>,
}

impl Names {
    fn collect() -> Self {
        let mut names = Self::default();
        let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
        let schema: Json =
            serde_json::from_str(&read("docs/reference/pipeline.schema.json")).unwrap();
        names.schema(&schema);
        let commands = read("docs/reference/cli.md");
        let options = commands.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        names.options = options.filter(|word| word.starts_with("--")).map(str::to_owned).collect();
        for text in [commands, read("docs/reference/functions.md")] {
            names.shown.extend(words(&text).map(str::to_owned));
        }
        for (folder, extension) in
            [("pipelines", "yaml"), ("data", "yaml"), ("src", "py"), ("udfs", "py"), ("src", "sql")]
        {
            let mut found = Vec::new();
            files(&root().join(folder), extension, &mut found);
            for path in found {
                names.shown.extend(words(&fs::read_to_string(path).unwrap()).map(str::to_owned));
            }
        }
        let mut sources = Vec::new();
        for folder in ["src", "udfs", "tests"] {
            files(&root().join(folder), "rs", &mut sources);
        }
        for path in sources {
            let text = fs::read_to_string(&path).unwrap();
            names.sources.extend(words(&text).map(str::to_owned));
            names.sources.extend(words(&path.to_string_lossy()).map(str::to_owned));
            if !path.starts_with(root().join("tests")) {
                let tokens: TokenStream = text.parse().unwrap();
                names.tokens(tokens);
            }
        }
        names
    }

    /// Keys and values of the JSON Schema.
    fn schema(&mut self, node: &Json) {
        match node {
            Json::Object(object) => {
                for (key, value) in object {
                    if let ("properties" | "$defs", Json::Object(named)) = (key.as_str(), value) {
                        self.shown.extend(named.keys().cloned());
                    }
                    self.schema(value);
                }
            }
            Json::Array(items) => items.iter().for_each(|item| self.schema(item)),
            Json::String(text) => self.shown.extend(words(text).map(str::to_owned)),
            _ => {}
        }
    }

    /// What a source shows to users: its texts, the fields of what is stored or printed as JSON, and of log entries.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut stored, mut logged) = (false, false);
        let mut last = String::new();
        for token in tokens {
            match token {
                TokenTree::Literal(literal) => {
                    self.shown.extend(words(&literal.to_string()).map(str::to_owned));
                }
                TokenTree::Ident(ident) => last = ident.to_string(),
                TokenTree::Punct(punct) => {
                    logged = punct.as_char() == '!' && LOGGED.contains(&last.as_str());
                    // A type without fields, or the end of what was derived for.
                    stored &= punct.as_char() != ';';
                }
                TokenTree::Group(group) => {
                    let text = group.to_string();
                    if group.delimiter() == Delimiter::Bracket && text.starts_with("[doc") {
                        // A comment, for whoever reads the source.
                        continue;
                    }
                    let derived = group.delimiter() == Delimiter::Bracket
                        && text.contains("derive")
                        && (text.contains("Serialize") || text.contains("Deserialize"));
                    if logged || stored && group.delimiter() == Delimiter::Brace {
                        // Variants are stored in lower case, with `_` between words.
                        let lower =
                            words(&text).flat_map(|word| [word.to_lowercase(), snake(word)]);
                        self.shown.extend(lower.chain(words(&text).map(str::to_owned)));
                        stored = false;
                    }
                    stored |= derived;
                    logged = false;
                    self.tokens(group.stream());
                }
            }
        }
    }
}

/// The spans of `code` in a page outside of its blocks, and the words of the blocks: names of its own examples.
fn spans(page: &str) -> (Vec<String>, BTreeSet<String>) {
    let (mut spans, mut own, mut in_block) = (Vec::new(), BTreeSet::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            own.extend(words(line).map(str::to_owned));
        } else {
            spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    (spans, own)
}

/// The name that a span is: `name`, `name.of.a.part`, `name: value` or `--option`.
fn name(span: &str) -> Option<&str> {
    let name = span.split_once(": ").map_or(span, |(name, _)| name);
    let name = name.strip_suffix(':').unwrap_or(name);
    let is_name = |part: &str| words(part).eq([part]);
    let rest = name.strip_prefix("--");
    let fits = match rest {
        Some(option) => option.split('-').all(is_name),
        None => name.split('.').all(is_name),
    };
    fits.then_some(name)
}

#[test]
fn names_are_told_from_other_code() {
    for (span, expected) in [
        ("retries", Some("retries")),
        ("retries: 3", Some("retries")),
        ("retries:", Some("retries")),
        ("a.b_c", Some("a.b_c")),
        ("--no-pager", Some("--no-pager")),
        ("SELECT 1", None),
        ("{ path: x }", None),
        ("a/b", None),
        ("<stage>__errors", None),
        ("3.5", None),
    ] {
        assert_eq!(name(span), expected, "{span}");
    }
    let (found, own) = spans("a `b` c `d: 1`\n```yaml\nkey: value\n```\n`e`");
    assert_eq!(found, ["b", "d: 1", "e"]);
    assert_eq!(own.into_iter().collect::<Vec<_>>(), ["key", "value"]);
}

#[test]
fn what_documents_name_is_there() {
    let names = Names::collect();
    // What was once named and never there, or is no more, and what is there.
    for unknown in ["environment_proxy", "retries_max", "total_max", "first_delay"] {
        assert!(!names.shown.contains(unknown), "{unknown}");
    }
    for known in ["timeout_seconds", "too_long", "n_attempted", "finished_at", "wait_ms", "row_id"]
    {
        assert!(names.shown.contains(known), "{known}");
    }
    let mut pages = vec![root().join("README.md"), root().join("pipelines/README.md")];
    files(&root().join("docs"), "md", &mut pages);
    let (mut wrong, mut looked_at) = (Vec::new(), 0);
    for path in pages.iter().filter(|path| !path.starts_with(root().join("docs/reference"))) {
        let page = path.strip_prefix(root()).unwrap();
        let (found, own) = spans(&fs::read_to_string(path).unwrap());
        for span in found {
            let Some(name) = name(&span) else { continue };
            looked_at += 1;
            if !is_there(name, page, &own, &names) {
                wrong.push(format!("{}: `{span}`", page.display()));
            }
        }
    }
    assert!(looked_at > 2000, "{looked_at} names only");
    assert!(wrong.is_empty(), "named and not there:\n{}", wrong.join("\n"));
}

fn is_there(name: &str, page: &Path, own: &BTreeSet<String>, names: &Names) -> bool {
    let is_of_client = OF_CLIENTS.iter().any(|start| name.starts_with(start));
    if is_of_client || OF_OTHERS.contains(&name) || names.options.contains(name) {
        return true;
    }
    if name.starts_with("--") {
        return false;
    }
    let page = page.to_string_lossy();
    let is_for_developers = FOR_DEVELOPERS.iter().any(|start| page.starts_with(start));
    name.split('.').all(|part| {
        let made = part.strip_suffix("__errors").unwrap_or(part);
        // Names of stages are made of others.
        let is_word =
            |part: &str| own.contains(&part.to_lowercase()) || part.parse::<u32>().is_ok();
        let is_made = made.split('_').all(is_word);
        is_made
            || own.contains(made)
            || names.shown.contains(made)
            || is_for_developers && names.sources.contains(made)
    })
}

/// What a source defines under a name, as far as its words tell.
struct Sources(Vec<(Vec<String>, BTreeSet<String>)>);

impl Sources {
    /// Each file, as the parts of its path and its words.
    fn collect() -> Self {
        let mut found = Vec::new();
        for folder in ["src", "udfs", "tests"] {
            files(&root().join(folder), "rs", &mut found);
        }
        let parts = |path: &Path| {
            let path = path.strip_prefix(root()).unwrap().with_extension("");
            path.iter().map(|part| part.to_string_lossy().into_owned()).collect()
        };
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        let words_of = |path: &Path| words(&text(path)).map(str::to_owned).collect();
        Self(found.iter().map(|path| (parts(path), words_of(path))).collect())
    }

    /// Whether one file has all parts of `a::b::c`: the last as a word, the others as words or in its path.
    fn have(&self, path: &[&str]) -> bool {
        let Some((item, above)) = path.split_last() else { return false };
        let is_module = |parts: &[String]| parts.iter().any(|part| part == item);
        self.0.iter().any(|(parts, words)| {
            let has = |it: &&str| parts.iter().any(|part| part == it) || words.contains(*it);
            (words.contains(*item) || is_module(parts)) && above.iter().all(has)
        })
    }
}

/// `a::{b, c}` as `a::b` and `a::c`, and `a/{b,c}.rs` likewise.
fn alternatives(span: &str) -> Vec<String> {
    let Some((before, rest)) = span.split_once('{') else { return vec![span.to_owned()] };
    let Some((inner, behind)) = rest.split_once('}') else { return vec![span.to_owned()] };
    inner.split(',').map(|one| format!("{before}{}{behind}", one.trim())).collect()
}

/// A path of modules, such as a test is named by; `None` for other code.
fn modules(span: &str) -> Option<Vec<&str>> {
    let span = span.split('<').next()?;
    let parts: Vec<&str> = span.split("::").collect();
    let is_name = |part: &&str| words(part).eq([*part]);
    // `x::INT` is a cast of SQL.
    let is_cast = parts.last()?.chars().all(|c| c.is_uppercase());
    (parts.len() > 1 && !is_cast && parts.iter().all(is_name)).then_some(parts)
}

/// A file of the tree, and what of it is meant: `path` or `path: name`.
fn file(span: &str) -> Option<(&str, Option<&str>)> {
    let (path, item) = match span.split_once(": ") {
        Some((path, item)) => (path, Some(item)),
        None => (span, None),
    };
    let folder = path.split('/').next()?;
    let is_ours = ["src", "tests", "udfs", "docs", "data", "pipelines", ".ci", ".config"];
    let is_plain = !path.contains(['*', '<', ' ', '…', '$', '(']);
    (path.contains('/') && is_plain && is_ours.contains(&folder)).then_some((path, item))
}

#[test]
fn modules_and_files_that_documents_name_are_there() {
    assert_eq!(modules("a::b_c"), Some(vec!["a", "b_c"]));
    assert_eq!(modules("(x)::INT"), None);
    assert_eq!(alternatives("a::{b, c}"), ["a::b", "a::c"]);
    assert_eq!(file("src/a.rs: is_so"), Some(("src/a.rs", Some("is_so"))));
    let sources = Sources::collect();
    assert!(sources.have(&["named", "modules_and_files_that_documents_name_are_there"]));
    assert!(!sources.have(&["named", &["modules", "nobody", "named"].join("_")]));
    let mut pages = vec![root().join("README.md"), root().join("pipelines/README.md")];
    files(&root().join("docs"), "md", &mut pages);
    // What was there when it was written.
    pages.retain(|page| !page.ends_with("CHANGELOG.md"));
    let (mut wrong, mut looked_at) = (Vec::new(), 0);
    for path in pages {
        let (found, _) = spans(&fs::read_to_string(&path).unwrap());
        let page = path.strip_prefix(root()).unwrap();
        for span in found.iter().flat_map(|span| alternatives(span)) {
            let is_there = match (modules(&span), file(&span)) {
                (Some(parts), _) => sources.have(&parts),
                (None, Some((file, item))) => {
                    let text = fs::read_to_string(root().join(file));
                    root().join(file).exists()
                        && item.is_none_or(|item| text.is_ok_and(|text| text.contains(item)))
                }
                (None, None) => continue,
            };
            looked_at += 1;
            if !is_there {
                wrong.push(format!("{}: `{span}`", page.display()));
            }
        }
    }
    assert!(looked_at > 300, "{looked_at} only");
    assert!(wrong.is_empty(), "named and not there:\n{}", wrong.join("\n"));
}
