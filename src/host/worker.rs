//! A process that answers the requests of others: which models it may be, and what it takes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::rng::random_name;
use proofmill_base::styled::printable;
use proofmill_pipeline::models::Model;
use proofmill_store::{Claim, Claimed, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::models::{NoLedger, Registry};
use crate::relay::board::{Board, BoardError};
use crate::relay::records::ModelCard;
use crate::relay::worker::{
    AnswerError, HELD_MAX, Served, Taken, Worker, WorkerProgress, WorkerTally, answer, give_back,
};

/// Time between two looks for requests.
const LOOK: Duration = Duration::from_millis(500);

/// What a worker may be.
#[derive(Clone, Debug, Default)]
pub struct WorkOptions {
    /// Models in folders, by the names that pipelines give them; without a folder it is the one that the pipeline names.
    pub models: BTreeMap<String, Option<String>>,
    /// Addresses of endpoints that it may send requests and keys to.
    pub urls: Vec<String>,
    /// It ends after so long without a request.
    pub until_idle: Option<Duration>,
}

impl Host {
    /// Answers requests of other processes until it is stopped or has been idle for long enough.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn work(
        &self,
        options: WorkOptions,
        store: &Store,
        stop: CancellationToken,
        remark: &(dyn Fn(String) + Send + Sync),
    ) -> Result<WorkerProgress> {
        let name = random_name(store.rng().as_ref(), 16);
        let tally = Arc::new(WorkerTally::new(stop, self.clock()));
        let claim = Claim::take(store, &Claimed::worker(&name)?, tally.clone()).await?;
        remark(format!("worker {name} looks for requests in {}", store.url()));
        let mut working = Working {
            host: self,
            options,
            board: Board::of(store),
            worker: Worker::new(Board::of(store), name.clone(), Arc::clone(&tally)),
            name,
            tally: Arc::clone(&tally),
            served: BTreeMap::new(),
            refused: HashSet::new(),
            held: HashMap::new(),
            answering: JoinSet::new(),
            remark,
        };
        let ended = working.until_the_end().await;
        working.let_all_go().await;
        if let Some(claim) = claim {
            claim.end().await;
        }
        ended.map(|()| tally.progress())
    }
}

struct Working<'a> {
    host: &'a Host,
    options: WorkOptions,
    board: Board,
    worker: Worker,
    name: String,
    tally: Arc<WorkerTally>,
    /// The models that it is.
    served: BTreeMap<Digest, Arc<Served>>,
    /// Those that it is not.
    refused: HashSet<Digest>,
    held: HashMap<Digest, Arc<Taken>>,
    answering: JoinSet<(Digest, std::result::Result<(), AnswerError>)>,
    remark: &'a (dyn Fn(String) + Send + Sync),
}

impl Working<'_> {
    async fn until_the_end(&mut self) -> Result<()> {
        let clock = self.host.clock();
        let stop = self.tally.stop.clone();
        let mut busy = clock.monotonic();
        loop {
            if stop.is_cancelled() {
                return Ok(());
            }
            self.take().await?;
            let now = clock.monotonic();
            if !self.answering.is_empty() {
                busy = now;
            }
            if self.options.until_idle.is_some_and(|idle| now.saturating_sub(busy) >= idle) {
                return Ok(());
            }
            tokio::select! {
                Some(ended) = self.answering.join_next() => self.ended(ended),
                () = clock.sleep(LOOK) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Takes as many segments as it may hold.
    async fn take(&mut self) -> Result<()> {
        if self.answering.len() >= HELD_MAX {
            return Ok(());
        }
        let found = self.board.look().await.map_err(failed)?;
        for model in found.keys() {
            if !self.served.contains_key(model) && !self.refused.contains(model) {
                self.open(*model).await?;
            }
        }
        while self.answering.len() < HELD_MAX {
            let taken = self.worker.take(&self.served, &found, self.remark).await?;
            let Some(taken) = taken.map(Arc::new) else { break };
            self.held.insert(taken.id(), Arc::clone(&taken));
            let (board, name) = (self.board.clone(), self.name.clone());
            let tally = Arc::clone(&self.tally);
            self.answering.spawn(async move {
                let answered = answer(&board, &name, &tally, &taken).await;
                (taken.id(), answered)
            });
        }
        Ok(())
    }

    /// Opens a model that requests go to, if this process may be it.
    async fn open(&mut self, model: Digest) -> Result<()> {
        let card = match self.board.card(model).await {
            Ok(Some(card)) => card,
            Ok(None) => return Ok(()),
            Err(BoardError::Store(error)) if !error.is_broken_record() && !error.is_newer() => {
                return Err(error.into());
            }
            Err(error) => {
                self.refused.insert(model);
                (self.remark)(error.to_string());
                return Ok(());
            }
        };
        let Some(settings) = self.wanted(&card) else {
            self.refused.insert(model);
            return Ok(());
        };
        let (name, ledger) = (card.name.clone(), Arc::new(NoLedger));
        let registry = Registry::new([(name.clone(), settings)], ledger, &self.host.runtime());
        let identity = match registry.identity(&name) {
            Some(Ok(identity)) => identity.identity(),
            Some(Err(error)) => {
                self.refuse(model, &name, &error.in_one_line());
                return Ok(());
            }
            None => return Ok(()),
        };
        if identity != card.identity {
            let reason = format!(
                "it is another model here\n  wanted: {}\n  here:   {identity}",
                printable(&card.identity, true)
            );
            self.refuse(model, &name, &reason);
            return Ok(());
        }
        match registry.open(&name).await {
            Some(Ok(opened)) => {
                (self.remark)(format!(
                    "model `{}` is the one that requests go to",
                    printable(&name, true)
                ));
                self.served.insert(model, Arc::new(Served::new(card, opened)));
                self.tally.is_also(&name);
            }
            Some(Err(error)) => self.refuse(model, &name, &error.to_string()),
            None => {}
        }
        Ok(())
    }

    /// The settings with which this process may be a model; `None` if it may not.
    fn wanted(&self, card: &ModelCard) -> Option<Model> {
        let mut settings = card.settings.clone();
        match &settings.url {
            Some(url) => {
                // Segments have shares of it.
                settings.budget = None;
                self.options.urls.contains(url).then_some(settings)
            }
            None => {
                let folder = self.options.models.get(&card.name)?;
                if let Some(folder) = folder {
                    settings.path = Some(folder.clone());
                }
                Some(settings)
            }
        }
    }

    fn refuse(&mut self, model: Digest, name: &str, reason: &str) {
        // Each segment that it held says so.
        if self.refused.insert(model) {
            (self.remark)(format!("model `{}`: {reason}", printable(name, true)));
        }
    }

    fn ended(
        &mut self,
        ended: std::result::Result<
            (Digest, std::result::Result<(), AnswerError>),
            tokio::task::JoinError,
        >,
    ) {
        let Ok((id, answered)) = ended else { return };
        self.worker.let_go(id);
        let taken = self.held.remove(&id);
        match answered {
            Ok(()) => {}
            Err(AnswerError::Board(error)) => (self.remark)(format!("segment {id}: {error}")),
            Err(AnswerError::Model(error)) => {
                if let Some(taken) = taken {
                    let (model, name) = taken.model();
                    self.served.remove(&model);
                    self.refuse(model, &name, &error.to_string());
                }
            }
        }
    }

    /// Gives back what it holds.
    async fn let_all_go(&mut self) {
        self.answering.shutdown().await;
        for taken in self.held.values() {
            // The holder is gone in a moment: a claim that stays is taken over.
            let _ = give_back(&self.board, taken).await;
        }
    }
}

fn failed(error: BoardError) -> Error {
    match error {
        BoardError::Store(error) => error.into(),
        wrong @ BoardError::Wrong { .. } => Error::new(ErrorKind::Store, wrong.to_string()),
    }
}
