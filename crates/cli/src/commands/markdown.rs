//! The command line's help as a page of Markdown: `docs/cli.md`, which a test keeps fresh.

use crate::Result;
use crate::cli::Cli;
use crate::output::Output;
use clap::{Command, CommandFactory};

pub(super) fn run(output: &mut Output) -> Result {
    let mut cli = Cli::command().term_width(100);
    cli.build();
    output.raw("# The command line\n\nGenerated from `crates/cli/src/cli.rs` and the files below `cli`; a test keeps it fresh.")?;
    output.raw(format_args!("\n```text\n{}\n```", tidy(&cli.render_long_help().to_string())))?;
    commands_of(&mut cli, "thorp", output)
}

/// A section for each command, with those of its own behind it.
fn commands_of(command: &mut Command, name: &str, output: &mut Output) -> Result {
    for command in
        command.get_subcommands_mut().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        let name = format!("{name} {}", command.get_name());
        let help = tidy(&command.render_long_help().to_string());
        output.raw(format_args!("\n## {name}\n\n```text\n{help}\n```"))?;
        commands_of(command, &name, output)?;
    }
    Ok(())
}

/// Without blanks at the ends of lines.
fn tidy(help: &str) -> String {
    help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
