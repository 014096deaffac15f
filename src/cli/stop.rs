//! Signals that stop a run: Ctrl-C, and what service managers, schedulers and closing terminals send.

use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::exit;
use proofmill_base::error::{Error, ErrorKind, Result};

/// Where Linux tells which signals this process ignores.
const STATUS: &str = "/proc/self/status";

/// Stops the run with the first signal, between commits; a further SIGINT or SIGTERM ends the process
/// at once. SIGHUP does not count as a further one, as service managers send it along with SIGTERM, and
/// stays ignored where `nohup` had it ignored. `at_the_end` is called before the process ends.
pub fn on_signals(
    stop: CancellationToken,
    at_the_end: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let watched = |kind| {
        signal(kind).map_err(|error| {
            Error::new(ErrorKind::Resources, "signal handlers cannot be installed")
                .with_source(error)
        })
    };
    let mut interrupt = watched(SignalKind::interrupt())?;
    let mut terminate = watched(SignalKind::terminate())?;
    let mut hangup = match is_ignored(SignalKind::hangup()) {
        true => None,
        false => Some(watched(SignalKind::hangup())?),
    };
    Ok(tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = received(&mut hangup) => {}
        }
        stop.cancel();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        at_the_end();
        process::exit(exit::INTERRUPTED.into());
    }))
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string(STATUS).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}
