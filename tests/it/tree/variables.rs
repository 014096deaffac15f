//! Environment variables: `docs/specs/environment.md` names each that the sources read, and no others.

use std::collections::BTreeSet;
use std::fs;

use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use crate::tree::tidy::{files, root};

/// What stands before the name of a variable where one is read.
const READ: [&str; 8] = [
    "var(\"",
    "var_os(\"",
    "env = \"",
    "home(\"",
    "const INPUT: &str = \"",
    "const OUTPUT: &str = \"",
    "const SIGN_KEY: &str = \"",
    "const TOKEN: &str = \"",
];

/// Read by the standard library, or by a list of names.
const OTHERWISE: [&str; 4] = ["TMPDIR", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The variables that sources read.
fn read() -> BTreeSet<String> {
    let mut sources = Vec::new();
    for folder in ["src", "udfs"] {
        files(&root().join(folder), "rs", &mut sources);
    }
    let mut names: BTreeSet<String> = OTHERWISE.map(str::to_owned).into();
    for path in
        sources.iter().filter(|path| !path.components().any(|part| part.as_os_str() == "tests"))
    {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for before in READ {
            let after = code.split(before).skip(1);
            let found =
                after.filter_map(|rest| rest.split('"').next()).filter(|name| is_name(name));
            names.extend(found.map(str::to_owned));
        }
    }
    names
}

/// Whether the client of a service reads a variable.
fn is_of_a_service(name: &str) -> bool {
    let key = name.to_lowercase();
    match name.split('_').next() {
        Some("AWS") => key.parse::<AmazonS3ConfigKey>().is_ok(),
        Some("GOOGLE") => key.parse::<GoogleConfigKey>().is_ok(),
        Some("AZURE") => key.parse::<AzureConfigKey>().is_ok(),
        _ => false,
    }
}

#[test]
fn each_that_is_read_is_in_the_page_and_no_other() {
    let page = fs::read_to_string(root().join("docs/specs/environment.md")).unwrap();
    // Rows of tables begin with their variables.
    let named: BTreeSet<String> = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|span| is_name(span))
        .map(str::to_owned)
        .collect();
    let read = read();
    assert!(read.contains("PROOFMILL_STORE") && read.contains("CUDA_HOME"), "{read:?}");
    for name in &read {
        assert!(page.contains(&format!("`{name}`")), "{name} is read and not in the page");
    }
    for name in named.iter().filter(|name| !read.contains(*name)) {
        assert!(is_of_a_service(name), "{name} is in the page and not read");
    }
}
