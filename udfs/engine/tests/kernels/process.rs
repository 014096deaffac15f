//! A running emulator and what is said to it; `server.cpp` has the protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Lines of a report that are kept.
const LINES: usize = 60;

/// The process, its pipes, and the last that it said on standard error.
pub struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    said: Arc<Mutex<Vec<String>>>,
    listener: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `program`, whose threads run in the given order (see `block.h`).
    pub fn start(program: &Path, order: &str) -> std::io::Result<Self> {
        let mut child = Command::new(program)
            .env("EMU_ORDER", order)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || std::io::Error::other("the emulator has no pipes");
        let to = child.stdin.take().ok_or_else(missing)?;
        let from = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let errors = BufReader::new(child.stderr.take().ok_or_else(missing)?);
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let mut heard = heard.lock().expect("no thread panics with the lock");
                if heard.len() < LINES {
                    heard.push(line);
                }
            }
        });
        Ok(Self { child, to, from, said, listener: Some(listener) })
    }

    /// Sends a request of several parts; `answer` is filled by what comes back. Fails with the words of
    /// the emulator, or its last ones.
    pub fn ask(&mut self, parts: &[&[u8]], answer: &mut [u8]) -> Result<(), String> {
        match self.exchange(parts, answer) {
            Ok(None) => Ok(()),
            Ok(Some(refused)) => Err(refused),
            Err(_) => Err(self.last_words()),
        }
    }

    fn exchange(&mut self, parts: &[&[u8]], answer: &mut [u8]) -> std::io::Result<Option<String>> {
        for part in parts {
            self.to.write_all(part)?;
        }
        self.to.flush()?;
        let mut refused = [0];
        self.from.read_exact(&mut refused)?;
        if refused == [0] {
            self.from.read_exact(answer)?;
            return Ok(None);
        }
        let mut length = [0; 4];
        self.from.read_exact(&mut length)?;
        let mut text = vec![0; u32::from_le_bytes(length) as usize];
        self.from.read_exact(&mut text)?;
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    fn last_words(&mut self) -> String {
        let status = self.child.wait();
        if let Some(listener) = self.listener.take() {
            listener.join().expect("it does not panic");
        }
        let said = self.said.lock().expect("no thread panics with the lock").join("\n");
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        format!("the emulator ended ({status}):\n{said}")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
