//! The folder of a page: `report.md` and a picture for each plot, each file replaced as a whole.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;

use crate::stages::error::StageError;
use crate::stages::report::ReportPlan;

/// The page itself.
const PAGE: &str = "report.md";

/// Files by name, the page last: whoever finds it finds its pictures.
pub type Files = Vec<(String, String)>;

/// The files that a page stands for.
pub fn of_page(plan: &ReportPlan, page: &RecordBatch) -> Result<Files, ArrowError> {
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
        let block = at.and_then(|at| plan.blocks.get(at));
        if let Some(name) = block.and_then(|block| block.picture()) {
            files.push((file_name(name), svg.value(row).to_owned()));
        }
    }
    let blocks: Vec<&str> = markdown.iter().flatten().collect();
    files.push((PAGE.to_owned(), blocks.join("\n")));
    Ok(files)
}

/// The file of a picture.
pub fn file_name(picture: &str) -> String {
    format!("{picture}.svg")
}

/// True if the folder holds these files, byte by byte.
pub fn are_there(folder: &Path, files: &Files) -> bool {
    files.iter().all(|(name, content)| {
        fs::read(folder.join(name)).is_ok_and(|found| found == content.as_bytes())
    })
}

/// Writes the files. Blocking.
pub fn write(folder: &Path, files: &Files) -> Result<(), StageError> {
    let failed = |name: &str| {
        let path = folder.join(name).display().to_string();
        move |source| StageError::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(""))?;
    for (name, content) in files {
        // As readable for others as any new file.
        let partial = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(failed(name))?;
        let written = partial.as_file().write_all(content.as_bytes());
        written.and_then(|()| partial.as_file().sync_all()).map_err(failed(name))?;
        let path = folder.join(name);
        partial.persist(path).map_err(|error| error.error).map_err(failed(name))?;
    }
    Ok(())
}
