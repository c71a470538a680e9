//! The program `thorp`: a store and its tools, on the command line.

mod cli;
#[cfg(feature = "lab")]
mod cluster;
mod commands;
#[cfg(feature = "lab")]
mod crew;
mod descriptors;
mod documents;
mod error;
#[cfg(feature = "lab")]
mod history;
#[cfg(feature = "lab")]
mod job;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "lab")]
mod nodes;
mod operators;
mod output;
#[cfg(feature = "lab")]
mod relay;
mod scratch;
mod spool;
mod stopper;
mod target;

use clap::Parser;
use cli::Cli;
use error::{Error, Result, exit_code, is_closed_pipe};
use output::Output;
use serde_json::json;
use std::panic;
use std::process::ExitCode;

/// Commits and page fetches allocate and free small things on different threads all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    descriptors::raise_limit();
    keep_expected_panics_quiet();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(wrong) => return say_usage(&wrong),
    };
    let mut output = Output::new(cli.json);
    let outcome = commands::run(cli.command, &mut output).and_then(|()| output.flush());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The results before the error stand, whether or not they can still be shown.
            let _ = output.flush();
            say(cli.json, &error.to_string());
            ExitCode::from(exit_code(&error))
        }
    }
}

/// One line about what went wrong.
fn say(json: bool, text: &str) {
    let text = text.replace('\n', " ");
    let text = output::visible(&text);
    if json {
        eprintln!("{}", json!({"error": text}));
    } else {
        eprintln!("thorp: {text}");
    }
}

/// Help that was asked for, or what is wrong with the command's words.
fn say_usage(wrong: &clap::Error) -> ExitCode {
    if wrong.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        eprintln!("{}", json!({"error": wrong.to_string().trim_end()}));
    } else {
        // A user that has closed standard error does not want the message.
        let _ = wrong.print();
    }
    ExitCode::from(u8::try_from(wrong.exit_code()).unwrap_or(1))
}

/// The page home's library panics on some damaged files. The disk catches that and gives an error, which is everything
/// that a user should see of it.
fn keep_expected_panics_quiet() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !disk::catches_panic() {
            usual(info);
        }
    }));
}
