//! A tree as indented text.

use textwrap::{Options, wrap};

use proofmill_base::styled::Styled;

/// Narrowest text of a node, however deep it stands.
const NARROWEST: usize = 24;

/// A node: what is written there, and what hangs below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub text: Styled,
    /// From top to bottom.
    pub children: Vec<Tree>,
}

impl Tree {
    /// A node with children.
    pub fn new(text: impl Into<Styled>, children: Vec<Tree>) -> Self {
        Self { text: text.into(), children }
    }

    /// A node without.
    pub fn leaf(text: impl Into<Styled>) -> Self {
        Self::new(text, Vec::new())
    }

    /// As text of at most `width` columns, each line ended.
    pub fn draw(&self, width: usize) -> Styled {
        let mut drawn = String::new();
        self.draw_into(&mut drawn, "", "", width);
        Styled::drawn(drawn)
    }

    /// `first` stands before the node's first line, `rest` before all that follow.
    fn draw_into(&self, drawn: &mut String, first: &str, rest: &str, width: usize) {
        let below = if self.children.is_empty() { "" } else { "│ " };
        let room =
            width.saturating_sub(rest.chars().count() + below.chars().count()).max(NARROWEST);
        let lines = self.text.as_str().lines().flat_map(|line| wrap(line, Options::new(room)));
        for (i, line) in lines.enumerate() {
            let before = if i == 0 { first.to_owned() } else { format!("{rest}{below}") };
            drawn.push_str(format!("{before}{line}").trim_end());
            drawn.push('\n');
        }
        let last = self.children.len().saturating_sub(1);
        for (i, child) in self.children.iter().enumerate() {
            let (branch, stem) = if i == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            child.draw_into(drawn, &format!("{rest}{branch}"), &format!("{rest}{stem}"), width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_hang_below_and_long_texts_are_wrapped() {
        let proof = Tree::new(
            "a penny sticks to a magnet",
            vec![
                Tree::new("premise\nwith two lines", vec![Tree::leaf("from memory")]),
                Tree::leaf("a sentence that is much too long for one line of this tree"),
            ],
        );
        insta::assert_snapshot!(proof.draw(40).as_str(), @r"
        a penny sticks to a magnet
        ├─ premise
        │  │ with two lines
        │  └─ from memory
        └─ a sentence that is much too long for
           one line of this tree
        ");
    }
}
