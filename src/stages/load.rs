//! A pipeline file, all the way to stages that can run, with every diagnostic on the way.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use crate::graph;
use crate::session::Engine;
use crate::stages::plan::Prepared;
use crate::stages::prepare::prepare;
use crate::stages::stored_tables::{FromStore, KeptTexts, StoredTableName};
use crate::stages::tests_check;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{MemoryName, StageName};
use proofmill_files::dangling;
use proofmill_pipeline::diagnostic::{self, Diagnostic};
use proofmill_pipeline::expand::{self, Loader, Parameters};
use proofmill_pipeline::kinds::StageKind;
use proofmill_pipeline::role::KindRole;
use proofmill_pipeline::source::Sources;
use proofmill_pipeline::text::FILE_BYTES_MAX;

/// The option that limits every `read`, as runs list it beside their parameters: a comparison of
/// two runs shows it.
pub const LIMIT: &str = "--limit";

/// The option that asks endpoints anew, listed likewise, with the generation of their answers.
pub const ASK: &str = "--ask";

/// A loaded pipeline.
#[derive(Debug)]
pub struct Loaded {
    /// Its stages; `None` if the file is not even a mapping.
    pub prepared: Option<Prepared>,
    /// The texts it was read from.
    pub sources: Arc<Sources>,
    pub diagnostics: Vec<Diagnostic>,
    /// Digest of the bytes of its file.
    pub yaml_sha256: Digest,
    /// The engine with its models.
    pub engine: Arc<Engine>,
}

/// The bytes of a file that somebody wrote by hand: a regular file, and no more of it than tells that it is
/// too long. A device may have no end, and a pipe may never begin.
pub fn bytes_of(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let shown = path.display();
    let why = |error: io::Error| match dangling(path) {
        Some((link, target)) => format!(
            "`{shown}` cannot be read: `{}` is a link to `{}`, which does not exist",
            link.display(),
            target.display()
        ),
        None => format!("`{shown}` cannot be read: {error}"),
    };
    let kind = std::fs::metadata(path).map_err(why)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "a folder" } else { "not a regular file" };
        return Err(format!("`{shown}` cannot be read: it is {what}"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(why)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(why)?;
    Ok(bytes)
}

/// Reads templates from the folder of the file that uses them.
struct Folder;

impl Loader for Folder {
    fn load(&self, from: &str, path: &str) -> std::result::Result<(String, Vec<u8>), String> {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        let path = folder.join(path);
        let bytes = bytes_of(&path).map_err(|why| format!("the template {why}"))?;
        Ok((path.display().to_string(), bytes))
    }
}

/// A pipeline file as it was read: its stages are not prepared, and no table is looked at.
pub struct Draft {
    parsed: expand::Parsed,
    yaml_sha256: Digest,
}

/// Reads the pipeline file at `path`, with parameters as [`expand::parse`] takes them.
pub fn read(path: &Path, params: Parameters<'_>, profile: Parameters<'_>) -> Result<Draft> {
    let bytes = bytes_of(path).map_err(|why| {
        Error::new(ErrorKind::Usage, why)
            .with_hint("name a pipeline file, such as one of `pipelines/`")
    })?;
    let parsed = expand::parse(&path.display().to_string(), &bytes, params, profile, &Folder);
    Ok(Draft { parsed, yaml_sha256: Digest::of(&bytes) })
}

/// Finds templates among kept texts.
struct Kept<'a>(&'a KeptTexts);

impl Loader for Kept<'_> {
    fn load(&self, from: &str, path: &str) -> std::result::Result<(String, Vec<u8>), String> {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        let path = folder.join(path).display().to_string();
        match self.0.get(&path) {
            Some(bytes) => Ok((path, bytes.clone())),
            None => Err(format!("the run kept no template `{path}`")),
        }
    }
}

/// Reads the pipeline file at `path` among the texts of a past run.
///
/// # Errors
///
/// If there is no such text.
pub fn read_kept(path: &str, texts: &KeptTexts, params: Parameters<'_>) -> Result<Draft> {
    let bytes = texts.get(path).ok_or_else(|| {
        Error::new(ErrorKind::Usage, format!("the run kept no pipeline file `{path}`"))
    })?;
    let parsed = expand::parse(path, bytes, params, &[], &Kept(texts));
    Ok(Draft { parsed, yaml_sha256: Digest::of(bytes) })
}

impl Draft {
    /// The name of the pipeline, as far as it can be read.
    pub fn name(&self) -> Option<&str> {
        self.parsed.pipeline.as_ref().map(|pipeline| pipeline.name.as_str())
    }

    /// The memories that its stages name.
    pub fn memories(&self) -> BTreeSet<MemoryName> {
        let stages = self.parsed.pipeline.iter().flat_map(|pipeline| pipeline.stages.values());
        stages.filter_map(|stage| stage.kind.memory()?.parse().ok()).collect()
    }

    /// The tables of past runs that its stages read.
    pub fn stored_tables(&self) -> BTreeSet<StoredTableName> {
        let stages = self.parsed.pipeline.iter().flat_map(|pipeline| pipeline.stages.values());
        let named = stages.filter_map(|stage| match &stage.kind {
            StageKind::Read(read) => {
                let (run, stage) = read.run.as_ref().zip(read.stage.as_ref())?;
                Some((run.0.clone(), stage.0.clone()))
            }
            _ => None,
        });
        named.collect()
    }

    /// Has every `read` give at most so many rows, and says so among the parameters of the run.
    pub fn limit(&mut self, rows: u64) {
        let Some(pipeline) = &mut self.parsed.pipeline else { return };
        for stage in pipeline.stages.values_mut() {
            if let StageKind::Read(read) = &mut stage.kind {
                read.limit = Some(read.limit.map_or(rows, |own| own.min(rows)));
            }
        }
        pipeline.params.insert(LIMIT.to_owned(), rows.into());
    }

    /// Has every endpoint answer anew, as another generation of itself, and says so among the parameters of the run. Models in
    /// folders answer the same again, and are not.
    pub fn ask_anew(&mut self, generation: &str) {
        let Some(pipeline) = &mut self.parsed.pipeline else { return };
        for (model, _) in pipeline.models.values_mut().filter(|(model, _)| model.url.is_some()) {
            let own = model.generation.take().map(|own| own + " ").unwrap_or_default();
            model.generation = Some(own + generation);
        }
        pipeline.params.insert(ASK.to_owned(), generation.into());
    }

    /// Whether its file declares a parameter.
    pub fn declares(&self, param: &str) -> bool {
        self.parsed.pipeline.as_ref().is_some_and(|pipeline| pipeline.params.contains_key(param))
    }

    /// Its models as another draft has them, by their names; those that this one lacks stay.
    pub fn take_models(&mut self, other: &Self) {
        let (Some(own), Some(other)) = (&mut self.parsed.pipeline, &other.parsed.pipeline) else {
            return;
        };
        for (name, (model, _)) in &mut own.models {
            if let Some((other, _)) = other.models.get(name) {
                *model = other.clone();
            }
        }
    }

    /// Its stages whose rows come from outside: from sources, or from memories.
    pub fn outside(&self) -> impl Iterator<Item = (&StageName, KindRole)> {
        let stages = self.parsed.pipeline.iter().flat_map(|pipeline| &pipeline.stages);
        let roles = stages.map(|(name, stage)| (name, stage.kind.role()));
        roles.filter(|(_, role)| matches!(role, KindRole::Source | KindRole::Memory))
    }

    /// Prepares its stages; `from_store` has what it names, as it is now.
    pub fn prepare(self, engine: &Arc<Engine>, from_store: &FromStore) -> Loaded {
        let Self { parsed, yaml_sha256 } = self;
        let mut diagnostics = parsed.diagnostics;
        let models = parsed.pipeline.iter().flat_map(|pipeline| &pipeline.models);
        let models: Vec<_> =
            models.map(|(name, (model, _))| (name.clone(), model.clone())).collect();
        let engine = match models.is_empty() {
            true => Arc::clone(engine),
            false => Arc::new(engine.with_models(models)),
        };
        let prepared = parsed.pipeline.map(|pipeline| {
            let graph = graph::build(pipeline, &mut diagnostics);
            let prepared = prepare(graph, &engine, from_store, &mut diagnostics);
            tests_check::check(&prepared, &mut diagnostics);
            prepared
        });
        diagnostic::tidy(&mut diagnostics);
        Loaded { prepared, sources: parsed.sources, diagnostics, yaml_sha256, engine }
    }
}
