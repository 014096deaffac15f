//! Launching kernels on the stream, one by one or as a graph.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, DriverError, result};

use super::cublas::CublasLt;
use super::failure::{failed, said};
use super::graphs::GraphLauncher;
use super::modules::Functions;
use super::stream::Stream;
use crate::backend::DeviceError;
use crate::cuda::driver::{ARGS_MAX, Launch};
use crate::cuda::gemm::Multiplication;
use crate::cuda::kernel::Kernel;

/// The kernels and the stream on which they run.
pub(super) struct StreamLauncher<'a> {
    pub(super) stream: &'a Stream,
    pub(super) functions: &'a Functions,
    /// Runs [`Kernel::Product`] if it is there.
    pub(super) cublas: Option<&'a CublasLt>,
}

/// A recorded list.
pub(super) struct Graph(CudaGraph);

#[expect(unsafe_code, reason = "the bindings leave it open who uses a graph")]
// SAFETY: a graph may be used by any thread, but by one at a time: it has one owner, is not `Sync`, and
// the owner binds the context before it uses or drops it.
unsafe impl Send for Graph {}

impl GraphLauncher for StreamLauncher<'_> {
    type Graph = Graph;

    fn launch(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        launches.iter().try_for_each(|launch| self.one(launch))
    }

    fn record(&self, launches: &[Launch]) -> Result<Graph, DeviceError> {
        let _guard = self.stream.lock();
        let stream = self.stream.stream();
        // Other threads may do as they like meanwhile; this one only launches.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let recording = |error: DriverError| failed("recording a graph", error);
        stream.begin_capture(mode).map_err(recording)?;
        let launched = self.launch(launches);
        // Also after a failure: it ends the recording.
        let graph = stream.end_capture(CUgraphInstantiate_flags(0));
        launched?;
        let nothing = || DeviceError::Failed("nothing was recorded".to_owned());
        graph.map_err(recording)?.map(Graph).ok_or_else(nothing)
    }

    fn replay(&self, graph: &Graph) -> Result<(), DeviceError> {
        graph.0.launch().map_err(|error| failed("launching a graph", error))
    }
}

impl StreamLauncher<'_> {
    fn one(&self, launch: &Launch) -> Result<(), DeviceError> {
        match (launch.kernel, self.cublas) {
            (Kernel::Product, Some(cublas)) => cublas.multiply(&Multiplication::of(launch)?),
            (_, _) => self.kernel(launch),
        }
    }

    fn kernel(&self, launch: &Launch) -> Result<(), DeviceError> {
        let function = self.functions.of(launch)?;
        let mut cells = [ptr::null_mut::<c_void>(); ARGS_MAX];
        for (cell, argument) in cells.iter_mut().zip(&launch.args) {
            *cell = ptr::from_ref(argument).cast_mut().cast();
        }
        let count = launch.args.len().min(ARGS_MAX);
        let grid = launch.grid.into();
        #[expect(unsafe_code, reason = "what a kernel does is beyond the compiler's sight")]
        // SAFETY: there are as many cells as the kernel takes arguments, each of 8 bytes, which the
        // driver reads before it returns. The addresses among them are of memory that is given back
        // on this stream, hence after the kernel. That kernels stay inside is shown by running them
        // in the emulator under a sanitizer.
        let launched = unsafe {
            result::launch_kernel(
                function.cu_function(),
                grid,
                (launch.threads, 1, 1),
                launch.shared,
                self.stream.stream().cu_stream(),
                &mut cells[..count],
            )
        };
        launched.map_err(|error| {
            let name = launch.kernel.name();
            let (grid, threads, why) = (launch.grid, launch.threads, said(error));
            DeviceError::Failed(format!("`{name}` with {grid:?} blocks of {threads}: {why}"))
        })
    }
}
