//! Bars: a number for each name, with the range around it; as text and as SVG.

use crate::draw::WIDTH;
use crate::draw::canvas::{
    Anchor, CHARACTER, COLOURS, Canvas, GRID, INK, LINE, MARGIN, TEXT, TITLE, WIDTH as PIXELS,
};
use crate::draw::cells::format_float;
use crate::draw::plot::axis;
use crate::draw::plot::scale::Scale;
use crate::draw::plot::series::drawable;
use proofmill_base::styled::printable;

/// Bars of one picture.
pub const BARS_MAX: usize = 60;
/// Longest name that is drawn whole, in characters.
pub const NAME_MOST: usize = 32;
/// Height of a bar and of the line that it stands in, in pixels.
const BAR: i32 = 14;
const STEP: i32 = 24;

/// Bars that can be drawn, from top to bottom.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What the numbers are.
    pub x: String,
    /// What the range of a bar is.
    pub range: Option<String>,
    /// At most [`BARS_MAX`].
    pub bars: Vec<Bar>,
    /// Numbers that have no place.
    pub left_out: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub name: String,
    pub value: f64,
    /// From low to high.
    pub range: Option<(f64, f64)>,
}

impl Bars {
    /// Adds a bar. One without a place is counted and left out; a range without both ends is no range.
    pub fn add(&mut self, name: &str, value: Option<f64>, range: [Option<f64>; 2]) {
        let [low, high] = range.map(drawable);
        match drawable(value) {
            Some(value) => {
                self.bars.push(Bar { name: short(name), value, range: low.zip(high) });
            }
            None => self.left_out += 1,
        }
    }

    /// The axis: it has zero, from where bars begin.
    fn scale(&self, ticks: usize) -> Scale {
        let ends = self.bars.iter().flat_map(|bar| {
            let (low, high) = bar.range.unwrap_or((bar.value, bar.value));
            [low, bar.value, high]
        });
        Scale::covering(ends.chain([0.0]), ticks)
    }

    fn remarks(&self) -> Vec<String> {
        let has_ranges = self.bars.iter().any(|bar| bar.range.is_some());
        let range = self.range.iter().filter(|_| has_ranges).map(|range| format!("range: {range}"));
        let left_out = (self.left_out > 0).then(|| {
            let bars = if self.left_out == 1 { "bar" } else { "bars" };
            format!("{} {bars} left out: not a number", self.left_out)
        });
        range.chain(left_out).collect()
    }
}

/// A name as it stands beside what it names.
pub fn short(name: &str) -> String {
    let name = printable(name, true);
    match name.char_indices().nth(NAME_MOST) {
        Some(_) => name.chars().take(NAME_MOST - 1).chain(['…']).collect(),
        None => name,
    }
}

/// Columns of the longest of some names.
pub fn longest<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0)
}

/// The bars as text, each line ended, at most [`WIDTH`] columns.
pub fn text(bars: &Bars) -> String {
    if bars.bars.is_empty() {
        return axis::joined(std::iter::once("no bars".to_owned()).chain(bars.remarks()));
    }
    let margin = longest(bars.bars.iter().map(|bar| bar.name.as_str()));
    let values: Vec<String> = bars.bars.iter().map(|bar| format_float(bar.value)).collect();
    let columns = WIDTH - margin - 3 - longest(values.iter().map(String::as_str));
    let x = axis::fitting(columns, |most| bars.scale(most));
    let mut out = Vec::with_capacity(bars.bars.len() + 4);
    for (bar, value) in bars.bars.iter().zip(values) {
        let column = |value| axis::column_of(&x, value, columns);
        let (zero, end) = (column(0.0), column(bar.value));
        let mut cells = vec![' '; columns];
        if bar.value != 0.0 {
            cells[zero.min(end)..=zero.max(end)].fill('█');
        }
        if let Some((low, high)) = bar.range {
            for cell in &mut cells[column(low.min(high))..=column(low.max(high))] {
                *cell = if *cell == '█' { '▓' } else { '─' };
            }
        }
        let pad = " ".repeat(margin - bar.name.chars().count());
        let cells: String = cells.into_iter().collect();
        out.push(format!("{}{pad} │{cells} {value}", bar.name));
    }
    out.extend(axis::lines(&x, &bars.x, columns, margin));
    out.extend(bars.remarks());
    axis::joined(out)
}

/// The bars as a picture.
pub fn svg(bars: &Bars, title: Option<&str>) -> String {
    let remarks = bars.remarks();
    let longest = longest(bars.bars.iter().map(|bar| bar.name.as_str())) as i32;
    let left = MARGIN + longest * CHARACTER + 8;
    // A number stands behind the end of its range.
    let right = PIXELS - MARGIN - 9 * CHARACTER;
    let top = MARGIN + LINE * i32::from(title.is_some());
    let bottom = top + STEP * (bars.bars.len().max(1) as i32);
    let mut canvas =
        Canvas::new(PIXELS, bottom + 2 * LINE + 8 + LINE * remarks.len() as i32 + MARGIN / 2);
    if let Some(title) = title {
        canvas.text(title, (MARGIN, MARGIN), TITLE, Anchor::Start);
    }
    let x = bars.scale(axis::TICKS);
    let across = |value: f64| left + (x.fraction(value) * f64::from(right - left)).round() as i32;
    for tick in &x.ticks {
        canvas.path(&[(across(*tick), top), (across(*tick), bottom)], GRID, 1);
        canvas.text(&x.label(*tick), (across(*tick), bottom + 15), TEXT, Anchor::Middle);
    }
    for (bar, down) in bars.bars.iter().zip((top + STEP / 2..).step_by(STEP as usize)) {
        canvas.text(&bar.name, (left - 8, down), TEXT, Anchor::End);
        let (zero, end) = (across(0.0), across(bar.value));
        let (above, below) = (down - BAR / 2, down + BAR / 2);
        canvas.polygon(&[(zero, above), (end, above), (end, below), (zero, below)], COLOURS[5]);
        let mut last = zero.max(end);
        if let Some((low, high)) = bar.range {
            let (low, high) = (across(low), across(high));
            canvas.path(&[(low, down), (high, down)], INK, 1);
            for at in [low, high] {
                canvas.path(&[(at, down - 4), (at, down + 4)], INK, 1);
            }
            last = last.max(low).max(high);
        }
        canvas.text(&format_float(bar.value), (last + 6, down), TEXT, Anchor::Start);
    }
    canvas.path(&[(across(0.0), top), (across(0.0), bottom)], INK, 1);
    canvas.path(&[(left, bottom), (right, bottom)], INK, 1);
    let mut line = bottom + LINE + LINE / 2 + 6;
    canvas.text(&bars.x, ((left + right) / 2, line), TEXT, Anchor::Middle);
    for remark in &remarks {
        line += LINE;
        canvas.text(remark, (left, line), TEXT, Anchor::Start);
    }
    canvas.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bars(of: &[(&str, f64, f64)]) -> Bars {
        let range = Some("ci_low to ci_high".to_owned());
        let mut bars = Bars { x: "exact match".to_owned(), range, bars: Vec::new(), left_out: 0 };
        for (name, value, half) in of {
            let range = [value - half, value + half].map(|end| (*half > 0.0).then_some(end));
            bars.add(name, Some(*value), range);
        }
        bars
    }

    #[test]
    fn systems_with_their_intervals() {
        let mut all = bars(&[
            ("bm25 x-x", 0.272, 0.039),
            ("dense x-u", 0.568, 0.043),
            ("fused, with a name that is much too long", 0.61, 0.0),
            ("difference", -0.05, 0.03),
            ("nothing", 0.0, 0.0),
        ]);
        all.add("not a number", Some(f64::NAN), [None, None]);
        insta::assert_snapshot!(text(&all));
        insta::assert_snapshot!(svg(&all, Some("Which <system>?")));
    }

    #[test]
    fn none() {
        let mut none = bars(&[]);
        none.add("a", None, [Some(0.0), Some(1.0)]);
        assert_eq!(text(&none), "no bars\n1 bar left out: not a number\n");
        assert!(svg(&none, None).contains("1 bar left out"));
    }

    proptest! {
        #[test]
        fn any_bars_fit_the_width(
            of in prop::collection::vec((".{0,50}", -1e300f64..1e300, 0f64..1e300), 1..BARS_MAX),
        ) {
            let of: Vec<_> = of.iter().map(|(name, value, half)| (name.as_str(), *value, *half)).collect();
            let drawn = text(&bars(&of));
            prop_assert!(drawn.lines().all(|line| line.chars().count() <= WIDTH), "{drawn}");
            svg(&bars(&of), None);
        }
    }
}
