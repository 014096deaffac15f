//! Standard output and standard error: the one place that writes there. What it writes is a
//! [`Styled`] text or JSON, so that nothing that a file, a model, an endpoint or a store says
//! controls a terminal.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, ErrorKind, IsTerminal, Write};

use serde_json::Value as Json;

use proofmill_base::styled::{Styled, escaped_json};

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

/// Writes a line to standard error, at once. If that fails, there is nobody to tell.
pub fn remark(text: &Styled) {
    let line = format!("{}\n", text.as_str());
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Writes JSON to standard error, on one line and at once. If that fails, there is nobody to tell.
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
        remark(&text.into());
    }));
}
