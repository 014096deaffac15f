//! From the arguments to the exit code.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::cli::args::{Cli, Colour, Command, Global};
use crate::cli::environment::Environment;
use crate::cli::output::{Output, paints};
use crate::cli::{
    audit, check, completions, diff, errors, exit, explain, functions, gate, init, ledger, log,
    plan, report, run, runs, schedule, schema, show, sql, teach, test, trends, why, work,
};
use crate::console::{self, Stream};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::styled::{Styled, is_hostile};

/// Stack of the threads that plan queries: deep expressions recurse.
const STACK_BYTES: usize = 8 << 20;

/// How long the end of a command waits for its threads.
const THREADS_END: Duration = Duration::from_millis(100);

/// Runs the command that the arguments name.
pub fn start() -> ExitCode {
    console::escape_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return without_a_command(&said),
    };
    let environment = match Environment::new(&cli.global) {
        Ok(environment) => environment,
        Err(error) => {
            Output::new(cli.global.json, cli.global.color, false).error(&error);
            return exit::code(error.kind);
        }
    };
    let result = log(&cli.global, &environment).and_then(|()| runtime()).and_then(|runtime| {
        let done = runtime.block_on(dispatch(&cli.command, &environment));
        // A thread that still reads a file must not keep the program from ending for long. Threads that end are waited for: letting one go
        // while it ends makes older glibc read its memory after that is gone (bug 19951).
        runtime.shutdown_timeout(THREADS_END);
        done
    });
    match result {
        Ok(()) => ExitCode::from(exit::OK),
        Err(error) => {
            environment.output.error(&error);
            exit::code(error.kind)
        }
    }
}

/// Sets up the log, if one is wanted.
fn log(global: &Global, environment: &Environment) -> Result<()> {
    let wanted = global.log.as_ref();
    wanted
        .map_or(Ok(()), |filter| log::install(filter, global.log_format, environment.host.clock()))
}

/// Prints what the parser of the arguments says: help, a version, or what is wrong with them.
fn without_a_command(said: &clap::Error) -> ExitCode {
    let stream = if said.exit_code() == 0 { Stream::Out } else { Stream::Err };
    let (text, colour) = (said.render(), paints(Colour::Auto, stream));
    // Its messages quote arguments, and its colours cannot be distinguished from theirs.
    let is_quoting = std::env::args_os().any(|arg| arg.to_string_lossy().chars().any(is_hostile));
    let text = match colour && !is_quoting {
        true => Styled::drawn(text.ansi().to_string().trim_end().to_owned()),
        false => Styled::from(text.to_string().trim_end()),
    };
    let code = u8::try_from(said.exit_code()).unwrap_or(exit::USAGE);
    let output = Output::new(false, Colour::Auto, false);
    match stream {
        Stream::Err => output.remark(text),
        Stream::Out => {
            if let Err(error) = output.data(text + "\n") {
                output.error(&error);
                return exit::code(error.kind);
            }
        }
    }
    ExitCode::from(code)
}

async fn dispatch(command: &Command, environment: &Environment) -> Result<()> {
    match command {
        Command::Run(args) => run::run(args, environment).await,
        Command::Plan(args) => plan::plan(args, environment).await,
        Command::Check(args) => check::check(args, environment).await,
        Command::Test(args) => test::test(args, environment).await,
        Command::Why(args) => why::why(args, environment).await,
        Command::Runs(args) => runs::runs(args, environment).await,
        Command::Work(args) => Box::pin(work::work(args, environment)).await,
        Command::Workers(args) => work::workers(args, environment).await,
        Command::Show(args) => show::show(args, environment).await,
        Command::Sql(args) => sql::sql(args, environment).await,
        Command::Schedule(args) => Box::pin(schedule::schedule(args, environment)).await,
        Command::Gate(args) => Box::pin(gate::gate(args, environment)).await,
        Command::Channel(args) => gate::channel(args, environment).await,
        Command::Diff(args) => Box::pin(diff::diff(args, environment)).await,
        Command::Trends(args) => trends::trends(args, environment).await,
        Command::Errors(args) => errors::errors(args, environment).await,
        Command::Report(args) => Box::pin(report::report(args, environment)).await,
        Command::Teach(args) => teach::teach(args, environment).await,
        Command::Audit(args) => audit::audit(args, environment).await,
        Command::Ledger(args) => ledger::ledger(args, environment).await,
        Command::Init(args) => init::init(args, environment),
        Command::Functions(args) => functions::functions(args, environment),
        Command::Schema(args) => schema::schema(args, environment),
        Command::Completions(args) => completions::completions(args, environment),
        Command::Man => completions::man(environment),
        Command::Explain(args) => explain::explain(args, environment),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        // One more than can be busy computing, for clocks, signals and the store.
        .worker_threads(cores + 1)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|error| {
            Error::new(ErrorKind::Resources, "the runtime does not start").with_source(error)
        })
}
