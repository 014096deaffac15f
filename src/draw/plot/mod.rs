//! Plots of numbers: points in series, bars, and how values are spread.

pub mod axis;
pub mod bars;
pub mod histogram;
pub mod scale;
pub mod series;
pub mod svg;
pub mod text;
