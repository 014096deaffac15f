//! A pager for what is longer than the screen: `$PAGER`, or `less` with long lines cut where it is installed.

use std::io::Write;
use std::process::{Command, Stdio};

use tokio::signal::unix::{SignalKind, signal};

use proofmill_base::styled::Styled;

/// How `less` shows text unless `$LESS` says otherwise: not at all if it fits, with our colours, with long lines
/// cut, and left on the screen.
const LESS: &str = "FRSX";

/// Shows a text through the pager; false if there is none, or it does not start.
pub fn show(text: &Styled) -> bool {
    let chosen = std::env::var("PAGER").ok();
    let mut command = match chosen.as_deref().map(str::trim) {
        Some("" | "cat") => return false,
        Some(pager) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", pager]);
            shell
        }
        None => Command::new("less"),
    };
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    // Ctrl-C is the pager's: it stays until it is left, and so do we.
    let _ignored = signal(SignalKind::interrupt());
    let Ok(mut pager) = command.stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut input) = pager.stdin.take() {
        // A reader who leaves it early has seen enough.
        let _ = input.write_all(text.as_str().as_bytes());
    }
    // A shell that finds no such program has shown nothing.
    const NOT_FOUND: i32 = 127;
    pager.wait().is_ok_and(|ended| ended.code() != Some(NOT_FOUND))
}
