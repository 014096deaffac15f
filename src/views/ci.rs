//! A verdict for CI: JUnit XML, annotations at lines of the gate file, a summary in Markdown. Texts of models and files cannot
//! end a value that they stand in. None of it needs a token.

use proofmill_base::styled::is_hostile;
use proofmill_catalog::audit::entry::VerdictWord;

use crate::draw::markdown;
use crate::views::section::{Grid, Section, View};
use crate::views::verdict::{GateFinding, VerdictView};

/// Characters of a summary: what GitHub takes of a comment, less what others put around it.
const SUMMARY_CHARS_MAX: usize = 65_000;
/// Characters around a text, at most: texts of verdicts have no long rows of backticks.
const FENCE_CHARS_MAX: usize = 300;
/// What a summary that is too long ends with.
const CUT: &str = "\n\n(cut: the verdict in the store has the rest)\n";

/// A JUnit report with a test case for each metric and each condition that does not hold. What has no verdict is an error, so
/// that no dashboard takes it for a pass.
pub fn junit(view: &VerdictView) -> String {
    let (gate, findings) = (xml(view.gate()), view.findings());
    let count = |fits: fn(VerdictWord) -> bool| findings.iter().filter(|it| fits(it.word)).count();
    let failures = count(|word| word == VerdictWord::Fail);
    let errors = count(is_open);
    let tests = findings.len();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{gate}\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"{errors}\">\n"
    );
    for GateFinding { name, word, text, .. } in &findings {
        let (name, text) = (xml(name), xml(text));
        let inside = match word {
            VerdictWord::Pass => String::new(),
            VerdictWord::Fail => format!("<failure message=\"{text}\"/>"),
            other => format!("<error type=\"{}\" message=\"{text}\"/>", other.word()),
        };
        out += &format!("<testcase classname=\"{gate}\" name=\"{name}\">{inside}</testcase>\n");
    }
    out + "</testsuite>\n</testsuites>\n"
}

/// A line for each finding that is no pass, as GitHub's runner reads it. `line_of` is the file, and the line of a metric; of what is about
/// none, that of the name of the gate.
pub fn annotations<'a>(
    view: &VerdictView,
    line_of: impl Fn(Option<usize>) -> (&'a str, usize),
) -> Vec<String> {
    let findings = view.findings().into_iter().filter(|it| it.word != VerdictWord::Pass);
    let line = |it: GateFinding| {
        let (file, line) = line_of(it.metric);
        let level = if it.word == VerdictWord::CannotTell { "warning" } else { "error" };
        let title = property(&format!("{} {}: {}", view.gate(), it.name, it.word.word()));
        format!("::{level} file={},line={line},title={title}::{}", property(file), data(&it.text))
    };
    findings.map(line).collect()
}

/// The verdict in Markdown.
pub fn summary(view: &VerdictView) -> String {
    let mut out = String::new();
    for section in view.sections() {
        let room = SUMMARY_CHARS_MAX - CUT.len() - out.chars().count();
        let (block, is_cut) = match section {
            // Nothing in a text means anything to Markdown.
            Section::Text(text) | Section::Drawn(text) => {
                let (kept, is_cut) = first_lines(&text, room.saturating_sub(FENCE_CHARS_MAX));
                (markdown::verbatim(&kept), is_cut)
            }
            Section::Table(Grid { header, rows, right, note, .. }) => {
                let note = note.iter().map(|note| format!("\n{}\n", markdown::escaped(note)));
                let table = markdown::table(&header, &rows, &right) + &note.collect::<String>();
                first_lines(&table, room.saturating_sub(FENCE_CHARS_MAX))
            }
            // A verdict has no others.
            Section::Heading(_)
            | Section::Plot(_)
            | Section::Picture { .. }
            | Section::Fold { .. } => continue,
        };
        out += &(block + "\n");
        if is_cut {
            return out + CUT;
        }
    }
    out
}

/// What stands in for the verdict where there is none, as JUnit and in Markdown.
pub fn refused(gate: &str, why: &str) -> (String, String) {
    let (name, text) = (xml(gate), xml(why));
    let junit = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\">\n\
         <testcase classname=\"{name}\" name=\"verdict\"><error type=\"none\" message=\"{text}\"/></testcase>\n</testsuite>\n</testsuites>\n"
    );
    (junit, markdown::verbatim(&format!("NO VERDICT of gate `{gate}`: {why}\n")))
}

/// The first lines of a text, as many as have room, and whether that is not all of them.
fn first_lines(text: &str, room: usize) -> (String, bool) {
    let (mut kept, mut left) = (String::new(), room);
    for line in text.split_inclusive('\n') {
        let chars = line.chars().count();
        if chars > left {
            return (kept, true);
        }
        left -= chars;
        kept += line;
    }
    (kept, false)
}

fn is_open(word: VerdictWord) -> bool {
    !matches!(word, VerdictWord::Pass | VerdictWord::Fail)
}

/// Text of an attribute. Characters that XML cannot have, and those that would deceive, are written as escapes.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' | '\r' => out.push(' '),
            c if is_hostile(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out += &c.escape_default().to_string();
            }
            c => out.push(c),
        }
    }
    out
}

/// The message of an annotation.
fn data(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if is_hostile(c) && !matches!(c, '\n' | '\r') { ' ' } else { c })
        .collect();
    plain.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of an annotation.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_the_value_that_it_stands_in() {
        assert_eq!(
            xml("a\"/><x y=\"&\u{1b}[31m\u{0}"),
            "a&quot;/&gt;&lt;x y=&quot;&amp;\\u{1b}[31m\\u{0}"
        );
        assert_eq!(data("50 %\n::error::x"), "50 %25%0A::error::x");
        assert_eq!(property("a:b,c\r\n"), "a%3Ab%2Cc%0D%0A");
    }
}
