//! From logits to tokens. The device is told what each row asks, and a few numbers for each come
//! back; logits stay where they are.

mod answer;
mod ask;
mod run;

pub(super) use run::{Scratch, pick};
