//! One run of a program: its inputs fed, its output read, its words logged, its end awaited, all at once, so that
//! none of them can block another.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use proofmill_files::declared_schema;
use proofmill_pipeline::kinds::command::Exchange;
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::stages::error::StageError;
use crate::stages::fingerprint::Components;
use crate::stages::gate::Gate;
use crate::stages::kind::Preparation;
use crate::stages::plan::{Execution, StagePlan, spawn};
use crate::stages::programs::failure::{LINE_BYTES_MAX, Said};
use crate::stages::programs::output::{ProgramEnd, ProgramOutput, Read, read};
use crate::stages::programs::process::{Process, Start};
use crate::stages::programs::program::Program;
use crate::stages::programs::{feed, memory};
use crate::stages::sink::Computed;
use crate::stages::tables::rows;

/// Between two looks at the memory of a program that has a limit.
const MEMORY_EVERY: Duration = Duration::from_millis(100);
/// How long a program whose output cannot be used has to say itself that it failed.
const CONFESSION: Duration = Duration::from_millis(500);
/// The variables that name files.
const INPUT: &str = "PROOFMILL_INPUT";
const OUTPUT: &str = "PROOFMILL_OUTPUT";
/// What programs can hardly do without, and what never decides what they write.
const ALWAYS_PASSED: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

/// A stage that runs a program.
#[derive(Debug)]
pub struct ProgramPlan(pub Program);

#[async_trait]
impl StagePlan for ProgramPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let program = &self.0;
        unchanged(program).await?;
        if program.answers_each_row {
            execution.sink.progress.expect_rows(execution.input_rows());
        }
        let folder = private_folder(program, execution)?;
        let folder = folder.as_ref();
        let Environment { variables, secrets } = environment(program, folder)?;
        write_inputs(program, execution, folder).await?;
        let common = execution.common();
        let gate = Gate::of(common);
        let mut output = ProgramOutput::new(&program.name, &program.columns, gate, execution.sink);
        let said = Mutex::new(Said::new(secrets.into_iter()));
        let status = run(program, execution, variables, &mut output, &said).await?;
        let said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = status.filter(|status| status.code() != Some(program.success)) {
            return Err(StageError::Data {
                message: said.failure(&program.name, status),
                help: "fix the program; `--log info` shows its whole standard error".to_owned(),
            });
        }
        if let (Exchange::Parquet, Some(folder)) = (program.exchange, folder) {
            output.file(&folder.path().join("output")).await?;
        }
        // What was declared is what ran, or the table would be found under the wrong fingerprint.
        unchanged(program).await?;
        output.finish(|text| said.covered(text)).await
    }
}

/// The stage that runs `program`. `declared` says whether what decides the table counts for its fingerprint; if not, or
/// if `pure` says so, it is computed in every run.
pub fn prepared(
    program: Program,
    pure: Option<bool>,
    declared: bool,
    components: &mut Components,
) -> Preparation {
    components.set_order("columns", program.columns.keys());
    for (path, digest) in program.code.files() {
        components.set(format!("code.{path}"), digest);
    }
    let unrepeatable = match pure {
        Some(true) => None,
        Some(false) => Some("it is declared `pure: false`"),
        None if declared => None,
        None => Some(
            "the files that its output depends on are not declared: name them in `code`, or set `pure: true`",
        ),
    };
    let schema = declared_schema(&program.columns);
    Preparation { unrepeatable, ..Preparation::new(schema, ProgramPlan(program)) }
}

/// An error if a declared file is not what it was when the pipeline was read.
async fn unchanged(program: &Program) -> Result<(), StageError> {
    let code = program.code.clone();
    let changed = tokio::task::spawn_blocking(move || code.changed());
    match changed.await.map_err(|error| StageError::Task(error.to_string()))? {
        None => Ok(()),
        Some(path) => Err(StageError::Data {
            message: format!("`{path}` has changed since the pipeline was read"),
            help: "run again; nothing was published".to_owned(),
        }),
    }
}

/// A folder for the files of one run, if it needs any; it goes with what is returned.
fn private_folder(
    program: &Program,
    execution: &Execution<'_>,
) -> Result<Option<TempDir>, StageError> {
    if program.exchange != Exchange::Parquet && program.inputs.is_empty() {
        return Ok(None);
    }
    let parent = execution.engine.scratch().map_or_else(std::env::temp_dir, ToOwned::to_owned);
    let folder = tempfile::Builder::new().prefix("program-").tempdir_in(&parent);
    let failed = |source| StageError::Write { path: parent.display().to_string(), source };
    folder.map(Some).map_err(failed)
}

/// The environment of a program.
struct Environment {
    variables: Vec<(OsString, OsString)>,
    /// Values in it that must not be shown.
    secrets: Vec<String>,
}

/// The environment that the program is started in.
fn environment(program: &Program, folder: Option<&TempDir>) -> Result<Environment, StageError> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &str, value: OsString| variables.push((name.into(), value));
    for name in ALWAYS_PASSED {
        if let Some(value) = std::env::var_os(name) {
            set(name, value);
        }
    }
    let mut secrets = Vec::new();
    for name in &program.env {
        let Some(value) = std::env::var_os(name) else {
            return Err(StageError::Data {
                message: format!("the environment variable `{name}` is not set"),
                help: "set it, or remove it from `env`".to_owned(),
            });
        };
        if !ALWAYS_PASSED.contains(&name.as_str()) {
            secrets.extend(value.to_str().map(str::to_owned));
        }
        set(name, value);
    }
    program.vars.iter().for_each(|(name, value)| set(name, value.into()));
    if let Some(folder) = folder {
        for (name, _) in &program.inputs {
            let variable = format!("{INPUT}_{}", name.to_uppercase());
            set(&variable, folder.path().join(file_name(name)).into());
        }
        if program.exchange == Exchange::Parquet {
            set(OUTPUT, folder.path().join("output").into());
            if program.from.is_some() {
                set(INPUT, folder.path().join("input").into());
            }
        }
    }
    Ok(Environment { variables, secrets })
}

/// The file of a further input.
fn file_name(input: &str) -> String {
    format!("input-{input}")
}

/// Writes the inputs that are files.
async fn write_inputs(
    program: &Program,
    execution: &Execution<'_>,
    folder: Option<&TempDir>,
) -> Result<(), StageError> {
    let Some(folder) = folder else { return Ok(()) };
    let from = program.from.iter().filter(|_| program.exchange == Exchange::Parquet);
    let from = from.map(|stage| ("input".to_owned(), stage));
    let further = program.inputs.iter().map(|(name, stage)| (file_name(name), stage));
    for (file, stage) in from.chain(further) {
        let Some(table) = execution.table(stage) else { continue };
        let rows = rows::of_table(table, &execution.sink.store);
        let path = folder.path().join(file);
        feed::into_file(rows, table.schema(), program.exchange, &path).await?;
    }
    Ok(())
}

/// Why a run of a program ends before the program does.
enum Stop {
    Failed(StageError),
    /// Enough is known of its output.
    Enough,
}

impl From<StageError> for Stop {
    fn from(error: StageError) -> Self {
        Self::Failed(error)
    }
}

/// Runs the program: how it ended; `None` if its output was cut.
async fn run(
    program: &Program,
    execution: &Execution<'_>,
    variables: Vec<(OsString, OsString)>,
    output: &mut ProgramOutput<'_>,
    said: &Mutex<Said>,
) -> Result<Option<ExitStatus>, StageError> {
    let store = &execution.sink.store;
    let table = program.from.as_ref().filter(|_| program.exchange != Exchange::Parquet);
    let table = table.and_then(|stage| execution.table(stage));
    let start = Start {
        argv: &program.argv,
        folder: &program.folder,
        environment: variables,
        is_fed: table.is_some(),
    };
    let (mut process, mut pipes) = Process::start(start).map_err(|error| StageError::Data {
        message: format!("`{}` cannot be started: {error}", program.name),
        help: "the program, its folder and `/bin/sh` must exist".to_owned(),
    })?;
    let group = process.group();
    let clock = Arc::clone(store.clock());
    let ended = ProgramEnd { token: CancellationToken::new(), clock: Arc::clone(&clock) };

    let status = OnceLock::new();
    let waiting = async {
        let found = process.ended().await.map_err(|error| StageError::Task(error.to_string()))?;
        let _ = status.set(found);
        ended.token.cancel();
        Ok::<(), Stop>(())
    };
    let fed = match (table, pipes.stdin.take()) {
        (Some(table), Some(stdin)) => {
            let (rows, schema) = (rows::of_table(table, store), table.schema());
            let (exchange, each) = (program.exchange, program.rows_each);
            // A task of its own: rows are encoded while others are decoded.
            Some(spawn(feed::into_pipe(rows, schema, exchange, each, stdin)))
        }
        (_, _) => None,
    };
    let feeding = async {
        if let Some(fed) = fed {
            tokio::select! {
                fed = fed => fed?,
                // It has ended without reading on.
                () = ended.and_silent() => {}
            }
        }
        Ok::<(), Stop>(())
    };
    let logging =
        async { log(&mut pipes.stderr, program, said, &ended).await.map_err(Stop::Failed) };
    let reading = async {
        let read = match program.exchange {
            Exchange::Jsonl => output.lines(&mut pipes.stdout, &ended).await,
            Exchange::Arrow => output.stream(&mut pipes.stdout, &ended).await,
            Exchange::Parquet => log(&mut pipes.stdout, program, said, &ended).await,
        };
        if read.is_err() {
            // If it failed for a reason that it knows, that counts.
            tokio::select! {
                () = ended.token.cancelled() => {}
                () = clock.sleep(CONFESSION) => {}
            }
        }
        read?;
        if output.is_cut() { Err(Stop::Enough) } else { Ok(()) }
    };
    let working = async { tokio::try_join!(waiting, reading, feeding, logging).map(|_| ()) };
    let watching = async {
        let Some(mib) = program.memory_mib else { return std::future::pending().await };
        loop {
            clock.sleep(MEMORY_EVERY).await;
            let look = move || memory::exceeds(group, mib.saturating_mul(1 << 20));
            if tokio::task::spawn_blocking(look).await.unwrap_or(false) {
                return Stop::Failed(StageError::Memory { program: program.name.clone(), mib });
            }
        }
    };
    let done = tokio::select! {
        done = working => done,
        stop = watching => Err(stop),
    };
    let failed = status.get().copied().filter(|it: &ExitStatus| it.code() != Some(program.success));
    match done {
        Ok(()) => Ok(status.get().copied()),
        Err(Stop::Enough) => Ok(None),
        Err(Stop::Failed(error)) => failed.map(Some).ok_or(error),
    }
}

/// Logs what a program says, line by line, and keeps the end of it.
async fn log(
    pipe: &mut pipe::Receiver,
    program: &Program,
    said: &Mutex<Said>,
    ended: &ProgramEnd,
) -> Result<(), StageError> {
    let mut buffer = Vec::new();
    loop {
        let is_open = matches!(read(pipe, &mut buffer, ended).await?, Read::Bytes);
        let mut start = 0;
        while let Some((line, next)) = line(&buffer[start..], is_open) {
            let text = String::from_utf8_lossy(&buffer[start..start + line]);
            start += next;
            if text.trim().is_empty() {
                continue;
            }
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            let text = said.covered(&text);
            info!(program = program.name, line = text, "program wrote");
            said.push(text);
        }
        buffer.drain(..start);
        if !is_open {
            return Ok(());
        }
    }
}

/// The length of the line at the start, and where the next one begins; `None` if its end has not come. Bars of
/// progress end their lines with a carriage return.
fn line(text: &[u8], more_may_come: bool) -> Option<(usize, usize)> {
    let window = &text[..text.len().min(LINE_BYTES_MAX)];
    match window.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        Some(end) => Some((end, end + 1)),
        None if window.len() == LINE_BYTES_MAX || !more_may_come && !window.is_empty() => {
            Some((window.len(), window.len()))
        }
        None => None,
    }
}
