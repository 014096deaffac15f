//! What a run says of its workers while it goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proofmill_store::Store;

use crate::relay::worker::WorkerProgress;
use crate::relay::workforce::{WorkerLine, workforce};
use crate::report::units::plural;
use crate::run::notice::{Notice, Observer};
use crate::session::Engine;

/// Time between two looks for workers.
const LOOK: Duration = Duration::from_secs(5);
/// Time between two lines about workers where none comes or goes.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Says which workers there are beside the process of the run: when that changes, and how fast they are now and then, until it
/// is aborted. What cannot be read now is read later.
pub(super) async fn watch_workers(engine: Arc<Engine>, store: Store, observer: Arc<dyn Observer>) {
    let (clock, mut named, mut since) = (store.clock(), BTreeSet::new(), Duration::ZERO);
    loop {
        if let Ok(mut workers) = workforce(&store).await {
            let own = engine.models().own_workers();
            workers.retain(|it| it.is_alive && !own.contains(&it.worker));
            let names: BTreeSet<String> = workers.iter().map(|it| it.worker.clone()).collect();
            let now = clock.monotonic();
            let is_due = now.saturating_sub(since) >= SILENCE_MAX && !names.is_empty();
            if is_due || names != named {
                observer.notice(&Notice::Remark { text: &line(&workers) });
                (named, since) = (names, now);
            }
        }
        clock.sleep(LOOK).await;
    }
}

/// Workers in a line. How fast they are is known from the first beat that says it.
fn line(workers: &[WorkerLine]) -> String {
    let sum = |of: fn(&WorkerProgress) -> u64| workers.iter().map(|it| of(&it.progress)).sum();
    let (held, speed): (u64, u64) = (sum(|it| it.held), sum(|it| it.per_minute));
    match workers.len() {
        0 => "no worker is there any more".to_owned(),
        n if held + speed == 0 => plural(n, "worker"),
        n => format!(
            "{}: {} a minute, {} held",
            plural(n, "worker"),
            plural(speed as usize, "request"),
            plural(held as usize, "segment"),
        ),
    }
}
