//! `thorp completions`: a script by which a shell completes the program's commands and options.

use crate::Result;
use crate::cli::{Cli, CompletionsArgs};
use crate::output::Output;
use clap::CommandFactory;

pub(super) fn run(args: &CompletionsArgs, output: &mut Output) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "thorp", &mut script);
    output.raw(String::from_utf8(script)?.trim_end())
}
