//! The sections of a view: texts, tables and plots, from top to bottom. Where they are drawn, and how wide, is left to the sink.

use serde::Serialize;

use crate::draw::plot::series::Plot;

/// What a command shows. Its serialised form is for programs, its sections are for people.
pub trait View: Serialize {
    /// From top to bottom.
    fn sections(&self) -> Vec<Section>;
}

/// A part of a view, which an empty line parts from the next.
#[derive(Clone, Debug)]
pub enum Section {
    /// Above a part of a page.
    Heading(&'static str),
    /// Lines, the last of which ends too.
    Text(String),
    /// The same, in columns: a tree, say.
    Drawn(String),
    Table(Grid),
    Plot(Plot),
    /// A picture that was drawn before, what it is called, and the text that stands for it.
    Picture {
        title: String,
        text: String,
        svg: String,
    },
    /// What readers of a page unfold.
    Fold {
        title: String,
        sections: Vec<Section>,
    },
}

/// Rows under headings.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// A line above it.
    pub title: Option<String>,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Which columns hold numbers, which end at the right; those that it does not reach are texts.
    pub right: Vec<bool>,
    /// A line below it.
    pub note: Option<String>,
}

impl Grid {
    /// A table of such columns: those of `numbers` end at the right.
    pub fn new(header: &[&str], numbers: &[&str], rows: Vec<Vec<String>>) -> Self {
        let right = header.iter().map(|name| numbers.contains(name)).collect();
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Self { title: None, header, rows, right, note: None }
    }

    /// The same, with a line above it.
    pub fn titled(self, title: &str) -> Self {
        Self { title: Some(title.to_owned()), ..self }
    }

    /// The same, with a line below it.
    pub fn noted(self, note: String) -> Self {
        Self { note: Some(note), ..self }
    }
}
