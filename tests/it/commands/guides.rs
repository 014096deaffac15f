//! The guides work as they stand: their files are written, their commands run in their order, in an empty folder.
//!
//! A fenced block below a line that is only a name, such as `answers.csv`, is a file: what is copied from the page is all of it. A
//! block of `sh` is run. Blocks of other kinds are output, parts of files, or (`console`) commands that need what is not there. The README and the page for auditors are among them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Workspace;

/// A block of a guide.
#[derive(Debug, PartialEq)]
enum Block {
    File { name: String, text: String },
    Script(String),
}

/// The blocks of a guide that are files or commands.
fn blocks(guide: &str) -> Vec<Block> {
    let (mut blocks, mut above) = (Vec::new(), "");
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            above = if line.is_empty() { above } else { line };
            continue;
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let name = above.strip_prefix('`').and_then(|above| above.strip_suffix('`'));
        match name.filter(|name| name.contains('.') && !name.contains([' ', '`'])) {
            Some(name) => {
                blocks.push(Block::File { name: name.to_owned(), text: body.join("\n") + "\n" });
            }
            None if language == "sh" => blocks.push(Block::Script(body.join("\n"))),
            None => {}
        }
        above = "";
    }
    blocks
}

#[test]
fn blocks_are_told_apart() {
    let guide = "text\n`a.yaml`\n\n```yaml\nx: 1\n```\n`b.jsonl`\n\n```json\n{}\n```\n`ls`\n```sh\nls\n```\n```text\nout\n```\n";
    let file =
        |name: &str, text: &str| Block::File { name: name.to_owned(), text: text.to_owned() };
    assert_eq!(
        blocks(guide),
        [file("a.yaml", "x: 1\n"), file("b.jsonl", "{}\n"), Block::Script("ls".to_owned())]
    );
}

#[test]
fn work_as_they_stand() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guides = fs::read_dir(root.join("docs/guides")).unwrap();
    let mut guides: Vec<_> = guides.map(|guide| guide.unwrap().path()).collect();
    guides.extend(["README.md", "docs/audit.md"].map(|page| root.join(page)));
    guides.sort();
    assert!(guides.len() > 3);
    for guide in guides {
        let workspace = Workspace::new();
        for folder in ["pipelines", "data"] {
            std::os::unix::fs::symlink(root.join(folder), workspace.path(folder)).unwrap();
        }
        let program = workspace.command(&[]);
        let bin = Path::new(program.get_program()).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let name = guide.file_name().unwrap().to_string_lossy().into_owned();
        let found = blocks(&fs::read_to_string(&guide).unwrap());
        assert!(found.iter().any(|block| matches!(block, Block::Script(_))), "{name}");
        for block in found {
            match block {
                Block::File { name, text } => workspace.write(&name, text),
                Block::Script(script) => {
                    let mut shell = Command::new("sh");
                    shell.args(["-e", "-c", &script]).current_dir(workspace.path(""));
                    let output = shell.env("PATH", &path).env_remove("PROOFMILL_STORE").output();
                    let output = output.unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{name}:\n{script}\n{said}");
                }
            }
        }
    }
}
