//! Language models for offline evaluation: text in, text, scores and vectors out.
//!
//! Lowest layer first: [`request`] is what can be asked, [`noise`] what makes samples, [`checkpoint`]
//! what lies in a folder, [`backend`] what computes, [`network`] what a model is made of.

pub mod backend;
pub mod checkpoint;
pub mod cpu;
pub mod decode;
pub mod family;
pub mod model;
pub mod network;
pub mod noise;
pub mod request;
pub mod schedule;
