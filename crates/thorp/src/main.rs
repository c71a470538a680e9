//! The program `thorp`: a store, and what there is to do with one, on the command line.

mod cli;
mod commands;
mod crew;
mod documents;
mod history;
mod job;
mod lab;
mod output;
mod scratch;
mod stopper;
mod target;

use clap::Parser;
use cli::Cli;
use output::Output;
use std::io::ErrorKind;
use std::process::ExitCode;

/// Commits and page fetches allocate and free small things on different threads all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What went wrong: one line that says what, and what to do.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of a command.
type Result<T = ()> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    // Wrong usage ends here, with exit code 2.
    let cli = Cli::parse();
    let mut output = Output::new(cli.json);
    let outcome = commands::run(cli.command, &mut output).and_then(|()| output.flush());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // What was found before the error stands, whether or not it can still be shown.
            let _ = output.flush();
            eprintln!("thorp: {}", error.to_string().replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// Whoever read our output has enough of it, as `head` does: no error.
fn is_closed_pipe(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            return true;
        }
        cause = error.source();
    }
    false
}
