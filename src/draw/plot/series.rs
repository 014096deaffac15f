//! What a plot shows: series of points, each point with the range around it.

use crate::draw::plot::scale::Scale;

/// Numbers beyond this size, either way, cannot be drawn.
const SIZE_MAX: f64 = 1e300;

/// A plot that can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What stands below the x axis.
    pub x: String,
    /// What stands above the y axis.
    pub y: String,
    /// What the range of a point is.
    pub range: Option<String>,
    /// Whether the points of a series are joined.
    pub lines: bool,
    /// At most [`SERIES_MAX`].
    pub series: Vec<Series>,
    /// Points that have no place.
    pub left_out: usize,
}

/// Series that can be distinguished.
pub const SERIES_MAX: usize = 8;

/// Points that belong together, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Empty for a series that is alone and needs no name.
    pub name: String,
    /// Sorted by `x`; equal ones in the order in which they came.
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// From low to high.
    pub range: Option<(f64, f64)>,
}

/// A number that has a place in a plot.
pub fn drawable(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.abs() <= SIZE_MAX)
}

impl Plot {
    /// Adds a point to the series `name`. A point without a place is counted and left out; a range
    /// without both ends is no range.
    pub fn add(&mut self, name: &str, x: Option<f64>, y: Option<f64>, range: [Option<f64>; 2]) {
        let (Some(x), Some(y)) = (drawable(x), drawable(y)) else {
            self.left_out += 1;
            return;
        };
        let [low, high] = range.map(drawable);
        let point = Point { x, y, range: low.zip(high) };
        let known = self.series.iter().position(|series| series.name == name);
        let at = known.unwrap_or_else(|| {
            self.series.push(Series { name: name.to_owned(), points: Vec::new() });
            self.series.len() - 1
        });
        let points = &mut self.series[at].points;
        let place = points.partition_point(|other| other.x <= x);
        points.insert(place, point);
    }

    /// The axes, x and y, with at most so many ticks each.
    pub fn scales(&self, x_ticks: usize, y_ticks: usize) -> (Scale, Scale) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let heights = points().flat_map(|point| {
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            [low, point.y, high]
        });
        (Scale::covering(points().map(|point| point.x), x_ticks), Scale::covering(heights, y_ticks))
    }

    /// Remarks for its readers, each a line.
    pub fn remarks(&self) -> Vec<String> {
        let has_ranges = self.series.iter().flat_map(|s| &s.points).any(|p| p.range.is_some());
        let range = self.range.iter().filter(|_| has_ranges).map(|range| format!("bars: {range}"));
        let left_out = (self.left_out > 0).then(|| {
            let points = if self.left_out == 1 { "point" } else { "points" };
            format!("{} {points} left out: x or y is not a number", self.left_out)
        });
        range.chain(left_out).collect()
    }

    /// True if there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_sorted_and_those_without_a_place_counted() {
        let mut plot = Plot {
            x: "x".to_owned(),
            y: "y".to_owned(),
            range: Some("low to high".to_owned()),
            lines: true,
            series: Vec::new(),
            left_out: 0,
        };
        for (x, y) in [(2.0, 0.0), (1.0, 1.0), (2.0, 2.0), (f64::NAN, 0.0), (1.0, f64::INFINITY)] {
            plot.add("a", Some(x), Some(y), [Some(y), None]);
        }
        plot.add("a", Some(1e301), Some(0.0), [None, None]);
        let places: Vec<_> = plot.series[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(places, [(1.0, 1.0), (2.0, 0.0), (2.0, 2.0)]);
        let left_out = "3 points left out: x or y is not a number".to_owned();
        assert_eq!(plot.remarks(), std::slice::from_ref(&left_out), "half a range is none");
        plot.add("b", Some(0.0), Some(0.0), [Some(-1.0), Some(1.0)]);
        assert_eq!(plot.remarks(), ["bars: low to high".to_owned(), left_out]);
    }
}
