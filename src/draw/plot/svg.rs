//! A plot as SVG: the same bytes for the same plot, on white, readable without colours.

use crate::draw::canvas::{
    Anchor, CHARACTER, COLOURS, Canvas, GRID, INK, LINE, MARGIN, TEXT, TITLE, WIDTH,
};
use crate::draw::plot::scale::Scale;
use crate::draw::plot::series::{Plot, Point};
use proofmill_base::styled::printable;

/// Height of the area inside the axes.
const HEIGHT: i32 = 320;
/// Between the y axis and the first tick of the x axis, and behind the last.
const INSET: i32 = 12;
/// Ticks at most, x and y.
const TICKS: (usize, usize) = (9, 8);
/// The picture.
pub fn draw(plot: &Plot, title: Option<&str>) -> String {
    let (x, y) = plot.scales(TICKS.0, TICKS.1);
    let legend = legend(plot);
    let remarks = plot.remarks();
    let widest = y.ticks.iter().map(|tick| y.label(*tick).len()).max().unwrap_or(0) as i32;
    let head = LINE * i32::from(title.is_some());
    let frame = Frame {
        left: MARGIN + widest * CHARACTER + 8,
        right: WIDTH - 2 * MARGIN,
        top: MARGIN + head + LINE + 4,
        bottom: MARGIN + head + LINE + 4 + HEIGHT,
        x,
        y,
    };
    let below = legend.last().map_or(0, |entry| entry.line + 1) + remarks.len() as i32;
    let height = frame.bottom + 2 * LINE + 8 + below * LINE + MARGIN / 2;
    let mut canvas = Canvas::new(WIDTH, height);
    if let Some(title) = title {
        canvas.text(title, (MARGIN, MARGIN + LINE / 2), TITLE, Anchor::Start);
    }
    axes(&mut canvas, plot, &frame);
    for (number, series) in plot.series.iter().enumerate() {
        points(&mut canvas, &series.points, plot.lines, look(number), &frame);
    }
    if plot.is_empty() {
        let middle = ((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2);
        canvas.text("no points", middle, TEXT, Anchor::Middle);
    }
    let mut line = frame.bottom + 2 * LINE + 8 + LINE / 2;
    for entry in &legend {
        let place = (frame.left + entry.column, line + entry.line * LINE);
        let (colour, shape) = look(entry.series);
        marker(&mut canvas, (place.0 + 6, place.1), colour, shape);
        canvas.text(&entry.name, (place.0 + 18, place.1), TEXT, Anchor::Start);
    }
    line += legend.last().map_or(0, |entry| entry.line + 1) * LINE;
    for remark in &remarks {
        canvas.text(remark, (frame.left, line), TEXT, Anchor::Start);
        line += LINE;
    }
    canvas.finish()
}

/// The area inside the axes, in pixels, and what they show.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    x: Scale,
    y: Scale,
}

impl Frame {
    fn across(&self, x: f64) -> i32 {
        let width = self.right - self.left - 2 * INSET;
        self.left + INSET + (self.x.fraction(x) * f64::from(width)).round() as i32
    }

    fn down(&self, y: f64) -> i32 {
        self.bottom - (self.y.fraction(y) * f64::from(self.bottom - self.top)).round() as i32
    }
}

/// An entry of the legend.
struct Entry {
    series: usize,
    name: String,
    /// From the left of the axes, in pixels.
    column: i32,
    line: i32,
}

/// The names of several series, line by line; nothing for a series that is alone.
fn legend(plot: &Plot) -> Vec<Entry> {
    let (mut column, mut line) = (0, 0);
    let entry = |(series, name): (usize, String)| {
        let width = 18 + (name.chars().count() as i32 + 3) * CHARACTER;
        if column > 0 && column + width > WIDTH - 5 * MARGIN {
            (column, line) = (0, line + 1);
        }
        let entry = Entry { series, name, column, line };
        column += width;
        entry
    };
    let names = plot.series.iter().map(|series| printable(&series.name, false)).enumerate();
    names.filter(|_| plot.series.len() > 1).map(entry).collect()
}

/// Colour and shape of a series.
fn look(series: usize) -> (&'static str, Shape) {
    let shapes = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond];
    (COLOURS[series % COLOURS.len()], shapes[series % shapes.len()])
}

#[derive(Clone, Copy)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

fn axes(canvas: &mut Canvas, plot: &Plot, frame: &Frame) {
    let Frame { left, right, top, bottom, .. } = *frame;
    canvas.text(&plot.y, (MARGIN, top - LINE / 2 - 4), TEXT, Anchor::Start);
    let middle = (left + right) / 2;
    canvas.text(&plot.x, (middle, bottom + LINE + LINE / 2 + 6), TEXT, Anchor::Middle);
    for tick in &frame.y.ticks {
        let down = frame.down(*tick);
        canvas.path(&[(left, down), (right, down)], GRID, 1);
        canvas.text(&frame.y.label(*tick), (left - 8, down), TEXT, Anchor::End);
    }
    let widest = frame.x.ticks.iter().map(|tick| frame.x.label(*tick).len()).max().unwrap_or(0);
    let room = (right - left) / frame.x.ticks.len().max(1) as i32;
    // Long labels stand at every second tick.
    let every = if widest as i32 * CHARACTER > room { 2 } else { 1 };
    for (i, tick) in frame.x.ticks.iter().enumerate() {
        let across = frame.across(*tick);
        canvas.path(&[(across, bottom), (across, bottom + 5)], INK, 1);
        if i % every == 0 {
            canvas.text(&frame.x.label(*tick), (across, bottom + 15), TEXT, Anchor::Middle);
        }
    }
    canvas.path(&[(left, top), (left, bottom), (right, bottom)], INK, 1);
}

fn points(
    canvas: &mut Canvas,
    points: &[Point],
    lines: bool,
    (colour, shape): (&str, Shape),
    frame: &Frame,
) {
    let at = |point: &Point| (frame.across(point.x), frame.down(point.y));
    for point in points {
        if let Some((low, high)) = point.range {
            let (across, low, high) = (frame.across(point.x), frame.down(low), frame.down(high));
            canvas.path(&[(across, low), (across, high)], colour, 1);
            for end in [low, high] {
                canvas.path(&[(across - 4, end), (across + 4, end)], colour, 1);
            }
        }
    }
    if lines && points.len() > 1 {
        let places: Vec<_> = points.iter().map(at).collect();
        canvas.path(&places, colour, 2);
    }
    points.iter().for_each(|point| marker(canvas, at(point), colour, shape));
}

fn marker(canvas: &mut Canvas, (x, y): (i32, i32), colour: &str, shape: Shape) {
    let corners: &[(i32, i32)] = match shape {
        Shape::Circle => return canvas.circle((x, y), 5, colour),
        Shape::Square => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        Shape::Triangle => &[(0, -6), (5, 4), (-5, 4)],
        Shape::Diamond => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
    };
    let corners: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    canvas.polygon(&corners, colour);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let mut plot = Plot {
            x: "questions taught (%)".to_owned(),
            y: "accuracy <&>".to_owned(),
            range: Some("low to high".to_owned()),
            lines: true,
            series: Vec::new(),
            left_out: 0,
        };
        for (name, rise) in [("first \"order\"", 0.004), ("second order", 0.003)] {
            for x in [0.0, 25.0, 50.0, 75.0, 100.0] {
                let y = 0.35 + rise * x;
                plot.add(name, Some(x), Some(y), [Some(y - 0.05), Some(y + 0.04)]);
            }
        }
        plot
    }

    #[test]
    fn a_picture_is_what_it_was() {
        insta::assert_snapshot!(draw(&plot(), Some("Learning\u{1b} curve")));
    }

    #[test]
    fn nothing_and_long_numbers_can_be_drawn() {
        let empty = Plot { series: Vec::new(), left_out: 2, ..plot() };
        let svg = draw(&empty, None);
        assert!(svg.contains("no points") && svg.contains("2 points left out"), "{svg}");
        let mut long = Plot { series: Vec::new(), ..plot() };
        long.add("", Some(123_456.01), Some(1.0), [None, None]);
        long.add("", Some(123_456.02), Some(1.0), [None, None]);
        assert!(draw(&long, None).contains("123456.01"));
    }
}
