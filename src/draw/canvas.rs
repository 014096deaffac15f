//! A picture as SVG: lines, shapes and texts on white, the same bytes for the same calls.

use std::fmt::Write as _;

use proofmill_base::styled::printable;

/// Width of a picture, in pixels.
pub const WIDTH: i32 = 720;
/// Between the picture's border and what is drawn.
pub const MARGIN: i32 = 20;
/// Sizes of texts.
pub const TEXT: u32 = 14;
pub const TITLE: u32 = 16;
/// Height of a line of text.
pub const LINE: i32 = 20;
/// About the width of a character; fonts are not measured here.
pub const CHARACTER: i32 = 8;
/// Colours that most people with a weakness for colours can tell apart (Okabe and Ito).
pub const COLOURS: [&str; 8] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#787878"];
pub const INK: &str = "#282828";
pub const GRID: &str = "#DEDEDE";

/// An SVG document under way; places are in pixels from the upper left corner.
pub struct Canvas(String);

/// Which end of a text stands at its place.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// An empty picture of so many pixels.
    pub fn new(width: i32, height: i32) -> Self {
        let size = format!("width=\"{width}\" height=\"{height}\"");
        let view = format!("viewBox=\"0 0 {width} {height}\"");
        let mut canvas =
            Self(format!("<svg {size} {view} xmlns=\"http://www.w3.org/2000/svg\">\n"));
        let white = "opacity=\"1\" fill=\"#FFFFFF\" stroke=\"none\"";
        canvas.element(&format!("rect x=\"0\" y=\"0\" {size} {white}"));
        canvas
    }

    fn element(&mut self, element: &str) {
        let _ = writeln!(self.0, "<{element}/>");
    }

    /// The text as it may stand in a terminal, its middle at the height of the place.
    pub fn text(&mut self, text: &str, (x, y): (i32, i32), size: u32, anchor: Anchor) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let font = format!("font-family=\"sans-serif\" font-size=\"{size}\"");
        let place = format!("x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\"");
        let text = without_markup(&printable(text, true));
        let _ =
            writeln!(self.0, "<text {place} {font} opacity=\"1\" fill=\"{INK}\">\n{text}\n</text>");
    }

    /// A line through places.
    pub fn path(&mut self, places: &[(i32, i32)], colour: &str, width: u32) {
        let points = coordinates(places);
        self.element(&format!(
            "polyline fill=\"none\" opacity=\"1\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             points=\"{points}\""
        ));
    }

    /// A filled shape.
    pub fn polygon(&mut self, corners: &[(i32, i32)], colour: &str) {
        let points = coordinates(corners);
        self.element(&format!("polygon opacity=\"1\" fill=\"{colour}\" points=\"{points}\""));
    }

    /// A filled circle.
    pub fn circle(&mut self, (x, y): (i32, i32), radius: u32, colour: &str) {
        self.element(&format!(
            "circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" opacity=\"1\" fill=\"{colour}\" \
             stroke=\"none\" stroke-width=\"1\""
        ));
    }

    /// The document.
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn coordinates(places: &[(i32, i32)]) -> String {
    places.iter().map(|(x, y)| format!("{x},{y} ")).collect()
}

/// A text without markup, for XML and HTML.
pub fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
    out
}
