//! `proofmill audit verify`

use std::sync::Mutex;
use std::time::Duration;

use crate::cli::audit::anchor::anchor_in;
use crate::cli::audit::args::VerifyArgs;
use crate::cli::audit::key::verifier;
use crate::cli::environment::Environment;
use crate::console::{Stream, is_terminal};
use crate::report::units::{bytes, count, plural};
use crate::views::audit::VerifiedView;
use proofmill_audit::finding::Level;
use proofmill_audit::verify::all;
use proofmill_audit::verify::journal::Journal;
use proofmill_audit::verify::scope::{Phase, Scope, Step, Watcher};
use proofmill_base::error::{Error, ErrorKind, Result};

/// How often progress is shown.
const SHOWN_EVERY: Duration = Duration::from_secs(2);

/// Verifies a run or the store.
pub async fn verify(args: &VerifyArgs, environment: &Environment) -> Result<()> {
    let anchors =
        args.anchors.iter().map(|file| Ok((file.display().to_string(), anchor_in(file)?)));
    let anchors = anchors.collect::<Result<_>>()?;
    let key = args.key.as_deref().map(verifier).transpose()?;
    let store = environment.host.store_to_read().await?;
    let run = match args.all {
        true => None,
        false => Some(environment.run(&store, Some(&args.run)).await?.run),
    };
    let level = match args.level {
        1 => Level::Records,
        2 => Level::Digests,
        _ => Level::Rows,
    };
    let clock = environment.host.clock();
    let progress = Progress {
        environment,
        shown: is_terminal(Stream::Err),
        began: clock.monotonic(),
        last: Mutex::new(clock.monotonic()),
    };
    let journal = args.resume.as_deref().map(|path| Journal::open(path, store.format()));
    let journal = journal.transpose()?;
    if let Some(before) = journal.as_ref().map(Journal::len).filter(|before| *before > 0) {
        let before = plural(before, "object");
        environment.output.remark(format!("{before} compared before the interruption"));
    }
    let scope = Scope { level, run, anchors, key, journal };
    let verified = all::verify(&store, &scope, &progress).await?;
    scope.journal.map(Journal::end).transpose()?;
    let seconds = clock.monotonic().saturating_sub(progress.began).as_secs_f64();
    let count = verified.findings.len();
    environment.output.view(&VerifiedView::of(verified, seconds))?;
    match count {
        0 => Ok(()),
        count => Err(Error::new(ErrorKind::Stage, format!("{} found", plural(count, "fault")))
            .with_hint("restore what is damaged from a backup; `proofmill run PIPELINE --verify` computes damaged tables again")),
    }
}

/// Shows on standard error how far it is.
struct Progress<'a> {
    environment: &'a Environment,
    shown: bool,
    began: Duration,
    last: Mutex<Duration>,
}

impl Watcher for Progress<'_> {
    fn step(&self, Step { phase, done, all, bytes: (read, whole) }: Step) {
        let now = self.environment.host.clock().monotonic();
        let Ok(mut last) = self.last.lock() else { return };
        if !self.shown || now.saturating_sub(*last) < SHOWN_EVERY {
            return;
        }
        *last = now;
        let what = match phase {
            Phase::Runs => "runs",
            Phase::Objects => "objects",
            Phase::Tables => "tables",
        };
        let mut line = format!("{} of {} {what}", count(done), count(all));
        if phase == Phase::Objects {
            let seconds = now.saturating_sub(self.began).as_secs_f64().max(0.001);
            let each = bytes((read as f64 / seconds) as u64);
            line += &format!(", {} of {}, {each}/s", bytes(read), bytes(whole));
        }
        self.environment.output.remark(line);
    }
}
