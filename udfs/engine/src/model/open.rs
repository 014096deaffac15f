//! Opening a model and asking it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::open_error::OpenError;
use super::prepare::{self, ModelKind};
use super::settings::Settings;
use super::start::{
    DeviceFactory, LoadedDevice, ModelInfo, SharedState, WithoutGraphs, WorkerInit, load, start,
};
use crate::backend::Backend;
use crate::checkpoint::{Codec, Folder, Special};
use crate::cpu::{Cpu, Team};
use crate::decode::grammar::Grammars;
use crate::request::{Request, RequestError};
use crate::schedule::{Cancel, Counts, Detokenizer, Job, Limits, Reply, VectorWork};

/// A model that is ready. Dropping it ends its threads; requests under way then fail.
#[derive(Debug)]
pub struct Model {
    shared: SharedState,
    workers: Vec<JoinHandle<()>>,
    ready: ModelInfo,
    text_limit: Option<usize>,
    pub(super) without_graphs: WithoutGraphs,
}

impl Model {
    /// Loads the weights and starts the workers, on the processor.
    pub fn open(folder: &Folder, settings: &Settings) -> Result<Self, OpenError> {
        let network = Arc::new(load(folder, &Cpu::default(), settings)?);
        let team = Arc::new(Team::new(settings.workers));
        let init = |_| -> WorkerInit<Cpu> {
            let (network, team) = (Arc::clone(&network), Arc::clone(&team));
            Box::new(move || {
                let backend = Cpu::default().in_team(team);
                Ok(LoadedDevice { backend, network, kv_cache_bytes: None })
            })
        };
        Self::begin(folder, settings, (0..settings.workers.max(1)).map(init).collect())
    }

    /// Starts a worker for each device that `makers` make, which loads the weights onto it. The
    /// settings' own number of workers does not count; their cache is for all devices together.
    pub fn open_on<B: Backend + 'static>(
        folder: &Arc<Folder>,
        settings: &Settings,
        makers: Vec<DeviceFactory<B>>,
    ) -> Result<Self, OpenError> {
        let settings = Settings { workers: makers.len(), ..*settings };
        let init = |make: DeviceFactory<B>| -> WorkerInit<B> {
            let folder = Arc::clone(folder);
            Box::new(move || {
                let backend = make()?;
                let network = Arc::new(load(&folder, &backend, &settings)?);
                Ok(LoadedDevice { backend, network, kv_cache_bytes: None })
            })
        };
        Self::begin(folder, &settings, makers.into_iter().map(init).collect())
    }

    pub(super) fn begin<B: Backend + 'static>(
        folder: &Folder,
        settings: &Settings,
        inits: Vec<WorkerInit<B>>,
    ) -> Result<Self, OpenError> {
        let detokenizer = Detokenizer {
            codec: Codec::read(folder)?,
            special: Special::read(folder)?,
            grammars: Grammars::default(),
        };
        let (queue, counters) = (Arc::default(), Arc::default());
        let shared = SharedState { queue, detokenizer: Arc::new(detokenizer), counters };
        let (workers, ready) = start(inits, settings, &shared)?;
        Ok(Self {
            shared,
            workers,
            ready,
            text_limit: folder.max_tokens(),
            without_graphs: WithoutGraphs::default(),
        })
    }

    /// Asks; `reply` is called with the answer from another thread, or at once if the request makes
    /// no sense. `key` is the digest of the request: it names it for the random numbers of
    /// samples.
    pub fn submit(&self, request: &Request, key: [u8; 32], reply: Reply, cancel: Cancel) {
        let SharedState { queue, detokenizer, .. } = &self.shared;
        let &ModelInfo { limits, kind, layers, ref type_offsets, .. } = &self.ready;
        match request {
            Request::Generate(generate) => {
                let work = prepare::generate(kind, detokenizer, generate, key);
                let work = work.and_then(|work| limits.admit_generate(&work).map(|()| work));
                enter(work, reply, cancel, |job| queue.push_generate(job));
            }
            Request::Score(score) => {
                let work = prepare::score(kind, detokenizer, score);
                let work = work.and_then(|work| limits.admit_score(&work).map(|()| work));
                enter(work, reply, cancel, |job| queue.push_score(job));
            }
            Request::Embed(embed) => {
                self.read(prepare::vector(detokenizer, embed, self.text_limit), reply, cancel);
            }
            Request::Hidden(hidden) => {
                self.read(prepare::hidden(detokenizer, hidden, layers), reply, cancel);
            }
            Request::Classify(classify) => {
                let work = prepare::classify(detokenizer, classify, type_offsets.as_deref());
                self.read(work, reply, cancel);
            }
        }
    }

    /// Queues a text of which vectors are made, or answers that there are none.
    fn read(&self, work: Result<VectorWork, RequestError>, reply: Reply, cancel: Cancel) {
        let ModelInfo { limits, kind, .. } = &self.ready;
        let decoder = *kind == ModelKind::Decoder;
        let work = work.and_then(|work| limits.admit_vector(&work, decoder).map(|()| work));
        enter(work, reply, cancel, |job| self.shared.queue.push_vector(job, decoder));
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.shared.counters.counts()
    }

    /// What a reader of the run should know of how it ran, a sentence each. May be called at any
    /// time; what was returned once is returned again. Answers do not depend on any of it.
    pub fn notices(&self) -> Vec<String> {
        self.without_graphs.notices().collect()
    }

    /// Numbers that training changes.
    pub fn parameters(&self) -> u64 {
        self.ready.parameters
    }

    /// The limits of every worker: less than the settings say where a device ran out of memory.
    pub fn limits(&self) -> Limits {
        self.ready.limits
    }

    /// Requests that keep all workers busy, with as many waiting.
    pub fn concurrency(&self) -> usize {
        2 * self.ready.limits.max_num_seqs * self.workers.len()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.queue.close();
        for worker in self.workers.drain(..) {
            // A reply may drop the model in a worker's own thread, which ends by itself then.
            if worker.thread().id() != thread::current().id() {
                // A worker that panicked has said so, and its requests have failed.
                let _ = worker.join();
            }
        }
    }
}

/// Queues a valid request, answers an invalid one.
fn enter<W>(
    work: Result<W, RequestError>,
    reply: Reply,
    cancel: Cancel,
    push: impl FnOnce(Job<W>),
) {
    match work {
        Ok(work) => push(Job::new(work, reply, cancel)),
        Err(error) => reply(Err(error)),
    }
}
