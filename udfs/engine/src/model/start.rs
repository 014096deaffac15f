//! Starting workers: each makes its device in its own thread, which the device need never leave.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use super::open::OpenError;
use super::prepare::Kind;
use super::settings::Settings;
use crate::backend::{Backend, DeviceError};
use crate::checkpoint::{Folder, LoadError};
use crate::family;
use crate::network::{Network, Reader};
use crate::schedule::{Counters, Limits, Queue, Room, Shared, Words, Worker};

/// Makes a device, in the thread of the worker that will use it.
pub type Maker<B> = Box<dyn FnOnce() -> Result<B, DeviceError> + Send>;

/// A device with the weights on it.
pub(super) struct Seated<B: Backend> {
    pub backend: B,
    pub network: Arc<Network<B>>,
    /// Keys and values here, where that is not a part of what the settings say.
    pub cache_bytes: Option<usize>,
}

/// Makes a device with the weights on it, in the worker's thread.
pub(super) type Seat<B> = Box<dyn FnOnce() -> Result<Seated<B>, OpenError> + Send>;

/// What is known of a model whose workers are ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// What each worker can do.
    pub limits: Limits,
    pub kind: Kind,
    pub parameters: u64,
}

/// What all workers of a model share.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub queue: Arc<Queue>,
    pub words: Arc<Words>,
    pub counters: Arc<Counters>,
}

/// Reads a folder's weights into a device.
pub(super) fn load<B: Backend>(
    folder: &Folder,
    backend: &B,
    settings: &Settings,
) -> Result<Network<B>, OpenError> {
    let loaded = family::load(folder, backend, settings.precision, settings.context);
    loaded.map_err(|error| match error {
        LoadError::Device(error @ DeviceError::OutOfMemory { .. }) => OpenError::Weights(error),
        error => OpenError::Load(error),
    })
}

/// Starts a worker for each of `seats` and waits until all are ready. Where one fails, all end.
pub(super) fn start<B: Backend + 'static>(
    seats: Vec<Seat<B>>,
    settings: &Settings,
    common: &Common,
) -> Result<(Vec<JoinHandle<()>>, Ready), OpenError> {
    let (sender, receiver) = mpsc::channel();
    let (mut threads, mut ready) = (Vec::new(), Vec::new());
    let mut failure = None;
    for (index, seat) in seats.into_iter().enumerate() {
        let (settings, common, sender) = (*settings, common.clone(), sender.clone());
        let close = CloseOnPanic(Arc::clone(&common.queue));
        let thread = thread::Builder::new().name(format!("model-{index}"));
        let thread = thread.spawn(move || {
            let _close = close;
            work(seat, &settings, common, sender);
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
        .reduce(|all, one: Ready| Ready { limits: all.limits.both(one.limits), ..all });
    match (failure, ready) {
        (None, Some(ready)) => Ok((threads, ready)),
        (failure, _) => {
            common.queue.close();
            // One that panicked has said so.
            threads.into_iter().for_each(|thread| drop(thread.join()));
            Err(failure.unwrap_or(OpenError::Stopped))
        }
    }
}

/// A worker's thread.
fn work<B: Backend>(
    seat: Seat<B>,
    settings: &Settings,
    common: Common,
    sender: Sender<Result<Ready, OpenError>>,
) {
    let seated = seat().and_then(|seated| {
        let part = settings.cache_bytes / settings.workers.max(1);
        let own =
            Settings { cache_bytes: seated.cache_bytes.unwrap_or(part), workers: 1, ..*settings };
        let (room, limits) = make_room(&seated.backend, &seated.network, &own)?;
        Ok((seated, room, limits))
    });
    let (Seated { backend, network, .. }, room, limits) = match seated {
        Ok(seated) => seated,
        Err(error) => {
            // Whoever opens the model waits for it, unless it gave up for another worker's error.
            let _ = sender.send(Err(error));
            return;
        }
    };
    let (kind, parameters) = (kind(&network.reader), network.parameters);
    let _ = sender.send(Ok(Ready { limits, kind, parameters }));
    drop(sender);
    let Common { queue, words, counters } = common;
    Worker::new(Shared { network, queue, words, counters }, backend, limits, room).run();
}

/// A worker's memory; as much as fits, where not all that `settings` ask for does.
fn make_room<B: Backend>(
    backend: &B,
    network: &Network<B>,
    settings: &Settings,
) -> Result<(Room<B>, Limits), OpenError> {
    let mut limits = settings.limits(network)?;
    let least = settings.least(network);
    loop {
        match Room::new(backend, network, limits) {
            Ok(room) => return Ok((room, limits)),
            Err((short, error @ DeviceError::OutOfMemory { .. })) => {
                limits = limits.smaller(least, short).ok_or(OpenError::NoRoom {
                    step_tokens: limits.step_tokens,
                    tokens: limits.tokens(),
                    error,
                })?;
            }
            Err((_, error)) => return Err(OpenError::Device(error)),
        }
    }
}

fn kind<B: Backend>(reader: &Reader<B>) -> Kind {
    match reader {
        Reader::Encoder(_) => Kind::Encoder,
        Reader::Decoder(_) => Kind::Decoder,
        Reader::EncoderDecoder { .. } => Kind::EncoderDecoder,
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
