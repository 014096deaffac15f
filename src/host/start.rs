//! A run of this process, from a prepared pipeline to its end.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::host::budget::{Budget, Watch};
use crate::host::onlooker::watch_workers;
use crate::run::notice::{Notice, Observer};
use crate::run::planned::Choice;
use crate::run::provenance::machine;
use crate::run::publish::{Request, RunResult, run};
use crate::run::replay::Replay;
use crate::run::sources::Copies;
use crate::stages::load::Loaded;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_store::{Store, Trigger};

/// What to run.
pub struct RunStart {
    pub loaded: Loaded,
    /// Where its file is, for the record.
    pub path: String,
    pub choice: Choice,
    pub run: RunId,
    /// Whether the run was begun before and goes on.
    pub is_resumed: bool,
    /// What started it, unless it is resumed.
    pub trigger: Trigger,
    /// Which of its texts go into the store.
    pub copies: Copies,
    /// The run that is computed again, if this is a replay.
    pub replay: Option<Arc<Replay>>,
    /// What it may spend, if that has a limit.
    pub budget: Option<Budget>,
}

/// A run that ended, and how its budget ended it, if it did.
pub struct EndedRun {
    pub result: RunResult,
    pub spent: Option<String>,
}

impl Host {
    /// Runs a pipeline until it ends, its budget is spent, or `stop` is set.
    ///
    /// # Errors
    ///
    /// If it cannot begin, or the store does not take what it records.
    pub async fn run(
        &self,
        start: RunStart,
        store: Store,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<EndedRun> {
        let (cache, signer) = (self.cache()?, self.signer()?);
        let is_blind = |budget: &Budget| budget.is_blind(start.loaded.engine.models());
        if start.budget.as_ref().is_some_and(is_blind) {
            let message = "a budget of money needs `prices`, and no model of the pipeline has any";
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let watch = start.budget.map(|budget| {
            let engine = Arc::clone(&start.loaded.engine);
            Watch::start(budget, engine, self.clock(), stop.clone())
        });
        let of_workers = Arc::clone(&observer);
        let request = Request {
            loaded: start.loaded,
            path: start.path,
            machine: machine(&self.limits()),
            choice: start.choice,
            run: start.run,
            is_resumed: start.is_resumed,
            trigger: start.trigger,
            copies: start.copies,
            signer,
            replay: start.replay,
            permits: Arc::clone(&self.permits),
            kept: self.kept.of_run(),
            cache,
            observer,
            stop,
        };
        let engine = Arc::clone(&request.loaded.engine);
        let watching = engine.models().has_workers().then(|| {
            let (engine, store) = (Arc::clone(&engine), store.clone());
            tokio::spawn(watch_workers(engine, store, of_workers.clone()))
        });
        let result = run(request, store).await;
        engine.models().end_relayed().await;
        watching.iter().for_each(tokio::task::JoinHandle::abort);
        engine.models().answered_by().for_each(|text| {
            of_workers.notice(&Notice::Remark { text: &text });
        });
        let spent = watch.and_then(Watch::end);
        Ok(EndedRun { result: result?, spent })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proofmill_base::clock::SystemClock;
    use proofmill_base::rng::SeededRng;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;
    use crate::host::HostParts;
    use crate::models::Gpus;
    use crate::session::Limits;
    use crate::stages::load;

    /// Passes on what is queued and what starts.
    struct Watched(UnboundedSender<&'static str>);

    impl Observer for Watched {
        fn notice(&self, notice: &Notice<'_>) {
            let word = match notice {
                Notice::StageQueued { .. } => "queued",
                Notice::StageStarted { .. } => "started",
                _ => return,
            };
            self.0.send(word).unwrap();
        }
    }

    fn host(cache: &Path) -> Host {
        Host::new(HostParts {
            limits: Limits { cores: 1, memory_bytes: 1 << 28, spill_bytes: 0 },
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SeededRng::new(7)),
            gpus: Gpus::new(|| Ok(Vec::new())),
            environment: |_| None,
            cache: Some(cache.to_owned()),
            store: "memory://".to_owned(),
        })
    }

    async fn start(host: &Host, file: &Path, store: &Store) -> RunStart {
        let (run, _) = host.next_run(store).await.unwrap();
        let engine = host.engine(store, &run).unwrap();
        let draft = load::read(file, &[], &[]).unwrap();
        let (loaded, _) = host.load(draft, &engine, store).await.unwrap();
        let path = file.display().to_string();
        RunStart {
            loaded,
            path,
            choice: Choice::default(),
            run,
            is_resumed: false,
            trigger: Trigger::Command,
            copies: Copies::All,
            replay: None,
            budget: None,
        }
    }

    /// On one thread a stage that has its permit starts in the same turn in which it was queued.
    #[tokio::test]
    async fn runs_of_one_process_share_its_permits() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.yaml");
        std::fs::write(&file, "pipeline: p\nstages: { a: { sql: SELECT 1 AS x } }\n").unwrap();
        let host = host(folder.path());
        let (sender, mut notices) = unbounded_channel();
        let observer: Arc<dyn Observer> = Arc::new(Watched(sender));
        let store = host.memory_store().await.unwrap();
        let of_another_run = host.permits.clone().acquire_owned().await.unwrap();
        let start = start(&host, &file, &store).await;
        let run = host.run(start, store, observer, CancellationToken::new());
        let wait = async {
            assert_eq!(notices.recv().await, Some("queued"));
            assert!(notices.try_recv().is_err(), "it has not waited");
            drop(of_another_run);
            assert_eq!(notices.recv().await, Some("started"));
        };
        let (ended, ()) = tokio::join!(run, wait);
        assert_eq!(ended.unwrap().result.outcome, proofmill_store::Outcome::Succeeded);
    }
}
