//! HTML: one document without scripts and without anything from elsewhere, light or dark as its reader has it. Every text that
//! goes in is inert.

use std::fmt::Write as _;

use crate::draw::canvas::without_markup;
use proofmill_base::styled::escaped;

/// What a document looks like.
const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c1c1e; --quiet: #63636b; --paper: #ffffff; --panel: #f4f4f6; --rule: #d8d8de; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ec; --quiet: #a0a0aa; --paper: #17171a; --panel: #222226; --rule: #3a3a42; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
pre { margin: .75rem 0; padding: .75rem 1rem; background: var(--panel); border-radius: 6px; overflow-x: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13.5px/1.45 ui-monospace, monospace; }
pre.drawn { white-space: pre; }
.wide { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .25rem; }
th, td { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule);
  overflow-wrap: anywhere; white-space: pre-line; }
th { font-weight: 600; color: var(--quiet); white-space: nowrap; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
p.note { color: var(--quiet); font-size: .9rem; margin: .25rem 0 .75rem; }
img { max-width: 100%; height: auto; background: #ffffff; border-radius: 6px; padding: .5rem; }
details { margin: .4rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
";

/// A document under way.
#[derive(Debug, Default)]
pub struct Html(String);

impl Html {
    /// A heading of the document, or of a part of it.
    pub fn heading(&mut self, level: u8, text: &str) {
        let _ = writeln!(self.0, "<h{level}>{}</h{level}>", inert(text));
    }

    /// Lines as they are. What is `drawn` keeps its columns; other lines are wrapped.
    pub fn lines(&mut self, text: &str, is_drawn: bool) {
        let class = if is_drawn { " class=\"drawn\"" } else { "" };
        let _ = writeln!(self.0, "<pre{class}>{}</pre>", inert(text.trim_end()));
    }

    /// A table; `right` tells which columns are numbers.
    pub fn table(
        &mut self,
        title: Option<&str>,
        header: &[String],
        rows: &[Vec<String>],
        right: &[bool],
    ) {
        let class = |i: usize| match right.get(i) {
            Some(true) => " class=\"n\"",
            _ => "",
        };
        self.0.push_str("<div class=\"wide\"><table>\n");
        if let Some(title) = title {
            let _ = writeln!(self.0, "<caption>{}</caption>", inert(title));
        }
        let mut line = |kind: &str, cells: &[String]| {
            self.0.push_str("<tr>");
            for (i, cell) in cells.iter().enumerate() {
                let _ = write!(self.0, "<{kind}{}>{}</{kind}>", class(i), inert(cell));
            }
            self.0.push_str("</tr>\n");
        };
        line("th", header);
        rows.iter().for_each(|row| line("td", row));
        self.0.push_str("</table></div>\n");
    }

    /// A line below something.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p class=\"note\">{}</p>", inert(text));
    }

    /// A picture with its title, for those who see none. Inside an address, nothing that an SVG may hold is run or fetched.
    pub fn picture(&mut self, svg: &str, title: &str) {
        let (address, title) = (address(svg), inert(title));
        let _ = writeln!(self.0, "<p><img src=\"{address}\" alt=\"{title}\"></p>");
    }

    /// Opens something that readers unfold.
    pub fn open_fold(&mut self, title: &str) {
        let _ = writeln!(self.0, "<details><summary>{}</summary>", inert(title));
    }

    /// Closes it.
    pub fn close_fold(&mut self) {
        self.0.push_str("</details>\n");
    }

    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The document.
    pub fn finish(self, title: &str) -> String {
        let title = inert(title);
        // Whatever a reader's program makes of a document, this one loads and runs nothing.
        let policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
            self.0
        )
    }
}

/// Text that is only text, in an element and in an attribute.
fn inert(text: &str) -> String {
    without_markup(&escaped(text))
}

/// An SVG as an address.
fn address(svg: &str) -> String {
    let mut out = String::from("data:image/svg+xml,");
    for byte in svg.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => out.push(char::from(byte)),
            b' ' | b'=' | b'/' | b':' | b';' | b',' | b'.' | b'-' | b'_' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_place() {
        let hostile = "</pre><script>alert(1)</script>\" onload='x' &amp; \u{1b}[31m\u{202e}";
        let mut html = Html::default();
        html.heading(2, hostile);
        html.lines(hostile, false);
        html.table(Some(hostile), &[hostile.to_owned()], &[vec![hostile.to_owned()]], &[true]);
        html.note(hostile);
        html.picture(hostile, hostile);
        html.open_fold(hostile);
        html.close_fold();
        let page = html.finish(hostile);
        assert!(!page.contains("<script") && !page.contains("onload='"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'), "{page}");
        for tag in ["pre", "table", "details", "h2", "title"] {
            let open = page.matches(&format!("<{tag}")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(page.contains("src=\"data:image/svg+xml,%3C/pre%3E%3Cscript%3E"), "{page}");
    }
}
