//! Folders that stages write and others read: what would be read is not what is there when the pipeline
//! is checked.

use std::path::{Component, Path, PathBuf};

use crate::graph::Graph;
use crate::stages::diagnostics::Diagnostics;
use proofmill_base::ids::StageName;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::Diagnostic;
use proofmill_pipeline::kinds::StageKind;
use proofmill_pipeline::kinds::fit::Fit;

/// What reads a folder.
struct Reader<'a> {
    what: String,
    folder: PathBuf,
    /// The stage, if it is one.
    stage: Option<&'a StageName>,
}

/// A diagnostic for each `fit` whose folder a model or another stage of the pipeline uses. Who a model is
/// goes into fingerprints before anything runs, so a folder that the run itself writes has no identity
/// yet.
pub fn check(graph: &Graph, diagnostics: &mut Vec<Diagnostic>) {
    let fits: Vec<(&StageName, &Fit)> = graph
        .stages
        .iter()
        .filter_map(|(name, stage)| match &stage.spec.kind {
            StageKind::Fit(fit) => Some((name, fit.as_ref())),
            _ => None,
        })
        .collect();
    if fits.is_empty() {
        return;
    }
    let models = graph.pipeline.models.iter().filter_map(|(name, (model, _))| {
        let folder = real(model.path.as_deref()?);
        Some(Reader { what: format!("the model `{name}` lies in"), folder, stage: None })
    });
    let starts = fits.iter().filter_map(|(name, fit)| {
        let folder = real(fit.checkpoint.as_deref()?);
        Some(Reader { what: format!("`{name}` starts from"), folder, stage: None })
    });
    let targets = fits.iter().map(|(name, fit)| {
        let what = format!("`{name}` writes");
        Reader { what, folder: real(&fit.path), stage: Some(name) }
    });
    let readers: Vec<Reader<'_>> = models.chain(starts).chain(targets).collect();
    for (name, fit) in &fits {
        let folder = real(&fit.path);
        let same = |reader: &&Reader<'_>| reader.folder == folder && reader.stage != Some(*name);
        let Some(reader) = readers.iter().find(same) else { continue };
        let Some(stage) = graph.stages.get(*name) else { continue };
        let (sources, models) = (&graph.pipeline.sources, &graph.pipeline.models);
        let mut stage_diagnostics = Diagnostics::new(stage, sources, models, diagnostics);
        let message = format!("{} the folder that this stage writes", reader.what);
        let help = match reader.stage {
            Some(_) => "give each its own folder",
            None => {
                "model identities must be known before anything runs: give another folder, or use the \
                 written model in a separate pipeline that runs after this one"
            }
        };
        stage_diagnostics.error(&["fit", "path"], Code::WrongValue, message, Some(help.to_owned()));
    }
}

/// The folder that a path leads to, whether it is there yet or not: links are followed as far as there
/// is anything.
fn real(path: &str) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let mut real = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                real.push(Path::new(&component));
            }
        }
        if let Ok(there) = real.canonicalize() {
            real = there;
        }
    }
    real
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_folder_are_one() {
        let made = tempfile::tempdir().unwrap();
        let root = made.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
        let of = |path: &str| real(root.join(path).to_str().unwrap());
        let new = of("a/b/new/model");
        for spelling in ["link/new/model", "a/./b/new/x/../model/", "link/../b//new/model"] {
            assert_eq!(of(spelling), new, "{spelling}");
        }
        assert_ne!(of("a/new/model"), new);
    }
}
