//! What every part needs and none owns: time, randomness and retries as components, names, their order and digests,
//! errors as people see them, and text that a terminal may show. No I/O but the clocks.

pub mod clock;
pub mod digest;
pub mod error;
pub mod ids;
pub mod merkle;
pub mod natural;
pub mod retry;
pub mod rng;
pub mod secret;
pub mod sentence;
pub mod styled;
pub mod suggest;
pub mod waits;
