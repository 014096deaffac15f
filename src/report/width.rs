//! How wide a page is.

use comfy_table::Table;

/// Columns of a page that no terminal shows.
const PAGE: usize = 100;

/// Columns of the terminal that standard output is, or of a page.
pub fn of_page() -> usize {
    // It asks the terminal, if there is one.
    Table::new().width().map_or(PAGE, usize::from)
}
