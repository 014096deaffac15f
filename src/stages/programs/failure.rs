//! What a program says on its way, and why it failed: lines for the log, the last of them for the message, and
//! the place of a Python traceback.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Last lines that are kept for the message.
const KEPT_LINES_MAX: usize = 200;
/// Longest line that is kept or logged, in bytes; what is longer is cut into several.
pub const LINE_BYTES_MAX: usize = 4096;
/// Lines that a message shows.
const SHOWN_LINES_MAX: usize = 5;
/// Characters of a line that a message shows.
const SHOWN_CHARS_MAX: usize = 300;
/// Shortest value of a variable that is covered; shorter ones stand in texts by chance.
const COVERED_BYTES_MIN: usize = 8;
/// What starts a line of the runner of `python` that says all there is to say.
const OURS: &str = "proofmill: ";

/// The last lines that a program said, with the values of its variables covered.
#[derive(Debug, Default)]
pub struct Said {
    lines: std::collections::VecDeque<String>,
    covered: Vec<String>,
}

impl Said {
    /// Nothing yet. `secrets` are shown nowhere.
    pub fn new(secrets: impl Iterator<Item = String>) -> Self {
        let covered = secrets.filter(|value| value.len() >= COVERED_BYTES_MIN).collect();
        Self { lines: Default::default(), covered }
    }

    /// A text without the values of variables.
    pub fn covered(&self, text: &str) -> String {
        self.covered.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }

    /// Keeps a line.
    pub fn push(&mut self, line: String) {
        if self.lines.len() == KEPT_LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Why a program that ended with `status` failed.
    pub fn failure(&self, program: &str, status: ExitStatus) -> String {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        if let Some(ours) = lines.last().and_then(|line| line.strip_prefix(OURS)) {
            return ours.to_owned();
        }
        let ended = format!("`{program}` {}", ending(status));
        if let Some(Raised { place, error, code }) = raised(&lines) {
            let (place, error) = (cut(&place, SHOWN_CHARS_MAX), cut(&error, SHOWN_CHARS_MAX));
            let code = code.map(|code| format!("\n  | {}", cut(code, SHOWN_CHARS_MAX)));
            return format!("{ended}: {place}: {error}{}", code.unwrap_or_default());
        }
        let said: Vec<&str> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
        let last = said.iter().skip(said.len().saturating_sub(SHOWN_LINES_MAX));
        let last: String =
            last.map(|line| format!("\n  | {}", cut(line, SHOWN_CHARS_MAX))).collect();
        if last.is_empty() {
            format!("{ended} and wrote nothing to standard error")
        } else {
            format!("{ended}:{last}")
        }
    }
}

/// The beginning of a text.
fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How a program ended.
fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended with exit code 0 before all rows were answered".to_owned(),
        (Some(127), _) => {
            "ended with exit code 127: a command that it starts was not found".to_owned()
        }
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => {
            let name = match signal {
                6 => " (SIGABRT)",
                9 => " (SIGKILL, perhaps because the machine was out of memory)",
                11 => " (SIGSEGV)",
                13 => " (SIGPIPE)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("was ended by signal {signal}{name}")
        }
        (None, None) => "ended for an unknown reason".to_owned(),
    }
}

/// An exception of Python.
struct Raised<'a> {
    /// File and line.
    place: String,
    /// Its type and message.
    error: String,
    /// The line of code.
    code: Option<&'a str>,
}

/// The exception of the last traceback, placed where the user's own code raised it: in the innermost frame
/// that is no library's.
fn raised<'a>(lines: &[&'a str]) -> Option<Raised<'a>> {
    let start = lines.iter().rposition(|line| line.starts_with("Traceback (most recent"))?;
    let after = &lines[start + 1..];
    let end = after.iter().position(|line| !line.starts_with(' ') && !line.is_empty())?;
    let frames: Vec<(usize, &str, &str)> = (0..end)
        .filter_map(|i| {
            let (path, rest) =
                after[i].trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
            Some((i, path, rest.split(',').next()?))
        })
        .collect();
    let libraries = ["site-packages", "dist-packages", "/lib/python", "<"];
    let is_own = |path: &str| !libraries.iter().any(|part| path.contains(part));
    let own = frames.iter().rev().find(|(_, path, _)| is_own(path)).or(frames.last())?;
    let (i, path, line) = *own;
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| std::path::Path::new(path).strip_prefix(here).ok());
    let path = below.map_or_else(|| path.to_owned(), |below| below.display().to_string());
    let code = after.get(i + 1).map(|code| code.trim());
    let code = code.filter(|code| i + 1 < end && !code.is_empty() && !code.starts_with("File \""));
    // A message of several lines goes on behind its first.
    Some(Raised { place: format!("{path}:{line}"), error: after[end].to_owned(), code })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(said: &str) -> String {
        let mut kept = Said::new(["s3cret-token".to_owned(), "1".to_owned()].into_iter());
        said.lines().for_each(|line| kept.push(kept.covered(line)));
        kept.failure("score.py", ExitStatus::from_raw(1 << 8))
    }

    #[test]
    fn a_traceback_is_placed_in_the_users_own_code() {
        let said = "loading\nTraceback (most recent call last):\n  File \"<string>\", line 9, in <module>\n  \
            File \"/tmp/x/score.py\", line 4, in score\n    return inner(row)\n           ^^^^^\n  \
            File \"/usr/lib/python3/json.py\", line 7, in loads\n    raise X\nValueError: a s3cret-token 1\n";
        assert_eq!(
            failure(said),
            "`score.py` ended with exit code 1: /tmp/x/score.py:4: ValueError: a *** 1\n  | return inner(row)"
        );
        let syntax = "Traceback (most recent call last):\n  File \"<frozen importlib>\", line 9, in x\n  \
            File \"/tmp/score.py\", line 2\n    def (\n        ^\nSyntaxError: invalid syntax\n";
        assert!(
            failure(syntax).contains("/tmp/score.py:2: SyntaxError: invalid syntax\n  | def (")
        );
    }

    #[test]
    fn other_programs_are_quoted() {
        assert_eq!(failure("a\n\nb\n"), "`score.py` ended with exit code 1:\n  | a\n  | b");
        assert_eq!(
            failure(""),
            "`score.py` ended with exit code 1 and wrote nothing to standard error"
        );
        assert_eq!(failure("x\nproofmill: `a.py` is not declared"), "`a.py` is not declared");
        let killed = Said::default().failure("x", ExitStatus::from_raw(9));
        assert!(killed.contains("signal 9 (SIGKILL"), "{killed}");
        // No frames, or no end: quoted as it stands.
        assert!(failure("Traceback (most recent call last):\n").ends_with("call last):"));
        assert!(failure("Traceback (most recent call last):\nX: y\n").contains("\n  | X: y"));
    }
}
