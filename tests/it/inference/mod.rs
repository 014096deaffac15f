//! Stages that ask models: on this machine, behind endpoints, trained here.

mod chats;
mod devices;
mod endpoint;
mod entailer;
mod fitting;
mod local_features;
pub mod models;
mod prompts;
mod workers;
