//! The emulator as a device: a [`Driver`] over a process that runs the kernels on the processor.
//!
//! With `PROOFMILL_KERNELS_ON=cuda:0` the same tests run on that GPU instead.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use proofmill_engine::backend::DeviceError;
use proofmill_engine::cuda::system::{self, System};
use proofmill_engine::cuda::{Driver, GemmBackend, Launch, Memory, Role, SHARED_LEAST};

use crate::compile::{Compiler, Unit, units};
use crate::mutation::Check;
use crate::process::Process;

/// Bytes of shared memory that a block may have on compute capability 9.0, 10.0 and 10.3.
const SHARED_MOST: usize = 227 << 10;

/// In which order the threads of a block run between two barriers, and the blocks of a launch. The device
/// is one whose blocks may have [`SHARED_LEAST`], or if it is reversed [`SHARED_MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Forward,
    Reversed,
    /// Threads: anew in every pass, from a number that is not 0. Blocks: first to last.
    Drawn(u64),
}

/// An emulated GPU. Clones are the same device.
#[derive(Clone)]
pub struct Emulator {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    place: Place,
    /// Bytes of shared memory that a block may have.
    shared_per_block: usize,
    /// Bytes that may still be given out.
    room: usize,
}

enum Place {
    Process(Process),
    Gpu(Box<System>),
}

/// The GPU that stands for the emulator, if there is to be one.
fn gpu() -> Option<System> {
    let named = std::env::var("PROOFMILL_KERNELS_ON").ok()?;
    let number = named.strip_prefix("cuda:").and_then(|number| number.parse().ok());
    let number = number.unwrap_or_else(|| panic!("PROOFMILL_KERNELS_ON is {named:?}, no `cuda:0`"));
    let opened = System::open(number, GemmBackend::Builtin);
    Some(opened.unwrap_or_else(|error| panic!("{named}: {error}")))
}

impl Emulator {
    /// A device of its own for the caller; none, and a message, where there is no C++ compiler.
    pub fn start() -> Option<Self> {
        Self::start_in(Order::Forward)
    }

    /// The same, with threads that run in another order.
    pub fn start_in(order: Order) -> Option<Self> {
        if let Some(gpu) = gpu() {
            let shared = gpu.shared_per_block();
            return Some(Self::at(Place::Gpu(Box::new(gpu)), shared));
        }
        let started = Self::made_of(&units(), order)?;
        Some(started.unwrap_or_else(|error| panic!("{error}")))
    }

    /// The same, with room for `bytes`.
    pub fn with_memory(bytes: usize) -> Option<Self> {
        let emulator = Self::start()?;
        emulator.lock().room = bytes;
        Some(emulator)
    }

    /// One that has the kernels of these sources, see [`crate::compile::unit`]. Fails if they cannot be
    /// compiled.
    pub fn made_of(units: &[Unit], order: Order) -> Option<Result<Self, String>> {
        let program = Compiler::find()?.program(units);
        Some(program.and_then(|program| Self::of(&program, order)))
    }

    /// Starts a program.
    pub fn of(program: &Path, order: Order) -> Result<Self, String> {
        let order_name = match order {
            Order::Forward => "forward".to_owned(),
            Order::Reversed => "reversed".to_owned(),
            Order::Drawn(seed) => seed.to_string(),
        };
        let mut process = Process::start(program, &order_name)
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let shared = match order {
            Order::Reversed => SHARED_MOST,
            Order::Forward | Order::Drawn(_) => SHARED_LEAST,
        };
        process.ask(&[b"S", &(shared as u32).to_le_bytes()], &mut [])?;
        Ok(Self::at(Place::Process(process), shared))
    }

    fn at(place: Place, shared_per_block: usize) -> Self {
        let shared = Shared { place, shared_per_block, room: usize::MAX };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Runs a kernel by its name.
    pub fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        threads: u32,
        shared: u32,
        cells: &[u64],
    ) -> Result<(), DeviceError> {
        let [x, y, z] = grid;
        let sizes = [x, y, z, threads, shared, cells.len() as u32];
        let mut request = b"L".to_vec();
        request.extend((name.len() as u32).to_le_bytes());
        request.extend(name.bytes());
        request.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        request.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
        self.ask(&[&request], &mut [])
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no thread panics with the lock")
    }

    fn ask(&self, parts: &[&[u8]], answer: &mut [u8]) -> Result<(), DeviceError> {
        self.lock().place.ask(parts, answer).map_err(DeviceError::Failed)
    }
}

impl Place {
    fn ask(&mut self, parts: &[&[u8]], answer: &mut [u8]) -> Result<(), String> {
        match self {
            Self::Process(process) => process.ask(parts, answer),
            Self::Gpu(_) => Err("a GPU is no process".to_owned()),
        }
    }
}

/// Runs a check with threads in two orders; does nothing where there is no compiler.
pub fn pass(check: Check) {
    for order in [Order::Forward, Order::Reversed] {
        let Some(emulator) = Emulator::start_in(order) else { return };
        if let Err(error) = check(&emulator) {
            panic!("with threads in the order {order:?}: {error}");
        }
    }
}

/// A copy that was begun. A process has made it at once.
pub enum Download {
    Done(Vec<u8>),
    OfGpu(system::PendingCopy),
}

/// Memory of the emulator.
pub struct Piece {
    owner: Emulator,
    address: u64,
    bytes: usize,
    held: Option<system::Piece>,
}

impl Memory for Piece {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut owner = self.owner.lock();
        // A process that has ended has no memory to give back.
        if owner.place.ask(&[b"F", &self.address.to_le_bytes()], &mut []).is_ok() {
            owner.room = owner.room.saturating_add(self.bytes);
        }
    }
}

impl Driver for Emulator {
    type Memory = Piece;
    type Download = Download;

    fn alloc(&self, role: Role, bytes: usize) -> Result<Piece, DeviceError> {
        let mut shared = self.lock();
        let room = shared.room.checked_sub(bytes).ok_or(DeviceError::OutOfMemory { bytes })?;
        if let Place::Gpu(gpu) = &shared.place {
            let held = gpu.alloc(role, bytes)?;
            shared.room = room;
            drop(shared);
            let (address, held) = (held.address(), Some(held));
            return Ok(Piece { owner: self.clone(), address, bytes, held });
        }
        let mut address = [0; 8];
        let reply = shared.place.ask(&[b"A", &(bytes as u64).to_le_bytes()], &mut address);
        reply.map_err(|error| match error.as_str() {
            "no memory" => DeviceError::OutOfMemory { bytes },
            _ => DeviceError::Failed(error),
        })?;
        shared.room = room;
        let address = u64::from_le_bytes(address);
        Ok(Piece { owner: self.clone(), address, bytes, held: None })
    }

    fn upload(&self, from: &[u8], to: &Piece, offset: usize) -> Result<(), DeviceError> {
        fits(to, offset, from.len())?;
        if let (Place::Gpu(gpu), Some(to)) = (&self.lock().place, &to.held) {
            return gpu.upload(from, to, offset);
        }
        let address = (to.address + offset as u64).to_le_bytes();
        self.ask(&[b"W", &address, &(from.len() as u64).to_le_bytes(), from], &mut [])
    }

    fn shared_per_block(&self) -> usize {
        self.lock().shared_per_block
    }

    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        launches.iter().try_for_each(Launch::check)?;
        if let Place::Gpu(gpu) = &self.lock().place {
            return gpu.run(launches);
        }
        launches.iter().try_for_each(|Launch { kernel, grid, threads, shared, args, .. }| {
            self.launch(kernel.name(), *grid, *threads, *shared, args)
        })
    }

    fn download(&self, from: &Piece, offset: usize, to: &mut [u8]) -> Result<(), DeviceError> {
        fits(from, offset, to.len())?;
        if let (Place::Gpu(gpu), Some(from)) = (&self.lock().place, &from.held) {
            return gpu.download(from, offset, to);
        }
        let address = (from.address + offset as u64).to_le_bytes();
        self.ask(&[b"R", &address, &(to.len() as u64).to_le_bytes()], to)
    }

    fn begin_download(
        &self,
        from: &Piece,
        offset: usize,
        bytes: usize,
    ) -> Result<Download, DeviceError> {
        fits(from, offset, bytes)?;
        if let (Place::Gpu(gpu), Some(from)) = (&self.lock().place, &from.held) {
            return gpu.begin_download(from, offset, bytes).map(Download::OfGpu);
        }
        let mut copy = vec![0; bytes];
        self.download(from, offset, &mut copy)?;
        Ok(Download::Done(copy))
    }

    fn end_download(&self, copy: Download, to: &mut [u8]) -> Result<(), DeviceError> {
        match (copy, &self.lock().place) {
            (Download::Done(copy), _) => to.copy_from_slice(&copy),
            (Download::OfGpu(copy), Place::Gpu(gpu)) => return gpu.end_download(copy, to),
            (Download::OfGpu(_), Place::Process(_)) => panic!("a process is no GPU"),
        }
        Ok(())
    }
}

fn fits(memory: &Piece, offset: usize, bytes: usize) -> Result<(), DeviceError> {
    if offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes) {
        return Ok(());
    }
    Err(DeviceError::Failed(format!(
        "{bytes} bytes from byte {offset} on are beyond a memory of {} bytes",
        memory.bytes
    )))
}
