//! The models that a pipeline declares: who they are, and what makes them answer.

mod device;
mod endpoint;
mod folder;
mod identity;
mod model_info;
mod no_ledger;
mod recorded;
mod registry;
mod runtime;
mod source;

pub use device::{Gpus, name_of};
pub use identity::{IdentityError, ModelIdentity};
pub use model_info::{Endpoint, Local, ModelInfo, ModelInfoError};
pub use no_ledger::NoLedger;
pub use recorded::Recorded;
pub use registry::Registry;
pub use runtime::Runtime;
pub use source::ModelSource;
