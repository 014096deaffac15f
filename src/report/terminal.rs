//! A run on a terminal: what happened scrolls by, and below it stand the stages that compute, drawn anew in the
//! width that the terminal has by then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::console::{self, Stream};
use crate::report::frame::frame;
use crate::report::lines::line;
use crate::report::watch::Watched;
use crate::run::notice::{Notice, Observer};
use proofmill_base::clock::Clock;
use proofmill_base::styled::Styled;
use proofmill_store::StageStatus;

/// The size of a terminal that does not tell it.
const SIZE: (usize, usize) = (80, 24);

/// What is drawn on.
pub trait Screen: Send {
    /// Columns and rows, now.
    fn size(&self) -> Option<(usize, usize)>;
    /// Prints the text above, and the lines in place of those that were drawn before.
    fn draw(&mut self, above: &Styled, lines: &[Styled]);
}

/// The terminal that standard error is.
#[derive(Clone, Copy, Debug)]
pub struct ErrorTerminal;

impl Screen for ErrorTerminal {
    fn size(&self) -> Option<(usize, usize)> {
        console::size(Stream::Err)
    }

    fn draw(&mut self, above: &Styled, lines: &[Styled]) {
        console::draw(above, lines);
    }
}

/// Draws a run on a screen.
pub struct Terminal {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    screen: Box<dyn Screen>,
    watched: Watched,
    /// Whether a run is under way.
    is_live: bool,
    /// What the screen shows, and how large it was then.
    drawn: Option<((usize, usize), Vec<String>)>,
}

impl Terminal {
    /// Draws on `screen`; the caller calls [`Self::tick`] now and then.
    pub fn new(screen: impl Screen + 'static, clock: Arc<dyn Clock>) -> Self {
        let (watched, is_live, drawn) = (Watched::default(), false, None);
        let state = State { screen: Box::new(screen), watched, is_live, drawn };
        Self { clock, state: Mutex::new(state) }
    }

    /// Draws what has changed.
    pub fn tick(&self) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.watched.tick(now);
        state.draw(None, now);
    }

    /// Takes everything away that is drawn below; nothing more is drawn.
    pub fn clear(&self) {
        let mut state = self.state();
        state.is_live = false;
        state.draw(None, Duration::ZERO);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn draw(&mut self, above: Option<String>, now: Duration) {
        let size = self.screen.size().unwrap_or(SIZE);
        let lines = if self.is_live { frame(&self.watched, size, now) } else { Vec::new() };
        let shown = self.drawn.as_ref().map_or(&[][..], |(_, lines)| lines);
        let is_same = match &self.drawn {
            Some((drawn_size, _)) => *drawn_size == size && lines == shown,
            None => lines.is_empty(),
        };
        if is_same && above.is_none() {
            return;
        }
        let above = above.map(|text| Styled::from(text) + "\n").unwrap_or_default();
        let styled: Vec<Styled> = lines.iter().map(Styled::from).collect();
        self.screen.draw(&above, &styled);
        self.drawn = Some((size, lines));
    }
}

impl Observer for Terminal {
    fn notice(&self, notice: &Notice<'_>) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.watched.notice(notice, now);
        match notice {
            Notice::Started { .. } => state.is_live = true,
            Notice::Finished { .. } => state.is_live = false,
            _ => {}
        }
        let quiet = matches!(notice, Notice::StageFinished { outcome, notes, requests: None }
            if outcome.status == StageStatus::Computed && notes.is_empty() && outcome.error_rows == 0);
        let said = line(notice, &state.watched).filter(|_| !quiet);
        state.draw(said, now);
    }
}
