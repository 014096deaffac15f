//! A plot as SVG: the same bytes for the same plot, on white, readable without colours.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::draw::plot::scale::Scale;
use crate::draw::plot::series::{Plot, Point};
use proofmill_base::styled::printable;

/// The picture's width, and the height of the area inside the axes.
const WIDTH: i32 = 720;
const HEIGHT: i32 = 320;
/// Between the picture's border and what is drawn.
const MARGIN: i32 = 20;
/// Between the y axis and the first tick of the x axis, and behind the last.
const INSET: i32 = 12;
/// Sizes of texts; plotters divides them by 1.24.
const TEXT: f64 = 14.0 * 1.24;
const TITLE: f64 = 16.0 * 1.24;
/// Height of a line of text.
const LINE: i32 = 20;
/// About the width of a character; nobody measures fonts here.
const CHARACTER: i32 = 8;
/// Ticks at most, x and y.
const TICKS: (usize, usize) = (9, 8);
/// Colours that most people with a weakness for colours can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 120),
];
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(222, 222, 222);

/// Why a plot cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the plot cannot be drawn: {0}")]
pub struct DrawError(String);

type Surface<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawError>;

/// The picture.
pub fn draw(plot: &Plot, title: Option<&str>) -> Result<String, DrawError> {
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
    let mut svg = String::new();
    {
        let backend = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32));
        let surface = backend.into_drawing_area();
        surface.fill(&WHITE).map_err(failed)?;
        if let Some(title) = title {
            text(&surface, title, (MARGIN, MARGIN + LINE / 2), TITLE, HPos::Left)?;
        }
        axes(&surface, plot, &frame)?;
        for (number, series) in plot.series.iter().enumerate() {
            points(&surface, &series.points, plot.lines, look(number), &frame)?;
        }
        if plot.is_empty() {
            let middle = ((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2);
            text(&surface, "no points", middle, TEXT, HPos::Center)?;
        }
        let mut line = frame.bottom + 2 * LINE + 8 + LINE / 2;
        for entry in &legend {
            let place = (frame.left + entry.column, line + entry.line * LINE);
            let (colour, shape) = look(entry.series);
            marker(&surface, (place.0 + 6, place.1), colour, shape)?;
            text(&surface, &entry.name, (place.0 + 18, place.1), TEXT, HPos::Left)?;
        }
        line += legend.last().map_or(0, |entry| entry.line + 1) * LINE;
        for remark in &remarks {
            text(&surface, remark, (frame.left, line), TEXT, HPos::Left)?;
            line += LINE;
        }
        surface.present().map_err(failed)?;
    }
    Ok(svg)
}

fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> DrawError {
    DrawError(error.to_string())
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
fn look(series: usize) -> (RGBColor, Shape) {
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

fn text(surface: &Surface<'_>, text: &str, at: (i32, i32), size: f64, side: HPos) -> Drawn {
    let style = TextStyle::from(("sans-serif", size).into_font())
        .color(&INK)
        .pos(Pos::new(side, VPos::Center));
    surface.draw(&Text::new(printable(text, true), at, style)).map_err(failed)
}

fn path(surface: &Surface<'_>, places: Vec<(i32, i32)>, colour: RGBColor, width: u32) -> Drawn {
    surface.draw(&PathElement::new(places, colour.stroke_width(width))).map_err(failed)
}

fn axes(surface: &Surface<'_>, plot: &Plot, frame: &Frame) -> Drawn {
    let Frame { left, right, top, bottom, .. } = *frame;
    text(surface, &plot.y, (MARGIN, top - LINE / 2 - 4), TEXT, HPos::Left)?;
    let middle = (left + right) / 2;
    text(surface, &plot.x, (middle, bottom + LINE + LINE / 2 + 6), TEXT, HPos::Center)?;
    for tick in &frame.y.ticks {
        let down = frame.down(*tick);
        path(surface, vec![(left, down), (right, down)], GRID, 1)?;
        text(surface, &frame.y.label(*tick), (left - 8, down), TEXT, HPos::Right)?;
    }
    let widest = frame.x.ticks.iter().map(|tick| frame.x.label(*tick).len()).max().unwrap_or(0);
    let room = (right - left) / frame.x.ticks.len().max(1) as i32;
    // Long labels stand at every second tick.
    let every = if widest as i32 * CHARACTER > room { 2 } else { 1 };
    for (i, tick) in frame.x.ticks.iter().enumerate() {
        let across = frame.across(*tick);
        path(surface, vec![(across, bottom), (across, bottom + 5)], INK, 1)?;
        if i % every == 0 {
            text(surface, &frame.x.label(*tick), (across, bottom + 15), TEXT, HPos::Center)?;
        }
    }
    path(surface, vec![(left, top), (left, bottom), (right, bottom)], INK, 1)
}

fn points(
    surface: &Surface<'_>,
    points: &[Point],
    lines: bool,
    (colour, shape): (RGBColor, Shape),
    frame: &Frame,
) -> Drawn {
    let at = |point: &Point| (frame.across(point.x), frame.down(point.y));
    for point in points {
        if let Some((low, high)) = point.range {
            let (across, low, high) = (frame.across(point.x), frame.down(low), frame.down(high));
            path(surface, vec![(across, low), (across, high)], colour, 1)?;
            for end in [low, high] {
                path(surface, vec![(across - 4, end), (across + 4, end)], colour, 1)?;
            }
        }
    }
    if lines && points.len() > 1 {
        path(surface, points.iter().map(at).collect(), colour, 2)?;
    }
    points.iter().try_for_each(|point| marker(surface, at(point), colour, shape))
}

fn marker(surface: &Surface<'_>, (x, y): (i32, i32), colour: RGBColor, shape: Shape) -> Drawn {
    let polygon = |corners: &[(i32, i32)]| {
        let corners: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        surface.draw(&Polygon::new(corners, colour.filled())).map_err(failed)
    };
    match shape {
        Shape::Circle => surface.draw(&Circle::new((x, y), 5, colour.filled())).map_err(failed),
        Shape::Square => polygon(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        Shape::Triangle => polygon(&[(0, -6), (5, 4), (-5, 4)]),
        Shape::Diamond => polygon(&[(0, -6), (6, 0), (0, 6), (-6, 0)]),
    }
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
        insta::assert_snapshot!(draw(&plot(), Some("Learning\u{1b} curve")).unwrap());
    }

    #[test]
    fn nothing_and_long_numbers_can_be_drawn() {
        let empty = Plot { series: Vec::new(), left_out: 2, ..plot() };
        let svg = draw(&empty, None).unwrap();
        assert!(svg.contains("no points") && svg.contains("2 points left out"), "{svg}");
        let mut long = Plot { series: Vec::new(), ..plot() };
        long.add("", Some(123_456.01), Some(1.0), [None, None]);
        long.add("", Some(123_456.02), Some(1.0), [None, None]);
        assert!(draw(&long, None).unwrap().contains("123456.01"));
    }
}
