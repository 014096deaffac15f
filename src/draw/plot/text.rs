//! A plot as text: lines and ranges in Braille dots, points as letters.

use textwrap::{Options, wrap};

use crate::draw::WIDTH;
use crate::draw::plot::axis::{self, DOTS_ACROSS};
use crate::draw::plot::scale::Scale;
use crate::draw::plot::series::{Plot, Point};
use proofmill_base::styled::printable;

/// Lines of the area inside the axes.
const ROWS: usize = 16;
/// Columns and lines of dots in a character.
const DOTS: (usize, usize) = (DOTS_ACROSS, 4);
/// The bit of each dot of a character, from its top line to its lowest.
const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
/// Ticks at most, x and y.
const TICKS: (usize, usize) = (axis::TICKS, 7);
/// What marks points: of a series that is alone, and of several series at one place.
const ALONE: char = '●';
const SEVERAL: char = '*';

/// The plot, each line ended; at most [`WIDTH`] columns but for long names.
pub fn draw(plot: &Plot) -> String {
    if plot.is_empty() {
        return axis::joined(std::iter::once("no points".to_owned()).chain(plot.remarks()));
    }
    let y = plot.scales(TICKS.0, TICKS.1).1;
    let margin = y.ticks.iter().map(|tick| y.label(*tick).len()).max().unwrap_or(0);
    let columns = WIDTH - margin - 2;
    let x = axis::fitting(columns, |most| plot.scales(most, TICKS.1).0);
    let mut area = Area::new(columns, x, y);
    for (number, series) in plot.series.iter().enumerate() {
        let mark = match plot.series.len() {
            1 => ALONE,
            _ => letter(number),
        };
        if plot.lines {
            series.points.windows(2).for_each(|pair| area.line(at(&pair[0]), at(&pair[1])));
        }
        for point in &series.points {
            if let Some((low, high)) = point.range {
                area.line((point.x, low), (point.x, high));
            }
        }
        series.points.iter().for_each(|point| area.mark(at(point), mark));
    }
    let mut out = vec![printable(&plot.y, true)];
    out.extend(area.lines(margin));
    out.extend(axis::lines(&area.x, &plot.x, columns, margin));
    out.extend(legend(plot, area.has_several()));
    out.extend(plot.remarks());
    axis::joined(out)
}

fn at(point: &Point) -> (f64, f64) {
    (point.x, point.y)
}

fn letter(series: usize) -> char {
    char::from(b'A' + (series % 26) as u8)
}

/// What each letter stands for, if there is more than one.
fn legend(plot: &Plot, has_several: bool) -> Vec<String> {
    if plot.series.len() == 1 {
        return Vec::new();
    }
    let name = |(i, name): (usize, &str)| {
        // A name is not broken at its spaces.
        format!("{} {}", letter(i), printable(name, false)).replace(' ', "\u{a0}")
    };
    let mut all: Vec<String> =
        plot.series.iter().map(|series| series.name.as_str()).enumerate().map(name).collect();
    all.extend(has_several.then(|| format!("{SEVERAL}\u{a0}several")));
    let all = all.join("   ");
    wrap(&all, Options::new(WIDTH)).iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

/// The area inside the axes.
struct Area {
    columns: usize,
    x: Scale,
    y: Scale,
    /// Dots of each character, line by line.
    dots: Vec<u8>,
    /// Marks of each character, over the dots.
    marks: Vec<Option<char>>,
}

impl Area {
    fn new(columns: usize, x: Scale, y: Scale) -> Self {
        let size = columns * ROWS;
        Self { columns, x, y, dots: vec![0; size], marks: vec![None; size] }
    }

    /// The dot of a point: from the left, from the top.
    fn dot(&self, (x, y): (f64, f64)) -> (usize, usize) {
        let scaled = |fraction: f64, dots: usize| (fraction * (dots - 1) as f64).round() as usize;
        let column = scaled(self.x.fraction(x), self.columns * DOTS.0);
        (column, scaled(1.0 - self.y.fraction(y), ROWS * DOTS.1))
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let (from, to) = (self.dot(from), self.dot(to));
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let between = |a: usize, b: usize, step: usize| {
            let share = step as f64 / steps as f64;
            (a as f64 + (b as f64 - a as f64) * share).round() as usize
        };
        for step in 0..=steps {
            let (x, y) = (between(from.0, to.0, step), between(from.1, to.1, step));
            let place = y / DOTS.1 * self.columns + x / DOTS.0;
            self.dots[place] |= BITS[y % DOTS.1][x % DOTS.0];
        }
    }

    fn mark(&mut self, point: (f64, f64), mark: char) {
        let (x, y) = self.dot(point);
        let place = &mut self.marks[y / DOTS.1 * self.columns + x / DOTS.0];
        *place = match *place {
            Some(other) if other != mark => Some(SEVERAL),
            _ => Some(mark),
        };
    }

    /// True if a place stands for several series.
    fn has_several(&self) -> bool {
        self.marks.contains(&Some(SEVERAL))
    }

    /// The area with its y axis; labels of the y axis take `margin` columns.
    fn lines(&self, margin: usize) -> Vec<String> {
        let row_of = |tick: &f64| self.dot((self.x.low, *tick)).1 / DOTS.1;
        let mut out = Vec::with_capacity(ROWS);
        for row in 0..ROWS {
            let tick = self.y.ticks.iter().find(|tick| row_of(tick) == row);
            let label = tick.map(|tick| self.y.label(*tick)).unwrap_or_default();
            let axis = if tick.is_some() { '┤' } else { '│' };
            let cell = |column: usize| {
                let place = row * self.columns + column;
                self.marks[place].unwrap_or(match self.dots[place] {
                    0 => ' ',
                    dots => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
                })
            };
            let cells: String = (0..self.columns).map(cell).collect();
            out.push(format!("{label:>margin$} {axis}{cells}"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::draw::plot::series::SERIES_MAX;

    /// A name, and points with half of their ranges.
    type Given<'a> = (&'a str, &'a [(f64, f64, f64)]);

    fn plot(series: &[Given<'_>]) -> Plot {
        let mut plot = Plot {
            x: "questions taught (%)".to_owned(),
            y: "accuracy".to_owned(),
            range: Some("ci_low to ci_high".to_owned()),
            lines: true,
            series: Vec::new(),
            left_out: 0,
        };
        for (name, points) in series {
            for (x, y, half) in *points {
                let range = [Some(y - half), Some(y + half)].map(|end| end.filter(|_| *half > 0.0));
                plot.add(name, Some(*x), Some(*y), range);
            }
        }
        plot
    }

    #[test]
    fn a_learning_curve() {
        let curve = [
            (0.0, 0.35, 0.05),
            (25.0, 0.52, 0.06),
            (50.0, 0.66, 0.05),
            (75.0, 0.74, 0.04),
            (100.0, 0.8, 0.04),
        ];
        insta::assert_snapshot!(draw(&plot(&[("", &curve)])));
    }

    #[test]
    fn several_series_and_what_is_left_out() {
        let mut plot = plot(&[
            ("first order", &[(0.0, 0.35, 0.0), (50.0, 0.6, 0.0), (100.0, 0.8, 0.0)]),
            ("second order", &[(0.0, 0.35, 0.0), (50.0, 0.5, 0.0), (100.0, 0.7, 0.0)]),
        ]);
        plot.add("first order", None, Some(0.5), [None, None]);
        plot.add("second order", Some(1.0), Some(f64::NAN), [None, None]);
        insta::assert_snapshot!(draw(&plot));
    }

    #[test]
    fn one_point_and_none() {
        insta::assert_snapshot!(draw(&plot(&[("", &[(3.0, 1e-5, 0.0)])])));
        let mut none = plot(&[]);
        none.add("", None, None, [None, None]);
        assert_eq!(draw(&none), "no points\n1 point left out: x or y is not a number\n");
    }

    proptest! {
        #[test]
        fn any_points_fit_the_width(
            points in prop::collection::vec(
                (0..SERIES_MAX, -1e300f64..1e300, prop_oneof![-1.0f64..1.0, -1e300f64..1e300]),
                1..60,
            ),
            lines in any::<bool>(),
        ) {
            let mut plot = Plot { lines, ..plot(&[]) };
            for (series, x, y) in &points {
                plot.add(&format!("series {series}"), Some(*x), Some(*y), [Some(y - 1.0), Some(*y)]);
            }
            let drawn = draw(&plot);
            prop_assert!(drawn.lines().all(|line| line.chars().count() <= WIDTH), "{}", drawn);
            for (number, series) in plot.series.iter().enumerate() {
                let entry = format!("{} {}", letter(number), series.name);
                prop_assert!(plot.series.len() == 1 || drawn.contains(&entry), "{}", drawn);
            }
        }
    }
}
