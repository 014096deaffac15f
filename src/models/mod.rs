//! The models that a pipeline declares: who they are, and what makes them answer.

mod card;
mod device;
mod endpoint;
mod facts;
mod folder;
mod host;
mod no_ledger;
mod recorded;
mod registry;
mod source;

pub use card::{Card, CardError};
pub use device::{Gpus, name_of};
pub use facts::{Endpoint, Facts, FactsError, Local};
pub use host::Host;
pub use no_ledger::NoLedger;
pub use recorded::Recorded;
pub use registry::Registry;
pub use source::Source;
