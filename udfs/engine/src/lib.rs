//! Language models for offline evaluation: text in, text, scores and vectors out.
//!
//! Lowest layer first: [`request`] are requests and answers, [`options`] how people write them, [`rng`] the random numbers of samples,
//! [`checkpoint`] reads a folder, [`backend`] are the traits of a device, [`cpu`] and [`cuda`] the two
//! devices, [`network`] the parts of a transformer and its forward pass, [`architecture`] turns a
//! checkpoint into one, [`decode`] is beam search, stop texts, guided choice and answers of a form, [`schedule`] batches
//! requests, [`model`] is the public API.

pub mod architecture;
pub mod backend;
pub mod checkpoint;
pub mod cpu;
pub mod cuda;
pub mod decode;
pub mod model;
pub mod network;
pub mod options;
pub mod request;
pub mod rng;
pub mod schedule;
