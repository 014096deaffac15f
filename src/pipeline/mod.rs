//! The pipeline file: YAML text to typed stages, with a place for every diagnostic. Pure: no I/O
//! beyond what the injected loader reads, no DataFusion, no store. Beside it the other files that users write.

pub mod checks;
pub mod code;
pub mod declared;
pub mod device;
pub mod diagnostic;
pub mod expand;
pub mod gate;
pub mod group;
pub mod interpolate;
pub mod kind_file;
pub mod kinds;
pub mod models;
pub mod names;
pub mod node;
pub mod params;
pub mod pipeline;
pub mod project;
pub mod refusal;
pub mod role;
pub mod schema;
pub mod settings;
pub mod source;
pub mod tag;
pub mod testcase;
pub mod text;
pub mod validate;
pub mod yaml;
