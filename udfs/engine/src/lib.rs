//! Language models for offline evaluation: text in, text, scores and vectors out.
//!
//! Lowest layer first: [`request`] is what can be asked, [`noise`] what makes samples, [`checkpoint`]
//! what lies in a folder, [`backend`] what computes, [`cpu`] how the processor does, [`cuda`] how a GPU does, [`network`] what a
//! model is made of, [`family`] how a checkpoint becomes one, [`decode`] which tokens to take,
//! [`schedule`] how many requests share a pass, [`model`] all of it behind one door.

pub mod backend;
pub mod checkpoint;
pub mod cpu;
pub mod cuda;
pub mod decode;
pub mod family;
pub mod model;
pub mod network;
pub mod noise;
pub mod request;
pub mod schedule;
