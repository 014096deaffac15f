//! Settings of `report`: tables, plots and proofs on one page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::StageRef;

/// A page that a run prints at its end. As a table it has a row for each block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Heading of the page.
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// What it shows, from top to bottom.
    #[schemars(length(min = 1))]
    pub blocks: Vec<Block>,
    /// Folder to write the page to as well, relative to the working directory: `report.md`, and a
    /// picture for each plot.
    #[schemars(length(min = 1))]
    pub path: Option<String>,
}

/// From the list of blocks: what a block is in a file, and which it is. A line is `key: Block(Settings)`; all but words show
/// a table `from`, under a `title`.
macro_rules! blocks {
    ($($(#[$doc:meta])* $key:ident: $Block:ident($Settings:ident),)*) => {
        /// A block of the page: exactly one of the keys.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(extend("oneOf" = [
            {"required": ["text"]}, $({"required": [stringify!($key)]}),*
        ]))]
        pub struct Block {
            /// Text.
            #[schemars(length(min = 1))]
            pub text: Option<String>,
            $($(#[$doc])* pub $key: Option<$Settings>,)*
        }

        /// The closed set of blocks.
        #[derive(Clone, Debug, PartialEq)]
        pub enum BlockKind<'a> {
            /// Text.
            Text(&'a str),
            $($(#[$doc])* $Block(&'a $Settings),)*
        }

        impl Block {
            /// Which block it is; `None` if not exactly one key is there.
            pub fn kind(&self) -> Option<BlockKind<'_>> {
                let kinds = [
                    self.text.as_deref().map(BlockKind::Text),
                    $(self.$key.as_ref().map(BlockKind::$Block),)*
                ];
                let mut kinds = kinds.into_iter().flatten();
                kinds.next().filter(|_| kinds.next().is_none())
            }

            /// The table that it shows; `None` for words.
            pub fn from_mut(&mut self) -> Option<&mut StageRef> {
                let of_blocks = [$(self.$key.as_mut().map(|block| &mut block.from),)*];
                of_blocks.into_iter().flatten().next()
            }
        }

        impl BlockKind<'_> {
            /// The block's key in the file.
            pub fn name(&self) -> &'static str {
                match self {
                    Self::Text(_) => "text",
                    $(Self::$Block(_) => stringify!($key),)*
                }
            }

            /// The table that it shows; `None` for words.
            pub fn from(&self) -> Option<&str> {
                match self {
                    Self::Text(_) => None,
                    $(Self::$Block(block) => Some(&block.from),)*
                }
            }

            /// Its heading.
            pub fn title(&self) -> Option<&str> {
                match self {
                    Self::Text(_) => None,
                    $(Self::$Block(block) => block.title.as_deref(),)*
                }
            }
        }
    };
}

blocks! {
    /// Rows of a table.
    table: Table(TableBlock),
    /// Points of two columns of numbers.
    plot: Plot(PlotBlock),
    /// A number for each name.
    bars: Bars(BarsBlock),
    /// Distribution of numbers.
    histogram: Histogram(HistogramBlock),
    /// Rows of a table, as a tree.
    tree: Tree(TreeBlock),
    /// Proofs, drawn as trees.
    proofs: Proofs(ProofsBlock),
}

/// Rows of a table, in the order in which they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableBlock {
    /// The table.
    pub from: StageRef,
    /// Heading of the block.
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// Columns that are shown; all when absent.
    #[schemars(length(min = 1))]
    pub columns: Option<Vec<String>>,
    /// Maximum number of rows; with 0 the page shows only how many there are, and where.
    #[serde(default = "rows")]
    #[schemars(range(min = 0, max = 1000))]
    pub limit: u32,
}

fn rows() -> u32 {
    20
}

/// A point for each row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlotBlock {
    /// The table.
    pub from: StageRef,
    /// Heading of the block.
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// Name of the picture's file, without its ending; when absent, that of the table without its
    /// group.
    #[schemars(extend("x-name" = true))]
    pub name: Option<String>,
    /// Column of numbers: from left to right.
    pub x: String,
    /// Column of numbers: from bottom to top.
    pub y: String,
    /// Column of numbers: where the range around `y` begins.
    pub low: Option<String>,
    /// Column of numbers: where that range ends.
    pub high: Option<String>,
    /// Column whose values separate series.
    pub by: Option<String>,
    /// Label of the x axis; the column's name when absent.
    #[schemars(length(min = 1))]
    pub x_label: Option<String>,
    /// Label of the y axis; the column's name when absent.
    #[schemars(length(min = 1))]
    pub y_label: Option<String>,
    /// Whether the points of a series are joined.
    #[serde(default = "lines")]
    pub lines: bool,
}

fn lines() -> bool {
    true
}

/// A bar for each row of a table, in the order in which they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BarsBlock {
    /// The table.
    pub from: StageRef,
    /// Heading of the block.
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// Name of the picture's file, without its ending; when absent, that of the table without its
    /// group.
    #[schemars(extend("x-name" = true))]
    pub name: Option<String>,
    /// Column of the names.
    pub label: String,
    /// Column of numbers: how long the bars are.
    pub value: String,
    /// Column of numbers: where the range around `value` begins.
    pub low: Option<String>,
    /// Column of numbers: where that range ends.
    pub high: Option<String>,
    /// Label of the axis; the name of `value` when absent.
    #[schemars(length(min = 1))]
    pub x_label: Option<String>,
}

/// Distribution of the numbers of a column: the share of each series in bins of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistogramBlock {
    /// The table.
    pub from: StageRef,
    /// Heading of the block.
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// Name of the picture's file, without its ending; when absent, that of the table without its
    /// group.
    #[schemars(extend("x-name" = true))]
    pub name: Option<String>,
    /// Column of numbers.
    pub x: String,
    /// Column whose values separate series.
    pub by: Option<String>,
    /// Bins from one end of the axis to the other.
    #[serde(default = "bins")]
    #[schemars(range(min = 1, max = 40))]
    pub bins: u32,
    /// Label of the axis; the name of `x` when absent.
    #[schemars(length(min = 1))]
    pub x_label: Option<String>,
}

fn bins() -> u32 {
    20
}

/// Rows of a table as a tree, in the order in which they are stored: rows that follow each other and agree
/// in the first levels hang below the same nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeBlock {
    /// The table.
    pub from: StageRef,
    /// Heading of the block.
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// Columns, from the root down. A row ends above its first NULL.
    #[schemars(length(min = 1, max = 16))]
    pub levels: Vec<String>,
    /// Columns that are shown below the last node of a row, where they are not NULL.
    #[serde(default)]
    pub details: Vec<String>,
    /// Maximum number of rows.
    #[serde(default = "tree_rows")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: u32,
}

fn tree_rows() -> u32 {
    50
}

/// Proofs of a `verify` stage, in the order in which they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProofsBlock {
    /// Table with the columns of `verify` over proofs.
    pub from: StageRef,
    /// Heading of the block.
    #[schemars(length(min = 1))]
    pub title: Option<String>,
    /// Maximum number of proofs.
    #[serde(default = "proofs")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: u32,
}

fn proofs() -> u32 {
    1
}
