//! Starting workers: each creates its device in its own thread, which the device need never leave.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use super::open_error::OpenError;
use super::prepare::ModelKind;
use super::settings::Settings;
use crate::architecture;
use crate::backend::{Backend, DeviceError};
use crate::checkpoint::{Folder, LoadError};
use crate::network::{Network, Transformer};
use crate::schedule::{Counters, Detokenizer, Limits, Queue, Shared, Worker, WorkerWorkspace};

/// Creates a device, in the thread of the worker that will use it.
pub type DeviceFactory<B> = Box<dyn FnOnce() -> Result<B, DeviceError> + Send>;

/// A device with the weights on it.
pub(super) struct LoadedDevice<B: Backend> {
    pub backend: B,
    pub network: Arc<Network<B>>,
    /// Keys and values here, where that is not a part of what the settings say.
    pub kv_cache_bytes: Option<usize>,
}

/// Creates a device and loads the weights onto it, in the worker's thread.
pub(super) type WorkerInit<B> = Box<dyn FnOnce() -> Result<LoadedDevice<B>, OpenError> + Send>;

/// By the number of a GPU: why it does not record what it launches any more, once that is so.
#[derive(Debug, Default)]
pub(super) struct WithoutGraphs(pub(super) Vec<(u32, Arc<OnceLock<String>>)>);

impl WithoutGraphs {
    pub(super) fn of(gpus: &[u32]) -> Self {
        Self(gpus.iter().map(|&number| (number, Arc::default())).collect())
    }

    /// A sentence for each GPU of which that is so.
    pub(super) fn notices(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(number, why)| {
            let why = why.get()?;
            Some(format!("cuda:{number} launches its kernels one by one, which is slower: {why}"))
        })
    }
}

/// What is known of a model whose workers are ready.
#[derive(Clone, Debug)]
pub(super) struct ModelInfo {
    /// What each worker can do.
    pub limits: Limits,
    pub kind: ModelKind,
    pub parameters: u64,
    /// Blocks of what reads texts: the encoder, or the decoder where there is none.
    pub layers: usize,
    /// What is added to the positions of tokens of each type; `None` where there is no head that tells classes.
    pub type_offsets: Option<Vec<u32>>,
}

/// What all workers of a model share.
#[derive(Clone, Debug)]
pub(super) struct SharedState {
    pub queue: Arc<Queue>,
    pub detokenizer: Arc<Detokenizer>,
    pub counters: Arc<Counters>,
}

/// Reads a folder's weights into a device.
pub(super) fn load<B: Backend>(
    folder: &Folder,
    backend: &B,
    settings: &Settings,
) -> Result<Network<B>, OpenError> {
    let loaded = architecture::load(folder, backend, settings.precision, settings.context);
    loaded.map_err(|error| match error {
        LoadError::Device(error @ DeviceError::OutOfMemory { .. }) => OpenError::Weights(error),
        error => OpenError::Load(error),
    })
}

/// Starts a worker for each of `inits` and waits until all are ready. Where one fails, all end.
pub(super) fn start<B: Backend + 'static>(
    inits: Vec<WorkerInit<B>>,
    settings: &Settings,
    shared: &SharedState,
) -> Result<(Vec<JoinHandle<()>>, ModelInfo), OpenError> {
    let (sender, receiver) = mpsc::channel();
    let (mut threads, mut ready) = (Vec::new(), Vec::new());
    let mut failure = None;
    for (index, init) in inits.into_iter().enumerate() {
        let (settings, shared, sender) = (*settings, shared.clone(), sender.clone());
        let close = CloseOnPanic(Arc::clone(&shared.queue));
        let thread = thread::Builder::new().name(format!("model-{index}"));
        let thread = thread.spawn(move || {
            let _close = close;
            work(init, &settings, shared, sender);
        });
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => failure = failure.or(Some(OpenError::Thread(error))),
        }
    }
    drop(sender);
    for _ in 0..threads.len() {
        match receiver.recv() {
            Ok(Ok(one)) => ready.push(one),
            Ok(Err(error)) => failure = failure.or(Some(error)),
            // It panicked, and has said so.
            Err(_) => failure = failure.or(Some(OpenError::Stopped)),
        }
    }
    let ready = ready
        .into_iter()
        .reduce(|all, one: ModelInfo| ModelInfo { limits: all.limits.both(one.limits), ..all });
    match (failure, ready) {
        (None, Some(ready)) => Ok((threads, ready)),
        (failure, _) => {
            shared.queue.close();
            // One that panicked has said so.
            threads.into_iter().for_each(|thread| drop(thread.join()));
            Err(failure.unwrap_or(OpenError::Stopped))
        }
    }
}

/// A worker's thread.
fn work<B: Backend>(
    init: WorkerInit<B>,
    settings: &Settings,
    shared: SharedState,
    sender: Sender<Result<ModelInfo, OpenError>>,
) {
    let loaded = init().and_then(|loaded| {
        let part = settings.kv_cache_bytes / settings.workers.max(1);
        let own = Settings {
            kv_cache_bytes: loaded.kv_cache_bytes.unwrap_or(part),
            workers: 1,
            ..*settings
        };
        let (workspace, limits) = make_workspace(&loaded.backend, &loaded.network, &own)?;
        Ok((loaded, workspace, limits))
    });
    let (LoadedDevice { backend, network, .. }, workspace, limits) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            // The caller that opens the model waits for it, unless it gave up for another worker's
            // error.
            let _ = sender.send(Err(error));
            return;
        }
    };
    let (kind, parameters) = (kind(&network.transformer), network.parameters);
    let (Transformer::Encoder(reader)
    | Transformer::Decoder(reader)
    | Transformer::EncoderDecoder { encoder: reader, .. }) = &network.transformer;
    let layers = reader.blocks.len();
    let type_offsets = network.classifier.as_ref().map(|head| head.type_offsets.clone());
    let _ = sender.send(Ok(ModelInfo { limits, kind, parameters, layers, type_offsets }));
    drop(sender);
    let SharedState { queue, detokenizer, counters } = shared;
    Worker::new(Shared { network, queue, detokenizer, counters }, backend, limits, workspace).run();
}

/// A worker's workspace: as `settings` say, or as large as fits the device's memory.
fn make_workspace<B: Backend>(
    backend: &B,
    network: &Network<B>,
    settings: &Settings,
) -> Result<(WorkerWorkspace<B>, Limits), OpenError> {
    let mut limits = settings.limits(network)?;
    let least = settings.least(network);
    loop {
        match WorkerWorkspace::new(backend, network, limits) {
            Ok(workspace) => return Ok((workspace, limits)),
            Err((short, error @ DeviceError::OutOfMemory { .. })) => {
                limits = limits.smaller(least, short).ok_or(OpenError::NoRoom {
                    max_batch_tokens: limits.max_batch_tokens,
                    tokens: limits.tokens(),
                    error,
                })?;
            }
            Err((_, error)) => return Err(OpenError::Device(error)),
        }
    }
}

fn kind<B: Backend>(transformer: &Transformer<B>) -> ModelKind {
    match transformer {
        Transformer::Encoder(_) => ModelKind::Encoder,
        Transformer::Decoder(_) => ModelKind::Decoder,
        Transformer::EncoderDecoder { .. } => ModelKind::EncoderDecoder,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_records_no_graphs_is_reported() {
        let gpus = WithoutGraphs::of(&[0, 3]);
        assert_eq!(gpus.notices().count(), 0);
        gpus.0[1].1.set("no recording here".to_owned()).unwrap();
        let said = "cuda:3 launches its kernels one by one, which is slower: no recording here";
        assert_eq!(gpus.notices().collect::<Vec<_>>(), [said]);
    }
}
