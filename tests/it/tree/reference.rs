//! Generated files are current: `docs/reference`.

use std::fs;
use std::path::Path;

/// `UPDATE=1` rewrites the files of the tree.
#[test]
fn reference_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference");
    for (name, content) in proofmill::reference::files() {
        let path = folder.join(name);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &content).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let hint = "Run `UPDATE=1 cargo test --test it reference` and review the change.";
        assert!(found == content, "{} is not current. {hint}", path.display());
    }
}
