//! Standard output and standard error: the one place that writes there. What it writes is a
//! [`Styled`] text or JSON, so that nothing that a file, a model, an endpoint or a store says
//! controls a terminal.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;

use rustix::termios::tcgetwinsize;
use serde_json::Value as Json;

use proofmill_base::styled::{Styled, escaped, escaped_json};

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// True if the stream is a terminal.
pub fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Out => io::stdout().is_terminal(),
        Stream::Err => io::stderr().is_terminal(),
    }
}

/// Writes to standard output. A reader that went away is no error: it has what it wanted.
pub fn print(text: &Styled) -> io::Result<()> {
    write_out(text.as_str())
}

/// Columns and rows of the terminal that a stream is; `None` if it is none, or does not say.
pub fn size(stream: Stream) -> Option<(usize, usize)> {
    let size = match stream {
        Stream::Out => tcgetwinsize(io::stdout()),
        Stream::Err => tcgetwinsize(io::stderr()),
    };
    let size = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0)?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// Writes rows for programs to standard output; breaks when its reader went away, as the rest is not wanted then.
/// JSON has escapes of its own for whatever could control a terminal. Other text has none: it is written as it is, but with
/// escapes on a terminal.
pub fn print_rows(text: &str, is_json: bool) -> io::Result<ControlFlow<()>> {
    let text = match is_json {
        true => escaped_json(text),
        false if is_terminal(Stream::Out) => escaped(text),
        false => text.into(),
    };
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        done => done.map(ControlFlow::Continue),
    }
}

/// Writes JSON to standard output.
pub fn print_json(value: &Json) -> io::Result<()> {
    write_out(&escaped_json(&format!("{value:#}\n")))
}

fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Writes a line to standard error, at once. If that fails, it cannot be reported.
pub fn remark(text: &Styled) {
    let line = format!("{}\n", text.as_str());
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Prints a text to the terminal that standard error is, and draws lines below it, in place of those drawn before.
pub fn draw(above: &Styled, lines: &[Styled]) {
    let _ = io::stderr().lock().write_all(drawing(above, lines).as_bytes());
}

/// What draws `lines`, none wider than the terminal, below `above`, which ends its last line. The cursor comes to
/// stand where they begin: however a terminal that is made narrower wraps them, all that is below the cursor
/// is erased by the next drawing.
pub fn drawing(above: &Styled, lines: &[Styled]) -> String {
    let drawn: Vec<&str> = lines.iter().map(Styled::as_str).collect();
    let back = match lines.len() {
        0 | 1 => String::new(),
        n => format!("\u{1b}[{}A", n - 1),
    };
    format!("\r{ERASE}{}{}\r{back}", above.as_str(), drawn.join("\n"))
}

/// Erases all that is behind and below the cursor.
const ERASE: &str = "\u{1b}[J";

/// Writes JSON to standard error, on one line and at once. If that fails, it cannot be reported.
pub fn remark_json(value: &Json) {
    let line = escaped_json(&format!("{value}\n")).into_owned();
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Has panics say what they have to say like everything else: their messages quote values.
pub fn escape_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let mut text = format!("thread `{name}` {panic}");
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("\n{backtrace}"));
        }
        if is_terminal(Stream::Err) {
            // It may come while lines are drawn.
            draw(&(Styled::from(text) + "\n"), &[]);
        } else {
            remark(&text.into());
        }
    }));
}
