//! Histograms: how the values of some series are spread, one below the other over one axis; as text and as SVG.

use crate::draw::WIDTH;
use crate::draw::canvas::{
    Anchor, CHARACTER, COLOURS, Canvas, GRID, INK, LINE, MARGIN, TEXT, TITLE, WIDTH as PIXELS,
};
use crate::draw::cells::format_float;
use crate::draw::plot::axis;
use crate::draw::plot::bars::{longest, short};
use crate::draw::plot::scale::Scale;
use crate::draw::plot::series::drawable;

/// Series of one picture.
pub const SERIES_MAX: usize = 24;
/// Bins of one series: each has a column of text.
pub const BINS_MAX: usize = 40;
/// Lines of text of a series, and the steps that a character can fill.
const ROWS: usize = 2;
const FILLS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Height of a series, and of what is free above it, in pixels.
const STRIP: i32 = 44;
const GAP: i32 = 6;

/// Values that can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// What the values are.
    pub x: String,
    /// Bins of equal width over the axis; from 1 to [`BINS_MAX`].
    pub bins: usize,
    /// At most [`SERIES_MAX`], from top to bottom.
    pub series: Vec<Spread>,
    /// Values that have no place.
    pub left_out: usize,
}

/// The values of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Empty for a series that is alone and needs no name.
    pub name: String,
    pub values: Vec<f64>,
}

/// The share of each series in each bin, over an axis.
struct Binned {
    x: Scale,
    shares: Vec<Vec<f64>>,
    /// The highest share of all: drawn at full height.
    most: f64,
}

impl Histogram {
    /// Adds a value to the series `name`; one without a place is counted and left out.
    pub fn add(&mut self, name: &str, value: Option<f64>) {
        let known = self.series.iter().position(|series| series.name == name);
        let at = known.unwrap_or_else(|| {
            self.series.push(Spread { name: name.to_owned(), values: Vec::new() });
            self.series.len() - 1
        });
        match drawable(value) {
            Some(value) => self.series[at].values.push(value),
            None => self.left_out += 1,
        }
    }

    fn scale(&self, ticks: usize) -> Scale {
        Scale::covering(self.series.iter().flat_map(|series| series.values.iter().copied()), ticks)
    }

    /// The last bin has its upper end; all others only their lower one.
    fn binned(&self, x: Scale) -> Binned {
        let share = |series: &Spread| {
            let mut bins = vec![0.0; self.bins];
            for value in &series.values {
                let bin = (x.fraction(*value) * self.bins as f64) as usize;
                bins[bin.min(self.bins - 1)] += 1.0 / series.values.len() as f64;
            }
            bins
        };
        let shares: Vec<Vec<f64>> = self.series.iter().map(share).collect();
        let most = shares.iter().flatten().copied().fold(0.0, f64::max);
        Binned { x, shares, most }
    }

    fn remarks(&self, most: f64) -> Vec<String> {
        let height = format!("full height: {} of a series' values", format_float(most));
        let left_out = (self.left_out > 0).then(|| {
            let values = if self.left_out == 1 { "value" } else { "values" };
            format!("{} {values} left out: not a number", self.left_out)
        });
        [height].into_iter().chain(left_out).collect()
    }

    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.values.is_empty())
    }
}

impl Spread {
    /// Number of values and their mean.
    fn summary(&self) -> String {
        let n = self.values.len();
        // Halved, so that the sum of two large values stays finite.
        let mean = self.values.iter().map(|value| value / n as f64).sum::<f64>();
        if n == 0 { "n 0".to_owned() } else { format!("mean {}, n {n}", format_float(mean)) }
    }
}

/// The histogram as text, each line ended, at most [`WIDTH`] columns.
pub fn text(histogram: &Histogram) -> String {
    if histogram.is_empty() {
        return axis::joined(["no values".to_owned()]);
    }
    let labels: Vec<[String; ROWS]> =
        histogram.series.iter().map(|series| [short(&series.name), series.summary()]).collect();
    let margin = longest(labels.iter().flatten().map(String::as_str));
    // All bins are equally wide.
    let wide = (WIDTH - margin - 2) / histogram.bins;
    let columns = wide.max(1) * histogram.bins;
    let binned = histogram.binned(axis::fitting(columns, |most| histogram.scale(most)));
    let mut out = Vec::with_capacity(labels.len() * ROWS + 4);
    for (labels, shares) in labels.iter().zip(&binned.shares) {
        for (row, label) in labels.iter().enumerate() {
            let full = FILLS.len() - 1;
            let below = (ROWS - 1 - row) * full;
            let cell = |share: &f64| {
                let steps = (share / binned.most * (ROWS * full) as f64).round() as usize;
                // What is there is seen, however little.
                let steps = if *share > 0.0 { steps.max(1) } else { steps };
                FILLS[steps.saturating_sub(below).min(full)].to_string().repeat(wide.max(1))
            };
            let cells: String = shares.iter().map(cell).collect();
            let pad = " ".repeat(margin - label.chars().count());
            out.push(format!("{label}{pad} │{cells}"));
        }
    }
    out.extend(axis::lines(&binned.x, &histogram.x, columns, margin));
    out.extend(histogram.remarks(binned.most));
    axis::joined(out)
}

/// The histogram as a picture.
pub fn svg(histogram: &Histogram, title: Option<&str>) -> String {
    let binned = histogram.binned(histogram.scale(axis::TICKS));
    let remarks = histogram.remarks(binned.most);
    let names: Vec<[String; 2]> =
        histogram.series.iter().map(|series| [short(&series.name), series.summary()]).collect();
    let left = MARGIN + longest(names.iter().flatten().map(String::as_str)) as i32 * CHARACTER + 8;
    let right = PIXELS - 2 * MARGIN;
    let top = MARGIN + LINE * i32::from(title.is_some());
    let bottom = top + (STRIP + GAP) * histogram.series.len().max(1) as i32;
    let mut canvas =
        Canvas::new(PIXELS, bottom + 2 * LINE + 8 + LINE * remarks.len() as i32 + MARGIN / 2);
    if let Some(title) = title {
        canvas.text(title, (MARGIN, MARGIN), TITLE, Anchor::Start);
    }
    let across = |fraction: f64| left + (fraction * f64::from(right - left)).round() as i32;
    for tick in &binned.x.ticks {
        let at = across(binned.x.fraction(*tick));
        canvas.path(&[(at, top), (at, bottom)], GRID, 1);
        canvas.text(&binned.x.label(*tick), (at, bottom + 15), TEXT, Anchor::Middle);
    }
    for (number, ([name, summary], shares)) in names.iter().zip(&binned.shares).enumerate() {
        let base = top + (STRIP + GAP) * (number as i32 + 1);
        canvas.text(name, (left - 8, base - STRIP / 2 - LINE / 2), TEXT, Anchor::End);
        canvas.text(summary, (left - 8, base - STRIP / 2 + LINE / 2), TEXT, Anchor::End);
        let mut outline = vec![(left, base)];
        for (bin, share) in shares.iter().enumerate() {
            let height = share / binned.most.max(f64::MIN_POSITIVE) * f64::from(STRIP);
            let up = base - height.round() as i32;
            let bins = histogram.bins as f64;
            outline.push((across(bin as f64 / bins), up));
            outline.push((across((bin + 1) as f64 / bins), up));
        }
        outline.push((right, base));
        canvas.polygon(&outline, COLOURS[number % COLOURS.len()]);
        canvas.path(&[(left, base), (right, base)], INK, 1);
    }
    let mut line = bottom + LINE + LINE / 2 + 6;
    canvas.text(&histogram.x, ((left + right) / 2, line), TEXT, Anchor::Middle);
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

    fn empty(bins: usize) -> Histogram {
        Histogram { x: "similarity".to_owned(), bins, series: Vec::new(), left_out: 0 }
    }

    #[test]
    fn two_systems_over_one_axis() {
        let mut histogram = empty(10);
        for i in 0..100 {
            histogram.add("bm25 x-x", Some(f64::from(i * i) / 1e4));
            histogram.add("generated & snapped", Some(f64::from(i) / 99.0));
        }
        histogram.add("bm25 x-x", None);
        insta::assert_snapshot!(text(&histogram));
        insta::assert_snapshot!(svg(&histogram, Some("Similarity to gold")));
    }

    #[test]
    fn each_value_is_in_one_bin_and_the_last_has_its_end() {
        let mut histogram = empty(4);
        for value in [0.0, 0.25, 0.5, 0.75, 1.0] {
            histogram.add("", Some(value));
        }
        let shares = &histogram.binned(histogram.scale(5)).shares[0];
        assert_eq!(shares, &[0.2, 0.2, 0.2, 0.4]);
    }

    #[test]
    fn none() {
        let mut none = empty(10);
        none.add("a", Some(f64::NAN));
        assert_eq!(text(&none), "no values\n");
        assert!(svg(&none, None).contains("1 value left out"));
    }

    proptest! {
        #[test]
        fn any_values_fit_the_width_and_all_are_drawn(
            values in prop::collection::vec((0..SERIES_MAX, -1e300f64..1e300), 1..80),
            bins in 1..=BINS_MAX,
        ) {
            let mut histogram = empty(bins);
            for (series, value) in &values {
                histogram.add(&format!("a series with a name, number {series}"), Some(*value));
            }
            let drawn = text(&histogram);
            prop_assert!(drawn.lines().all(|line| line.chars().count() <= WIDTH), "{drawn}");
            for shares in histogram.binned(histogram.scale(9)).shares {
                prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            svg(&histogram, None);
        }
    }
}
