//! How the checkpoint of each architecture becomes a network: which settings and tensors it has, by which
//! names, and what they mean. A setting that changes the mathematics is either followed or refused.

mod bart;
mod bert;
mod encoder_decoder;
mod gpt2;
mod llama;
mod load;
mod loader;
mod opt;
mod relative;
mod rope;
mod t5;

#[cfg(test)]
mod tests;

pub use load::load;
pub use relative::Buckets;
