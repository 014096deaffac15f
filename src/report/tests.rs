//! A run on a terminal, with a clock and a size that the tests set: what the program draws goes through an
//! emulator of a terminal, and what that shows is looked at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use proofmill_base::clock::Clock;
use proofmill_base::ids::{RunId, StageName};
use proofmill_base::styled::Styled;
use proofmill_base::waits::WaitFor;
use proofmill_store::{Outcome, StageOutcome, StageStatus};
use vt100::Parser;

use crate::console;
use crate::report::frame::frame;
use crate::report::terminal::{Screen, Terminal};
use crate::report::watch::Watched;
use crate::run::notice::{Notice, Observer};
use crate::stages::progress::Progress;

const HEIGHT: usize = 24;

/// A clock that stands until it is set.
#[derive(Debug, Default)]
struct SetClock(Mutex<Duration>);

impl SetClock {
    fn set(&self, seconds: f64) {
        *self.0.lock().unwrap() = Duration::from_secs_f64(seconds);
    }
}

#[async_trait]
impl Clock for SetClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, _: Duration) {}
}

/// A terminal that is emulated.
#[derive(Clone)]
struct Emulated(Arc<Mutex<Parser>>);

impl Emulated {
    fn new(width: usize) -> Self {
        Self(Arc::new(Mutex::new(Parser::new(HEIGHT as u16, width as u16, 0))))
    }

    /// The lines that it shows, without empty ones at the end.
    fn lines(&self) -> Vec<String> {
        let parser = self.0.lock().unwrap();
        let width = parser.screen().size().1;
        let lines = parser.screen().rows(0, width).map(|line| line.trim_end().to_owned());
        let lines: Vec<String> = lines.collect();
        let last = lines.iter().rposition(|line| !line.is_empty());
        lines[..last.map_or(0, |last| last + 1)].to_vec()
    }

    /// Whether a line goes on in the next one.
    fn wraps(&self) -> bool {
        let parser = self.0.lock().unwrap();
        (0..HEIGHT as u16).any(|row| parser.screen().row_wrapped(row))
    }

    /// Another width; terminals that wrap their lines anew keep the cursor at its letter.
    fn resize(&self, width: usize, wraps_anew: bool) {
        if !wraps_anew {
            return self.0.lock().unwrap().screen_mut().set_size(HEIGHT as u16, width as u16);
        }
        let cursor = usize::from(self.0.lock().unwrap().screen().cursor_position().0);
        let lines = self.lines();
        let mut parser = Parser::new(HEIGHT as u16, width as u16, 0);
        let (above, below) = lines.split_at(cursor.min(lines.len()));
        let mut row = 0;
        for (at, lines) in [above, below].into_iter().enumerate() {
            if at == 1 {
                row = parser.screen().cursor_position().0;
            }
            parser.process(lines.join("\r\n").as_bytes());
            if at == 0 && !lines.is_empty() {
                parser.process(b"\r\n");
            }
        }
        parser.process(format!("\u{1b}[{};1H", row + 1).as_bytes());
        *self.0.lock().unwrap() = parser;
    }
}

impl Screen for Emulated {
    fn size(&self) -> Option<(usize, usize)> {
        let (rows, columns) = self.0.lock().unwrap().screen().size();
        Some((columns.into(), rows.into()))
    }

    fn draw(&mut self, above: &Styled, lines: &[Styled]) {
        // As the line discipline of a terminal does.
        let text = console::drawing(above, lines).replace('\n', "\r\n");
        self.0.lock().unwrap().process(text.as_bytes());
    }
}

/// A run of three stages on a terminal.
struct Stand {
    clock: Arc<SetClock>,
    screen: Emulated,
    terminal: Terminal,
}

fn stage(name: &str) -> StageName {
    name.parse().unwrap()
}

fn outcome(name: &str) -> StageOutcome {
    StageOutcome {
        stage: stage(name),
        kind: "sql".to_owned(),
        fingerprint: None,
        status: StageStatus::Computed,
        cached_from: None,
        rows: 1,
        bytes: 10,
        error_rows: 1,
        wall_ms: 1_000,
        artifact: None,
    }
}

fn run_id() -> RunId {
    "20261123-101500000-abcdef".parse().unwrap()
}

impl Stand {
    /// Stages with how many seconds each is expected to take.
    fn new(width: usize, expected: &[(&str, u64)]) -> Self {
        let (clock, screen) = (Arc::new(SetClock::default()), Emulated::new(width));
        let terminal = Terminal::new(screen.clone(), Arc::clone(&clock) as Arc<dyn Clock>);
        let times = expected.iter().map(|(name, time)| (stage(name), Duration::from_secs(*time)));
        let expected: HashMap<StageName, Duration> = times.collect();
        let (run, stages) = (&run_id(), expected.len());
        terminal.notice(&Notice::Started { run, stages, cached: 0, expected: &expected });
        Self { clock, screen, terminal }
    }

    fn begin(&self, name: &str) -> Arc<Progress> {
        let progress = Arc::<Progress>::default();
        let (stage, progress_of) = (&stage(name), Arc::clone(&progress));
        self.terminal.notice(&Notice::StageQueued { stage });
        self.terminal.notice(&Notice::StageStarted { stage, progress: progress_of });
        progress
    }

    fn end(&self, name: &str) {
        let (outcome, notes) = (&outcome(name), &[]);
        self.terminal.notice(&Notice::StageFinished { outcome, notes, requests: None });
    }

    /// What the terminal shows at a time.
    fn at(&self, seconds: f64) -> Vec<String> {
        self.clock.set(seconds);
        self.terminal.tick();
        self.screen.lines()
    }
}

#[test]
fn no_line_is_wrapped_or_torn_at_any_width_and_between_any_two() {
    const LONG: &str = "a_stage_with_quite_a_long_name_that_no_one_can_remember";
    let widths = [60, 61, 80, 100];
    let pairs = widths.iter().flat_map(|from| widths.map(|to| (*from, to)));
    for (from, to) in pairs {
        for wraps_anew in [false, true] {
            let stand = Stand::new(from, &[("rows", 5), (LONG, 40), ("open", 1)]);
            let rows = stand.begin("rows");
            rows.expect_rows(2_000_000);
            stand.begin("open").add_rows(1_234_567);
            stand.begin(LONG).expect_rows(7);
            let complete = |seconds: f64| {
                let shown = stand.at(seconds);
                let context = format!("{from} → {to}, {wraps_anew}: {shown:#?}");
                assert!(!stand.screen.wraps(), "{context}");
                assert_eq!(shown.len(), 5, "{context}");
                for (line, said) in shown.iter().zip(["run 2026", "  rows", "  open", "  a_stage_"])
                {
                    assert!(line.starts_with(said), "{context}");
                }
                assert!(shown[1].contains("/2,000,000 rows"), "{context}");
                assert!(shown[4].contains(" %  0/3 stages  "), "{context}");
            };
            for (seconds, done) in [(1.0, 700_000), (3.5, 600_000), (9.0, 100_000)] {
                rows.add_rows(done);
                complete(seconds);
            }
            stand.screen.resize(to, wraps_anew);
            complete(12.0);
            stand.end("rows");
            stand.terminal.notice(&Notice::Finished {
                outcome: Outcome::Interrupted,
                wall: Duration::from_secs(12),
            });
            let shown = stand.at(13.0);
            assert_eq!(shown.len(), 3, "{shown:#?}");
            assert_eq!(shown[1], "done rows: 1 row, 10 B, 1 error row, 1.0 s");
            assert_eq!(shown[2], "run was stopped after 12.0 s");
        }
    }
}

#[test]
fn the_smallest_terminal_is_never_filled() {
    let mut watched = Watched::default();
    let (run, expected) = (&run_id(), HashMap::new());
    let started = Notice::Started { run, stages: 9, cached: 0, expected: &expected };
    watched.notice(&started, Duration::ZERO);
    for name in ["one", "two", "three", "four"] {
        let progress = Arc::<Progress>::default();
        progress.expect_rows(1_000_000);
        let stage = &stage(name);
        watched.notice(&Notice::StageStarted { stage, progress }, Duration::ZERO);
    }
    for (columns, rows) in (0..60).flat_map(|columns| (0..8).map(move |rows| (columns, rows))) {
        let lines = frame(&watched, (columns, rows), Duration::from_secs(100));
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest < columns.max(1), "{columns} columns: {lines:#?}");
        assert!(lines.len() < rows.max(3), "{rows} rows: {lines:#?}");
    }
}

#[test]
fn the_clock_runs_and_names_what_is_waited_for() {
    let stand = Stand::new(100, &[("answers", 60), ("judged", 60)]);
    let answers = stand.begin("answers");
    answers.expect_rows(200);
    let last = |lines: Vec<String>| lines.last().unwrap().clone();
    assert!(last(stand.at(1.0)).contains("0/2 stages  1 s"));
    answers.add_rows(20);
    assert!(last(stand.at(2.0)).contains("  2 s"));
    assert!(last(stand.at(16.4)).contains("  16 s"));
    let line = |seconds| {
        let lines = stand.at(seconds);
        lines.into_iter().find(|line| line.contains("answers")).unwrap()
    };
    let until = Some(Duration::from_secs(30));
    let wait = answers.counters().waits().begin(WaitFor::RetryAfter, until);
    // What ends within a second is not worth a word.
    assert!(!line(17.0).contains("waits"));
    let shown = line(18.0);
    assert!(
        shown.contains("20/200 rows  waits 12 s, set by the endpoint (Retry-After)"),
        "{shown}"
    );
    // How long it takes is unknown as long as it waits.
    assert!(!shown.contains("left"), "{shown}");
    drop(wait);
    assert!(!line(19.0).contains("waits"));
    let turn = answers.counters().waits().begin(WaitFor::Turn, None);
    stand.at(20.0);
    assert!(line(21.5).contains("waits for its turn at the model"));
    drop(turn);
    stand.at(22.0);
    answers.add_rows(60);
    assert!(line(24.0).contains("80/200 rows"), "{}", line(24.0));
}

#[test]
fn what_is_left_is_estimated_from_the_recent_pace() {
    let stand = Stand::new(100, &[("rows", 60)]);
    let rows = stand.begin("rows");
    rows.expect_rows(10_000);
    // What was replayed came at once; the rest comes ten rows a second.
    rows.add_rows(9_000);
    let mut shown = String::new();
    for second in 1..=60 {
        rows.add_rows(10);
        shown = stand.at(f64::from(second)).join("\n");
    }
    assert!(shown.contains("9,600/10,000 rows  10 rows/s  40 s left"), "{shown}");
}

/// It looks at its dev set for a minute, and then makes a step every two seconds.
#[test]
fn what_a_training_has_left_is_estimated_from_its_steps_alone() {
    let stand = Stand::new(100, &[("fit", 60)]);
    let fit = stand.begin("fit");
    fit.expect_steps(100);
    let line = |seconds| {
        let lines = stand.at(seconds);
        lines.into_iter().find(|line| line.contains("/100 steps")).unwrap()
    };
    for second in 1..=60 {
        let shown = line(f64::from(second));
        assert!(!shown.contains("left"), "{shown}");
    }
    let mut shown = String::new();
    for step in 1..=4 {
        fit.set_step(step, 0.5);
        shown = line(60.0 + 2.0 * step as f64);
    }
    assert!(shown.contains("4/100 steps  loss 0.5000  3 min 12 s left"), "{shown}");
}

/// Its rows come all at once, at its end, and their number is unknown.
#[test]
fn a_query_that_sorts_tells_of_its_answers() {
    let stand = Stand::new(100, &[("states", 60)]);
    let states = stand.begin("states");
    for _ in 0..150 {
        states.counters().answered(100, 0);
    }
    let shown = stand.at(2.0).join("\n");
    assert!(shown.contains("150 answers  7,500 tokens/s"), "{shown}");
}

/// Its rows come all at once, at its end.
#[test]
fn a_search_tells_of_the_entries_that_it_has_looked_at() {
    let stand = Stand::new(100, &[("found", 60)]);
    let found = stand.begin("found");
    found.expect_rows(1_000);
    found.expect_entries(2_000_000);
    let mut shown = String::new();
    for second in 1..=60 {
        found.add_entries(10_000);
        shown = stand.at(f64::from(second)).join("\n");
    }
    let expected = "600,000/2,000,000 entries  10,000 entries/s  2 min 20 s left";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn the_whole_is_weighed_by_time_and_not_by_stages() {
    let stand = Stand::new(80, &[("small", 1), ("tiny", 1), ("large", 98)]);
    for (name, until) in [("small", 1.0), ("tiny", 2.0)] {
        stand.begin(name);
        stand.clock.set(until);
        stand.end(name);
    }
    stand.begin("large");
    let shown = stand.at(2.0);
    assert!(shown.last().unwrap().contains(" 2 %  2/3 stages  2 s"), "{shown:#?}");
    let shown = stand.at(51.0);
    assert!(
        shown.last().unwrap().contains(" 51 %  2/3 stages  51 s  about 49 s left"),
        "{shown:#?}"
    );
    // It takes longer than expected, by an unknown amount.
    let shown = stand.at(802.0);
    assert!(shown.last().unwrap().contains(" 80 %  2/3 stages  13 min 22 s"), "{shown:#?}");
}

#[test]
fn logs_hear_of_a_stage_every_half_minute() {
    let (mut watched, name) = (Watched::default(), stage("answers"));
    let (expected, progress) = (HashMap::new(), Arc::<Progress>::default());
    let at = |seconds| Duration::from_secs(seconds);
    let run = &run_id();
    watched.notice(&Notice::Started { run, stages: 2, cached: 0, expected: &expected }, at(0));
    let started = Notice::StageStarted { stage: &name, progress: Arc::clone(&progress) };
    watched.notice(&started, at(1));
    progress.expect_rows(100);
    let silence = Duration::from_secs(30);
    let mut said = Vec::new();
    for second in 1..=70 {
        watched.tick(at(second));
        if second % 2 == 0 {
            progress.add_rows(1);
        }
        said.extend(watched.due(silence, at(second)));
    }
    assert_eq!(
        said,
        [
            "answers: 15/100 rows, 0.5 rows/s, 2 min 50 s left; 0/2 stages, 31 s, about 2 min 56 s left",
            "answers: 30/100 rows, 0.5 rows/s, 2 min 20 s left; 0/2 stages, 1 min 01 s, about 2 min 22 s left",
        ]
    );
}

#[test]
fn more_stages_than_there_is_room_for_are_counted() {
    let names: Vec<String> = (0..12).map(|n| format!("stage_{n}")).collect();
    let stand = Stand::new(80, &[("one", 1)]);
    for name in &names {
        stand.begin(name);
    }
    let shown = stand.at(1.0);
    assert_eq!(shown.iter().filter(|line| line.starts_with("  stage_")).count(), 8, "{shown:#?}");
    assert!(shown.contains(&"  and 4 more stages".to_owned()), "{shown:#?}");
}
