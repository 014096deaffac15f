//! How cells, tables, trees and plots look: as text, and plots as a picture. Pure: values in, text out.

pub mod canvas;
pub mod cells;
pub mod html;
pub mod markdown;
pub mod plot;
pub mod table;
pub mod tree;
pub mod vertical;

/// Columns of text that is stored: fits every terminal.
pub const WIDTH: usize = 80;
