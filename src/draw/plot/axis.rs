//! An x axis as text: its line with the ticks, and their labels below.

use crate::draw::plot::scale::Scale;
use proofmill_base::styled::printable;

/// Ticks at most.
pub const TICKS: usize = 9;
/// Columns of dots in a character: a value stands in the character of its dot.
pub const DOTS_ACROSS: usize = 2;

/// The axis with the most ticks whose labels do not touch on so many columns; `scale` makes one with at most so
/// many ticks.
pub fn fitting(columns: usize, scale: impl Fn(usize) -> Scale) -> Scale {
    let mut x = scale(TICKS);
    for most in (3..TICKS).rev() {
        if tick_labels(&x, columns).is_some() {
            break;
        }
        x = scale(most);
    }
    x
}

/// The line, the labels and the name below an area of so many columns that begins behind `margin` columns and the
/// y axis.
pub fn lines(x: &Scale, name: &str, columns: usize, margin: usize) -> [String; 3] {
    let mut rule = vec!['─'; columns];
    for tick in &x.ticks {
        rule[column_of(x, *tick, columns)] = '┬';
    }
    let mut labels = " ".repeat(margin + 2);
    for (start, label) in tick_labels(x, columns).unwrap_or_default() {
        let gap = (margin + 2 + start).saturating_sub(labels.len());
        labels.push_str(&" ".repeat(gap));
        labels.push_str(&label);
    }
    let name = printable(name, true);
    let indent = (margin + 2 + columns / 2).saturating_sub(name.chars().count() / 2);
    let rule: String = rule.into_iter().collect();
    [format!("{:>margin$} └{rule}", ""), labels, format!("{}{name}", " ".repeat(indent))]
}

/// Lines as one text, each ended.
pub fn joined(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The column in which `value` stands, of so many.
pub fn column_of(x: &Scale, value: f64, columns: usize) -> usize {
    (x.fraction(value) * (columns * DOTS_ACROSS - 1) as f64).round() as usize / DOTS_ACROSS
}

/// The labels of an axis with their first columns; `None` if they would touch.
fn tick_labels(x: &Scale, columns: usize) -> Option<Vec<(usize, String)>> {
    let mut labels: Vec<(usize, String)> = Vec::new();
    let mut free = 0;
    for tick in &x.ticks {
        let label = x.label(*tick);
        let middle = column_of(x, *tick, columns);
        // The first and the last stay inside.
        let last = columns.saturating_sub(label.len());
        let start = middle.saturating_sub(label.len() / 2).min(last);
        if start < free {
            return None;
        }
        free = start + label.len() + 2;
        labels.push((start, label));
    }
    Some(labels)
}
