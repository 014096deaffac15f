//! A running program: its pipes, its end, and the end of all that it started.
//!
//! A program runs in a process group of its own, which lives as long as this process holds one end of a pipe, the
//! lifeline. A watcher in the group reads the other end: when it closes, because the stage has ended, failed, took
//! too long, or because this process was killed, the group gets SIGTERM, and after a grace SIGKILL. So no signal is
//! ever sent to a process id, which may have become another's, and none is needed of a process that is gone. A
//! shell starts both, because nothing may run between `fork` and `exec` here without `unsafe`.

use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

const SHELL: &str = "/bin/sh";
/// `$1` is the file descriptor of the lifeline. The watcher is a child of the system: a program
/// that waits for all of its children does not wait for it.
const LAUNCHER: &str = r#"lifeline=$1
shift
(
    (
        trap '' TERM INT HUP QUIT
        read line <"/dev/fd/$lifeline"
        kill -TERM 0
        command -p sleep 2
        kill -KILL 0
    ) </dev/null >/dev/null 2>&1 &
)
exec "$@""#;
/// After the watcher's grace: whatever is left of the program itself, wherever it moved.
const KILLED_AFTER: Duration = Duration::from_secs(4);
/// Between two looks whether it is gone.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// What is started.
pub struct Start<'a> {
    /// The program and its arguments.
    pub argv: &'a [OsString],
    pub folder: &'a Path,
    /// All of its environment, but for what the shell that starts it adds.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether something is written to its standard input, which is empty otherwise.
    pub is_fed: bool,
}

/// A running program. Dropping it ends the program and all that it started.
pub struct Process {
    child: Option<Child>,
    lifeline: Option<PipeWriter>,
}

/// The other ends of a program's standard streams. Each waits without holding a thread.
pub struct Pipes {
    /// None for a program that is not fed.
    pub stdin: Option<pipe::Sender>,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
}

impl Process {
    /// Starts a program.
    pub fn start(start: Start<'_>) -> io::Result<(Self, Pipes)> {
        let (watched, lifeline) = io::pipe()?;
        // Others that are started meanwhile inherit the end that is read, which does no harm.
        fcntl_setfd(&watched, FdFlags::empty())?;
        let mut command = Command::new(SHELL);
        command
            .args(["-c", LAUNCHER, SHELL])
            .arg(watched.as_raw_fd().to_string())
            .args(start.argv)
            .current_dir(start.folder)
            .env_clear()
            .envs(start.environment)
            .stdin(if start.is_fed { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on the program ends with what is returned, whatever fails.
        let process = Self { child: Some(child), lifeline: Some(lifeline) };
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let reader = |pipe: Option<OwnedFd>| pipe::Receiver::from_owned_fd(pipe.ok_or_else(gone)?);
        let pipes = Pipes {
            stdin: stdin.map(|pipe| pipe::Sender::from_owned_fd(pipe.into())).transpose()?,
            stdout: reader(stdout.map(Into::into))?,
            stderr: reader(stderr.map(Into::into))?,
        };
        Ok((process, pipes))
    }

    /// The process group.
    pub fn group(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Waits for the program itself, not for what it started.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        // Before the first look: no end is missed.
        let mut ends = signal(SignalKind::child())?;
        let Some(child) = &mut self.child else { return Err(io::ErrorKind::NotFound.into()) };
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            ends.recv().await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let Some(mut child) = self.child.take() else { return };
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        // Its exit status must be collected, and the thread that drops this must not wait for it.
        std::thread::spawn(move || {
            let looks = KILLED_AFTER.as_millis() / LOOKS_EVERY.as_millis();
            for _ in 0..looks {
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(LOOKS_EVERY);
            }
            // It has left its group. Its exit status was not collected, so its id is still its own.
            let _ = child.kill();
            let _ = child.wait();
        });
    }
}
