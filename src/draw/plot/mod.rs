//! Plots of numbers over numbers, in series.

pub mod scale;
pub mod series;
pub mod svg;
pub mod text;
