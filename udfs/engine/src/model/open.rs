//! Opening a model and asking it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::prepare::{self, Kind};
use super::settings::Settings;
use crate::backend::{Backend, DeviceError};
use crate::checkpoint::{Codec, Folder, LoadError, Special};
use crate::cpu::Cpu;
use crate::family;
use crate::network::{Network, Reader};
use crate::request::{Request, RequestError};
use crate::schedule::{Cancel, Counters, Counts, Job, Limits, Queue, Reply, Shared, Words, Worker};

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its folder is not as it should be.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The device has no room for it.
    #[error("the model does not fit: {0}; lower `step_tokens`, `sequences` or `cache_mib`")]
    Device(#[from] DeviceError),
    /// The cache holds not even one text.
    #[error(
        "{bytes} bytes of cache hold {tokens} tokens per worker; raise `cache_mib` so that {needed} fit"
    )]
    SmallCache {
        /// What was given.
        bytes: usize,
        /// What that holds.
        tokens: usize,
        /// What is needed.
        needed: usize,
    },
    /// The operating system gave no thread.
    #[error("no thread for a worker: {0}")]
    Thread(#[from] std::io::Error),
}

/// A model that is ready. Dropping it ends its threads; requests under way then fail.
#[derive(Debug)]
pub struct Model {
    queue: Arc<Queue>,
    words: Arc<Words>,
    counters: Arc<Counters>,
    workers: Vec<JoinHandle<()>>,
    limits: Limits,
    kind: Kind,
    text_limit: Option<usize>,
    parameters: u64,
}

impl Model {
    /// Loads the weights and starts the workers.
    pub fn open(folder: &Folder, settings: &Settings) -> Result<Self, OpenError> {
        let network = family::load(folder, &Cpu::default(), settings.precision, settings.context)?;
        let words = Words { codec: Codec::read(folder)?, special: Special::read(folder)? };
        let mut model = Self {
            queue: Arc::default(),
            words: Arc::new(words),
            counters: Arc::default(),
            workers: Vec::new(),
            limits: settings.limits(&network),
            kind: kind(&network.reader),
            text_limit: folder.max_tokens(),
            parameters: network.parameters,
        };
        model.check_cache(settings)?;
        let network = Arc::new(network);
        for index in 0..settings.workers.max(1) {
            model.start(&network, Cpu::default(), index)?;
        }
        Ok(model)
    }

    fn check_cache(&self, settings: &Settings) -> Result<(), OpenError> {
        const TEXT_TOKENS_MIN: usize = 64;
        let tokens = self.limits.blocks * crate::backend::BLOCK_SLOTS;
        if self.kind == Kind::Encoder || tokens >= TEXT_TOKENS_MIN {
            return Ok(());
        }
        let (bytes, needed) = (settings.cache_bytes, TEXT_TOKENS_MIN);
        Err(OpenError::SmallCache { bytes, tokens, needed })
    }

    fn start<B>(
        &mut self,
        network: &Arc<Network<B>>,
        backend: B,
        index: usize,
    ) -> Result<(), OpenError>
    where
        B: Backend + Send + 'static,
    {
        let shared = Shared {
            network: Arc::clone(network),
            queue: Arc::clone(&self.queue),
            words: Arc::clone(&self.words),
            counters: Arc::clone(&self.counters),
        };
        let worker = Worker::new(shared, backend, self.limits)?;
        let close = CloseOnPanic(Arc::clone(&self.queue));
        let thread = thread::Builder::new().name(format!("model-{index}")).spawn(move || {
            let _close = close;
            worker.run();
        })?;
        self.workers.push(thread);
        Ok(())
    }

    /// Asks; `reply` is called with the answer from another thread, or at once if the request makes
    /// no sense. `key` is the digest of the request: it names it for the noise of samples.
    pub fn submit(&self, request: &Request, key: [u8; 32], reply: Reply, cancel: Cancel) {
        let (words, limits) = (&*self.words, &self.limits);
        match request {
            Request::Generate(generate) => {
                let work = prepare::generate(self.kind, words, generate, key);
                let work = work.and_then(|work| limits.admit_generate(&work).map(|()| work));
                enter(work, reply, cancel, |job| self.queue.push_generate(job));
            }
            Request::Score(score) => {
                let work = prepare::score(self.kind, words, score);
                let work = work.and_then(|work| limits.admit_score(&work).map(|()| work));
                enter(work, reply, cancel, |job| self.queue.push_score(job));
            }
            Request::Embed(embed) | Request::Hidden(embed) => {
                let hidden = matches!(request, Request::Hidden(_));
                let work = prepare::vector(words, embed, hidden, self.text_limit);
                let decoder = self.kind == Kind::Decoder;
                let work = work.and_then(|work| limits.admit_vector(&work, decoder).map(|()| work));
                enter(work, reply, cancel, |job| self.queue.push_vector(job));
            }
        }
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Numbers that training changes.
    pub fn parameters(&self) -> u64 {
        self.parameters
    }

    /// Requests that keep all workers busy, with as many waiting.
    pub fn concurrency(&self) -> usize {
        2 * self.limits.sequences * self.workers.len()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            // A reply may drop the model in a worker's own thread, which ends by itself then.
            if worker.thread().id() != thread::current().id() {
                // A worker that panicked has said so, and its requests have failed.
                let _ = worker.join();
            }
        }
    }
}

/// Ends the model when one of its workers panics: what it held would never be answered.
struct CloseOnPanic(Arc<Queue>);

impl Drop for CloseOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

/// Queues what makes sense, answers what does not.
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

fn kind<B: Backend>(reader: &Reader<B>) -> Kind {
    match reader {
        Reader::Encoder(_) => Kind::Encoder,
        Reader::Decoder(_) => Kind::Decoder,
        Reader::EncoderDecoder { .. } => Kind::EncoderDecoder,
    }
}
