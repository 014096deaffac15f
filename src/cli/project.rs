//! The project file of the working directory: which profile counts.

use std::path::Path;

use crate::cli::output::Output;
use crate::stages::load::bytes_of;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_pipeline::project::{PROJECT_FILE, Profile, Project, parse};

/// The profile `wanted`, else the one that the project file names, else one that says nothing.
///
/// # Errors
///
/// If the file cannot be read, or has no such profile.
pub fn profile(wanted: Option<&str>, output: &Output) -> Result<Profile> {
    let path = Path::new(PROJECT_FILE);
    let project = match path.symlink_metadata() {
        Ok(_) => read(path, output)?,
        Err(_) if wanted.is_none() => Project::default(),
        Err(_) => {
            let message =
                format!("there is no project file `{PROJECT_FILE}` here, and so no profiles");
            let help = "change to its folder, or start a project with `proofmill init`";
            return Err(Error::new(ErrorKind::Usage, message).with_hint(help));
        }
    };
    let Some(name) = wanted.or(project.profile.as_deref()) else { return Ok(Profile::default()) };
    project.profiles.get(name).cloned().ok_or_else(|| {
        let message = format!("`{PROJECT_FILE}` has no profile `{name}`");
        let names = project.profiles.keys().map(String::as_str);
        let error = Error::new(ErrorKind::Usage, message);
        suggest::help(name, names).into_iter().fold(error, Error::with_hint)
    })
}

fn read(path: &Path, output: &Output) -> Result<Project> {
    let bytes = bytes_of(path).map_err(|why| Error::new(ErrorKind::Usage, why))?;
    match parse(&bytes) {
        Ok(project) => Ok(project),
        Err((diagnostic, sources)) => {
            output.warnings(&[*diagnostic], &sources);
            Err(Error::new(ErrorKind::Usage, format!("`{PROJECT_FILE}` cannot be used")))
        }
    }
}
