//! The folder of a page: `report.md` and a picture for each plot, each file replaced as a whole.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;

use crate::stages::error::StageError;
use crate::stages::tables::outside::{self, Replacement};

/// The page itself.
const PAGE: &str = "report.md";

/// Files by name, the page last: where it exists, so do its pictures.
pub type Files = Vec<(String, String)>;

/// The files that a page stands for; `picture` names the picture of a block.
pub fn of_page<'p>(
    page: &RecordBatch,
    picture: impl Fn(usize) -> Option<&'p str>,
) -> Result<Files, ArrowError> {
    let text = |name: &str| {
        let column = page.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        column.ok_or_else(|| ArrowError::SchemaError(format!("a report without `{name}`")))
    };
    let (markdown, svg) = (text("markdown")?, text("svg")?);
    let places = page.column_by_name("place").and_then(|c| c.as_primitive_opt::<Int64Type>());
    let mut files = Files::new();
    for row in (0..page.num_rows()).filter(|row| svg.is_valid(*row)) {
        // Places of blocks count from 1.
        let at = places.and_then(|places| usize::try_from(places.value(row) - 1).ok());
        if let Some(name) = at.and_then(&picture) {
            files.push((file_name(name), svg.value(row).to_owned()));
        }
    }
    let blocks: Vec<&str> = markdown.iter().flatten().collect();
    files.push((PAGE.to_owned(), blocks.join("\n")));
    Ok(files)
}

pub fn file_name(picture: &str) -> String {
    format!("{picture}.svg")
}

/// True if the folder holds these files, byte by byte.
pub fn are_there(folder: &Path, files: &Files) -> bool {
    files.iter().all(|(name, content)| {
        let mut found = Vec::new();
        let read = |mut file: io::Take<File>| file.read_to_end(&mut found);
        // One byte more tells a longer file apart.
        let file = outside::open(&folder.join(name)).map(|it| it.take(content.len() as u64 + 1));
        file.and_then(read).is_ok() && found == content.as_bytes()
    })
}

/// Writes the files. Blocking.
pub fn write(folder: &Path, files: &Files) -> Result<(), StageError> {
    for (name, content) in files {
        let path = folder.join(name);
        let mut replacement = Replacement::of(&path)?;
        let written = replacement.file().write_all(content.as_bytes());
        let failed = |source| StageError::Write { path: path.display().to_string(), source };
        written.map_err(failed)?;
        replacement.commit()?;
    }
    Ok(())
}
