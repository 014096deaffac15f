//! The `proofmill` program: the library's command line and nothing else.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    proofmill::cli::start::start()
}
