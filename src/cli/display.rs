//! What shows a run while it goes on: lines, a terminal that is drawn again, or the log.

use std::sync::Arc;
use std::time::Duration;

use crate::cli::environment::Environment;
use crate::console::{Stream, is_terminal};
use crate::report::lines::Lines;
use crate::report::logged::Logged;
use crate::report::terminal::{ErrorTerminal, Terminal};
use crate::run::notice::Observer;
use proofmill_base::clock::Clock;

/// How often a display is brought up to date: its clock shows each second.
const TICK: Duration = Duration::from_millis(200);

/// What shows a run while it goes on.
#[derive(Clone)]
pub enum Display {
    /// Entries of the log.
    Logged,
    /// Lines, where standard error is no terminal.
    Lines(Arc<Lines>),
    Terminal(Arc<Terminal>),
}

impl Display {
    /// As the options and the terminal say.
    pub fn of(environment: &Environment) -> Self {
        if environment.is_logged {
            return Self::Logged;
        }
        match is_terminal(Stream::Err) {
            true => {
                Self::Terminal(Arc::new(Terminal::new(ErrorTerminal, environment.host.clock())))
            }
            false => Self::Lines(Arc::new(Lines::new(environment.host.clock()))),
        }
    }

    /// Lines, for several runs at a time.
    pub fn lines(environment: &Environment) -> Self {
        Self::Lines(Arc::new(Lines::new(environment.host.clock())))
    }

    /// What is notified of the run.
    pub fn observer(&self) -> Arc<dyn Observer> {
        match self {
            Self::Logged => Arc::new(Logged),
            Self::Lines(lines) => Arc::clone(lines) as Arc<dyn Observer>,
            Self::Terminal(terminal) => Arc::clone(terminal) as Arc<dyn Observer>,
        }
    }

    /// Shows work until it ends, and leaves nothing of it on the terminal.
    pub async fn during<T>(&self, clock: Arc<dyn Clock>, work: impl Future<Output = T>) -> T {
        let ticker = self.start(clock);
        let done = work.await;
        ticker.abort();
        self.eraser()();
        done
    }

    /// Brings it up to date until what this gives is aborted.
    fn start(&self, clock: Arc<dyn Clock>) -> tokio::task::JoinHandle<()> {
        let display = self.clone();
        tokio::spawn(async move {
            loop {
                clock.sleep(TICK).await;
                match &display {
                    Self::Logged => return,
                    Self::Lines(lines) => lines.tick(),
                    Self::Terminal(terminal) => terminal.tick(),
                }
            }
        })
    }

    /// Leaves nothing of it on the terminal.
    pub fn eraser(&self) -> impl FnOnce() + Send + 'static {
        let display = self.clone();
        move || {
            if let Self::Terminal(terminal) = display {
                terminal.clear();
            }
        }
    }
}
